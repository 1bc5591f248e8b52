package records

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Claim is a memory that may have, or have had, an ID.
type Claim struct {
	Owner uint32
	Seq   uint64
	// Indexed tells that the ID index names it: it has the ID, or one of the same hash.
	Indexed bool
}

// AnyOwner stands for all of them: no owner has this number.
const AnyOwner = 0

// Living calls fn with the living memories of an owner that have an ID, or one of the same
// hash. Who has an ID got it after those that had it before, so that each owner's are
// asked from the newest on, and not all that there ever were.
func (view View) Living(owner uint32, id string, fn func(c Claim, l Live, rec *layout.Record) error) error {
	ask := func(c Claim) (has bool, err error) {
		l, alive := view.At(c.Seq)
		if !alive || l.Owner != c.Owner {
			return false, nil
		}
		rec, err := view.Record(l.Version)
		if err == nil {
			err = fn(c, l, rec)
		}
		return err == nil && rec.ID == id, err
	}
	ks := view.Keys
	found := uint32(AnyOwner) // the owner of the one that the ID says itself, if that has it
	if o, s, ok := ks.Cipher.Open(id); ok && s > 0 && (owner == AnyOwner || owner == o) {
		has, err := ask(Claim{Owner: o, Seq: s})
		if err != nil {
			return err
		}
		if has {
			found = o
		}
	}
	prefix := ks.IDs(id)
	if owner != AnyOwner {
		prefix = binary.BigEndian.AppendUint32(prefix, owner)
		if found == owner || !view.Seen.MayHold(prefix) {
			return nil
		}
	}
	it, err := view.Reader.Iter(prefix, layout.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	err = eachClaim(it, ks.IDs(id), func(c Claim) (over bool, err error) {
		if over = c.Owner == found; !over {
			over, err = ask(c)
		}
		if !over && err == nil {
			over, err = view.had(c, id)
		}
		return over, err
	})
	return errors.Join(err, it.Error(), it.Close())
}

// eachClaim calls fn with the claims on an ID, the last first. After one for which fn returns true, it leaves the others
// of the same owner out.
func eachClaim(it kv.Iterator, prefix []byte, fn func(Claim) (over bool, err error)) error {
	for ok := it.Last(); ok; {
		c := Claim{Indexed: true}
		if c.Owner, c.Seq, ok = layout.ParseIDKey(it.Key()); !ok {
			return layout.BadKey("ID", it.Key())
		}
		over, err := fn(c)
		if err != nil {
			return err
		}
		if over {
			ok = it.SeekLT(binary.BigEndian.AppendUint32(slices.Clip(prefix), c.Owner))
		} else {
			ok = it.Prev()
		}
	}
	return nil
}

// had reports whether a memory that is dead had an ID, and lived when it had: of one that was
// restored after its death nothing follows for those that were here before it.
func (view View) had(c Claim, id string) (bool, error) {
	prefix := view.Keys.Records(c.Owner, c.Seq)
	it, err := view.Reader.Iter(prefix, layout.PrefixEnd(prefix))
	if err != nil {
		return false, err
	}
	had := false
	if it.Last() {
		var value []byte
		var rec *layout.Record
		v, ok := layout.ParseRecordKey(it.Key())
		if !ok {
			err = layout.BadKey("record", it.Key())
		} else if value, err = it.ValueAndErr(); err == nil {
			rec, err = layout.DecodeRecord(value)
		}
		had = err == nil && rec.ID == id && rec.Flags&layout.FlagPast == 0 && v.Born <= view.LSN
	}
	return had, errors.Join(err, it.Error(), it.Close())
}

// Holders calls fn with the memories of an owner that may have or have had an ID, in the
// order of owner and Seq. An error of fn ends it.
func (view View) Holders(owner uint32, id string, fn func(c Claim) error) error {
	ks := view.Keys
	var said *Claim // what the ID says itself, until fn was called with it
	if o, s, ok := ks.Cipher.Open(id); ok && s > 0 && (owner == AnyOwner || owner == o) {
		said = &Claim{Owner: o, Seq: s}
	}
	prefix := ks.IDs(id)
	if owner != AnyOwner {
		prefix = binary.BigEndian.AppendUint32(prefix, owner)
	}
	if owner == AnyOwner || view.Seen.MayHold(prefix) {
		err := kv.Scan(view.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
			h := Claim{Indexed: true}
			var ok bool
			if h.Owner, h.Seq, ok = layout.ParseIDKey(key); !ok {
				return layout.BadKey("ID", key)
			}
			if said != nil {
				switch order := cmp.Or(cmp.Compare(said.Owner, h.Owner), cmp.Compare(said.Seq, h.Seq)); {
				case order < 0:
					if err := fn(*said); err != nil {
						return err
					}
					said = nil
				case order == 0:
					said = nil
				}
			}
			return fn(h)
		})
		if err != nil {
			return err
		}
	}
	if said == nil {
		return nil
	}
	return fn(*said)
}

