package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/backup"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

// target is up to where the log is applied: everything, unless an LSN or a time is given.
type target struct {
	lsn  uint64
	time time.Time
}

// has reports whether a commit is a part of what is wanted.
func (t target) has(lsn uint64, at int64) bool {
	return (t.lsn == 0 || lsn <= t.lsn) && (t.time.IsZero() || at <= clock.ToMillis(t.time))
}

// reached reports whether no later commit is a part of it.
func (t target) reached(lsn uint64) bool { return t.lsn != 0 && lsn >= t.lsn }

func (t target) String() string {
	switch {
	case t.lsn != 0:
		return fmt.Sprintf("LSN %d", t.lsn)
	case !t.time.IsZero():
		return t.time.UTC().Format(time.RFC3339Nano)
	}
	return "its end"
}

// replay brings a store to a target by what an archive has behind it.
type replay struct {
	what   string
	to     target
	store  *store.Store
	lsn    uint64          // of the newest commit in the store
	erased bool            // an erasure has ended on the way
	known  uint64          // what comes up to this LSN is there already, 0: nothing is skipped any more
	short  *wal.ShortError // the archive has less than it had, and ended before the target
}

// nearest is the newest base of an archive that is a part of what is wanted, nil if none is. Its number is
// 0 for the first batch of the database.
func nearest(c *folder.Cursor, to target) (*wal.End, error) {
	bases, err := c.Bases()
	if err != nil {
		return nil, err
	}
	var found *wal.End
	for i := range bases {
		if to.has(bases[i].LSN, bases[i].Time) {
			found = &bases[i]
		}
	}
	return found, nil
}

// run applies what follows a position.
func (r *replay) run(ctx context.Context, feed wal.Feed, at wal.Position) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := feed(ctx, at)
		if errors.Is(err, io.EOF) {
			return r.ended(err)
		}
		if errors.Is(err, wal.ErrGap) {
			return r.gap(err)
		}
		if err != nil {
			return err
		}
		if !f.Follows(at) {
			return &fault.Error{Kind: fault.ErrCorrupt, What: r.what, Why: fmt.Sprintf("the archive gives batch %d behind batch %d", f.First, at.Number), Cause: wal.ErrGap, Do: store.WayOn}
		}
		done, err := r.frame(f)
		if err != nil || done {
			return err
		}
		at = f.After()
	}
}

// gap says what the archive lacks. Behind the newest base nothing may be missing.
func (r *replay) gap(err error) error {
	why := "the archive begins behind it"
	if r.lsn > 0 {
		why = fmt.Sprintf("what was written behind LSN %d is not in the archive", r.lsn)
	}
	kind := fault.ErrNotRetained
	if r.to == (target{}) {
		kind = fault.ErrCorrupt
	}
	return &fault.Error{Kind: kind, What: r.what + " to " + r.to.String(), Why: why, Cause: err, Do: fmt.Sprintf("name a target up to LSN %d (--to-lsn), or a repository with a backup that is nearer", r.lsn)}
}

// ended says whether what was wanted is there when the archive has no more.
func (r *replay) ended(end error) error {
	r.short, _ = errors.AsType[*wal.ShortError](end)
	missing := r.to.lsn > r.lsn || r.known > 0
	if !missing && (r.short == nil || r.lsn > 0) {
		return nil
	}
	e := &fault.Error{Kind: fault.ErrNotRetained, What: r.what + " to " + r.to.String(), Why: fmt.Sprintf("the archive ends at LSN %d", r.lsn), Do: "name an LSN up to there"}
	switch {
	case r.short != nil && (r.short.Had.LSN == 0 || r.to.lsn <= r.short.Had.LSN):
		e.Kind, e.Cause = fault.ErrCorrupt, r.short
	case errors.Is(end, wal.ErrTorn):
		e.Why += ", and its last frame cannot be read"
	}
	if r.lsn == 0 {
		e.Do = "name a repository with a backup"
	}
	return e
}

