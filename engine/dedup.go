package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

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

// dedupKeyOf is the key of a record, false where it has no duplicates.
func dedupKeyOf(ks *layout.Keys, r *layout.Record, owner, run uint32) (layout.DedupKey, bool) {
	d := dedupOf(ks, r, owner, run)
	d.Hash = contentHash(dedupText(r))
	return d, dedupText(r) != ""
}

// hashContent computes the hash, which depends on no numbers, before the lock is taken.
func (p *prepared) hashContent() {
	if of := dedupText(&p.rec); of != "" && p.content == nil {
		h := contentHash(of)
		p.content = &h
	}
}

// dedupKey is dedupKeyOf of the record.
func (p *prepared) dedupKey(ks *layout.Keys, owner, run uint32) (layout.DedupKey, bool) {
	p.hashContent()
	if p.content == nil {
		return layout.DedupKey{}, false
	}
	d := dedupOf(ks, &p.rec, owner, run)
	d.Hash = *p.content
	return d, true
}

func contentHash(s string) (h [layout.HashSize]byte) {
	sum := textSum(s)
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
func (tx *Tx) findDuplicate(p *prepared, owner uint32) (*duplicate, error) {
	d, ok, err := tx.dedupKeyFor(p, owner)
	if !ok || err != nil {
		return nil, err
	}
	if !tx.db.writer.written.mayHold(tx.state.Keys.DedupAnyRun(d)) {
		return nil, nil
	}
	prefix, anyRun := tx.state.Keys.DedupPrefix(d), d.Class == layout.DedupNote || tx.anyRun(&p.rec, d)
	if anyRun {
		prefix = tx.state.Keys.DedupAnyRun(d)
	}
	var found *duplicate
	var over overCopies
	err = kv.Scan(tx.state.Reader, prefix, layout.PrefixEnd(prefix), func(key, _ []byte) error {
		seq := binary.BigEndian.Uint64(key[len(key)-8:])
		l, alive := tx.at(seq)
		switch {
		case !alive:
			over.add(l, alive, key)
			return nil
		case found != nil && found.Seq < seq:
			return nil
		}
		old, err := tx.state.Record(l.Version)
		switch {
		case err != nil || !sameKeyed(d, &p.rec, old) || !anyRun && old.Scope.Run != p.rec.Scope.Run:
			return err
		case l.expired(tx.state.Now):
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
		if err := found.conflict(&p.rec); err != nil {
			return nil, err // a store that is refused changes nothing
		}
	}
	return found, tx.dropOver(over)
}

// mostOver bounds how many copies that are over, of either kind, are dropped by one look
// for a duplicate: each leaves fewer for the next, and none waits long for it.
const mostOver = 16

// overCopies are what dedup keys name that is dead, or has expired.
type overCopies struct {
	dead    [][]byte // keys
	expired []live
}

func (o *overCopies) add(l live, alive bool, key []byte) {
	switch {
	case alive && len(o.expired) < mostOver:
		o.expired = append(o.expired, l)
	case !alive && len(o.dead) < mostOver:
		o.dead = append(o.dead, slices.Clone(key))
	}
}

// dropOver drops copies that are over, so that a text which comes again and again, and
// expires each time, is not looked for among all that there were. Of what is dead the key
// would go with the rest, which has to wait while a reader sees it.
func (tx *Tx) dropOver(o overCopies) error {
	for _, key := range o.dead {
		if err := tx.del(key); err != nil {
			return err
		}
	}
	for _, l := range o.expired {
		if err := tx.remove(l, nil); err != nil {
			return err
		}
	}
	return nil
}

// duplicate is a memory that another one is the same as.
type duplicate struct {
	live
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
func (tx *Tx) anyRun(r *layout.Record, d layout.DedupKey) bool {
	return tx.db.dedup == DedupOwner && d.Class == layout.DedupContent && (r.Scope.User != "" || r.Scope.Agent != "")
}

// dedupKeyFor is the key by which a memory that is to be stored finds another one, false
// where it is stored in any case: without a text, or when it has expired already.
func (tx *Tx) dedupKeyFor(p *prepared, owner uint32) (layout.DedupKey, bool, error) {
	if tx.db.dedup == DedupNone || p.rec.Expires != 0 && p.rec.Expires <= tx.state.Now {
		return layout.DedupKey{}, false, nil
	}
	run := uint32(0)
	if p.rec.Scope.Run != "" {
		var known bool
		var err error
		if run, known, err = tx.state.Lookup(layout.Name{Class: layout.NameRun, Text: p.rec.Scope.Run}); err != nil {
			return layout.DedupKey{}, false, err
		}
		if !known {
			run = math.MaxUint32 // no run has this number
		}
	}
	d, ok := p.dedupKey(tx.state.Keys, owner, run)
	return d, ok, nil
}

// storeDuplicate answers a store with the memory that is there, which takes the later
// expiry, the pin and the higher importance of the two: what the caller asked to be kept
// is kept. It ages from now on: see DB.renew.
func (tx *Tx) storeDuplicate(p *prepared, d *duplicate) (memory.Stored, error) {
	if p.rec.Created > d.rec.Created {
		tx.db.renew(d.Seq, min(p.rec.Created, tx.state.Now))
	}
	stored := memory.Stored{ID: d.rec.ID, Seq: d.Seq, Deduplicated: true}
	patch, differs := memory.Patch{}, false
	if d.rec.Expires != 0 && (p.rec.Expires == 0 || p.rec.Expires > d.rec.Expires) {
		patch.ExpiresAt, differs = new(clock.FromMillis(p.rec.Expires)), true
	}
	if p.rec.Flags&^d.rec.Flags&layout.FlagPinned != 0 {
		patch.Pinned, differs = new(true), true
	}
	if p.rec.Importance > d.rec.Importance {
		patch.Importance, differs = new(p.rec.Importance), true
	}
	if !differs {
		return stored, nil
	}
	stored.Updated = true
	// The text is one that has been analysed: there is nothing to be interrupted.
	_, err := tx.patch(context.Background(), doingStore, d.live, d.rec, &patch, made{})
	return stored, err
}
