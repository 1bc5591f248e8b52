package records

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// DoingStore says in errors what is done.
const DoingStore = "store a memory"

// Store writes a prepared memory: a new one, a duplicate that is recognised, or
// an update under Upsert.
func (w *Writer) Store(p *Prepared, o *memory.StoreOptions) (memory.Stored, error) {
	if err := w.Room(DoingStore, 1, p.Size()); err != nil {
		return memory.Stored{}, err
	}
	if err := w.Fits(DoingStore, p.Vectors); err != nil {
		return memory.Stored{}, err
	}
	if err := w.Registered(DoingStore, p.Rec.Scope.Owner()); err != nil {
		return memory.Stored{}, err
	}
	if done, stored, err := w.storeKnown(p, o); err != nil || done {
		if stored.Updated {
			err = w.Link(p.Rec.Scope, stored.Seq, p.Found)
			stored.Unextracted = p.Unextracted
		}
		return stored, err
	}
	owner, run, err := w.ScopeNumbers(p.Rec.Scope)
	if err != nil {
		return memory.Stored{}, w.Break(err)
	}
	w.Own.Given.Seq++
	seq := w.Own.Given.Seq
	if !p.Given.ID {
		p.Rec.ID = w.Keys.Cipher.Seal(p.random, owner, seq)
	}
	if err := w.add(p, owner, run, seq); err != nil {
		return memory.Stored{}, err
	}
	if err := w.Link(p.Rec.Scope, seq, p.Found); err != nil {
		return memory.Stored{}, err
	}
	return memory.Stored{ID: p.Rec.ID, Seq: seq, Stored: true, Pending: p.Pending, PendingWhy: p.Why, Unextracted: p.Unextracted}, nil
}

// storeKnown handles a memory whose ID or content its owner has already; done is
// false where it is new. It gives out no numbers: a store that is refused leaves
// nothing behind.
func (w *Writer) storeKnown(p *Prepared, o *memory.StoreOptions) (done bool, _ memory.Stored, err error) {
	owner, known, err := w.Lookup(layout.Name{Class: layout.NameOwner, Text: scope.Key(p.Rec.Scope.Owner())})
	if err != nil || !known {
		return false, memory.Stored{}, err
	}
	if !p.Given.ID {
		if o.NoDedup {
			return false, memory.Stored{}, nil
		}
		d, err := w.findDuplicate(p, owner)
		if d == nil || err != nil {
			return false, memory.Stored{}, err
		}
		stored, err := w.storeDuplicate(p, d)
		return true, stored, err
	}
	old, found, err := w.FindID(owner, p.Rec.ID)
	if err == nil && !found && !o.NoDedup {
		err = w.nameFree(p, owner, 0)
	}
	if err != nil || !found {
		return false, memory.Stored{}, err
	}
	rec, err := w.Record(old.Version)
	if err != nil {
		return false, memory.Stored{}, err
	}
	same, err := w.same(p, rec, old.Version)
	switch {
	case err != nil:
		return false, memory.Stored{}, err
	case same:
		return true, memory.Stored{ID: p.Rec.ID, Seq: old.Seq}, nil
	case old.Expired(w.Now):
		if !o.NoDedup {
			if err := w.nameFree(p, owner, old.Seq); err != nil {
				return false, memory.Stored{}, err
			}
		}
		return false, memory.Stored{}, w.Remove(old, rec) // its ID is free again
	}
	stored, err := w.storeOver(p, old, rec, o)
	return true, stored, err
}

// same reports whether a memory is what is stored already.
func (w *Writer) same(p *Prepared, rec *layout.Record, v layout.Version) (bool, error) {
	if !p.sameContent(rec, w.ConfidenceOf(v, rec.Created, rec.Confidence)) {
		return false, nil
	}
	return w.sameVectors(p, rec, v)
}

// Size estimates what the memory adds to the batch: the record, the forward
// record with its terms, vectors and keys.
func (p *Prepared) Size() int {
	const keys = 512
	n := keys + len(p.Rec.Text) + len(p.Rec.Metadata) + 2*valid.MaxID
	for _, t := range p.terms {
		n += len(t.Text) + 4
	}
	for _, v := range p.Vectors {
		n += 4*len(v) + 64
	}
	return n
}

