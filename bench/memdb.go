package main

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// memdb is the engine with one way of ranking, seen as its peers are.
type memdb struct {
	db      *engine.DB
	profile memory.Profile
	graph   float64 // the weight of the graph
	// onlyWords does without near words.
	onlyWords bool
}

// openMemdb makes an empty database that ranks by BM25, as the peers do.
func openMemdb(dir string) (peer.Text, error) {
	db, err := engine.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	return &memdb{db: db, profile: memory.ProfileText}, nil
}

// Add stores a batch as an import does: the same text again is kept.
func (m *memdb) Add(ctx context.Context, docs []peer.Document) error {
	memories := make([]memory.Memory, len(docs))
	for i, d := range docs {
		memories[i] = memory.Memory{ID: d.ID, Scope: memory.Scope{Agent: d.Scope}, Text: d.Text}
	}
	_, err := m.db.Memories().StoreBatch(ctx, memories, &memory.StoreOptions{NoDedup: true})
	return err
}

// Search recalls within an agent's memories, and leaves no trace.
func (m *memdb) Search(ctx context.Context, scope, query string, k int) ([]string, error) {
	return asking(m.db, memory.Query{Profile: m.profile, Graph: m.graph, NoTouch: true, OnlyWords: m.onlyWords})(ctx, scope, query, k)
}

// asking recalls within an agent's memories as a query says.
func asking(db *engine.DB, q memory.Query) searcher {
	return func(ctx context.Context, agent, text string, k int) ([]string, error) {
		q := q
		q.Scope, q.Text, q.Limit = memory.Scope{Agent: agent}, text, k
		found, err := db.Memories().Recall(ctx, q)
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(found.Hits))
		for i := range found.Hits {
			ids[i] = found.Hits[i].ID
		}
		return ids, nil
	}
}

// Close closes the database.
func (m *memdb) Close() error { return m.db.Close() }
