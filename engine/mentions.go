package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/ageing"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const (
	doingExtract = "extract the entities of memories"
	// extractPage is how many memories ExtractEntities reads, and links in one commit.
	extractPage = 100
	// noExtractorInUpdate is why a text has no entities: a model may take seconds.
	noExtractorInUpdate = "in an Update no extractor but that by rule is called, since it would be called under the writer lock"
)

// prepareNew is prepare of a memory that is stored by its caller, with what its text mentions.
func (m Memories) prepareNew(ctx context.Context, mem *memory.Memory, now int64) (*records.Prepared, error) {
	p, err := m.prepare(ctx, mem, now)
	if err != nil {
		return nil, err
	}
	p.Found, p.Unextracted, err = m.mentions(ctx, p.Rec.Scope, p.Rec.Text)
	return p, err
}

// mentions are what the text of a memory mentions, nil where the database has no extractor, or
// the owner no graph. Where the extractor fails, it is nothing, and why says how: the memory is
// stored all the same.
func (m Memories) mentions(ctx context.Context, s memory.Scope, text string) (found *mention.Found, why string, err error) {
	x := m.db.extractor
	switch {
	case x == nil || text == "" || s.Owner() == (memory.Owner{}):
		return nil, "", nil
	case m.locked(ctx) && !x.byRule():
		return &mention.Found{}, noExtractorInUpdate, nil
	}
	f, err := x.extract(ctx, text)
	switch {
	case err == nil:
		return &f, "", nil
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	}
	m.db.logger.Warn("extracting the entities of a text failed; the memory is stored without them", "error", err)
	return &mention.Found{}, err.Error(), nil
}

// linkMentions links a memory to what it mentions, in the commit that stores it.
func (tx *Tx) linkMentions(s memory.Scope, seq uint64, f *mention.Found) (n graph.MentionCount, err error) {
	if f == nil || s.Owner() == (memory.Owner{}) {
		return n, nil
	}
	said := graph.Mentions{Entities: make([]graph.Entity, len(f.Entities)), Relations: make([]graph.Relation, len(f.Relations))}
	for i, e := range f.Entities {
		said.Entities[i] = graph.Entity{Name: e.Name, Type: e.Type}
		if e.Description != "" {
			if said.Entities[i].Properties, err = json.Marshal(map[string]string{"description": e.Description}); err != nil {
				return n, err
			}
		}
	}
	for i, r := range f.Relations {
		said.Relations[i] = graph.Relation{From: r.Source, Type: r.Relation, To: r.Target}
	}
	err = tx.changePart(doingExtract, func(t part.Tx) error {
		n, err = partOf[*graph.Part](tx.db).Mention(t, s.Owner(), seq, &said)
		return err
	})
	if err != nil {
		err = tx.breaks(err) // the memory is written
	}
	return n, err
}

// ExtractOptions change what ExtractEntities does.
type ExtractOptions struct {
	// Scope is whose memories: at least one field.
	memory.Scope
	// AllScopes extracts from everyone's memories, for administration.
	AllScopes bool
	// Again extracts from memories that are linked to what their texts mention already, too.
	Again bool
	// Extractor takes the place of that of the database.
	Extractor mention.Extractor
}

// Extracted is what ExtractEntities has done.
type Extracted struct {
	Memories  int `json:"memories"` // whose texts were read
	Entities  int `json:"entities"` // new ones
	Relations int `json:"relations"`
	Links     int `json:"links"`
	Unlinked  int `json:"unlinked"`
}

// ExtractEntities links memories that are there to what their texts mention, as a store does
// where the database has an extractor: after an import, after an extractor has failed, or with
// another extractor. It commits a hundred memories at a time. A memory that changes meanwhile
// is left to the next call, and one whose owner is neither a user nor an agent has no graph.
//
// ErrExtractor: the extractor failed; what was linked before is, and is counted. ErrInvalid:
// there is no extractor.
func (db *DB) ExtractEntities(ctx context.Context, o ExtractOptions) (done Extracted, err error) {
	x := db.extractor
	if o.Extractor != nil {
		x = newExtractor(o.Extractor)
	}
	if x == nil {
		return done, fault.Invalid(doingExtract, "the database was opened without an extractor", "give one")
	}
	if err := db.writable(doingExtract); err != nil {
		return done, err
	}
	if ctx, err = db.apart(ctx, doingExtract); err != nil {
		return done, err
	}
	for q := (memory.ListQuery{Scope: o.Scope, AllScopes: o.AllScopes, Limit: extractPage}); ; {
		page, err := db.Memories().List(ctx, q)
		if err != nil {
			return done, err
		}
		if err := db.extractFrom(ctx, x, page.Memories, o.Again, &done); err != nil {
			return done, err
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return done, nil
		}
	}
}