// storeOver handles a store under an ID that something else has.
func (w *Writer) storeOver(p *Prepared, old Live, rec *layout.Record, o *memory.StoreOptions) (memory.Stored, error) {
	if !o.Upsert {
		return memory.Stored{}, &fault.Error{
			Kind: fault.ErrExists, What: fmt.Sprintf("store memory %q", p.Rec.ID),
			Why: "there is one with other content", Do: "update it, store with Upsert, or choose another ID",
		}
	}
	p.Rec.Created = rec.Created
	p.Rec.Updated = max(w.Now, rec.Updated)
	if !p.Given.Confidence {
		p.Rec.Confidence = rec.Confidence
	}
	if !p.Given.Importance && rec.Flags&layout.FlagAutoImportance == 0 {
		SetImportance(w.Tables, &p.Rec, &rec.Importance) // somebody fixed it
	}
	if err := w.Replace(p, rec, old); err != nil {
		return memory.Stored{}, err
	}
	return memory.Stored{ID: p.Rec.ID, Seq: old.Seq, Updated: true, Pending: p.Pending, PendingWhy: p.Why}, nil
}

// sameVectors reports whether the given vectors are those that are stored.
func (w *Writer) sameVectors(p *Prepared, rec *layout.Record, v layout.Version) (bool, error) {
	for name, vec := range p.Vectors {
		if p.Learned && name == memory.DefaultSpace {
			continue // made of the text, which is the same
		}
		s := w.Space(name)
		if s == nil {
			return false, nil
		}
		i := slices.IndexFunc(rec.Vectors, func(r layout.VectorRef) bool { return r.Space == s.Num })
		if i < 0 {
			return false, nil
		}
		have, err := w.Vector(v, rec.Vectors[i])
		if err != nil || !slices.Equal(have, vec) {
			return false, err
		}
	}
	return true, nil
}

// add writes a memory that is new under a fresh Seq.
func (w *Writer) add(p *Prepared, owner, run uint32, seq uint64) error {
	v := layout.Version{Owner: owner, Seq: seq, Born: w.LSN, Change: w.Change()}
	pv := &Pending{Version: v, Run: run, Inherits: doctable.None, Access: p.Access}
	if err := w.Write(p, pv); err != nil {
		return err
	}
	if p.Given.ID {
		if err := w.setListed(w.Keys.ID(p.Rec.ID, owner, seq)); err != nil {
			return err
		}
	}
	if p.Access != (layout.Access{}) {
		if err := w.MergeAccess(owner, seq, p.Access); err != nil {
			return err
		}
	}
	w.LogVersioned(layout.LogAdd, v, nil)
	return nil
}

// Replace writes a new version of a memory in place of the old one.
func (w *Writer) Replace(p *Prepared, rec *layout.Record, old Live) error {
	if p.renamed(rec) {
		if err := w.nameFree(p, old.Owner, old.Seq); err != nil {
			return err
		}
	}
	run := uint32(0)
	var err error
	if p.Rec.Scope.Run != "" {
		if run, err = w.Number(layout.Name{Class: layout.NameRun, Text: p.Rec.Scope.Run}); err != nil {
			return err
		}
	}
	v := layout.Version{Owner: old.Owner, Seq: old.Seq, Born: w.LSN, Change: w.Change()}
	pv := &Pending{Version: v, Run: run, Inherits: old.Doc, Lasting: p.Rec.Expires == rec.Expires}
	if before := w.Changes.BySeq[old.Seq]; before != nil {
		pv.Access, pv.Lasting = before.Access, pv.Lasting && before.Lasting
	}
	p.Rec.Flags = p.Rec.Flags&^layout.FlagApart | layout.FlagUpdate
	if p.Rec.Text == rec.Text {
		p.Rec.Flags |= rec.Flags & layout.FlagApart
	}
	p.Rec.Before = rec.History(old.Version)
	if err := w.carryDebt(old.Owner, old.Seq, p.Given.Confidence); err != nil {
		return err
	}
	w.inherit(p, pv, rec, old)
	if err := w.dropUnseen(rec, old, p.Rec.Vectors); err != nil {
		return err
	}
	if err := w.dropKeys(rec, old); err != nil {
		return err
	}
	if err := w.Write(p, pv); err != nil {
		return err
	}
	w.LogVersioned(layout.LogUpdate, v, &old.Version)
	if p.Rec.Text != rec.Text && p.Found == nil { // else the new text takes the place of the old one
		return w.Forget(graph.Forgotten{TextOnly: true}, old.Owner, old.Seq)
	}
	return nil
}

