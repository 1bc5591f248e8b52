package records

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/dates"
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

// Prepared is a memory that was checked, analysed and embedded, ready to be
// written under the lock.
type Prepared struct {
	Rec     layout.Record
	Vectors map[string][]float32 // to be stored, by space
	terms   []invindex.Term
	list    *termList // that they are in
	length  uint32
	values  []pathValue // of its metadata
	traits  []invindex.Value
	Access  layout.Access // of an import
	Pending bool          // its text is still to be embedded
	Why     string        // it is pending, for the caller
	Learned bool          // the embedder made the vector of the default space
	Without uint16        // the number of a space whose vector it does not keep; 0: it keeps all
	random  uint64        // of its ID, if that was not given
	Given   GivenFields
	content *[layout.HashSize]byte // what dedupKey has computed
	NoteID  uint64                 // that the caller gave
	Unnamed bool                   // indexed before names of notes were

	Found       *mention.Found // what the text mentions; nil: it is not known
	Unextracted string         // why not, for the caller
}

// GivenFields tells which fields the caller set, where the zero value does not.
type GivenFields struct {
	ID, Importance, Confidence bool
}

// pathValue is a metadata value that can be indexed for filters.
type pathValue struct {
	path   string
	key    string        // empty where it is too long
	number scalar.Number // where the value is one
	isNum  bool
}

// Prepare does all that needs no lock: checks, metadata, importance, analysis. Vectors are checked against the spaces
// that there are; Fits checks them again under the lock.
func Prepare(ctx context.Context, t *state.Tables, mem *memory.Memory, now int64, space func(name string) *spaces.Space) (*Prepared, error) {
	vectors, err := mem.Checked(DoingStore)
	if err != nil {
		return nil, err
	}
	for name, v := range vectors {
		if err := space(name).Check(DoingStore, name, v); err != nil {
			return nil, err
		}
	}
	meta, err := metadata.Encode(mem.Metadata)
	if err != nil {
		return nil, err
	}
	p := &Prepared{
		Vectors: vectors,
		Access:  layout.Access{Count: mem.AccessCount, Last: clock.ToMillis(mem.LastAccessed)},
		NoteID:  mem.NoteID,
		Given:   GivenFields{mem.ID != "", mem.Importance != nil, mem.Confidence != nil},
	}
	p.Rec = layout.Record{
		ID: mem.ID, Scope: mem.Scope, Source: string(mem.Source), Text: mem.Text, Name: mem.Name,
		Role: byte(max(slices.Index(state.Roles[:], mem.Role), 0)), Kind: byte(max(slices.Index(state.Kinds[:], mem.Kind), 0)),
		Aliases: slices.Clone(mem.Aliases), Metadata: meta,
		Created: clock.ToMillis(mem.CreatedAt), Updated: clock.ToMillis(mem.UpdatedAt),
		Event: clock.ToMillis(mem.EventTime), Expires: clock.ToMillis(mem.ExpiresAt), Confidence: 1,
	}
	SetImportance(t, &p.Rec, mem.Importance)
	if mem.Importance != nil && mem.AutoImportance {
		p.Rec.Flags |= layout.FlagAutoImportance // read from another database, which had computed it
	}
	if mem.Confidence != nil {
		p.Rec.Confidence = *mem.Confidence
	}
	if mem.Pinned {
		p.Rec.Flags |= layout.FlagPinned
	}
	if p.Rec.Created == 0 {
		p.Rec.Created = now
	}
	if p.Rec.Updated == 0 {
		p.Rec.Updated = p.Rec.Created
	}
	if p.Rec.ID == "" {
		if p.random, err = random(); err != nil {
			return nil, err
		}
	}
	p.hashContent()
	if err := Analyse(ctx, t, p); err != nil {
		return nil, err
	}
	return p, nil
}

