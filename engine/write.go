package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// store writes a prepared memory: a new one, a duplicate that is recognised, or
// an update under Upsert.
func (tx *Tx) store(p *prepared, o *memory.StoreOptions) (memory.Stored, error) {
	if err := tx.need(doingStore, p.size()); err != nil {
		return memory.Stored{}, err
	}
	if err := tx.fits(doingStore, p.vectors); err != nil {
		return memory.Stored{}, err
	}
	if err := tx.registered(doingStore, p.rec.Scope.Owner()); err != nil {
		return memory.Stored{}, err
	}
	if done, stored, err := tx.storeKnown(p, o); err != nil || done {
		if stored.Updated {
			_, err = tx.linkMentions(p.rec.Scope, stored.Seq, p.found)
			stored.Unextracted = p.unextracted
		}
		return stored, err
	}
	owner, run, err := tx.scopeNumbers(p.rec.Scope)
	if err != nil {
		return memory.Stored{}, tx.breaks(err)
	}
	tx.next.Seq++
	seq := tx.next.Seq
	if !p.explicit.id {
		p.rec.ID = tx.state.Keys.Cipher.Seal(p.random, owner, seq)
	}
	if err := tx.add(p, owner, run, seq); err != nil {
		return memory.Stored{}, err
	}
	if _, err := tx.linkMentions(p.rec.Scope, seq, p.found); err != nil {
		return memory.Stored{}, err
	}
	return memory.Stored{ID: p.rec.ID, Seq: seq, Stored: true, Pending: p.pending, PendingWhy: p.why, Unextracted: p.unextracted}, nil
}

// storeKnown handles a memory whose ID or content its owner has already; done is
// false where it is new. It gives out no numbers: a store that is refused leaves
// nothing behind.
func (tx *Tx) storeKnown(p *prepared, o *memory.StoreOptions) (done bool, _ memory.Stored, err error) {
	owner, known, err := tx.state.Lookup(layout.Name{Class: layout.NameOwner, Text: scope.Key(p.rec.Scope.Owner())})
	if err != nil || !known {
		return false, memory.Stored{}, err
	}
	if !p.explicit.id {
		if o.NoDedup {
			return false, memory.Stored{}, nil
		}
		d, err := tx.findDuplicate(p, owner)
		if d == nil || err != nil {
			return false, memory.Stored{}, err
		}
		stored, err := tx.storeDuplicate(p, d)
		return true, stored, err
	}
	old, found, err := tx.findID(owner, p.rec.ID)
	if err == nil && !found && !o.NoDedup {
		err = tx.nameFree(p, owner, 0)
	}
	if err != nil || !found {
		return false, memory.Stored{}, err
	}
	rec, err := tx.state.Record(old.Version)
	if err != nil {
		return false, memory.Stored{}, err
	}
	same, err := tx.same(p, rec, old.Version)
	switch {
	case err != nil:
		return false, memory.Stored{}, err
	case same:
		return true, memory.Stored{ID: p.rec.ID, Seq: old.Seq}, nil
	case old.expired(tx.state.Now):
		if !o.NoDedup {
			if err := tx.nameFree(p, owner, old.Seq); err != nil {
				return false, memory.Stored{}, err
			}
		}
		return false, memory.Stored{}, tx.remove(old, rec) // its ID is free again
	}
	stored, err := tx.storeOver(p, old, rec, o)
	return true, stored, err
}

// same reports whether a memory is what is stored already.
func (tx *Tx) same(p *prepared, rec *layout.Record, v layout.Version) (bool, error) {
	if !p.sameContent(rec, tx.state.ConfidenceOf(v, rec.Created, rec.Confidence)) {
		return false, nil
	}
	return tx.sameVectors(p, rec, v)
}