// inherit lets the new version keep the vectors that still describe it: those of
// spaces that the change does not name, unless the text changed.
func (w *Writer) inherit(p *Prepared, pv *Pending, rec *layout.Record, old Live) {
	if p.Rec.Text != rec.Text {
		return
	}
	before := w.Changes.BySeq[old.Seq]
	if before != nil {
		pv.Inherits = before.Inherits // before was never shown and has no slots
	}
	for _, ref := range rec.Vectors {
		if ref.Space == p.Without {
			continue
		}
		s := w.SpaceNumbered(ref.Space)
		if _, replaced := p.Vectors[s.Name]; replaced {
			continue
		}
		of := ref.Of(old.Version)
		p.Rec.Vectors = append(p.Rec.Vectors, layout.VectorRef{Space: ref.Space, Born: of.Born, Change: of.Change, Sum: ref.Sum})
		if s.Name == memory.DefaultSpace {
			p.Pending, p.Why = false, ""
		}
		if before != nil && before.Vectors[s.Name] != nil {
			if pv.Vectors == nil {
				pv.Vectors = map[string][]float32{}
			}
			pv.Vectors[s.Name] = before.Vectors[s.Name]
			continue
		}
		pv.Keeps = append(pv.Keeps, ref.Space)
	}
}

// Write puts the record, its vectors, its dedup key and its forward record into
// the batch, and the version among the pending ones.
func (w *Writer) Write(p *Prepared, pv *Pending) error {
	ks := w.Keys
	if err := w.writeVectors(p, pv); err != nil {
		return w.Break(err)
	}
	if p.Pending {
		p.Rec.Flags |= layout.FlagPending
	}
	if err := w.Encoded(ks.Record(pv.Version), p.Rec.Append); err != nil {
		return err
	}
	if d, ok := p.dedupKey(ks, pv.Owner, pv.Run); ok {
		if err := w.setListed(ks.Dedup(d, pv.Seq)); err != nil {
			return err
		}
	}
	if state.IsNote(&p.Rec) {
		if err := notes.Give(w.Part(), pv.Owner, pv.Seq, p.NoteID); err != nil {
			return w.Break(err)
		}
	}
	if p.Pending {
		if err := w.Set(ks.Pending(layout.PendingSpace, pv.Owner, pv.Seq), nil); err != nil {
			return err
		}
	}
	idx, err := IndexedDoc(p, pv.Run, w.giveNumber)
	if err != nil {
		return w.Break(err)
	}
	if pv.Doc, err = w.Doc(); err != nil {
		return err
	}
	pv.Rec, pv.Expires = &p.Rec, p.Rec.Expires
	pv.Index = idx
	if err := w.Encoded(ks.Doc(layout.KindForward, pv.Doc), pv.AppendForward); err != nil {
		return err
	}
	if before := w.Changes.BySeq[pv.Seq]; before != nil {
		w.supersede(before)
	}
	w.Changes.BySeq[pv.Seq] = pv
	w.Changes.Added = append(w.Changes.Added, pv)
	return nil
}

// supersede drops a pending version, which another, or a death, takes the place of.
func (w *Writer) supersede(p *Pending) {
	p.Gone = true
	w.Changes.Overlaps = w.Changes.Overlaps || p.Born != w.LSN
}

// Fits checks vectors by themselves, against the spaces that the transaction sees,
// and against the number that there can be. What passes can be put into an index.
func (w *Writer) Fits(doing string, vectors map[string][]float32) error {
	fresh := uint32(0)
	for name, vec := range vectors {
		s := w.Space(name)
		if s == nil {
			fresh++
		}
		if err := s.Check(doing, name, vec); err != nil {
			return err
		}
	}
	if fresh == 0 {
		return nil
	}
	return w.MaySpaces(doing, fresh)
}

func (w *Writer) writeVectors(p *Prepared, pv *Pending) error {
	for name, vec := range p.Vectors {
		s := w.Space(name)
		if s == nil {
			var err error
			if s, err = w.MakeSpace(name, len(vec)); err != nil {
				return err
			}
		}
		ref := layout.VectorRef{Space: s.Num} // 0, 0: of this version
		encode := func(dst []byte) []byte {
			start := len(dst)
			dst = codec.AppendFloats(dst, vec)
			ref.Sum = layout.VectorSum(dst[start:])
			return dst
		}
		if err := w.Encoded(w.Keys.Vector(s.Num, pv.Version), encode); err != nil {
			return err
		}
		p.Rec.Vectors = append(p.Rec.Vectors, ref)
	}
	if pv.Vectors == nil {
		pv.Vectors = p.Vectors
	} else {
		maps.Copy(pv.Vectors, p.Vectors)
	}
	slices.SortFunc(p.Rec.Vectors, func(a, b layout.VectorRef) int { return int(a.Space) - int(b.Space) })
	return nil
}

