package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/onefile"
)

// File is the one file that a store in RAM is kept in. What was applied is on disk once a snapshot of it
// is; [Store.SyncLog] writes one for all who wait. A snapshot is what has changed, appended to the file, or
// the whole file, which takes the place of the one before: where there is none, where much was appended, and
// where nothing of before may be left.
//
// Nothing is written before the first commit, so that an empty database leaves no file, and nothing
// over a file that is not the one which was read or written last.
type File struct {
	files    vfs.FS
	path     string
	limit    int64 // bytes
	kept     int64 // bytes of the disk
	readOnly bool
	log      *slog.Logger
	// Identity is what memdb.json is in a folder, as of now.
	Identity func() ([]byte, error)

	// turn is held while a snapshot is written.
	turn  sync.Mutex
	now   onefile.Content // of the file; what was appended by this File is not in its commits
	dirty onefile.Dirty   // the blocks of its table that commits have changed
	stamp fsys.Stamp      // of what the path led to last
	// appends bounds what is appended before the file is written whole, in bytes.
	appends int64
	whole   atomic.Bool // the next snapshot is the whole file

	size atomic.Int64 // of the file, 0 where there is none
	// waiting are the bytes that were applied since the newest snapshot.
	waiting atomic.Int64
	// fullAt is how large the file was when new data was refused for Limit; 0: none was since some was taken.
	fullAt atomic.Int64

	// mu is held while a batch is applied: a snapshot has all of it, or nothing.
	mu      sync.Mutex
	touched *onefile.Touched
	lsn     uint64
}

const (
	// DefaultFileLimit is how large the file of a database may become unless said otherwise: all of it is in RAM.
	DefaultFileLimit = 1 << 30
	// appendsLeast and appendsShare bound what is appended to a file before it is written whole: so many bytes, or
	// one in so many of the file. So a byte is written some four times, and a file is a quarter larger than it must be.
	appendsLeast = 64 << 10
	appendsShare = 4
	// MostFile bounds a file that is read into RAM.
	MostFile = 1 << 40
	// FileWayOn says what to do with a file that is damaged.
	FileWayOn = "restore it from a copy; or open it once with what is whole: memdbctl --salvage; or make a new database of that: memdbctl rescue SRC DEST"
	raise     = "MEMDB_MAX_FILE for memdbctl, the option MaxFileBytes for a program"
	// Convert says how a database in one file goes on as one in a folder.
	Convert = "make a folder of it: memdbctl convert SRC DEST"
)

// Place is the file system and the path of the file.
func (f *File) Place() (vfs.FS, string) { return f.files, f.path }

// FileConfig is what a File is opened with.
type FileConfig struct {
	Files    vfs.FS
	Path     string
	Limit    int64 // bytes; 0 for the default
	Reserve  int64 // bytes of the disk to keep free; 0 for the default
	ReadOnly bool
	Log      *slog.Logger
	// Salvage takes of a damaged file what is whole.
	Salvage bool
	// Appends bounds what is appended to the file before it is written whole, in bytes; 0: by its size.
	Appends int64
}

// mostOpened is how large a file may be to be opened. Deletes and maintenance are not refused for the limit,
// so a file may exceed it, and must still open.
func mostOpened(limit int64) int64 { return min(limit, MostFile/2) * 2 }

// OpenFile reads a file, or begins one where there is none. Its damages are those that Salvage has
// passed over.
func OpenFile(c FileConfig) (f *File, lost []*onefile.Damage, err error) {
	f = &File{
		files: c.Files, limit: cmp.Or(c.Limit, DefaultFileLimit), readOnly: c.ReadOnly, log: c.Log,
		now: onefile.Content{Table: &onefile.Table{}}, touched: &onefile.Touched{}, appends: c.Appends,
	}
	if f.path, err = fsys.Absolute(c.Files, c.Path); err != nil {
		return nil, nil, err
	}
	if f.kept = c.Reserve; f.kept == 0 {
		f.kept = reserveMost
		if usage, err := c.Files.GetDiskUsage(f.dir()); err == nil && usage.TotalBytes > 0 {
			f.kept = int64(min(uint64(f.kept), usage.TotalBytes/reserveShare))
		}
	}
	read := fsys.ReadWhole
	if c.ReadOnly {
		read = fsys.ReadOnce
	}
	b, stamp, err := read(c.Files, f.path, mostOpened(f.limit))
	if large, ok := errors.AsType[*fsys.TooLargeError](err); ok {
		return nil, nil, &fault.Error{
			Kind: fault.ErrFull, What: "open " + c.Path, Why: fmt.Sprintf("it has %s, and a database in one file may have %s", mebibytes(large.Size), mebibytes(f.limit)),
			Do: Convert + "; or raise the limit: " + raise,
		}
	}
	if err != nil {
		return nil, nil, fault.Within("open "+c.Path, err)
	}
	f.stamp = stamp
	if !stamp.There() {
		return f, nil, nil
	}
	f.size.Store(int64(len(b)))
	if c.Salvage {
		f.now, lost = onefile.Salvage(b)
	} else if f.now, err = onefile.Read(b); err != nil {
		return nil, nil, fileError(c.Path, err)
	}
	f.lsn = f.now.Head.LSN
	for _, commit := range f.now.Commits {
		touched, err := commit.Touched()
		if err != nil {
			return nil, nil, fileError(c.Path, err)
		}
		f.dirty = f.now.Table.Mark(f.dirty, touched)
	}
	return f, lost, nil
}

