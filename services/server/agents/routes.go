package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// MaxImport bounds what is imported at once, in bytes.
const MaxImport = 256 << 20

// maxPage bounds a page of a list, and defaultPage is that of one that does not say.
const (
	maxPage     = memory.MaxLimit
	defaultPage = 100
)

// Dialect has the routes below /api/agents, and /api/budget/agents.
func Dialect() *server.Dialect {
	const agent = "/api/agents/{id}"
	return &server.Dialect{
		Name: "agents", Prefixes: []string{"/api/agents/", "/api/budget/"}, Fail: fail,
		Routes: []server.Route{
			{Pattern: "GET /api/agents", Handle: listAgents},
			{Pattern: "GET " + agent, Handle: getAgent},
			{Pattern: "PUT " + agent, Handle: putAgent},

			{Pattern: "GET " + agent + "/kv", Handle: listKV},
			{Pattern: "GET " + agent + "/kv/{key...}", Handle: getKV},
			{Pattern: "PUT " + agent + "/kv/{key...}", Handle: setKV},
			{Pattern: "DELETE " + agent + "/kv/{key...}", Handle: deleteKV},

			{Pattern: "POST " + agent + "/memories", Handle: remember},
			{Pattern: "GET " + agent + "/memories", Handle: listMemories},
			{Pattern: "GET " + agent + "/memories/{memory}", Handle: getMemory},
			{Pattern: "DELETE " + agent + "/memories/{memory}", Handle: forget},
			{Pattern: "POST " + agent + "/recall", Handle: recall},
			{Pattern: "POST " + agent + "/consolidate", Handle: consolidate},

			{Pattern: "POST " + agent + "/entities", Handle: addEntity},
			{Pattern: "GET " + agent + "/entities", Handle: listEntities},
			{Pattern: "GET " + agent + "/entities/{entity}", Handle: getEntity},
			{Pattern: "DELETE " + agent + "/entities/{entity}", Handle: deleteEntity},
			{Pattern: "GET " + agent + "/entities/{entity}/related", Handle: findRelated},
			{Pattern: "POST " + agent + "/relations", Handle: addRelation},
			{Pattern: "POST " + agent + "/match", Handle: match},

			{Pattern: "POST " + agent + "/sessions", Handle: openSession},
			{Pattern: "GET " + agent + "/sessions", Handle: listSessions},
			{Pattern: "GET " + agent + "/sessions/{session}", Handle: getSession},
			{Pattern: "PUT " + agent + "/sessions/{session}", Handle: saveSession},
			{Pattern: "POST " + agent + "/sessions/{session}/messages", Handle: appendMessages},
			{Pattern: "DELETE " + agent + "/sessions/{session}", Handle: deleteSession},

			{Pattern: "GET " + agent + "/usage", Handle: totalUsage},
			{Pattern: "POST " + agent + "/usage", Handle: addUsage},
			{Pattern: "GET /api/budget/agents", Handle: rankAgents},

			{Pattern: "GET " + agent + "/export", Stream: true, Handle: export},
			{Pattern: "POST " + agent + "/import", Stream: true, MaxBody: MaxImport, Handle: imports},
		},
	}
}

func fail(w http.ResponseWriter, _ *http.Request, f *server.Failure) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	// A client that has left cannot be told.
	_ = json.NewEncoder(w).Encode(map[string]string{"error": f.Message})
}

// owner is that of the agent in the path.
func owner(c *server.Call) (scope.Owner, error) {
	return c.Owner(scope.Owner{Agent: c.R.PathValue("id")})
}

// invalid is the error of what a request says.
func invalid(format string, args ...any) error {
	return server.Fail(http.StatusBadRequest, "invalid", format, args...)
}

// number is a parameter of the query from least to most, or what it is without one.
func number(c *server.Call, name string, without, least, most int) (int, error) {
	text := c.R.URL.Query().Get(name)
	if text == "" {
		return without, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, invalid("%s is %q; give a number from %d to %d", name, text, least, most)
	}
	return n, nil
}

// page is the limit and the cursor of a list.
func page(c *server.Call) (limit int, cursor string, err error) {
	limit, err = number(c, "limit", defaultPage, 1, maxPage)
	return limit, c.R.URL.Query().Get("cursor"), err
}

// missing is the error of a field that is needed.
func missing(field, give string) error {
	return invalid("%s", fmt.Sprintf("%s is missing; give %s", field, give))
}