// IndexedDoc is what the text index holds of a memory. number is asked for the
// numbers of names; a metadata field may have none.
func IndexedDoc(p *Prepared, run uint32, number func(layout.Name) (uint32, bool, error)) (invindex.Doc, error) {
	r := &p.Rec
	d := invindex.Doc{Terms: p.terms, Length: p.length, Values: make([]invindex.Value, 0, 7+len(p.values)), Numbered: true}
	for _, s := range []struct {
		field uint16
		class layout.NameClass
		name  string
	}{{layout.FieldUser, layout.NameUser, r.Scope.User}, {layout.FieldAgent, layout.NameAgent, r.Scope.Agent}} {
		if s.name == "" {
			continue
		}
		num, _, err := number(layout.Name{Class: s.class, Text: s.name})
		if err != nil {
			return d, err
		}
		d.Values = append(d.Values, invindex.Value{Field: s.field, Key: layout.NumberValue(num)})
	}
	if run != 0 {
		d.Values = append(d.Values, invindex.Value{Field: layout.FieldRun, Key: layout.NumberValue(run)})
	}
	d.Values = append(d.Values, invindex.Value{Field: layout.FieldRole, Key: roleKeys[r.Role]}, invindex.Value{Field: layout.FieldKind, Key: kindKeys[r.Kind]})
	if key := scalar.TextKey(r.Source); r.Source != "" && len(key) <= memory.MaxIndexedValue {
		d.Values = append(d.Values, invindex.Value{Field: layout.FieldSource, Key: key})
	}
	d.Values = append(d.Values, invindex.Value{Field: layout.FieldPinned, Key: scalar.BoolKey(r.Flags&layout.FlagPinned != 0)})
	if !p.Unnamed {
		d.Values = append(d.Values, noteValues(r)...)
	}
	d.Values = append(d.Values, p.traits...)
	d.Numbers = make([]invindex.Number, 0, 3+len(p.values))
	for _, t := range []struct {
		field uint16
		ms    int64
	}{{layout.FieldCreated, r.Created}, {layout.FieldUpdated, r.Updated}, {layout.FieldEvent, r.Event}} {
		if t.ms != 0 {
			d.Numbers = append(d.Numbers, invindex.Number{Field: t.field, Value: invindex.IntOrder(t.ms)})
		}
	}
	for _, m := range p.values {
		num, ok, err := number(layout.Name{Class: layout.NameField, Text: m.path})
		if err != nil {
			return d, err
		}
		if !ok {
			continue
		}
		field := layout.FirstMetadataField + uint16(num)
		if m.key != "" {
			d.Values = append(d.Values, invindex.Value{Field: field, Key: m.key})
		}
		if m.isNum {
			d.Numbers = append(d.Numbers, invindex.Number{Field: field, Value: invindex.FloatOrder(m.number.Float)})
		}
	}
	return d, nil
}

var roleKeys, kindKeys = textKeys(state.Roles[:]), textKeys(state.Kinds[:])

func textKeys[T ~string](texts []T) (keys []string) {
	for _, t := range texts {
		keys = append(keys, scalar.TextKey(string(t)))
	}
	return keys
}

// Remove deletes a memory: its last version dies with this commit.
func (w *Writer) Remove(old Live, rec *layout.Record) error {
	if err := w.RoomToFree("delete a memory", 512); err != nil {
		return err
	}
	if rec == nil {
		var err error
		if rec, err = w.Record(old.Version); err != nil {
			return err
		}
	}
	change := w.Change()
	if err := w.dropUnseen(rec, old, nil); err != nil {
		return err
	}
	if err := w.dropKeys(rec, old); err != nil {
		return err
	}
	ks := w.Keys
	if err := w.Delete(ks.Stats(old.Owner, old.Seq)); err != nil {
		return err
	}
	h := layout.DeathOf(rec, old.Version, w.Now, layout.Cause{})
	if old.Expired(w.Now) {
		h.Reason = layout.ReasonExpired
	}
	if err := w.Set(ks.History(old.Owner, old.Seq, w.LSN, change), h.Encode()); err != nil {
		return err
	}
	if p := w.Changes.BySeq[old.Seq]; p != nil {
		w.supersede(p)
		p.Dead = true
	} else {
		w.Changes.BySeq[old.Seq] = &Pending{Version: old.Version, Doc: old.Doc, Dead: true, Gone: true}
	}
	w.LogVersioned(layout.LogDelete, old.Version, &old.Version)
	return w.Forget(graph.Forgotten{}, old.Owner, old.Seq)
}