// size estimates what the memory adds to the batch: the record, the forward
// record with its terms, vectors and keys.
func (p *prepared) size() int {
	const keys = 512
	n := keys + len(p.rec.Text) + len(p.rec.Metadata) + 2*valid.MaxID
	for _, t := range p.terms {
		n += len(t.Text) + 4
	}
	for _, v := range p.vectors {
		n += 4*len(v) + 64
	}
	return n
}

func (tx *Tx) scopeNumbers(s memory.Scope) (owner, run uint32, err error) {
	if owner, err = tx.number(layout.Name{Class: layout.NameOwner, Text: scope.Key(s.Owner())}); err != nil {
		return 0, 0, err
	}
	if s.Run != "" {
		run, err = tx.number(layout.Name{Class: layout.NameRun, Text: s.Run})
	}
	return owner, run, err
}

// storeOver handles a store under an ID that something else has.
func (tx *Tx) storeOver(p *prepared, old live, rec *layout.Record, o *memory.StoreOptions) (memory.Stored, error) {
	if !o.Upsert {
		return memory.Stored{}, &fault.Error{
			Kind: fault.ErrExists, What: fmt.Sprintf("store memory %q", p.rec.ID),
			Why: "there is one with other content", Do: "update it, store with Upsert, or choose another ID",
		}
	}
	p.rec.Created = rec.Created
	p.rec.Updated = max(tx.state.Now, rec.Updated)
	if !p.explicit.confidence {
		p.rec.Confidence = rec.Confidence
	}
	if !p.explicit.importance && rec.Flags&layout.FlagAutoImportance == 0 {
		tx.db.setImportance(&p.rec, &rec.Importance) // somebody fixed it
	}
	if err := tx.replace(p, rec, old); err != nil {
		return memory.Stored{}, err
	}
	return memory.Stored{ID: p.rec.ID, Seq: old.Seq, Updated: true, Pending: p.pending, PendingWhy: p.why}, nil
}

// sameVectors reports whether the given vectors are those that are stored.
func (tx *Tx) sameVectors(p *prepared, rec *layout.Record, v layout.Version) (bool, error) {
	for name, vec := range p.vectors {
		if p.learned && name == memory.DefaultSpace {
			continue // made of the text, which is the same
		}
		s := tx.space(name)
		if s == nil {
			return false, nil
		}
		i := slices.IndexFunc(rec.Vectors, func(r layout.VectorRef) bool { return r.Space == s.Num })
		if i < 0 {
			return false, nil
		}
		have, err := tx.vector(v, rec.Vectors[i])
		if err != nil || !slices.Equal(have, vec) {
			return false, err
		}
	}
	return true, nil
}

// findID is the live memory of an owner with this ID.
func (tx *Tx) findID(owner uint32, id string) (live, bool, error) {
	var found live
	var ok bool
	err := tx.living(owner, id, func(c claim, l live, rec *layout.Record) error {
		switch {
		case rec.ID == id:
			found, ok = l, true
		case c.indexed: // it was only the hash that matched
			return fault.Invalid(fmt.Sprintf("look up memory %q", valid.Short(id)),
				fmt.Sprintf("its hash is that of %q", valid.Short(rec.ID)), "choose another ID")
		}
		return nil
	})
	return found, ok, store.Error("look up an ID", err)
}

// add writes a memory that is new under a fresh Seq.
func (tx *Tx) add(p *prepared, owner, run uint32, seq uint64) error {
	v := layout.Version{Owner: owner, Seq: seq, Born: tx.state.LSN, Change: tx.change()}
	pv := &pendingVersion{Version: v, run: run, inherits: doctable.None, access: p.access}
	if err := tx.write(p, pv); err != nil {
		return err
	}
	if p.explicit.id {
		if err := tx.setListed(tx.state.Keys.ID(p.rec.ID, owner, seq)); err != nil {
			return err
		}
	}
	if p.access != (layout.Access{}) {
		if err := tx.mergeAccess(owner, seq, p.access); err != nil {
			return err
		}
	}
	tx.logVersioned(layout.LogAdd, v, nil)
	return nil
}

