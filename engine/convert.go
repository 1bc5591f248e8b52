package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/onefile"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	doingConvert = "convert "
	// convertingSuffix is at the end of the name of a folder until it is whole.
	convertingSuffix = ".converting"
)

// Converted is what [Convert] has made.
type Converted struct {
	// Form is that of the new database, Memories how many are alive in it, and Bytes what its file,
	// or all files of its folder, take.
	Form     Form
	Memories int
	Bytes    int64
}

// Convert makes a database in one file of one in a folder, and the other way round. Nothing is lost:
// every key of the store is in both, with histories, vectors, indexes and the log of changes. Indexes
// of vectors are linked anew where they lay in files of their own. The database from must not be open,
// and stays as it is. to must not exist, unless an interrupted conversion of the same database made it, which this
// one finishes. The new database keeps the ID and begins a timeline of its own, as a restored one does.
//
// It returns ErrExists where to exists, ErrNotDatabase where from holds no database, ErrLocked where
// it is open, ErrInvalid for the name of a folder that ends with [FileSuffix], ErrFull for a file
// beyond o.MaxFileBytes, ErrCorrupt where from is damaged. Of the options only those of an opening
// count: MaxFileBytes, DiskReserve, MemoryBudget, Logger and Clock.
func Convert(ctx context.Context, from, to string, o *Options) (c Converted, err error) {
	if o == nil {
		o = &Options{}
	}
	opts := &Options{ReadOnly: true, MaxFileBytes: o.MaxFileBytes, DiskReserve: o.DiskReserve, MemoryBudget: o.MemoryBudget, Logger: o.Logger, Clock: o.Clock}
	source, from := fsys.Named(from)
	files, to := fsys.Named(to)
	taken := unused(files, to)
	if taken != nil && !errors.Is(taken, fault.ErrExists) {
		return c, taken
	}
	unbounded := *opts
	unbounded.MaxFileBytes = store.MostFile // the way out of a file that has become too large
	db, err := openEither(from, &unbounded, &tuning{fs: source, alone: true})
	if err != nil {
		return c, cmp.Or(taken, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if n := db.opening.losses.Count(); n > 0 {
		return c, &fault.Error{Kind: fault.ErrCorrupt, What: doingConvert + from, Why: "some of it cannot be read: run check", Do: store.WayOn}
	}
	co := converting{db: db, files: files, to: to, opts: opts}
	switch {
	case taken != nil:
		if !co.isMade() {
			return c, taken
		}
	case db.Form() == FormFile:
		err = co.toFolder(ctx)
	default:
		err = co.toFile()
	}
	if err != nil {
		if fsys.IsFull(err) && !errors.Is(err, fault.ErrDiskFull) {
			err = &fault.Error{Kind: fault.ErrDiskFull, What: doingConvert + from, Why: "the disk is full", Cause: place.FirstFailure(err), Do: "make room there"}
		}
		return c, fault.Within(doingConvert+from, err)
	}
	if c, err = co.prove(ctx); err == nil && db.apiKeys.lines != nil && co.adopted == 0 {
		err = co.adopt(ctx)
	}
	return c, err
}

// unused refuses a name that something has.
func unused(files vfs.FS, to string) error {
	kind, what, err := fsys.KindOf(files, to)
	if err != nil {
		return fault.Within(doingConvert+"to "+to, err)
	}
	if kind != fsys.Missing {
		return &fault.Error{Kind: fault.ErrExists, What: doingConvert + "to " + to, Why: "it is there: " + what, Do: "name what does not exist; nothing is ever converted over a database"}
	}
	return nil
}

// converting is one conversion.
type converting struct {
	db    *DB // only read
	files vfs.FS
	to    string
	opts  *Options
	// adopted is how many commits gave the new database the keys that an older memdbd kept in a file.
	adopted uint64
}

// isMade reports whether what has the name of the new database is what an interrupted conversion of the same
// source has made, and nobody has written to since.
func (co *converting) isMade() bool {
	made, err := openEither(co.to, co.opts, &tuning{fs: co.files})
	if err != nil {
		return false
	}
	id, source := *made.identity, Origin{Timeline: shipping.Timeline(co.db.store).String(), LSN: co.db.LSN()}
	co.adopted = made.LSN() - source.LSN
	err = made.Close()
	if made.Form() == FormFolder { // the lock of the conversion is beside it, which goes with who closes it
		if held, lerr := place.LockFile(co.files, co.to, co.db.clock(), false); lerr == nil {
			err = errors.Join(err, held.Close())
		}
	}
	return err == nil && id.Parent != nil && *id.Parent == source &&
		(co.adopted == 0 || co.adopted == 1 && co.db.apiKeys.lines != nil)
}

// identity is memdb.json of the new database.
func (co *converting) identity() (content []byte, timeline uuid.UUID, err error) {
	if timeline, err = uuid.NewRandom(); err != nil {
		return nil, timeline, err
	}
	id := *co.db.identity
	id.Parent = &Origin{Timeline: shipping.Timeline(co.db.store).String(), LSN: co.db.LSN()}
	id.Timeline, id.Created, id.Replica, id.Logged = timeline.String(), true, false, false
	if co.db.apiKeys.broken != nil && id.KeysSince == nil {
		now := co.db.clock().UTC()
		id.KeysSince = &now
	}
	content, err = id.Encode()
	return content, timeline, err
}

// scan reads what the new store has: all of the old one, with the identity of the new.
func (co *converting) scan(identity []byte) onefile.Scan {
	return func(lower, upper []byte, visit func(key, value []byte) error) error {
		snap := co.db.store.NewSnapshot()
		err := kv.Scan(snap, lower, upper, func(key, value []byte) error {
			switch string(key) {
			case string(layout.IdentityKey):
				value = identity
			case string(layout.NumberKey), string(layout.LogMarkKey): // of batches that are not handed on from here
				return nil
			}
			return visit(key, value)
		})
		return errors.Join(err, snap.Close())
	}
}

func (co *converting) toFile() error {
	identity, timeline, err := co.identity()
	if err != nil {
		return err
	}
	if err := place.MayBeThere(co.files, co.to, false); err != nil {
		return err
	}
	held, err := place.LockFile(co.files, co.to, co.db.clock(), false)
	if err != nil {
		return err
	}
	head := onefile.Head{Number: 1, LSN: co.db.LSN(), Timeline: timeline, Identity: identity}
	c := store.FileConfig{Files: co.files, Path: co.to, Limit: co.opts.MaxFileBytes, Reserve: co.opts.DiskReserve, Log: co.db.logger}
	_, err = store.WriteFile(c, co.scan(identity), head)
	return errors.Join(err, held.Close())
}

func (co *converting) toFolder(ctx context.Context) (err error) {
	if err := place.InFolder(doingConvert+"to "+co.to, co.to); err != nil {
		return err
	}
	held, err := place.LockFile(co.files, co.to, co.db.clock(), false) // against another conversion
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	folder := co.to + convertingSuffix
	if err := co.removeLeft(folder); err != nil {
		return err
	}
	if err := place.MakeDir(co.files, folder); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, co.files.RemoveAll(folder))
		}
	}()
	identity, timeline, err := co.identity()
	if err != nil {
		return err
	}
	db, _ := newDB(folder, &Options{MemoryBudget: co.opts.MemoryBudget, DiskReserve: co.opts.DiskReserve, Logger: co.opts.Logger}, &tuning{fs: co.files})
	if err := db.store.Open(false, store.Timeline(timeline)); err != nil {
		return err
	}
	err = db.store.Ingest(func(visit func(key, value []byte) error) error {
		return co.scan(identity)(nil, nil, func(key, value []byte) error { return cmp.Or(ctx.Err(), visit(key, value)) })
	})
	if err == nil { // a log that holds something, so that the mark counts it
		err = db.store.Set(layout.IdentityKey, identity, pebble.Sync)
	}
	if err == nil {
		db.store.Reached(co.db.LSN())
	}
	if err = errors.Join(err, db.store.Failed(), db.store.Close()); err != nil {
		return err
	}
	if err := place.WriteFile(co.files, folder, identity); err != nil {
		return err
	}
	if err := cmp.Or(ctx.Err(), unused(co.files, co.to)); err != nil {
		return err
	}
	if err := co.files.Rename(folder, co.to); err != nil {
		return err
	}
	return fsys.SyncDir(co.files, co.files.PathDir(co.to))
}

