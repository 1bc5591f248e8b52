package native

import (
	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

func graphRoutes() []route {
	return []route{
		opRoute(api.GraphAdd), listRoute(api.GraphList, nil), opRoute(api.GraphGet), opRoute(api.GraphDelete), opRoute(api.GraphRelate), opRoute(api.GraphEnd),
		opRoute(api.GraphLink), opRoute(api.GraphUnlink), opRoute(api.GraphMerge), opRoute(api.GraphUnmerge),
		listRoute(api.GraphQuery, nil), listRoute(api.GraphFind, nil), listRoute(api.GraphMatch, nil), listRoute(api.GraphPath, nil), listRoute(api.GraphRank, nil),
		listRoute(api.GraphComponents, nil), listRoute(api.GraphLookup, nil), listRoute(api.GraphDegrees, nil), listRoute(api.GraphCounts, nil),
		listRoute(api.GraphDuplicates, nil), opRoute(api.GraphStats), streamRoute(api.GraphExport), streamRoute(api.GraphShow),
		{at: "POST /graph/extract", summary: "Link memories to the people, places, dates and handles that their texts mention", reply: engine.Extracted{}, stream: true, handle: extractEntities, params: inAll(
			param{name: "again", kind: flag, summary: "also read memories that are already linked"},
		)},
	}
}

func extractEntities(a *ask) error {
	c, err := a.chooseAll("extract entities")
	if err != nil {
		return err
	}
	if len(c.scopes) > 1 || c.lack.User || c.lack.Agent {
		return invalid("extract entities", "it takes one scope of users and agents that are there", "name the user, the agent or the run that is meant")
	}
	if a.sealed(c.scopes[0]) {
		return server.Denied("the key is one of a run, and the graph belongs to a user and an agent")
	}
	done, err := a.DB.ExtractEntities(a.Context(), engine.ExtractOptions{
		Scope: c.scopes[0], AllScopes: c.everyone(), Again: value[bool](a, "again"), Extractor: mention.Rules{},
	})
	return a.ok(done, err)
}