// Settle ends a commit that was interrupted between its writing and its mark. Whoever opens a file to write calls
// it before anybody reads what the commit has.
func (f *File) Settle() error {
	f.turn.Lock()
	defer f.turn.Unlock()
	if f.now.Tail == nil || f.now.Tail.Settled() {
		return nil
	}
	return f.append(nil, f.now.Tail)
}

// Loaded forgets what a store has now: the commits that the file had, and all of it where the file is only read.
func (f *File) Loaded() {
	f.turn.Lock()
	defer f.turn.Unlock()
	f.now.Commits = nil
	if f.readOnly {
		f.now.Table = &onefile.Table{}
	}
}

// WriteWhole writes the one file of a store anew, if the store has one, so that the file has nothing that was deleted
// or written over before.
func (s *Store) WriteWhole() error {
	if f := s.config.File; f != nil {
		f.whole.Store(true)
	}
	return s.writeFile()
}

// fileError gives an error of what a file holds its kind.
func fileError(path string, err error) error {
	if newer, ok := errors.AsType[*onefile.NewerError](err); ok {
		return &fault.Error{Kind: fault.ErrNewerLayout, What: "open " + path, Why: newer.Error(), Do: "use a newer memdb"}
	}
	if damage, ok := errors.AsType[*onefile.Damage](err); ok {
		return &fault.Error{Kind: fault.ErrCorrupt, What: "open " + path, Why: "the file is damaged: " + damage.Error(), Do: FileWayOn}
	}
	return err
}

func (f *File) dir() string { return f.files.PathDir(f.path) }

// There reports whether there is a file yet.
func (f *File) There() bool { return f.size.Load() > 0 }

// Size is that of the file, in bytes, 0 where there is none.
func (f *File) Size() int64 { return f.size.Load() }

// Limit is how large the file may become, in bytes.
func (f *File) Limit() int64 { return f.limit }

// Damaged is the damaged file that a salvage has kept, empty where there is none.
func (f *File) Damaged() string {
	if f == nil {
		return ""
	}
	path := f.path + fsys.FileDamaged
	if s, err := fsys.StampOf(f.files, path); err != nil || !s.There() {
		return ""
	}
	return path
}

// Head is what the file says of itself.
func (f *File) Head() onefile.Head {
	f.turn.Lock()
	defer f.turn.Unlock()
	return f.now.Head
}

// DropTemp removes what an interrupted snapshot has left beside the file.
func (f *File) DropTemp() {
	if err := f.files.Remove(f.path + fsys.FileTemp); err != nil && !isMissing(err) {
		f.log.Warn("what an interrupted commit has left was not removed; the next commit writes over it", "file", f.path+fsys.FileTemp, "error", err)
	}
}

// CopyTo writes what the file holds into a store that is open and empty, and returns how many keys
// there are.
func (f *File) CopyTo(s *Store) (keys int, err error) {
	if err := s.Ingest(f.now.Table.Each); err != nil {
		return 0, fileError(f.path, err)
	}
	keys = int(f.now.Table.Keys())
	for _, commit := range f.now.Commits {
		b := s.NewBatch()
		err := commit.Apply(onefile.Changes{
			DeleteRange: func(lower, upper []byte) error { return b.DeleteRange(lower, upper, nil) },
			Delete:      func(key []byte) error { return b.Delete(key, nil) },
			Set: func(key, value []byte) error {
				keys++
				return b.Set(key, value, nil)
			},
		})
		if err == nil {
			err = s.Apply(b, pebble.NoSync)
		}
		if err = errors.Join(err, b.Close()); err != nil {
			return 0, fileError(f.path, err)
		}
	}
	return keys, nil
}

// into applies a batch to a store that is kept in the file.
func (f *File) into(b *pebble.Batch, lsn uint64, apply func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.touch(b); err != nil {
		return err
	}
	if err := apply(); err != nil {
		return err
	}
	f.lsn = max(f.lsn, lsn)
	f.waiting.Store(f.touched.Bytes())
	return nil
}