// SetImportance fixes the importance, or computes it as the policy says.
func SetImportance(t *state.Tables, r *layout.Record, v *float64) {
	if v != nil {
		r.Importance = *v
		r.Flags &^= layout.FlagAutoImportance
		return
	}
	r.Flags |= layout.FlagAutoImportance
	if t.Ageing.At(state.MaxLSN).FullImportance() {
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

// Analyse fills in the terms and the filter values of the record.
func Analyse(ctx context.Context, t *state.Tables, p *Prepared) error {
	meta, err := metadata.Decode(p.Rec.Metadata)
	if err != nil {
		return err
	}
	bag := analysis.Bags.Get().(*analysis.Bag)
	defer analysis.Bags.Put(bag)
	bag.Reset()
	if err := bag.AddContext(ctx, t.Words.Analyzer.Load(), p.Rec.Text, t.Words.Unit); err != nil {
		return err
	}
	if name := t.Words.NoteName(&p.Rec); name != "" && !p.Unnamed {
		if err := bag.AddField(ctx, t.Words.Analyzer.Load(), name, t.Words.Unit); err != nil {
			return err
		}
	}
	for _, f := range t.Words.Indexed {
		if s := f.Value(&p.Rec, meta); s != "" {
			if err := bag.AddField(ctx, t.Words.Analyzer.Load(), s, f.Weight); err != nil {
				return err
			}
		}
	}
	if err := p.addTraits(ctx, &t.Words, bag, meta); err != nil {
		return err
	}
	t.Words.Spoken.Add(bag.Languages())
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

// Release gives back the terms of a memory that is stored.
func (p *Prepared) Release() {
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
func (p *Prepared) sameContent(old *layout.Record, now float64) bool {
	n := &p.Rec
	return n.Text == old.Text && n.Role == old.Role && n.Kind == old.Kind && n.Source == old.Source &&
		n.Scope == old.Scope && n.Name == old.Name && slices.Equal(n.Aliases, old.Aliases) &&
		bytes.Equal(n.Metadata, old.Metadata) && n.Event == old.Event && n.Expires == old.Expires &&
		n.Flags&layout.FlagPinned == old.Flags&layout.FlagPinned &&
		(!p.Given.Importance || n.Importance == old.Importance) &&
		(!p.Given.Confidence || n.Confidence == old.Confidence || n.Confidence == now)
}

// addTraits adds the times that a text speaks of to its words, as dates, and notes what a recall asks
// of a text beside them: whether it asks, whether it says when, and who says it. What is said by
// how far away it is ("yesterday") counts from the time of the event, or of the creation.
func (p *Prepared) addTraits(ctx context.Context, words *state.Words, bag *analysis.Bag, meta map[string]any) error {
	p.traits = nil
	if words.Analyzer.Load().Older() {
		return nil // of an index that has none, until it is made anew
	}
	if asks(p.Rec.Text) {
		p.traits = append(p.traits, invindex.Value{Field: layout.FieldTrait, Key: layout.TraitAsks})
	}
	at := p.Rec.Event
	if at == 0 {
		at = p.Rec.Created
	}
	said := dates.In(p.Rec.Text, clock.FromMillis(at))
	for _, m := range said {
		if err := bag.AddWords(ctx, words.Analyzer.Load(), m.Words, words.Unit); err != nil {
			return err
		}
	}
	if len(said) > 0 {
		p.traits = append(p.traits, invindex.Value{Field: layout.FieldTrait, Key: layout.TraitDated})
	}
	for _, f := range words.Indexed {
		if !f.Speaks() {
			continue
		}
		if key := state.SpeakerKey(f.Value(&p.Rec, meta)); key != "" && len(key) <= memory.MaxIndexedValue {
			p.traits = append(p.traits, invindex.Value{Field: layout.FieldSpeaker, Key: key})
		}
	}
	return nil
}

// asks reports whether a text ends with a question mark, of any script, but for what closes it:
// quotes, brackets, emoji.
func asks(text string) bool {
	for text != "" {
		c, size := utf8.DecodeLastRuneInString(text)
		switch {
		case strings.ContainsRune("?\u037e\u061f\uff1f\u203d\u2047\u2048\u2049\u2753\u2754", c):
			return true
		case unicode.IsLetter(c) || unicode.IsNumber(c) || c == '.' || c == '。':
			return false
		}
		text = text[:len(text)-size]
	}
	return false
}