// dropKeys takes a version out of the derived structures: its dedup key, its mark
// as pending, its document.
func (w *Writer) dropKeys(rec *layout.Record, old Live) error {
	ks := w.Keys
	run := uint32(0)
	if rec.Scope.Run != "" {
		var err error
		if run, err = w.Number(layout.Name{Class: layout.NameRun, Text: rec.Scope.Run}); err != nil {
			return err
		}
	}
	if d, ok := DedupKeyOf(ks, rec, old.Owner, run); ok {
		if err := w.Delete(ks.Dedup(d, old.Seq)); err != nil {
			return err
		}
	}
	if rec.Flags&layout.FlagPending != 0 {
		if err := w.Delete(ks.Pending(layout.PendingSpace, old.Owner, old.Seq)); err != nil {
			return err
		}
	}
	if p := w.Changes.BySeq[old.Seq]; p != nil {
		return w.Delete(ks.Doc(layout.KindForward, old.Doc)) // was never shown
	}
	w.Changes.Killed = append(w.Changes.Killed, Dead{Doc: old.Doc, LSN: w.LSN})
	return w.Set(ks.Doc(layout.KindTombstone, old.Doc), (&layout.Tombstone{LSN: w.LSN}).Encode())
}

// dropUnseen deletes the vectors that a version of this same batch has brought, which
// was replaced before anybody could see it, but for those that the next one refers to.
func (w *Writer) dropUnseen(rec *layout.Record, old Live, next []layout.VectorRef) error {
	if w.Changes.BySeq[old.Seq] == nil {
		return nil
	}
	kept := old.Brought(next) // of the next one's own none has the key of an old one
	for _, vec := range old.Brought(rec.Vectors) {
		if vec.Born <= w.Applied || slices.Contains(kept, vec) {
			continue
		}
		if err := w.Delete(vec.Key(w.Keys, old.Owner)); err != nil {
			return err
		}
	}
	return nil
}

// LogInternal logs a commit whose keys no reader of the log asks for.
func (w *Writer) LogInternal() {
	w.Change()
	log := w.Log()
	*log = append(*log, byte(layout.LogInternal))
}

// LogVersioned logs a change of a version, and which one it took the place of.
func (w *Writer) LogVersioned(op layout.LogOp, v layout.Version, before *layout.Version) {
	w.Concerns(v.Owner)
	log := w.Log()
	b := binary.AppendUvarint(append(*log, byte(op)), uint64(v.Owner))
	b = binary.AppendUvarint(b, v.Seq)
	if op != layout.LogDelete {
		b = binary.AppendUvarint(b, uint64(v.Change))
	}
	if before != nil {
		b = binary.AppendUvarint(b, before.Born)
		b = binary.AppendUvarint(b, uint64(before.Change))
	}
	*log = b
}

// setListed writes an empty key of a kind whose prefixes are remembered.
func (w *Writer) setListed(key []byte) error {
	w.Seen.Add(w.Keys.Listed(key))
	return w.Set(key, nil)
}

// noteValues are the names of a note or an archive as the filter index has them.
func noteValues(r *layout.Record) []invindex.Value {
	if k := state.Kinds[r.Kind]; k != memory.KindNote && k != memory.KindArchive {
		return nil
	}
	values := []invindex.Value{{Field: layout.FieldNoteName, Key: NoteMark}}
	for _, name := range append([]string{r.Name}, r.Aliases...) {
		if name != "" {
			values = append(values, invindex.Value{Field: layout.FieldNoteName, Key: NoteNameKey(name)})
		}
	}
	return values
}

// NoteMark is the value of every note and archive in the field of names.
const NoteMark = "-"

// NoteNameKey is the value of a name in the field of names.
func NoteNameKey(name string) string {
	h := contentHash(name)
	return "n" + string(h[:])
}