// touch notes what a batch changes.
func (f *File) touch(b *pebble.Batch) error {
	r := b.Reader()
	for {
		kind, key, value, ok, err := r.Next()
		if !ok || err != nil {
			return err
		}
		switch kind {
		case pebble.InternalKeyKindRangeDelete:
			f.touched.Span(key, value)
		case pebble.InternalKeyKindLogData:
		default:
			f.touched.Key(key, len(value))
		}
	}
}

// take is the newest state, and what has changed since the last call.
func (f *File) take(s *Store) (Snapshot, *onefile.Touched, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	touched := f.touched
	f.touched = &onefile.Touched{}
	f.waiting.Store(0)
	return s.NewSnapshot(), touched, f.lsn
}

// write makes everything that was applied durable. Its error fails the store: what the file lacks
// then is in RAM alone.
func (f *File) write(s *Store) (err error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	snap, touched, lsn := f.take(s)
	defer func() { err = errors.Join(err, snap.Close()) }()
	if touched.Empty() && f.There() && !f.whole.Load() || !f.There() && lsn == 0 {
		return nil
	}
	f.dirty = f.now.Table.Mark(f.dirty, touched)
	head := onefile.Head{Number: f.now.Head.Number + 1, LSN: lsn, Timeline: s.timeline}
	if head.Identity, err = f.Identity(); err != nil {
		return err
	}
	scan := func(lower, upper []byte, visit func(key, value []byte) error) error {
		return kv.Scan(snap, lower, upper, visit)
	}
	if f.mayAppend(&head) {
		get := func(key []byte, visit func(value []byte) error) (found bool, err error) {
			return getFrom(snap, key, visit)
		}
		c, err := f.now.Tail.Commit(lsn, touched, get, scan)
		if err != nil {
			return err
		}
		if f.now.Tail.Bytes()+int64(len(c.Bytes())) <= f.mostAppended() {
			if err := f.append(c.Bytes(), f.now.Tail.Appended(c)); err != nil {
				return err
			}
			f.now.Head = head
			return nil
		}
	}
	whole := f.whole.Swap(false)
	next, err := f.now.Table.Update(f.dirty, scan)
	if err != nil {
		return err
	}
	var tail *onefile.Tail
	size, err := f.replace(func(file vfs.File) (size int64, err error) {
		size, tail, err = next.Write(file, head)
		return size, err
	})
	if err != nil {
		f.whole.Store(whole)
		return err
	}
	f.now, f.dirty = onefile.Content{Head: head, Table: next, Tail: tail}, nil
	f.size.Store(size)
	return nil
}

// mayAppend reports whether a snapshot may be appended to the file. turn is held.
func (f *File) mayAppend(head *onefile.Head) bool {
	was := &f.now.Head
	return f.now.Tail != nil && !f.whole.Load() && was.Timeline == head.Timeline && bytes.Equal(was.Identity, head.Identity)
}

// mostAppended is how much may be appended before the file is written whole.
func (f *File) mostAppended() int64 {
	return cmp.Or(f.appends, max(appendsLeast, f.now.Tail.At/appendsShare))
}

// getFrom calls visit with the value of a key, if it has one.
func getFrom(r kv.Reader, key []byte, visit func(value []byte) error) (found bool, err error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(visit(value), closer.Close())
}

