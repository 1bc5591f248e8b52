package facts

import (
	"context"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/graphs/own"
)

// Update replaces the text of a fact, and with it its hash and its vector. The scope is as
// in Get. ErrNotFound where there is no such fact; ErrInvalid for an empty text;
// ErrEmbedder where the text cannot be embedded, unless StoreUnembedded is set.
func (f *Facts) Update(ctx context.Context, s scope.Scope, id, text string) (item Item, err error) {
	const doing = "update a fact"
	if text = strings.TrimSpace(text); text == "" {
		return Item{}, invalid(doing, "the text is empty", "give a text, or delete the fact")
	}
	if _, err := f.get(ctx, f.DB.Memories(), doing, s, id); err != nil {
		return Item{}, err // before the text is embedded
	}
	vec, err := f.embedOne(ctx, text)
	if err != nil && (ctx.Err() != nil || !f.StoreUnembedded) {
		return Item{}, err
	}
	waiting := ""
	err = f.DB.Update(ctx, func(tx *engine.Tx) error {
		m, err := f.get(ctx, tx.Memories(), doing, s, id)
		if err != nil {
			return err
		}
		changed, err := tx.Memories().Update(ctx, m.Scope, m.ID, memory.Patch{Text: &text, Embedding: vec})
		if err != nil {
			return err
		}
		item = newItem(&changed)
		_, waiting, err = f.applyGraph(ctx, tx, graphs.Change{Retold: []graphs.Fact{{ID: m.ID, Scope: m.Scope, Text: text, Before: m.Text}}})
		return err
	})
	if err == nil && waiting != "" {
		if _, err := f.flushGraph(ctx, f.DB.KV(), waiting); err != nil {
			f.Logger.Warn("a fact was changed, and the graph follows later", "id", id, "error", err)
		}
	}
	return item, err
}

// Delete deletes a fact, with the entities that the graph has of it alone. Its history
// stays. The scope is as in Get. ErrNotFound where there is no such fact. An error of the kind
// graphs.ErrGraph or graphs.ErrRefused is one of GraphStore: the fact is deleted.
func (f *Facts) Delete(ctx context.Context, s scope.Scope, id string) error {
	waiting := ""
	err := f.DB.Update(ctx, func(tx *engine.Tx) error {
		m, err := f.get(ctx, tx.Memories(), "delete a fact", s, id)
		if err != nil {
			return err
		}
		if err := removeFact(ctx, tx, m); err != nil {
			return err
		}
		waiting, err = f.post(ctx, tx, errand{Change: &graphs.Change{Gone: []graphs.Fact{{ID: m.ID, Scope: m.Scope}}}})
		return err
	})
	return f.deleted(ctx, err, waiting)
}

// deleted is the error of a delete: err, or what another graph store failed at.
func (f *Facts) deleted(ctx context.Context, err error, waiting string) error {
	if err != nil || waiting == "" {
		return err
	}
	_, err = f.flushGraph(ctx, f.DB.KV(), waiting)
	return err
}

// removeFact deletes a fact and what the database's own graph has of it alone.
func removeFact(ctx context.Context, tx *engine.Tx, m memory.Memory) error {
	if _, err := own.New(tx.Graph()).Apply(ctx, graphs.Change{Gone: []graphs.Fact{{ID: m.ID, Scope: m.Scope}}}); err != nil {
		return err
	}
	return tx.Memories().Delete(ctx, m.Scope, m.ID)
}

// DeleteAll deletes every fact of a scope and the graph that was made of them, in one
// commit, and returns how many facts there were. Their history stays. ErrScope without a
// scope; errors of GraphStore as in Delete.
func (f *Facts) DeleteAll(ctx context.Context, s scope.Scope) (n int, err error) {
	if err := checkScope("delete all facts", s); err != nil {
		return 0, err
	}
	waiting := ""
	err = f.DB.Update(ctx, func(tx *engine.Tx) error {
		owners, err := ownersOf(ctx, tx, memory.GroupQuery{Scope: s})
		if err != nil {
			return err
		}
		if n, err = tx.Memories().DeleteMatching(ctx, memory.DeleteQuery{Scope: s, Filter: within(s, f.ExactReads, nil)}); err != nil {
			return err
		}
		waiting, err = f.deleteGraph(ctx, tx, owners, graphs.Selection{Scope: s, Exact: f.ExactReads})
		return err
	})
	return n, f.deleted(ctx, err, waiting)
}

// deleteGraph deletes a part of the graph: what these owners have of it in the database's own,
// and what another store has, later.
func (f *Facts) deleteGraph(ctx context.Context, tx *engine.Tx, owners []scope.Owner, s graphs.Selection) (waiting string, err error) {
	if err := own.New(tx.Graph(), owners...).Delete(ctx, s); err != nil {
		return "", err
	}
	return f.post(ctx, tx, errand{Delete: &s})
}

// ownersOf are the owners that have memories in a scope, and the owner of the scope.
func ownersOf(ctx context.Context, tx *engine.Tx, q memory.GroupQuery) ([]scope.Owner, error) {
	q.By = memory.GroupOwner
	groups, err := tx.Memories().Groups(ctx, q)
	if err != nil {
		return nil, err
	}
	var owners []scope.Owner
	seen := map[scope.Owner]bool{{}: true} // what belongs to a run alone has no graph
	add := func(o scope.Owner) {
		if !seen[o] {
			seen[o] = true
			owners = append(owners, o)
		}
	}
	for _, g := range groups {
		add(scope.Owner{User: g.User, Agent: g.Agent})
	}
	add(q.Scope.Owner())
	return owners, nil
}

// factsOwner has an entry under resetKey since the facts were reset: it was put in the
// commit that did it. Its time says which histories are over, also in a copy of the
// database that an import has made, where LSNs are others.
var factsOwner = scope.Owner{Agent: "memdb.facts"}

const resetKey = "reset"

// Reset deletes the facts of everyone, the graph that was made of them, and their history,
// in one commit, and returns how many facts there were. It is for administration. What
// else the database holds stays. The history is out of the reach of History at once; on
// the disk it stays as long as the policy of the database says. Errors of GraphStore are as in
// Delete.
func (f *Facts) Reset(ctx context.Context) (n int, err error) {
	if f.owned && f.GraphStore == nil {
		return f.DB.Reset(ctx)
	}
	waiting := ""
	err = f.DB.Update(ctx, func(tx *engine.Tx) error {
		owners, err := ownersOf(ctx, tx, memory.GroupQuery{AllScopes: true})
		if err != nil {
			return err
		}
		if n, err = tx.Memories().DeleteMatching(ctx, memory.DeleteQuery{AllScopes: true, Filter: within(scope.Scope{}, false, nil)}); err != nil {
			return err
		}
		if waiting, err = f.deleteGraph(ctx, tx, owners, graphs.Selection{All: true}); err != nil {
			return err
		}
		_, err = tx.KV().Put(ctx, factsOwner, resetKey, true, nil)
		return err
	})
	return n, f.deleted(ctx, err, waiting)
}

// endedByReset are the memories, by Seq, whose history ended with the last reset or before.
func (f *Facts) endedByReset(ctx context.Context, history []memory.HistoryEntry) (map[uint64]bool, error) {
	reset, found, err := f.DB.KV().Lookup(ctx, factsOwner, resetKey)
	if err != nil || !found {
		return nil, err
	}
	ended := map[uint64]bool{}
	for _, e := range history {
		if e.IsDeleted && !e.Time.After(reset.UpdatedAt) {
			ended[e.Seq] = true
		}
	}
	return ended, nil
}
