package replication

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// followed is a store in a folder that is made of the batches of another database alone. One goroutine
// feeds it; others take states of it that are between two frames.
type followed struct {
	dir   string
	base  vfs.FS
	store *store.Store
	id    *place.Identity // nil until a batch has brought it
	// database is the ID of the one that is followed, empty until it is known.
	database string
	// lazy: what is applied is synced by others.
	lazy bool
	// erased: an erasure has ended, and the files of the replica still have what is gone, see purge.go.
	erased bool
	// lsn and time are those of the newest commit whose frame said so, 0 if none did.
	lsn  uint64
	time int64

	marked time.Time // when the mark was written
	// mu is held while a frame is applied.
	mu sync.Mutex
	at wal.Position // changed by the goroutine that feeds, with mu
}

// newFollowed makes an empty store in a folder that holds nothing else, for a timeline.
func newFollowed(h Host, base vfs.FS, dir string, t wal.Timeline) (*followed, error) {
	if err := place.MakeDir(base, dir); err != nil {
		return nil, err
	}
	f := &followed{dir: dir, base: base, store: h.Store(base, dir)}
	if err := f.store.Open(false, store.Timeline(t)); err != nil {
		return nil, err
	}
	return f, nil
}

// openFollowed opens the store of a replica.
func openFollowed(h Host, base vfs.FS, dir string, id *place.Identity) (*followed, error) {
	t, err := wal.ParseTimeline(id.Timeline)
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: doingReplica(dir), Why: place.Name + " holds no timeline", Cause: err, Do: beginAgain}
	}
	f := &followed{dir: dir, base: base, store: h.Store(base, dir)}
	if err := f.store.Open(true, store.Timeline(t)); err != nil {
		return nil, err
	}
	n, err := f.store.Number()
	if err == nil && n == 0 {
		err = &fault.Error{Kind: fault.ErrNotRetained, What: doingReplica(dir), Why: "its store does not tell how far it has followed", Cause: wal.ErrGap, Do: beginAgain}
	}
	f.at = wal.Position{Timeline: t, Number: n}
	if err == nil {
		err = f.identify()
	}
	if err == nil {
		err = f.readErased()
	}
	if err != nil {
		return nil, errors.Join(err, f.store.Close())
	}
	return f, nil
}

// beginAgain is what helps a replica that cannot go on.
const beginAgain = "begin again from a base: ReplicaOptions.BeginAgain, or memdbctl replica --begin-again"

func doingReplica(dir string) string { return "follow into " + dir }

// identityIn is the identity that a store holds.
func identityIn(st *store.Store, dir string) (*place.Identity, error) {
	b, err := place.CopyIn(st)
	if err != nil {
		return nil, err
	}
	id, err := place.Decode(b)
	if err != nil {
		err = &fault.Error{Kind: fault.ErrCorrupt, What: doingReplica(dir), Why: "the identity of the database is damaged", Cause: err, Do: beginAgain}
	}
	return id, err
}

// identify takes the identity that the store holds, and writes memdb.json where that says another.
func (f *followed) identify() error {
	id, err := identityIn(f.store, f.dir)
	if err != nil {
		return err
	}
	id.Replica, id.Created, id.Timeline = true, true, wal.Timeline(f.store.Timeline()).String()
	want, err := id.Encode()
	if err != nil {
		return err
	}
	if has, err := place.ReadFile(f.base, f.dir); err == nil && bytes.Equal(has, want) {
		f.id, f.database = id, id.Settings.ID
		return nil
	}
	if err := place.WriteFile(f.store.FS, f.dir, want); err != nil {
		return fault.Within(doingReplica(f.dir), err)
	}
	f.id, f.database = id, id.Settings.ID
	return f.store.Failed()
}

// take applies a frame, durably unless it is a part of a base. A frame that it has already, it passes
// over; one that does not follow, or is damaged, it refuses, and applies nothing of it.
func (f *followed) take(frame *wal.Frame) error {
	if frame.Kind == wal.Batches && frame.Timeline == f.at.Timeline && f.at.Parts == 0 {
		if frame.Last <= f.at.Number {
			return nil
		}
		frame.Behind(f.at.Number)
	}
	if !frame.Follows(f.at) {
		return f.gap(frame)
	}
	identified, erased, err := f.prove(frame)
	if err != nil {
		return fault.Within(doingReplica(f.dir), err)
	}
	size := 0
	for _, b := range frame.Batches {
		size += len(b)
	}
	if err := f.store.Admit(doingReplica(f.dir), size); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.store.Follow(frame.Batches, frame.Kind != wal.Base && !f.lazy); err != nil {
		return err
	}
	if erased {
		if err := f.noteErased(); err != nil {
			return err
		}
	}
	f.at = frame.After()
	if frame.LSN > f.lsn {
		f.lsn, f.time = frame.LSN, frame.Time
	}
	if frame.Kind == wal.BaseEnd {
		if n, err := f.store.Number(); err != nil || n != frame.First {
			return errors.Join(err, &fault.Error{Kind: fault.ErrCorrupt, What: doingReplica(f.dir), Why: "a base ends without its number", Do: beginAgain})
		}
		identified = true
	}
	if identified && f.at.Parts == 0 {
		err = f.identify()
	}
	return errors.Join(err, f.mark())
}

