package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
)

// graphWeights are those with which the graph is one source of a recall.
var graphWeights = []float64{0, .02, .05, .1, .2, .4}

// graphRecall asks the questions of locomo by the profile best with the graph of what the turns
// mention, by rule, as one more source.
func graphRecall() *harness.Workload {
	w := locomo()
	w.Name, w.Summary = "graphrecall", "locomo by the profile best, with the graph of what turns mention (by rule) as one more source"
	w.Contestants = graphRecallContestants
	return w
}

func graphRecallContestants(env *harness.Env) ([]harness.Contestant, error) {
	talks, err := readTalks(env)
	if err != nil {
		return nil, err
	}
	shared := &locomoDB{env: env, talks: talks, extract: true}
	var list []harness.Contestant
	for i, weight := range graphWeights {
		c := shared.contestant(memory.ProfileBest, i == 0)
		if weight > 0 {
			c.Name = fmt.Sprint("graph ", weight)
		}
		c.Open = func(ctx context.Context) (harness.Runner, error) {
			if err := shared.open(ctx); err != nil {
				return nil, err
			}
			view := &memdb{db: shared.db, profile: memory.ProfileBest, graph: weight}
			return &locomoRun{talks: talks, search: view.Search, close: shared.close}, nil
		}
		list = append(list, c)
	}
	return list, nil
}

// extractAll links the turns to what they mention.
func (l *locomoDB) extractAll(ctx context.Context) error {
	done, err := l.db.ExtractEntities(ctx, engine.ExtractOptions{AllScopes: true, Extractor: mention.Rules{}})
	if err == nil && done.Links == 0 {
		err = errors.New("no turn mentions anything")
	}
	return err
}