// FindID is the Live memory of an owner with this ID.
func (view View) FindID(owner uint32, id string) (Live, bool, error) {
	var found Live
	var ok bool
	err := view.Living(owner, id, func(c Claim, l Live, rec *layout.Record) error {
		switch {
		case rec.ID == id:
			found, ok = l, true
		case c.Indexed: // it was only the hash that matched
			return fault.Invalid(fmt.Sprintf("look up memory %q", valid.Short(id)),
				fmt.Sprintf("its hash is that of %q", valid.Short(rec.ID)), "choose another ID")
		}
		return nil
	})
	return found, ok, store.Error("look up an ID", err)
}

// Find is the visible memory with an ID within a scope, which may be empty.
func (view View) Find(doing string, s memory.Scope, lack memory.Lack, id string) (found Live, rec *layout.Record, err error) {
	if s != (memory.Scope{}) {
		if err := scope.Check(doing, s); err != nil {
			return Live{}, nil, err
		}
	}
	if err := valid.Word(doing, "ID", id); err != nil {
		return Live{}, nil, err
	}
	owners := 0
	err = view.Living(AnyOwner, id, func(_ Claim, l Live, r *layout.Record) error {
		if !l.Expired(view.Now) && r.ID == id && scope.Contains(s, r.Scope) && lack.In(r.Scope) {
			found, rec = l, r
			owners++
		}
		return nil
	})
	switch {
	case err != nil:
		return Live{}, nil, store.Error(doing, err)
	case owners == 0:
		if into, err := view.mergedInto(s, id); err != nil || into != "" {
			return Live{}, nil, cmp.Or(store.Error(doing, err), error(&fault.Error{
				Kind: fault.ErrNotFound, What: doing, Why: fmt.Sprintf("it was merged into %q", valid.Short(into)), Do: "look that one up",
			}))
		}
		return Live{}, nil, &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "there is none in this scope", Do: "check the ID and the scope"}
	case owners > 1:
		return Live{}, nil, Ambiguous(doing, owners)
	}
	return found, rec, nil
}

// At is the visible version of a memory, false if there is none.
func (view View) At(seq uint64) (Live, bool) {
	if view.Changes != nil {
		if p := view.Changes.BySeq[seq]; p != nil {
			return Live{p.Version, p.Doc, p.Expires}, !p.Dead
		}
	}
	doc := view.Docs.At(seq, view.LSN)
	if doc == doctable.None {
		return Live{}, false
	}
	r := view.Docs.Row(doc)
	return Live{r.Version, doc, r.Expires.Load()}, true
}

// Ambiguous is the error of an ID that several owners have.
func Ambiguous(doing string, owners int) error {
	return &fault.Error{
		Kind: fault.ErrAmbiguous, What: doing, Why: fmt.Sprintf("%d owners have a memory with this ID", owners),
		Do: "give the user and the agent",
	}
}

// Vector reads the vector that a version refers to.
func (view View) Vector(v layout.Version, ref layout.VectorRef) ([]float32, error) {
	b, closer, err := view.Reader.Get(view.Keys.Vector(ref.Space, ref.Of(v)))
	if err != nil {
		return nil, store.Error(fmt.Sprintf("read a vector of memory number %d", v.Seq), err)
	}
	vec, err := codec.Floats(b)
	if cerr := closer.Close(); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("read a vector of memory number %d", v.Seq), Cause: err}
	}
	return vec, nil
}

// Access is how often and when a memory was recalled.
func (view View) Access(seq uint64) (a layout.Access) {
	a = view.Docs.Access(seq)
	if view.Changes != nil {
		if p := view.Changes.BySeq[seq]; p != nil {
			a = a.Fold(p.Access) // of an import that is not in the tables yet
		}
	}
	return a
}

// VectorsLeft are the vectors of a version that can be read, by the names of their spaces.
func (view View) VectorsLeft(rec *layout.Record, v layout.Version) map[string][]float32 {
	vectors := map[string][]float32{}
	for _, ref := range rec.Vectors {
		vec, err := view.Vector(v, ref)
		if s := view.SpaceNumbered(ref.Space); err == nil && s != nil {
			vectors[s.Name] = vec
		}
	}
	return vectors
}
