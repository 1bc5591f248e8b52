package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// lockPoll is how often a database that is held by another program is tried.
const lockPoll = 50 * time.Millisecond

// readWait is how long a verb that only reads waits for such a database, unless --wait is given:
// who holds it may hold it for days.
const readWait = 500 * time.Millisecond

// open opens the database, which is created where there is none, and waits for
// its lock as long as --wait allows.
func (a *app) open(ctx context.Context, o *engine.Options) (*engine.DB, error) {
	plain := o == nil && a.embedder == nil
	if a.shell != nil && a.shell.served {
		return a.useServed(o)
	}
	if a.shell != nil && plain && a.shell.db != nil {
		return a.shell.db, nil
	}
	if o == nil {
		o = &engine.Options{}
	}
	if o.Embedder == nil {
		o.Embedder = a.embedder
	}
	if a.shell != nil && a.shell.db != nil && opensAlike(o, a.shell.db) {
		return a.shell.db, nil
	}
	if a.shell != nil { // one that is opened otherwise is held beside no other
		if err := a.shell.close(); err != nil {
			return nil, err
		}
	}
	most, err := a.maxFile()
	if err != nil {
		return nil, err
	}
	o.Clock, o.Salvage, o.MaxFileBytes = a.now, a.salvage, most
	if of := o.EmbedderOf; of != nil && a.shell != nil {
		o.EmbedderOf = func(m engine.VectorModel) embed.Embedder {
			e := of(m)
			plain = e == nil && o.Extractor == nil && !o.ReadOnly
			return e
		}
	}
	for waited := time.Duration(0); ; waited += lockPoll {
		db, err := engine.Open(a.dir, o)
		if errors.Is(err, fs.ErrExist) {
			err = cmp.Or(a.dangling(), err)
		}
		if !errors.Is(err, memory.ErrLocked) || waited >= a.wait {
			if err == nil && db.Salvaged() != "" {
				a.warn("%s was salvaged: %s; damaged files are kept, with .damaged at the end of their names", a.dir, db.Salvaged())
			}
			if err == nil {
				a.tellWide()
			}
			if err == nil && plain && a.shell != nil {
				a.shell.db = db
			}
			return db, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// opensAlike reports whether a database that is open without options is as it would be with them:
// they name no embedder for it.
func opensAlike(o *engine.Options, db *engine.DB) bool {
	return o.EmbedderOf != nil && o.Embedder == nil && o.Extractor == nil && !o.ReadOnly && o.EmbedderOf(db.VectorModel()) == nil
}

// tellWide warns of a folder that others may enter: memdb narrows none that it has not made. A file
// is as narrow as memdb makes it from its first commit on.
func (a *app) tellWide() {
	if info, err := os.Stat(a.dir); err != nil || !info.IsDir() {
		return
	}
	if mode, wide := fsys.Wide(fsys.Disk, a.dir); wide {
		a.warn("%s can be entered by others than its owner (mode %04o): chmod 700 %s", a.dir, mode, a.dir)
	}
}

// use calls fn with the database that is there, and closes it.
func (a *app) use(ctx context.Context, fn func(*engine.DB) error) error {
	if err := a.exists(); err != nil {
		return err
	}
	return a.create(ctx, nil, fn)
}

// read is use for verbs that change nothing: they work also on a full disk, and in a folder
// that cannot be written.
func (a *app) read(ctx context.Context, fn func(*engine.DB) error) error {
	return a.readWith(ctx, func(o *engine.Options) *engine.Options { return o }, fn)
}

// readWith is read, with options that set makes of those for the opening.
func (a *app) readWith(ctx context.Context, set func(*engine.Options) *engine.Options, fn func(*engine.DB) error) error {
	a.unreadable.reads = true
	if err := a.exists(); err != nil {
		return err
	}
	if !a.waits {
		a.wait = readWait
	}
	db, err := a.open(ctx, set(nil))
	if errors.Is(err, memory.ErrDiskFull) {
		if db, err = a.open(ctx, set(&engine.Options{ReadOnly: true})); err == nil {
			a.note("%s: the disk is full, so the database is opened to be read only, and recalls are not counted; make room on the disk", a.dir)
		}
	}
	if errors.Is(err, memory.ErrLocked) && a.inOneFile() && !a.follows {
		locked, _ := errors.AsType[*memory.Error](err)
		if db, err = a.open(ctx, set(&engine.Options{ReadOnly: true})); err == nil {
			a.note("%s; so its last commit is read, and recalls are not counted", locked.Why)
		}
	}
	if errors.Is(err, memory.ErrReadOnly) {
		why := "its folder cannot be written"
		if of, ok := errors.AsType[*memory.Error](err); ok {
			why = of.Why
		}
		if db, err = a.open(ctx, set(&engine.Options{ReadOnly: true})); err == nil {
			a.note("%s: %s; so the database is opened to be read only, and recalls are not counted", a.dir, why)
		}
	}
	if err != nil {
		return err
	}
	return a.closing(db, fn(db))
}

// exists refuses a folder without a database.
func (a *app) exists() error {
	if a.shell != nil && a.shell.served {
		return nil
	}
	there, err := engine.Exists(a.dir)
	if a.salvage && errors.Is(err, memory.ErrCorrupt) {
		return nil // opening mends it, or says why not
	}
	if err != nil || there {
		return err
	}
	why := "there is no database in this folder"
	if strings.HasSuffix(a.dir, engine.FileSuffix) {
		why = "there is no such file"
	}
	return cmp.Or(a.dangling(), error(&memory.Error{
		Kind: memory.ErrNotDatabase, What: "open " + a.dir, Why: why,
		Do: "store or import something, or try: memdbctl demo",
	}))
}

// inOneFile reports whether the database is in one file, of which the last commit can be read beside its holder.
func (a *app) inOneFile() bool {
	info, err := os.Lstat(a.dir)
	return err == nil && info.Mode().IsRegular()
}

// dangling is the error of a folder that is a link to none, nil for any other.
func (a *app) dangling() error {
	if _, err := os.Readlink(a.dir); err != nil {
		return nil
	}
	if _, err := os.Stat(a.dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &memory.Error{
		Kind: memory.ErrNotDatabase, What: "open " + a.dir, Why: "it is a link to a folder that does not exist",
		Do: "make that folder, or name another",
	}
}

// create is use for verbs that make a database where there is none.
func (a *app) create(ctx context.Context, o *engine.Options, fn func(*engine.DB) error) error {
	db, err := a.open(ctx, o)
	if err != nil {
		return err
	}
	return a.closing(db, a.once(ctx, db, fn))
}

// createAs is create for data that wants settings. A database that holds memories
// and has others goes on with those, and what is lost is said.
func (a *app) createAs(ctx context.Context, o *engine.Options, lost string, fn func(*engine.DB) error) error {
	db, err := a.open(ctx, o)
	if errors.Is(err, memory.ErrMismatch) {
		if db, err = a.open(ctx, nil); err == nil && lost != "" {
			a.warn("%s: the database has memories and indexes other fields; %s will not be searched; to search them, import into a new database", a.dir, lost)
		}
	}
	if err != nil {
		return err
	}
	return a.closing(db, fn(db))
}

// closing closes the database, unless a shell keeps it, and notes what it has lost. The error counts only where there
// is no other: what was acknowledged before is on disk in any case.
func (a *app) closing(db *engine.DB, err error) error {
	a.unreadable.beside(db.Damage())
	if a.shell != nil && a.shell.keeps(db) {
		return err
	}
	if failed := db.Close(); err == nil && failed != nil {
		return fmt.Errorf("close the database: %w", failed)
	}
	return err
}
