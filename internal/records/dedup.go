package records

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// dedupText is what a record has in common with its duplicates: its text, or the name of a
// note. It is empty where the record has none.
func dedupText(r *layout.Record) string {
	switch state.Kinds[r.Kind] {
	case memory.KindMessage, memory.KindFragment, memory.KindFact:
		return r.Text
	case memory.KindNote:
		return r.Name
	}
	return ""
}

// dedupOf is the key of a record but for the hash.
func dedupOf(ks *layout.Keys, r *layout.Record, owner, run uint32) layout.DedupKey {
	d := layout.DedupKey{Owner: owner}
	switch state.Kinds[r.Kind] {
	case memory.KindFact:
		d.Class, d.Run = layout.DedupFact, run
	case memory.KindNote:
		d.Class = layout.DedupNote
	default:
		d.Class = layout.DedupContent
		if ks.DedupByHash() || r.Scope.User == "" && r.Scope.Agent == "" {
			d.Run = run
		}
	}
	return d
}

// DedupKeyOf is the key of a record, false where it has no duplicates.
func DedupKeyOf(ks *layout.Keys, r *layout.Record, owner, run uint32) (layout.DedupKey, bool) {
	d := dedupOf(ks, r, owner, run)
	d.Hash = contentHash(dedupText(r))
	return d, dedupText(r) != ""
}

// hashContent computes the hash, which depends on no numbers, before the lock is taken.
func (p *Prepared) hashContent() {
	if of := dedupText(&p.Rec); of != "" && p.content == nil {
		h := contentHash(of)
		p.content = &h
	}
}

// dedupKey is dedupKeyOf of the record.
func (p *Prepared) dedupKey(ks *layout.Keys, owner, run uint32) (layout.DedupKey, bool) {
	p.hashContent()
	if p.content == nil {
		return layout.DedupKey{}, false
	}
	d := dedupOf(ks, &p.Rec, owner, run)
	d.Hash = *p.content
	return d, true
}

func contentHash(s string) (h [layout.HashSize]byte) {
	sum := TextSum(s)
	copy(h[:], sum[:])
	return h
}

// sameKeyed reports whether two records of the same key are indeed the same.
func sameKeyed(d layout.DedupKey, a, b *layout.Record) bool {
	if d.Class == layout.DedupNote {
		return a.Name == b.Name
	}
	return a.Text == b.Text
}

// findDuplicate is the living memory of the lowest Seq that a new one is a duplicate of,
// nil where there is none.
func (w *Writer) findDuplicate(p *Prepared, owner uint32) (*duplicate, error) {
	d, ok, err := w.dedupKeyFor(p, owner)
	if !ok || err != nil {
		return nil, err
	}
	if !w.Seen.MayHold(w.Keys.DedupAnyRun(d)) {
		return nil, nil
	}
	prefix, anyRun := w.Keys.DedupPrefix(d), d.Class == layout.DedupNote || w.anyRun(&p.Rec, d)
	if anyRun {
		prefix = w.Keys.DedupAnyRun(d)
	}
	var found *duplicate
	var over overCopies
	err = kv.Scan(w.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
		seq := binary.BigEndian.Uint64(key[len(key)-8:])
		l, alive := w.At(seq)
		switch {
		case !alive:
			over.add(l, alive, key)
			return nil
		case found != nil && found.Seq < seq:
			return nil
		}
		old, err := w.Record(l.Version)
		switch {
		case err != nil || !sameKeyed(d, &p.Rec, old) || !anyRun && old.Scope.Run != p.Rec.Scope.Run:
			return err
		case l.Expired(w.Now):
			over.add(l, alive, key)
			return nil
		}
		if found = (&duplicate{l, old}); !anyRun {
			return kv.ErrStop // the keys of a run are in the order of their Seq
		}
		return nil
	})
	if err != nil && !errors.Is(err, kv.ErrStop) {
		return nil, store.Error("look for a duplicate", err)
	}
	if found != nil {
		if err := found.conflict(&p.Rec); err != nil {
			return nil, err // a store that is refused changes nothing
		}
	}
	return found, w.dropOver(over)
}

// MostOver bounds how many copies that are over, of either kind, are dropped by one look
// for a duplicate: each leaves fewer for the next, and none waits long for it.
const MostOver = 16

// overCopies are what dedup keys name that is dead, or has expired.
type overCopies struct {
	dead    [][]byte // keys
	expired []Live
}

func (o *overCopies) add(l Live, alive bool, key []byte) {
	switch {
	case alive && len(o.expired) < MostOver:
		o.expired = append(o.expired, l)
	case !alive && len(o.dead) < MostOver:
		o.dead = append(o.dead, slices.Clone(key))
	}
}

// dropOver drops copies that are over, so that a text which comes again and again, and
// expires each time, is not looked for among all that there were. Of what is dead the key
// would go with the rest, which has to wait while a reader sees it.
func (w *Writer) dropOver(o overCopies) error {
	for _, key := range o.dead {
		if err := w.Delete(key); err != nil {
			return err
		}
	}
	for _, l := range o.expired {
		if err := w.Remove(l, nil); err != nil {
			return err
		}
	}
	return nil
}

