package erasure

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
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
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

// Gather reads the texts and names of what is going to be erased.
func (st *State) Gather(ctx context.Context, e *Erasure) error {
	e.passages = needles.NewPassages(mostPassages)
	for _, span := range e.RecordSpans(st.Keys) {
		err := kv.Scan(st.Reader, span[0], span[1], func(key, value []byte) error {
			v, ok := layout.ParseRecordKey(key)
			rec, err := layout.DecodeRecord(value)
			if err != nil || !ok || !e.Has(v.Owner, v.Seq) || slices.Contains(e.Archives, v.Seq) {
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
		return st.gatherOwners(ctx, e)
	}
	for _, owner := range e.Owners {
		for _, seq := range e.Seqs {
			names, err := graph.NamesOf(st.Part, owner, seq)
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
func (st *State) gatherOwners(ctx context.Context, e *Erasure) error {
	for _, o := range e.Names {
		err := st.Lines(o.Scope(), func(error) {}, func(l part.Line) error {
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

// Search looks for the erased texts and names in all files, and returns what has them.
func (e *Erasure) Search(ctx context.Context, st *store.Store, parts []part.Part) (kept []Kept, err error) {
	if e.passages == nil {
		return []Kept{{
			What: "what was erased before the program was interrupted",
			Why:  "its texts are gone, so the files could not be searched for them: erase it again to see that nothing is left",
		}}, nil
	}
	for _, name := range e.GoneNames {
		e.passages.Name(name)
	}
	found := map[erasedPlace]int{}
	raw, explained := map[string]bool{}, map[string]bool{}
	seen := map[string]bool{} // keys, which tables and logs may have several times
	unread, err := st.Search(ctx, func(file string, key, b []byte) {
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
		found[e.placeOf(parts, key, b)]++
	})
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	return keptIn(st.FS.PathBase, found, raw, explained, append(unread, e.unsearched()...)), nil
}

// unsearched says what was not searched for.
func (e *Erasure) unsearched() (why []string) {
	if e.passages.Full() {
		why = append(why, fmt.Sprintf("all but the first %d sentences and names", mostPassages))
	}
	return why
}

func keptIn(base func(string) string, found map[erasedPlace]int, raw, explained map[string]bool, unread []string) (kept []Kept) {
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
		if !explained[file] && !SetAside(base(file)) {
			kept = append(kept, Kept{What: "file " + file, Why: "it has something that is erased: run compact"})
		}
	}
	for _, what := range unread {
		kept = append(kept, Kept{What: what, Why: "it was not searched"})
	}
	return kept
}

// placeOf says whose an entry of the store is.
func (e *Erasure) placeOf(parts []part.Part, key, value []byte) erasedPlace {
	if key[0] == layout.KindRecord {
		v, ok := layout.ParseRecordKey(key)
		if rec, err := layout.DecodeRecord(value); ok && err == nil && e.owners[v.Owner] {
			return erasedPlace{what: "memories", id: rec.ID}
		}
		return erasedPlace{what: "memories of others"}
	}
	for _, p := range parts {
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

// OwnerNames are the names of users and agents of some owners.
func OwnerNames(names []layout.Name) (all []string) {
	for _, k := range names {
		if k.Class == layout.NameUser || k.Class == layout.NameAgent || k.Class == layout.NameRun {
			all = append(all, k.Text)
		}
	}
	return all
}