// replace writes a new version of a memory in place of the old one.
func (tx *Tx) replace(p *prepared, rec *layout.Record, old live) error {
	if p.renamed(rec) {
		if err := tx.nameFree(p, old.Owner, old.Seq); err != nil {
			return err
		}
	}
	run := uint32(0)
	var err error
	if p.rec.Scope.Run != "" {
		if run, err = tx.number(layout.Name{Class: layout.NameRun, Text: p.rec.Scope.Run}); err != nil {
			return err
		}
	}
	v := layout.Version{Owner: old.Owner, Seq: old.Seq, Born: tx.state.LSN, Change: tx.change()}
	pv := &pendingVersion{Version: v, run: run, inherits: old.doc, lasting: p.rec.Expires == rec.Expires}
	if before := tx.pend[old.Seq]; before != nil {
		pv.access, pv.lasting = before.access, pv.lasting && before.lasting
	}
	p.rec.Flags = p.rec.Flags&^layout.FlagApart | layout.FlagUpdate
	if p.rec.Text == rec.Text {
		p.rec.Flags |= rec.Flags & layout.FlagApart
	}
	p.rec.Before = rec.History(old.Version)
	if err := tx.carryDebt(old.Owner, old.Seq, p.explicit.confidence); err != nil {
		return err
	}
	tx.inherit(p, pv, rec, old)
	if err := tx.dropUnseen(rec, old, p.rec.Vectors); err != nil {
		return err
	}
	if err := tx.dropKeys(rec, old); err != nil {
		return err
	}
	if err := tx.write(p, pv); err != nil {
		return err
	}
	tx.logVersioned(layout.LogUpdate, v, &old.Version)
	if p.rec.Text != rec.Text && p.found == nil { // else the new text takes the place of the old one
		return tx.forgetInGraph(graph.Forgotten{TextOnly: true}, dying{owner: old.Owner, seq: old.Seq})
	}
	return nil
}

// inherit lets the new version keep the vectors that still describe it: those of
// spaces that the change does not name, unless the text changed.
func (tx *Tx) inherit(p *prepared, pv *pendingVersion, rec *layout.Record, old live) {
	if p.rec.Text != rec.Text {
		return
	}
	before := tx.pend[old.Seq]
	if before != nil {
		pv.inherits = before.inherits // before was never shown and has no slots
	}
	for _, ref := range rec.Vectors {
		if ref.Space == p.without {
			continue
		}
		s := tx.spaceByNum(ref.Space)
		if _, replaced := p.vectors[s.Name]; replaced {
			continue
		}
		of := ref.Of(old.Version)
		p.rec.Vectors = append(p.rec.Vectors, layout.VectorRef{Space: ref.Space, Born: of.Born, Change: of.Change, Sum: ref.Sum})
		if s.Name == memory.DefaultSpace {
			p.pending, p.why = false, ""
		}
		if before != nil && before.vectors[s.Name] != nil {
			if pv.vectors == nil {
				pv.vectors = map[string][]float32{}
			}
			pv.vectors[s.Name] = before.vectors[s.Name]
			continue
		}
		pv.keeps = append(pv.keeps, ref.Space)
	}
}