// gap says why a frame does not follow.
func (f *followed) gap(frame *wal.Frame) error {
	e := &fault.Error{Kind: fault.ErrNotRetained, What: doingReplica(f.dir), Cause: wal.ErrGap, Do: beginAgain}
	switch known := f.at.Timeline != (wal.Timeline{}); {
	case known && frame.Timeline != f.at.Timeline:
		e.Kind = fault.ErrMismatch
		e.Why = fmt.Sprintf("a frame is of the timeline %s, and this replica is of %s", frame.Timeline, f.at.Timeline)
	case frame.Kind != wal.Batches:
		e.Why = fmt.Sprintf("a part of the base %d came out of its order, behind batch %d", frame.First, f.at.Number)
	default:
		e.Why = fmt.Sprintf("batch %d came, and batch %d is the last that is there", frame.First, f.at.Number)
	}
	return e
}

// prove looks through a frame before anything of it is applied, and reports whether it brings an identity.
func (f *followed) prove(frame *wal.Frame) (identified, erased bool, err error) {
	for i, repr := range frame.Batches {
		changes := uint32(0)
		err := shipping.Changes(repr, func(c shipping.Change) error {
			switch c.Kind {
			case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindMerge, pebble.InternalKeyKindRangeDelete, pebble.InternalKeyKindSingleDelete:
				changes++
			case pebble.InternalKeyKindLogData:
			default:
				return damagedBatch(fmt.Sprintf("a change of the kind %d", c.Kind))
			}
			erased = erased || c.Erases()
			if c.Kind != pebble.InternalKeyKindSet || !bytes.Equal(c.Key, layout.IdentityKey) {
				return nil
			}
			identified = true
			return f.knows(c.Value)
		})
		if err != nil {
			return false, false, err
		}
		if h, _ := batchrepr.ReadHeader(repr); h.Count != changes {
			return false, false, damagedBatch(fmt.Sprintf("it has %d changes, and says %d", changes, h.Count))
		}
		if n := frame.First + uint64(i); frame.Kind == wal.Batches && f.store.NumberOf(repr) != n {
			return false, false, damagedBatch(fmt.Sprintf("it is not the batch %d of the timeline %s", n, frame.Timeline))
		}
	}
	return identified, erased, nil
}

func damagedBatch(why string) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read a batch of changes", Why: why, Do: beginAgain}
}

// knows refuses an identity that this memdb cannot follow.
func (f *followed) knows(b []byte) error {
	id, err := place.Decode(b)
	switch {
	case err != nil:
		return damagedBatch("the identity of the database is damaged: " + err.Error())
	case id.Layout > place.Layout:
		return &fault.Error{
			Kind: fault.ErrNewerLayout, What: doingReplica(f.dir), Why: fmt.Sprintf("its database has the layout %d, this memdb knows %d", id.Layout, place.Layout),
			Do: "use a newer memdb",
		}
	case f.database != "" && f.database != id.Settings.ID:
		return &fault.Error{
			Kind: fault.ErrMismatch, What: doingReplica(f.dir), Why: "what came is of the database " + id.Settings.ID + ", and this replica is of " + f.database,
			Do: "give each database a folder of its own",
		}
	}
	return nil
}

// markEvery is how often it is written down how much of the store is on disk: damage that takes what was applied
// longer ago is noticed.
const markEvery = time.Second

// mark writes down, now and then, what of the store is on disk.
func (f *followed) mark() error {
	now := clock.System()
	if now.Sub(f.marked) < markEvery {
		return nil
	}
	f.marked = now
	return f.store.MarkLogs()
}

// whole reports whether the store can be opened: it is within no base, and says of which database it is.
func (f *followed) whole() bool { return f.at.Number > 0 && f.at.Parts == 0 && f.id != nil }

// newest is the store as it is between two frames, and how far that is. The store that it returns is to
// be closed.
func (f *followed) newest() (*store.Store, wal.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.store.Frozen(f.store.NewSnapshot()), f.at
}

func (f *followed) close() error {
	f.store.Ending()
	defer f.store.WatchStall()()
	return f.store.Close()
}