// extractFrom extracts from a page of memories, and links those before a failure.
func (db *DB) extractFrom(ctx context.Context, x *extractor, page []memory.Memory, again bool, done *Extracted) error {
	type said struct {
		*memory.Memory
		found mention.Found
	}
	var all []said
	var failed error
	for i := range page {
		mem := &page[i]
		if mem.Text == "" || mem.Scope.Owner() == (memory.Owner{}) {
			continue
		}
		if !again {
			if linked, err := db.mentioned(ctx, mem); err != nil || linked {
				if err != nil {
					return err
				}
				continue
			}
		}
		f, err := x.extract(ctx, mem.Text)
		if err != nil {
			failed = fmt.Errorf("memory %q: %w", valid.Short(mem.ID), err)
			break
		}
		all = append(all, said{mem, f})
	}
	if len(all) == 0 {
		return failed
	}
	var counted Extracted
	err := db.Update(ctx, func(tx *Tx) error {
		counted = *done
		for i := range all {
			l, found := tx.reader().At(all[i].Seq)
			if !found || l.Expired(tx.state.Now) {
				continue
			}
			rec, err := tx.state.Record(l.Version)
			if err != nil {
				return err
			}
			if rec.Text != all[i].Text || rec.Scope != all[i].Scope {
				continue
			}
			n, err := tx.linkMentions(rec.Scope, l.Seq, &all[i].found)
			if err != nil {
				return err
			}
			counted.Memories++
			counted.Entities, counted.Relations = counted.Entities+n.Entities, counted.Relations+n.Relations
			counted.Links, counted.Unlinked = counted.Links+n.Links, counted.Unlinked+n.Unlinked
		}
		return nil
	})
	if err != nil {
		return err
	}
	*done = counted
	return failed
}

// mentioned reports whether a memory is linked to what its text mentions.
func (db *DB) mentioned(ctx context.Context, mem *memory.Memory) (linked bool, err error) {
	err = db.view(ctx, nil, func(tx *Tx) error {
		owner, known, err := (*partTx)(tx).Owner(mem.Scope.Owner())
		if err == nil && known {
			linked, err = partOf[*graph.Part](db).Mentioned((*partTx)(tx), owner, mem.Seq)
		}
		return err
	})
	return linked, err
}

const (
	// forgetRoom is the room in a transaction that is kept for what one memory has in a graph,
	// in bytes and changes: what a text can name, with all that goes with it.
	forgetRoom    = 4 << 20
	forgetChanges = 4096
	doingUnlearn  = "take what memories were the reason for from the graph"
)

// forgetInGraphs takes from the graphs what memories are the reason for, in the commit in which
// they die. What the transaction has no room for goes by the clean-up behind it.
func (tx *Tx) forgetInGraphs(how graph.Forgotten, all iter.Seq[ageing.Dying]) error {
	g := partOf[*graph.Part](tx.db)
	empty, err := g.Empty((*partTx)(tx))
	if err != nil || empty {
		return err
	}
	linked := map[uint32]bool{} // by owner: whether its graph knows of memories
	for d := range all {
		knows, asked := linked[d.Owner]
		if !asked {
			if knows, err = g.HasMemories((*partTx)(tx), d.Owner); err != nil {
				return err
			}
			linked[d.Owner] = knows
		}
		if !knows {
			continue
		}
		if tx.within(doingUnlearn, forgetChanges, forgetRoom) != nil {
			return nil
		}
		how.Into = d.Into
		if err := tx.changePart(doingUnlearn, func(t part.Tx) error { return g.Forget(t, d.Owner, d.Seq, how) }); err != nil {
			return tx.breaks(err) // others are forgotten
		}
	}
	return nil
}

// forgetInGraph is forgetInGraphs of one memory.
func (tx *Tx) forgetInGraph(how graph.Forgotten, d ageing.Dying) error {
	return tx.forgetInGraphs(how, func(yield func(ageing.Dying) bool) { yield(d) })
}

// rememberInGraph gives a memory that came back from the trash what it had in the graph.
func (tx *Tx) rememberInGraph(o memory.Owner, owner uint32, seq uint64) error {
	err := tx.changePart(doingUnlearn, func(t part.Tx) error { return partOf[*graph.Part](tx.db).Restore(t, o, owner, seq) })
	if err != nil {
		err = tx.breaks(err) // the memory is written
	}
	return err
}

// emptyInGraph removes what the trash keeps of memories in the graph, which do not come back.
func (tx *Tx) emptyInGraph(things []policy.Trashed) error {
	return tx.changePart(doingUnlearn, func(t part.Tx) error {
		for i := range things {
			if err := partOf[*graph.Part](tx.db).Unkeep(t, things[i].Owner, things[i].Seq); err != nil {
				return err
			}
		}
		return nil
	})
}

// mentionsOfPatch are what the new text of an update mentions; what an extractor does not know
// is nothing, so that no link stays that the old text was the reason for.
func (m Memories) mentionsOfPatch(ctx context.Context, s memory.Scope, patch *memory.Patch) (*mention.Found, error) {
	if m.db == nil || m.db.extractor == nil || patch.Text == nil {
		return nil, nil // the text before goes from the graph, and the new one says nothing
	}
	if s.Owner() == (memory.Owner{}) {
		s = memory.Scope{User: "any"} // an update may name no owner, and the memory has one
	}
	found, _, err := m.mentions(ctx, s, *patch.Text)
	if found == nil {
		found = &mention.Found{} // the text is empty
	}
	return found, err
}