// removeLeft removes what an interrupted conversion left: a folder in which nothing but a database is.
func (co *converting) removeLeft(folder string) error {
	kind, _, err := fsys.KindOf(co.files, folder)
	if err != nil || kind == fsys.Missing {
		return err
	}
	var names []string
	if kind == fsys.IsFolder {
		if names, err = co.files.List(folder); err != nil {
			return err
		}
	}
	if kind != fsys.IsFolder || slices.ContainsFunc(names, isForeign) {
		return &fault.Error{Kind: fault.ErrExists, What: "make " + folder, Why: "it is there, and no interrupted conversion has left it", Do: "move it elsewhere, and try again"}
	}
	return co.files.RemoveAll(folder)
}

// isForeign reports whether a name is of nothing that a conversion makes in a folder.
func isForeign(name string) bool {
	return name != store.Dir && !strings.HasPrefix(name, "memdb.") && !strings.HasPrefix(name, "ingested-")
}

// prove opens what was made, without changing it.
func (co *converting) prove(ctx context.Context) (c Converted, err error) {
	made, err := openEither(co.to, co.opts, &tuning{fs: co.files})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, made.Close()) }()
	all := memory.ListQuery{AllScopes: true}
	if c.Memories, err = made.Memories().Count(ctx, all); err != nil {
		return c, err
	}
	were, err := co.db.Memories().Count(ctx, all)
	if err != nil {
		return c, err
	}
	if were != c.Memories || made.LSN() != co.db.LSN()+co.adopted || made.opening.losses.Count() > 0 {
		return c, &fault.Error{Kind: fault.ErrCorrupt, What: doingConvert + "to " + co.to, Why: "what was made is not what was read", Do: "remove it, and try again"}
	}
	files, err := made.files()
	c.Form, c.Bytes = made.Form(), files.Sum()
	return c, err
}

// adopt gives the new database the keys that an older memdbd kept in a file.
func (co *converting) adopt(ctx context.Context) error {
	made, err := openEither(co.to, &Options{MaxFileBytes: co.opts.MaxFileBytes, DiskReserve: co.opts.DiskReserve, Clock: co.opts.Clock}, &tuning{fs: co.files})
	if err != nil {
		return err
	}
	return errors.Join(made.APIKeys().Adopt(ctx, co.db.apiKeys.lines), made.Close())
}