// duplicate is a memory that another one is the same as.
type duplicate struct {
	Live
	rec *layout.Record
}

// conflict refuses a note under a name that has another text.
func (d *duplicate) conflict(r *layout.Record) error {
	if state.Kinds[r.Kind] != memory.KindNote || d.rec.Text == r.Text {
		return nil
	}
	return &fault.Error{
		Kind: fault.ErrExists, What: fmt.Sprintf("store note %q", valid.Short(r.Name)), Why: "there is one of that name with another text",
		Do: "update memory " + d.rec.ID + ", or choose another name",
	}
}

// anyRun reports whether duplicates are looked for in every run of the owner.
func (w *Writer) anyRun(r *layout.Record, d layout.DedupKey) bool {
	return w.Dedup == DedupOwner && d.Class == layout.DedupContent && (r.Scope.User != "" || r.Scope.Agent != "")
}

// dedupKeyFor is the key by which a memory that is to be stored finds another one, false
// where it is stored in any case: without a text, or when it has expired already.
func (w *Writer) dedupKeyFor(p *Prepared, owner uint32) (layout.DedupKey, bool, error) {
	if w.Dedup == DedupNone || p.Rec.Expires != 0 && p.Rec.Expires <= w.Now {
		return layout.DedupKey{}, false, nil
	}
	run := uint32(0)
	if p.Rec.Scope.Run != "" {
		var known bool
		var err error
		if run, known, err = w.Lookup(layout.Name{Class: layout.NameRun, Text: p.Rec.Scope.Run}); err != nil {
			return layout.DedupKey{}, false, err
		}
		if !known {
			run = math.MaxUint32 // no run has this number
		}
	}
	d, ok := p.dedupKey(w.Keys, owner, run)
	return d, ok, nil
}

// storeDuplicate answers a store with the memory that is there, which takes the later
// expiry, the pin and the higher importance of the two: what the caller asked to be kept
// is kept. It ages from now on: see DB.renew.
func (w *Writer) storeDuplicate(p *Prepared, d *duplicate) (memory.Stored, error) {
	if p.Rec.Created > d.rec.Created {
		w.Touches.Renew(d.Seq, min(p.Rec.Created, w.Now))
	}
	stored := memory.Stored{ID: d.rec.ID, Seq: d.Seq, Deduplicated: true}
	patch, differs := memory.Patch{}, false
	if d.rec.Expires != 0 && (p.Rec.Expires == 0 || p.Rec.Expires > d.rec.Expires) {
		patch.ExpiresAt, differs = new(clock.FromMillis(p.Rec.Expires)), true
	}
	if p.Rec.Flags&^d.rec.Flags&layout.FlagPinned != 0 {
		patch.Pinned, differs = new(true), true
	}
	if p.Rec.Importance > d.rec.Importance {
		patch.Importance, differs = new(p.Rec.Importance), true
	}
	if !differs {
		return stored, nil
	}
	stored.Updated = true
	// The text is one that has been analysed: there is nothing to be interrupted.
	_, err := w.Patch(context.Background(), DoingStore, d.Live, d.rec, &patch, Made{})
	return stored, err
}

// renamed reports whether a change of a memory makes it a note of another name.
func (p *Prepared) renamed(old *layout.Record) bool {
	return state.Kinds[p.Rec.Kind] == memory.KindNote && p.Rec.Name != "" && (p.Rec.Name != old.Name || p.Rec.Kind != old.Kind)
}

// nameFree refuses a note whose name another note of its owner has, since a name
// addresses one. self is the Seq of the memory that changes, 0 of a new one.
func (w *Writer) nameFree(p *Prepared, owner uint32, self uint64) error {
	d, ok := p.dedupKey(w.Keys, owner, 0)
	if !ok || d.Class != layout.DedupNote || w.Dedup == DedupNone {
		return nil
	}
	prefix := w.Keys.DedupPrefix(d)
	if !w.Seen.MayHold(w.Keys.DedupAnyRun(d)) {
		return nil
	}
	doing := fmt.Sprintf("name a note %q", valid.Short(p.Rec.Name))
	err := kv.Scan(w.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
		seq := binary.BigEndian.Uint64(key[len(prefix):])
		l, alive := w.At(seq)
		if seq == self || !alive || l.Expired(w.Now) {
			return nil
		}
		old, err := w.Record(l.Version)
		if err != nil || !sameKeyed(d, &p.Rec, old) {
			return err
		}
		return &fault.Error{
			Kind: fault.ErrExists, What: doing, Why: "memory " + valid.Short(old.ID) + " has that name",
			Do: "update or rename that one, or choose another name",
		}
	})
	return store.Error(doing, err)
}

// TextSum is the SHA-256 of a text, which it does not copy.
func TextSum(text string) [sha256.Size]byte {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text)))
}

// TextHash is what the hash of a memory is: TextSum in hex.
func TextHash(text string) string {
	sum := TextSum(text)
	return hex.EncodeToString(sum[:])
}