// frame applies a frame, and reports whether the target is reached.
func (r *replay) frame(f *wal.Frame) (done bool, err error) {
	if f.Kind == wal.BaseEnd {
		r.lsn = f.LSN
		return r.to.reached(r.lsn), nil
	}
	if f.Kind == wal.Base {
		return false, r.store.Follow(f.Batches, false)
	}
	if f.Since >= r.known {
		r.known = 0
	}
	for _, repr := range f.Batches {
		if done, err = r.batch(repr); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// batch applies a batch, or the commits of it that are wanted.
func (r *replay) batch(repr []byte) (done bool, err error) {
	changes, keep, newest := 0, 0, r.lsn
	beyond := false
	err = shipping.Changes(repr, func(c shipping.Change) error {
		changes++
		r.erased = r.erased || c.Erases()
		lsn, ok := c.Logged()
		switch {
		case !ok || lsn <= newest: // an older record is rewritten, not a commit
		case beyond || !r.to.has(lsn, layout.LoggedTime(c.Value)):
			beyond = true
		default:
			newest, keep = lsn, changes
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if r.known > 0 {
		r.skip(repr)
		return false, nil
	}
	if beyond {
		if keep == 0 {
			return true, nil
		}
		if repr, err = r.firstOf(repr, keep); err != nil {
			return false, err
		}
	}
	r.lsn = newest
	return beyond || r.to.reached(newest), r.store.Follow([][]byte{repr}, false)
}

// skip passes over a batch that is there already; behind the one with the newest commit all else follows.
func (r *replay) skip(repr []byte) {
	lsn, _ := shipping.NewestCommit(repr)
	if lsn >= r.known {
		r.known = 0
	}
}

// firstOf is a batch of the first changes of another.
func (r *replay) firstOf(repr []byte, n int) (cut []byte, err error) {
	b := r.store.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	err = shipping.Changes(repr, func(c shipping.Change) error {
		if n--; n < 0 {
			return nil
		}
		switch c.Kind {
		case pebble.InternalKeyKindSet:
			return b.Set(c.Key, c.Value, nil)
		case pebble.InternalKeyKindDelete:
			return b.Delete(c.Key, nil)
		case pebble.InternalKeyKindMerge:
			return b.Merge(c.Key, c.Value, nil)
		case pebble.InternalKeyKindLogData: // which is nothing but in the log
			return nil
		case pebble.InternalKeyKindRangeDelete:
			return b.DeleteRange(c.Key, c.Value, nil)
		}
		return &fault.Error{Kind: fault.ErrCorrupt, What: r.what, Why: fmt.Sprintf("a batch has a change of kind %d", c.Kind), Do: "use a newer memdb"}
	})
	return append([]byte(nil), b.Repr()...), err
}

// forward brings what was extracted from a backup, or an empty folder, to the target of the options.
func (re *restoring) forward(ctx context.Context, made string) (err error) {
	if re.log == nil {
		return nil
	}
	st := re.maker.NewStore(re.fs, made)
	if err := st.Open(re.backup != nil, store.Timeline(re.of)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(), re.log.Close(), store.DropMark(re.fs, made)) }()
	r := &replay{what: re.doing(), to: re.to, store: st}
	at, err := re.place0(r)
	if err != nil {
		return err
	}
	if !r.to.reached(r.lsn) {
		err = r.run(ctx, re.log.Next, at)
	}
	if err == nil {
		err = st.SyncLog(nil)
	}
	if err == nil && r.erased { // what was erased lies in the files that were restored
		_, err = st.Purge(ctx, st.Rewrite)
	}
	if err != nil {
		return err
	}
	re.lsn, re.short = r.lsn, r.short
	re.identity, err = place.CopyIn(st)
	return err
}

// place0 is where the log goes on from what is there.
func (re *restoring) place0(r *replay) (wal.Position, error) {
	if re.backup == nil {
		re.log.BeginAt(re.base)
		return wal.Position{}, nil
	}
	r.lsn = re.backup.LSN
	n, err := r.store.Number()
	if err != nil || n > 0 {
		return wal.Position{Timeline: re.of, Number: n}, err
	}
	// The backup was taken without an archive: all behind its newest commit is applied, and what has no LSN
	// and is there already is applied again, which changes nothing.
	r.known = r.lsn
	return re.log.Before(r.lsn)
}

// choose decides what the database is made of: of a backup, or of a base of the archive where that is nearer
// to the target.
func (re *restoring) choose(ctx context.Context, repo string, o *RestoreOptions) error {
	re.to = target{o.ToLSN, o.ToTime}
	archive := o.Archive
	err := re.find(ctx, repo, o)
	switch {
	case errors.Is(err, fault.ErrNotDatabase) && o.ID == "" && archive == "": // it may be an archive itself
		if _, _, not := folder.Timelines(repo); not != nil {
			return err
		}
		archive = repo
	case err != nil && (archive == "" || o.ID != "" || !errors.Is(err, fault.ErrNotFound)):
		return err
	}
	if archive == "" {
		return re.noLog()
	}
	database, err := re.openLog(archive)
	if err != nil {
		return err
	}
	if err := re.beyond(); err != nil {
		return err
	}
	if o.Database != "" && o.Database != database {
		return &fault.Error{Kind: fault.ErrMismatch, What: re.doing(), Why: "the archive is that of the database " + database, Do: "name the archive of " + o.Database}
	}
	base, err := nearest(re.log, re.to)
	if err != nil {
		return err
	}
	if base != nil && (re.backup == nil || o.ID == "" && base.LSN > re.backup.LSN) {
		re.backup, re.base = nil, base.Number
	}
	return nil
}

// noLog refuses a target that is behind the backup, if no archive has what follows it.
func (re *restoring) noLog() error {
	if re.to.lsn == 0 || re.to.lsn == re.backup.LSN {
		return nil
	}
	return &fault.Error{
		Kind: fault.ErrNotRetained, What: re.doing(), Why: fmt.Sprintf("the newest backup up to LSN %d has LSN %d", re.to.lsn, re.backup.LSN),
		Do: "name the archive that has what follows it: --archive DIR",
	}
}

// beyond refuses a time behind everything that the archive and the backup have.
func (re *restoring) beyond() error {
	if re.to.time.IsZero() || re.end == 0 {
		return nil
	}
	end := clock.FromMillis(re.end)
	if re.backup != nil && re.backup.Time.After(end) {
		end = re.backup.Time
	}
	if !re.to.time.After(end) {
		return nil
	}
	return fault.Invalid(re.doing(), fmt.Sprintf("%s is behind the newest commit, which was made at %s", re.to, end.UTC().Format(time.RFC3339Nano)), "leave the time out to restore everything")
}

// find looks for the newest backup that is a part of what is wanted.
func (re *restoring) find(ctx context.Context, repo string, o *RestoreOptions) (err error) {
	if re.from, err = backup.OpenSource(repo); err != nil {
		return err
	}
	re.backup, err = backup.Find(ctx, re.from, backup.Wanted{ID: o.ID, Database: o.Database, LSN: o.ToLSN, Time: o.ToTime})
	if err == nil && !re.to.has(re.backup.LSN, 0) {
		return fault.Invalid(re.doing(), fmt.Sprintf("the backup %s has LSN %d, which is behind %s", re.backup.ID, re.backup.LSN, re.to), "name an earlier backup, or none")
	}
	return err
}

// openLog opens the timeline of an archive that follows the backup, or the newest one where there is none.
func (re *restoring) openLog(dir string) (string, error) {
	of, all, err := folder.Timelines(dir)
	if err != nil {
		return "", err
	}
	t := wal.Timeline{}
	if re.backup != nil {
		if of != re.backup.Database {
			return "", &fault.Error{Kind: fault.ErrMismatch, What: re.doing(), Why: "the archive is that of the database " + of + ", the backup that of " + re.backup.Database, Do: "name the archive of the same database"}
		}
		if t, err = wal.ParseTimeline(re.backup.Timeline); err != nil {
			return "", err
		}
	} else if n := len(all); n > 0 {
		t = all[n-1].ID
	}
	for _, one := range all {
		if one.ID == t {
			re.end = max(one.Time, one.Had.Time)
		}
	}
	re.of = t
	re.log, err = folder.Follow(dir, t, false)
	return of, err
}