// write puts the record, its vectors, its dedup key and its forward record into
// the batch, and the version among the pending ones.
func (tx *Tx) write(p *prepared, pv *pendingVersion) error {
	ks := tx.state.Keys
	if err := tx.writeVectors(p, pv); err != nil {
		return tx.breaks(err)
	}
	if p.pending {
		p.rec.Flags |= layout.FlagPending
	}
	if err := tx.setEncoded(ks.Record(pv.Version), p.rec.Append); err != nil {
		return err
	}
	if d, ok := p.dedupKey(ks, pv.Owner, pv.run); ok {
		if err := tx.setListed(ks.Dedup(d, pv.Seq)); err != nil {
			return err
		}
	}
	if state.IsNote(&p.rec) {
		if err := notes.Give((*partTx)(tx), pv.Owner, pv.Seq, p.noteID); err != nil {
			return tx.breaks(err)
		}
	}
	if p.pending {
		if err := tx.set(ks.Pending(layout.PendingSpace, pv.Owner, pv.Seq), nil); err != nil {
			return err
		}
	}
	idx, err := indexedDoc(p, pv.run, tx.giveNumber)
	if err != nil {
		return tx.breaks(err)
	}
	if pv.doc, err = tx.giveDoc(); err != nil {
		return err
	}
	pv.rec, pv.expires = &p.rec, p.rec.Expires
	pv.idx = idx
	if err := tx.setEncoded(ks.Doc(layout.KindForward, pv.doc), pv.appendForward); err != nil {
		return err
	}
	if before := tx.pend[pv.Seq]; before != nil {
		tx.supersede(before)
	}
	tx.pend[pv.Seq] = pv
	tx.adds = append(tx.adds, pv)
	return nil
}

// supersede drops a pending version, which another, or a death, takes the place of.
func (tx *Tx) supersede(p *pendingVersion) {
	p.gone = true
	tx.overlaps = tx.overlaps || p.Born != tx.state.LSN
}