// append writes a commit to the end of the file, and then the mark that makes it count, where the file is the one
// that was read or written last. turn is held.
func (f *File) append(commit []byte, to *onefile.Tail) (err error) {
	if err := f.same(); err != nil {
		return err
	}
	file, err := f.files.OpenReadWrite(f.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err == nil {
			f.now.Tail = to
			f.size.Store(to.End)
			f.stamp, err = fsys.StampOf(f.files, f.path)
		}
	}()
	if len(commit) > 0 {
		if _, err := file.WriteAt(commit, to.End-int64(len(commit))); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	at, mark := to.Mark()
	if _, err := file.WriteAt(mark, at); err != nil {
		return err
	}
	return file.Sync()
}

// replace writes a file aside and puts it in the place of the one that is there, where that is the
// one which was read or written last. turn is held.
func (f *File) replace(write func(vfs.File) (int64, error)) (size int64, err error) {
	temp := f.path + fsys.FileTemp
	defer func() {
		if err != nil {
			_ = f.files.Remove(temp) // what failed is told
		}
	}()
	file, err := f.files.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	size, err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	if err := f.same(); err != nil {
		return 0, err
	}
	if f.stamp.There() {
		err = f.files.Rename(temp, f.path)
	} else {
		err = f.place(temp)
	}
	if err != nil {
		return 0, err
	}
	if f.stamp, err = fsys.StampOf(f.files, f.path); err != nil {
		return 0, err
	}
	return size, fsys.SyncDir(f.files, f.dir())
}

// place gives the first snapshot its name, where nothing has it. A file system without links has no
// such step.
func (f *File) place(temp string) error {
	err := f.files.Link(temp, f.path)
	if err == nil {
		_ = f.files.Remove(temp) // the next snapshot makes another in its place
		return nil
	}
	if same := f.same(); same != nil {
		return same
	}
	return f.files.Rename(temp, f.path)
}

// same refuses to write over what another program has put there.
func (f *File) same() error {
	now, err := fsys.StampOf(f.files, f.path)
	if err != nil || now.Same(f.stamp) {
		return err
	}
	if !now.There() {
		return errors.New("the file was removed while the database was open: nothing was written in its place")
	}
	return errors.New("the file was replaced or changed by another program while the database was open: it was not written over")
}

// Verify reads the file again, and says what is wrong with it.
func (f *File) Verify() error {
	f.turn.Lock()
	defer f.turn.Unlock()
	if !f.readOnly { // who reads holds no lock, and another program may have written since
		if err := f.same(); err != nil || !f.stamp.There() {
			return err
		}
	}
	b, _, err := fsys.ReadOnce(f.files, f.path, MostFile)
	if err != nil {
		return err
	}
	c, err := onefile.Read(b)
	if err != nil {
		return err
	}
	return c.Table.Each(func(_, _ []byte) error { return nil })
}

// purpose is why something is written.
type purpose uint8

const (
	adds      purpose = iota // new data
	maintains                // stored data in another form: it ends even if the file exceeds its limit meanwhile
	frees                    // deletes and clean-up
)

// admit refuses a write if the disk lacks room for a second file, and new data if the file would exceed its
// limit. What frees space may use half of the reserve of the disk.
func (f *File) admit(doing string, bytes int, why purpose) error {
	size := f.size.Load() + f.waiting.Load() + int64(bytes)
	floor := f.kept
	if why == frees {
		floor /= 2
	} else if why == adds && size > f.limit {
		f.fullAt.Store(size - int64(bytes))
		return &fault.Error{
			Kind: fault.ErrFull, What: doing, Why: fmt.Sprintf("the file would have more than %s, and a database in one file may not", mebibytes(f.limit)),
			Do: Convert + "; or delete what is needless, or raise the limit: " + raise,
		}
	} else {
		// As of a folder: small writes are all taken, or none.
		spare := f.kept / spareShare
		floor += spare
		size -= min(int64(bytes), spare)
	}
	free, _, known := f.disk()
	if !known || free >= floor+size {
		if why == adds && bytes > 0 {
			f.fullAt.Store(0)
		}
		return nil
	}
	return &fault.Error{
		Kind: fault.ErrDiskFull, What: doing,
		Why: fmt.Sprintf("the new file takes up to %s beside the old one, of a disk that has %s, of which the last %s are kept", mebibytes(size), mebibytes(free), mebibytes(floor)),
		Do:  "make room on the disk, and try again",
	}
}

// writable refuses new data where the last that came was refused, and nothing was freed since.
func (f *File) writable(doing string) error {
	at := f.fullAt.Load()
	if size := f.size.Load() + f.waiting.Load(); at > 0 && size >= at {
		return f.admit(doing, int(max(0, f.limit-size)+1), adds)
	}
	return f.admit(doing, 0, adds)
}

// disk is the free space of the disk, and what is kept of it.
func (f *File) disk() (free, kept int64, known bool) {
	usage, err := f.files.GetDiskUsage(f.dir())
	if err != nil || usage.TotalBytes == 0 {
		return 0, 0, false
	}
	return int64(min(usage.AvailBytes, 1<<62)), f.kept, true
}

// Unpack makes a store of what the file holds, in the folder of a store that was not opened yet, and
// closes it.
func (f *File) Unpack(s *Store) error {
	if err := s.Open(false, f.Head().Timeline); err != nil {
		return err
	}
	_, err := f.CopyTo(s)
	if err == nil {
		s.Reached(f.Head().LSN)
	}
	return errors.Join(err, s.Close())
}

// WriteFile writes all that scan reads into a new file, which must not exist, and returns its
// length.
func WriteFile(c FileConfig, scan onefile.Scan, head onefile.Head) (int64, error) {
	f, _, err := OpenFile(c)
	if err != nil {
		return 0, err
	}
	table, err := onefile.Pack(scan)
	if err != nil {
		return 0, err
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	return f.replace(func(file vfs.File) (int64, error) {
		size, _, err := table.Write(file, head)
		if err == nil && size > f.limit {
			err = &fault.Error{
				Kind: fault.ErrFull, What: "write " + c.Path, Why: fmt.Sprintf("the file would have %s, and a database in one file may have %s", mebibytes(size), mebibytes(f.limit)),
				Do: "stay with the folder, or raise the limit: " + raise,
			}
		}
		return size, err
	})
}
