package erasure

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// IdleNames are the names that nothing has but what is erased.
func (st *State) IdleNames(ctx context.Context, e *Erasure, runs []string) (gone []layout.Name, err error) {
	users, agents := map[string]bool{}, map[string]bool{}
	err = st.EachOwner(ctx, func(number uint32, o scope.Owner) {
		if e.seqs != nil || !e.owners[number] {
			users[o.User], agents[o.Agent] = true, true
		}
	})
	if err != nil {
		return nil, err
	}
	name := func(class layout.NameClass, text string) error {
		k := layout.Name{Class: class, Text: text}
		_, known, err := st.Lookup(k)
		if known && !slices.Contains(gone, k) {
			gone = append(gone, k)
		}
		return err
	}
	if e.seqs == nil {
		for _, o := range e.Names {
			if err := name(layout.NameOwner, scope.Key(o)); err != nil {
				return nil, err
			}
			if !users[o.User] && o.User != "" {
				err = name(layout.NameUser, o.User)
			}
			if !agents[o.Agent] && o.Agent != "" && err == nil {
				err = name(layout.NameAgent, o.Agent)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	busy, err := st.busyRuns()
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		num, known, err := st.Lookup(layout.Name{Class: layout.NameRun, Text: run})
		if err != nil {
			return nil, err
		}
		if known && !busy[num] {
			gone = append(gone, layout.Name{Class: layout.NameRun, Text: run})
		}
	}
	return st.idleFields(ctx, gone)
}

// idleFields adds the metadata fields that no living memory has a value of.
func (st *State) idleFields(ctx context.Context, gone []layout.Name) ([]layout.Name, error) {
	index, text := st.NewestIndex.Load(), st.Postings
	for path, num := range st.Fields.All() {
		docs, err := index.FindField(ctx, text, layout.FirstMetadataField+uint16(num))
		if err != nil {
			return nil, err
		}
		used := false
		for it := docs.Iterator(); it.HasNext() && !used; {
			row := st.Docs.Row(it.Next())
			used = row != nil && row.Died.Load() == doctable.Alive
		}
		if !used {
			gone = append(gone, layout.Name{Class: layout.NameField, Text: path})
		}
	}
	return gone, nil
}

// busyRuns are the numbers of runs that a living memory or a session has.
func (st *State) busyRuns() (map[uint32]bool, error) {
	busy := map[uint32]bool{}
	st.Docs.Rows.EachFrom(0, math.MaxUint32, func(_ uint64, r *doctable.Row) bool {
		if r.Died.Load() == doctable.Alive && r.Run != 0 { // Died first: a document is published by it
			busy[r.Run] = true
		}
		return true
	})
	err := sessions.EachRun(st.Part, func(run uint32) { busy[run] = true })
	return busy, err
}

// IdleRuns are the names of runs that seem to be nobody's any more.
func (st *State) IdleRuns() (runs []string, err error) {
	busy, err := st.busyRuns()
	if err != nil {
		return nil, err
	}
	prefix := append(st.Keys.Header(layout.KindName, 1), byte(layout.NameRun))
	err = kv.Scan(st.Reader, prefix, layout.PrefixEnd(prefix), func(key, value []byte) error {
		num, name, _, err := layout.DecodeName(key, value)
		if err == nil && !busy[num] {
			runs = append(runs, name)
		}
		return err
	})
	return runs, err
}

// SetAside reports whether a name is that of what Salvage or a rescue has left.
func SetAside(name string) bool {
	return strings.Contains(name, ".damaged") || strings.HasPrefix(name, "store.rebuilt")
}

// FieldsLeft is how many metadata fields stay once some names are gone.
func (st *State) FieldsLeft(gone []layout.Name) uint32 {
	n := len(st.Fields.All())
	for _, k := range gone {
		if k.Class == layout.NameField {
			n--
		}
	}
	return uint32(n)
}