// fits checks vectors by themselves, against the spaces that the transaction sees,
// and against the number that there can be. What passes can be put into an index.
func (tx *Tx) fits(doing string, vectors map[string][]float32) error {
	fresh := uint32(0)
	for name, vec := range vectors {
		s := tx.space(name)
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
	if err := tx.maySpace(doing); err != nil {
		return err
	}
	if tx.next.Names[layout.NameSpace]+fresh > MaxSpaces {
		return fault.Invalid(doing, fmt.Sprintf("its vectors would make more than %d spaces", MaxSpaces), "use those that exist")
	}
	return nil
}

func (tx *Tx) writeVectors(p *prepared, pv *pendingVersion) error {
	for name, vec := range p.vectors {
		s, err := tx.makeSpace(name, len(vec))
		if err != nil {
			return err
		}
		ref := layout.VectorRef{Space: s.Num} // 0, 0: of this version
		encode := func(dst []byte) []byte {
			start := len(dst)
			dst = codec.AppendFloats(dst, vec)
			ref.Sum = layout.VectorSum(dst[start:])
			return dst
		}
		if err := tx.setEncoded(tx.state.Keys.Vector(s.Num, pv.Version), encode); err != nil {
			return err
		}
		p.rec.Vectors = append(p.rec.Vectors, ref)
	}
	if pv.vectors == nil {
		pv.vectors = p.vectors
	} else {
		maps.Copy(pv.vectors, p.vectors)
	}
	slices.SortFunc(p.rec.Vectors, func(a, b layout.VectorRef) int { return int(a.Space) - int(b.Space) })
	return nil
}

// indexedDoc is what the text index holds of a memory. number is asked for the
// numbers of names; a metadata field may have none.
func indexedDoc(p *prepared, run uint32, number func(layout.Name) (uint32, bool, error)) (invindex.Doc, error) {
	r := &p.rec
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
	if !p.unnamed {
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

// giveNumber is the number of a name, newly given if it has none and there is room.
func (tx *Tx) giveNumber(k layout.Name) (uint32, bool, error) {
	if k.Class == layout.NameField {
		return tx.fieldNumber(k.Text)
	}
	num, err := tx.number(k)
	return num, err == nil, err
}

// fieldNumber registers a metadata path for the filter index, while there is room.
func (tx *Tx) fieldNumber(path string) (uint32, bool, error) {
	k := layout.Name{Class: layout.NameField, Text: path}
	num, ok := tx.db.tables.Fields.Number(path)
	if ok {
		return num, true, nil
	}
	if num, ok = tx.own.Names[k]; ok {
		return num, true, nil
	}
	if tx.next.Names[layout.NameField] >= memory.MaxIndexedPaths {
		return 0, false, nil
	}
	num, err := tx.newNumber(k, nil)
	return num, err == nil, err
}

// space is a vector space as the transaction sees it, nil if there is none.
func (tx *Tx) space(name string) *spaces.Space {
	if tx.writes != nil {
		if s := tx.spaces[name]; s != nil {
			return s
		}
	}
	return tx.db.spaces.Named(name)
}

func (tx *Tx) spaceByNum(num uint16) *spaces.Space {
	if tx.writes != nil {
		for _, s := range tx.spaces {
			if s.Num == num {
				return s
			}
		}
	}
	return tx.db.spaces.Numbered(num)
}

// makeSpace is the space of a name, made with the dimension of its first vector.
func (tx *Tx) makeSpace(name string, dim int) (*spaces.Space, error) {
	if s := tx.space(name); s != nil {
		return s, nil
	}
	c := &SpaceConfig{Name: name, Dim: dim}
	if name == memory.DefaultSpace && tx.db.embedder != nil {
		c.Model, c.Base = tx.db.embedder.Model(), embed.Base(tx.db.embedder)
	}
	return tx.newSpace(c, hnsw.Cosine)
}

// remove deletes a memory: its last version dies with this commit.
func (tx *Tx) remove(old live, rec *layout.Record) error {
	if err := tx.needToFree("delete a memory", 512); err != nil {
		return err
	}
	if rec == nil {
		var err error
		if rec, err = tx.state.Record(old.Version); err != nil {
			return err
		}
	}
	change := tx.change()
	if err := tx.dropUnseen(rec, old, nil); err != nil {
		return err
	}
	if err := tx.dropKeys(rec, old); err != nil {
		return err
	}
	ks := tx.state.Keys
	if err := tx.del(ks.Stats(old.Owner, old.Seq)); err != nil {
		return err
	}
	h := layout.DeathOf(rec, old.Version, tx.state.Now, layout.Cause{})
	if old.expired(tx.state.Now) {
		h.Reason = layout.ReasonExpired
	}
	if err := tx.set(ks.History(old.Owner, old.Seq, tx.state.LSN, change), h.Encode()); err != nil {
		return err
	}
	if p := tx.pend[old.Seq]; p != nil {
		tx.supersede(p)
		p.dead = true
	} else {
		tx.pend[old.Seq] = &pendingVersion{Version: old.Version, doc: old.doc, dead: true, gone: true}
	}
	tx.logVersioned(layout.LogDelete, old.Version, &old.Version)
	return tx.forgetInGraph(graph.Forgotten{}, dying{owner: old.Owner, seq: old.Seq})
}

// dropKeys takes a version out of the derived structures: its dedup key, its mark
// as pending, its document.
func (tx *Tx) dropKeys(rec *layout.Record, old live) error {
	ks := tx.state.Keys
	run := uint32(0)
	if rec.Scope.Run != "" {
		var err error
		if run, err = tx.number(layout.Name{Class: layout.NameRun, Text: rec.Scope.Run}); err != nil {
			return err
		}
	}
	if d, ok := dedupKeyOf(ks, rec, old.Owner, run); ok {
		if err := tx.del(ks.Dedup(d, old.Seq)); err != nil {
			return err
		}
	}
	if rec.Flags&layout.FlagPending != 0 {
		if err := tx.del(ks.Pending(layout.PendingSpace, old.Owner, old.Seq)); err != nil {
			return err
		}
	}
	if p := tx.pend[old.Seq]; p != nil {
		return tx.del(ks.Doc(layout.KindForward, old.doc)) // was never shown
	}
	tx.kills = append(tx.kills, dead{doc: old.doc, lsn: tx.state.LSN})
	return tx.set(ks.Doc(layout.KindTombstone, old.doc), (&layout.Tombstone{LSN: tx.state.LSN}).Encode())
}
