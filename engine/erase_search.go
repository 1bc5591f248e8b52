package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/needles"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// An erasure ends with a search of all files for the texts and names that it erased. What it finds is
// of others, who said the same, and is reported as left.

const (
	// mostPassages bounds the sentences and names that are searched for: they take 50 MiB.
	mostPassages = 1 << 20
	// mostNamed bounds the memories that a report names as left.
	mostNamed = 20
)

// saidKeys are the keys of lines of exports whose values are texts or names of a caller.
var saidKeys = map[string]bool{
	"text": true, "content": true, "value": true, "key": true, "name": true, "aliases": true, "properties": true,
	"metadata": true, "parts": true, "tool_calls": true, "id": true, "target": true, "session": true, "channel": true,
}

// gather reads the texts and names of what is going to be erased.
func (tx *Tx) gather(ctx context.Context, e *erasure) error {
	e.passages = needles.NewPassages(mostPassages)
	for _, span := range tx.db.recordSpans(e) {
		err := kv.Scan(tx.state.Reader, span[0], span[1], func(key, value []byte) error {
			v, ok := layout.ParseRecordKey(key)
			rec, err := layout.DecodeRecord(value)
			if err != nil || !ok || !e.has(v.Owner, v.Seq) || slices.Contains(e.Archives, v.Seq) {
				return ctx.Err() // what cannot be read, check reports
			}
			e.passages.Text(strings.TrimPrefix(rec.Text, sessions.ExtractHead))
			names := append([]string{rec.ID}, rec.Aliases...)
			if state.Kinds[rec.Kind] != memory.KindArchive { // a session has made the name, of the time
				names = append(names, rec.Name)
			}
			for _, name := range names {
				e.passages.Name(name)
			}
			var metadata any
			if json.Unmarshal(rec.Metadata, &metadata) == nil {
				gatherValue(e.passages, metadata)
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	if e.seqs == nil {
		return tx.gatherOwners(ctx, e)
	}
	for _, owner := range e.Owners {
		for _, seq := range e.Seqs {
			names, err := graph.NamesOf((*partTx)(tx), owner, seq)
			if err != nil {
				return err
			}
			for _, name := range names {
				e.passages.Name(name)
			}
		}
	}
	return nil
}

// gatherOwners reads what owners have beside memories, as an export has it.
func (tx *Tx) gatherOwners(ctx context.Context, e *erasure) error {
	for _, o := range e.names {
		err := tx.Lines(o.Scope(), func(error) {}, func(l Line) error {
			b, err := json.Marshal(l)
			if l.Owner() == o && err == nil {
				gatherJSON(e.passages, b)
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// gatherJSON adds the texts of a JSON object under keys of texts.
func gatherJSON(p *needles.Passages, b []byte) {
	var object map[string]any
	if json.Unmarshal(b, &object) != nil {
		return
	}
	for key, value := range object {
		if saidKeys[key] {
			gatherValue(p, value)
		}
	}
}

func gatherValue(p *needles.Passages, value any) {
	switch v := value.(type) {
	case string:
		p.Text(v)
	case []any:
		for _, of := range v {
			gatherValue(p, of)
		}
	case map[string]any:
		for _, of := range v {
			gatherValue(p, of)
		}
	}
}

// A place says where the files have something that was erased.
type erasedPlace struct {
	what string
	id   string // of a memory of the same owner
}

// search looks for the erased texts and names in all files, and returns what has them.
func (db *DB) search(ctx context.Context, e *erasure) (kept []Kept, err error) {
	if e.passages == nil {
		return []Kept{{
			What: "what was erased before the program was interrupted",
			Why:  "its texts are gone, so the files could not be searched for them: erase it again to see that nothing is left",
		}}, nil
	}
	for _, name := range e.goneNames {
		e.passages.Name(name)
	}
	found := map[erasedPlace]int{}
	raw, explained := map[string]bool{}, map[string]bool{}
	seen := map[string]bool{} // keys, which tables and logs may have several times
	unread, err := db.store.Search(ctx, func(file string, key, b []byte) {
		if ctx.Err() != nil || !e.passages.In(b) {
			return
		}
		if key == nil {
			raw[file] = true
			return
		}
		if explained[file] = true; seen[string(key)] || len(seen) >= mostPassages {
			return
		}
		seen[string(key)] = true
		found[db.placeOf(e, key, b)]++
	})
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	return db.keptIn(found, raw, explained, append(unread, e.unsearched()...)), nil
}

// unsearched says what was not searched for.
func (e *erasure) unsearched() (why []string) {
	if e.passages.Full() {
		why = append(why, fmt.Sprintf("all but the first %d sentences and names", mostPassages))
	}
	return why
}

func (db *DB) keptIn(found map[erasedPlace]int, raw, explained map[string]bool, unread []string) (kept []Kept) {
	const why = "others say the same, or have a name in common, and did not get it from what is erased"
	more := 0
	for _, p := range slices.SortedFunc(maps.Keys(found), func(a, b erasedPlace) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.id, b.id))
	}) {
		switch {
		case p.id == "":
			kept = append(kept, Kept{What: fmt.Sprintf("%s: %d", p.what, found[p]), Why: why})
		case len(kept) < mostNamed:
			kept = append(kept, Kept{What: fmt.Sprintf("memory %q", p.id), Why: why})
		default:
			more++
		}
	}
	if more > 0 {
		kept = append(kept, Kept{What: fmt.Sprintf("%d more memories", more), Why: why})
	}
	for _, file := range slices.Sorted(maps.Keys(raw)) {
		if !explained[file] && !setAside(db.store.FS.PathBase(file)) {
			kept = append(kept, Kept{What: "file " + file, Why: "it has something that is erased: run compact"})
		}
	}
	for _, what := range unread {
		kept = append(kept, Kept{What: what, Why: "it was not searched"})
	}
	return kept
}

// placeOf says whose an entry of the store is.
func (db *DB) placeOf(e *erasure, key, value []byte) erasedPlace {
	if key[0] == layout.KindRecord {
		v, ok := layout.ParseRecordKey(key)
		if rec, err := layout.DecodeRecord(value); ok && err == nil && e.owners[v.Owner] {
			return erasedPlace{what: "memories", id: rec.ID}
		}
		return erasedPlace{what: "memories of others"}
	}
	for _, p := range db.parts {
		for _, kind := range p.Kinds() {
			if byte(kind) == key[0] {
				return erasedPlace{what: "keys of the " + p.Name()}
			}
		}
	}
	switch key[0] {
	case layout.KindLog:
		return erasedPlace{what: "changes in the log"}
	case layout.KindName:
		return erasedPlace{what: "names"}
	}
	return erasedPlace{what: "keys of the index"}
}

// ownerNames are the names of users and agents of some owners.
func ownerNames(names []layout.Name) (all []string) {
	for _, k := range names {
		if k.Class == layout.NameUser || k.Class == layout.NameAgent || k.Class == layout.NameRun {
			all = append(all, k.Text)
		}
	}
	return all
}
