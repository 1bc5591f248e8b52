package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// prepared is a memory that was checked, analysed and embedded, ready to be
// written under the lock.
type prepared struct {
	rec      layout.Record
	vectors  map[string][]float32 // to be stored, by space
	terms    []invindex.Term
	list     *termList // that they are in
	length   uint32
	values   []pathValue // of its metadata
	traits   []invindex.Value
	access   layout.Access // of an import
	pending  bool          // its text is still to be embedded
	why      string        // it is pending, for the caller
	learned  bool          // the embedder made the vector of the default space
	without  uint16        // the number of a space whose vector it does not keep; 0: it keeps all
	random   uint64        // of its ID, if that was not given
	explicit givenFields
	content  *[layout.HashSize]byte // what dedupKey has computed
	noteID   uint64                 // that the caller gave
	unnamed  bool                   // indexed before names of notes were

	found       *mention.Found // what the text mentions; nil: it is not known
	unextracted string         // why not, for the caller
}

// givenFields tells which fields the caller set, where the zero value does not.
type givenFields struct {
	id, importance, confidence bool
}

// pathValue is a metadata value that can be indexed for filters.
type pathValue struct {
	path   string
	key    string        // empty where it is too long
	number scalar.Number // where the value is one
	isNum  bool
}

const doingStore = "store a memory"

// prepare does all that needs no lock: checks, metadata, importance, analysis.
func (m Memories) prepare(ctx context.Context, mem *memory.Memory, now int64) (*prepared, error) {
	vectors, err := mem.Checked(doingStore)
	if err != nil {
		return nil, err
	}
	for name, v := range vectors { // again under the lock, see Tx.fits
		if err := m.space(name).Check(doingStore, name, v); err != nil {
			return nil, err
		}
	}
	meta, err := metadata.Encode(mem.Metadata)
	if err != nil {
		return nil, err
	}
	p := &prepared{
		vectors:  vectors,
		access:   layout.Access{Count: mem.AccessCount, Last: clock.ToMillis(mem.LastAccessed)},
		noteID:   mem.NoteID,
		explicit: givenFields{mem.ID != "", mem.Importance != nil, mem.Confidence != nil},
	}
	p.rec = layout.Record{
		ID: mem.ID, Scope: mem.Scope, Source: string(mem.Source), Text: mem.Text, Name: mem.Name,
		Role: byte(max(slices.Index(state.Roles[:], mem.Role), 0)), Kind: byte(max(slices.Index(state.Kinds[:], mem.Kind), 0)),
		Aliases: slices.Clone(mem.Aliases), Metadata: meta,
		Created: clock.ToMillis(mem.CreatedAt), Updated: clock.ToMillis(mem.UpdatedAt),
		Event: clock.ToMillis(mem.EventTime), Expires: clock.ToMillis(mem.ExpiresAt), Confidence: 1,
	}
	m.db.setImportance(&p.rec, mem.Importance)
	if mem.Importance != nil && mem.AutoImportance {
		p.rec.Flags |= layout.FlagAutoImportance // read from another database, which had computed it
	}
	if mem.Confidence != nil {
		p.rec.Confidence = *mem.Confidence
	}
	if mem.Pinned {
		p.rec.Flags |= layout.FlagPinned
	}
	if p.rec.Created == 0 {
		p.rec.Created = now
	}
	if p.rec.Updated == 0 {
		p.rec.Updated = p.rec.Created
	}
	if p.rec.ID == "" {
		if p.random, err = random(); err != nil {
			return nil, err
		}
	}
	p.hashContent()
	if err := m.db.analyse(ctx, p); err != nil {
		return nil, err
	}
	return p, nil
}

// space is that of a name, nil if there is none yet.
func (m Memories) space(name string) *spaces.Space {
	if m.tx != nil {
		return m.tx.space(name)
	}
	return m.db.spaces.At(name, m.db.LSN())
}

// setImportance fixes the importance, or computes it as the policy says.
func (db *DB) setImportance(r *layout.Record, v *float64) {
	if v != nil {
		r.Importance = *v
		r.Flags &^= layout.FlagAutoImportance
		return
	}
	r.Flags |= layout.FlagAutoImportance
	if db.tables.Ageing.At(state.MaxLSN).FullImportance() {
		r.Importance = 1
		return
	}
	r.Importance = policy.Importance(r.Text, string(state.Roles[r.Role]))
}

// random are the random bits of an ID.
func random() (uint64, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return 0, &fault.Error{Kind: fault.ErrFailed, What: "make an ID", Cause: err}
	}
	return binary.BigEndian.Uint64(id[:]), nil
}

// analyse fills in the terms and the filter values of the record.
func (db *DB) analyse(ctx context.Context, p *prepared) error {
	meta, err := metadata.Decode(p.rec.Metadata)
	if err != nil {
		return err
	}
	bag := analysis.Bags.Get().(*analysis.Bag)
	defer analysis.Bags.Put(bag)
	bag.Reset()
	if err := bag.AddContext(ctx, db.tables.Words.Analyzer.Load(), p.rec.Text, db.tables.Words.Unit); err != nil {
		return err
	}
	if name := db.tables.Words.NoteName(&p.rec); name != "" && !p.unnamed {
		if err := bag.AddField(ctx, db.tables.Words.Analyzer.Load(), name, db.tables.Words.Unit); err != nil {
			return err
		}
	}
	for _, f := range db.tables.Words.Indexed {
		if s := f.Value(&p.rec, meta); s != "" {
			if err := bag.AddField(ctx, db.tables.Words.Analyzer.Load(), s, f.Weight); err != nil {
				return err
			}
		}
	}
	if err := db.traits(ctx, p, bag, meta); err != nil {
		return err
	}
	db.tables.Words.Spoken.Add(bag.Languages())
	p.list = termLists.Get().(*termList)
	p.list.terms = slices.Grow(p.list.terms[:0], bag.Len())
	bag.Each(func(term string, freq uint32) {
		p.list.terms = append(p.list.terms, invindex.Term{Text: term, Freq: freq})
	})
	p.terms = p.list.terms
	p.length = bag.Length()
	p.values = metadataValues(nil, "", meta, meta)
	// Fields get their numbers in this order, the same in every run.
	slices.SortFunc(p.values, func(a, b pathValue) int { return strings.Compare(a.path, b.path) })
	p.values = slices.CompactFunc(p.values, func(a, b pathValue) bool { return a.path == b.path })
	return nil
}

// termList is a list of terms, of kilobytes.
type termList struct{ terms []invindex.Term }

// termLists are those of stores that are over.
var termLists = sync.Pool{New: func() any { return new(termList) }}

// mostIdleTerms bounds a list that is kept for another store.
const mostIdleTerms = 1 << 12

// release gives back the terms of a memory that is stored.
func (p *prepared) release() {
	if p == nil {
		return // it was skipped
	}
	if cap(p.terms) <= mostIdleTerms {
		termLists.Put(p.list)
	}
	p.terms, p.list = nil, nil
}

// metadataValues lists the scalars of an object by path, objects within it
// included, lists not.
func metadataValues(dst []pathValue, prefix string, root, m map[string]any) []pathValue {
	for name, v := range m {
		path := prefix + name
		if o, ok := v.(map[string]any); ok {
			dst = metadataValues(dst, path+".", root, o)
			continue
		}
		if prefix != "" || strings.Contains(name, ".") {
			v, _ = state.LookPath(root, path) // a key with a dot in it may stand before this one
		}
		key, ok := scalar.Key(v)
		if !ok || len(path) > valid.MaxID {
			continue
		}
		value := pathValue{path: path, key: key}
		value.number, value.isNum = scalar.NumberOf(v)
		if len(key) > memory.MaxIndexedValue {
			value.key = ""
		}
		if value.key != "" || value.isNum {
			dst = append(dst, value)
		}
	}
	return dst
}

// sameContent reports whether storing p again would change nothing of old: a store
// that is repeated, or a line that is imported twice. The confidence may be the stored one or
// that of now, which an export has.
func (p *prepared) sameContent(old *layout.Record, now float64) bool {
	n := &p.rec
	return n.Text == old.Text && n.Role == old.Role && n.Kind == old.Kind && n.Source == old.Source &&
		n.Scope == old.Scope && n.Name == old.Name && slices.Equal(n.Aliases, old.Aliases) &&
		bytes.Equal(n.Metadata, old.Metadata) && n.Event == old.Event && n.Expires == old.Expires &&
		n.Flags&layout.FlagPinned == old.Flags&layout.FlagPinned &&
		(!p.explicit.importance || n.Importance == old.Importance) &&
		(!p.explicit.confidence || n.Confidence == old.Confidence || n.Confidence == now)
}

// Now returns the time by the Clock of the Options.
func (db *DB) Now() time.Time { return db.clock() }

func (db *DB) now() int64 { return db.clock().UnixMilli() }
