package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/ctxio"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

const (
	// workers bounds the files that are copied at once: one waits for the disk while another is
	// hashed.
	workers = 4
	// copyBytes is the size of the buffer of a copy.
	copyBytes = 1 << 20
)

// Item is a file of the database to be backed up.
type Item struct {
	// Name, Size and Modified are as in [File].
	Name     string
	Size     int64
	Modified int64
	// Open opens the file to be read. The content must not change.
	Open func() (io.ReadCloser, error)
}

// WriteOptions say how a backup is written. The zero value is the default.
type WriteOptions struct {
	// Full reads all files again, those that the backup before has as well, and the files of the
	// repository: one of them that is damaged is replaced.
	Full bool
	// Reserve is how much of the disk of the backup is left free, in bytes.
	Reserve int64
}

// Written is a backup that was written and proven.
type Written struct {
	Backup
	// NewBytes is how much the repository has grown by, without the manifest.
	NewBytes int64
}

// Writer writes backups to a repository, which it locks until it is closed.
type Writer struct {
	*Repository
	held io.Closer

	mu struct {
		sync.Mutex
		folders map[string]bool // of files, to be synced
	}
}

// Begin opens a repository to write to it, and makes one in a folder that is missing or empty. now
// is the time. It returns ErrLocked while another writer has it open, ErrNotDatabase for a folder
// with other files, ErrReadOnly for one that cannot be written, and what [Open] returns.
func Begin(dir string, now time.Time) (*Writer, error) {
	files, dir := fsys.Named(dir)
	if err := mayBecome(files, dir); err != nil {
		return nil, err
	}
	what := "back up to " + dir
	if err := makeFolder(files, dir); err != nil {
		return nil, written(what, err)
	}
	held, err := hold(files, dir, now)
	if err != nil {
		return nil, err
	}
	w := &Writer{Repository: &Repository{fs: files, dir: dir}, held: held}
	if err := w.prepare(); err != nil {
		return nil, errors.Join(written(what, err), held.Close())
	}
	return w, nil
}

// Close gives the repository back.
func (w *Writer) Close() error { return w.held.Close() }

// prepare makes what a repository has.
func (w *Writer) prepare() error {
	marked := w.path(markerName)
	_, err := w.fs.Stat(marked)
	if errors.Is(err, fs.ErrNotExist) {
		b, err := encodeMarker(false)
		if err != nil {
			return err
		}
		if err := writeFile(w.fs, marked+partialEnd, marked, b); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	opened, err := openRepository(w.fs, w.dir)
	if err != nil {
		return err
	}
	w.recorded = opened.recorded
	if err := w.fs.RemoveAll(w.path(partialDir)); err != nil {
		return err
	}
	for _, folder := range []string{filesDir, manifestsDir, partialDir} {
		if err := w.fs.MkdirAll(w.path(folder), 0o700); err != nil {
			return err
		}
	}
	return fsys.SyncDir(w.fs, w.dir)
}

// makeFolder makes a folder with those above it, durably.
func makeFolder(files vfs.FS, dir string) error {
	if _, err := files.Stat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := files.PathDir(dir)
	if above != dir {
		if err := makeFolder(files, above); err != nil {
			return err
		}
	}
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return fsys.SyncDir(files, above)
}

// Write writes a backup: the files that the repository does not have, and the manifest. All new
// files are read back and proven. What an error leaves is taken up by the next backup, or pruned.
func (w *Writer) Write(ctx context.Context, head Head, items []Item, o WriteOptions) (Written, error) {
	what := "back up to " + w.dir
	past, _, err := w.Backups(ctx) // a damaged manifest is told by who reads it; nothing is lost by another backup
	if err != nil {
		return Written{}, err
	}
	ids, err := w.ids()
	if err != nil {
		return Written{}, err
	}
	c := copies{Writer: w, o: o, known: known(past, &head), named: named(past)}
	out := Written{Backup: Backup{ID: nextID(ids, head.Time), Head: head, Files: make([]File, len(items))}}
	out.Time = head.Time.UTC()
	err = each(ctx, len(items), func(i int) error {
		f, err := c.keep(ctx, &items[i], i)
		out.Files[i] = f
		return fault.Within(items[i].Name, err)
	})
	if err != nil {
		return Written{}, written(what, err)
	}
	for _, f := range out.Files {
		out.Bytes += f.Size
	}
	out.NewBytes = c.mu.bytes
	if err := w.commit(&out.Backup); err != nil {
		return Written{}, written(what, err)
	}
	return out, nil
}

// commit makes the names of all files durable, then writes the manifest, and reads it back.
func (w *Writer) commit(b *Backup) error {
	for folder := range w.mu.folders {
		if err := fsys.SyncDir(w.fs, folder); err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(w.fs, w.path(filesDir)); err != nil {
		return err
	}
	content, err := encodeManifest(b)
	if err != nil {
		return err
	}
	if len(content) > maxManifest || len(b.Files) > maxFiles {
		return fault.Invalid("write the manifest", "the database has more files than a backup can name", "compact it")
	}
	if err := writeFile(w.fs, w.path(partialDir+"/"+b.ID+partialEnd), w.path(manifestPath(b.ID)), content); err != nil {
		return err
	}
	if _, err := w.manifest(b.ID); err != nil {
		return err
	}
	return w.record(b)
}

// record notes that a backup is the newest of its database.
func (w *Writer) record(b *Backup) error {
	all, err := w.newest()
	if err != nil && !errors.Is(err, fault.ErrCorrupt) { // one that is damaged is written again
		return err
	}
	all = slices.DeleteFunc(all, func(n newestOf) bool { return n.Database == b.Database })
	content, err := encode(&newest{newestMagic, Version, append(all, newestOf{b.ID, b.Head}), noChecksum})
	if err != nil {
		return err
	}
	if err := writeFile(w.fs, w.path(partialDir+"/"+newestName), w.path(newestName), content); err != nil || w.recorded {
		return err
	}
	if content, err = encodeMarker(true); err == nil {
		err = writeFile(w.fs, w.path(markerName)+partialEnd, w.path(markerName), content)
	}
	w.recorded = err == nil
	return err
}

// nextID is the ID of a backup of now, above all others.
func nextID(ids []string, now time.Time) string {
	id := now.UTC().Format(idForm)
	if len(ids) == 0 || id > ids[len(ids)-1] {
		return id
	}
	last, err := time.Parse(idForm, ids[len(ids)-1])
	if err != nil { // a name that only looks like one: it is behind all
		last = now
	}
	return last.Add(time.Millisecond).Format(idForm)
}

// known are the files of the newest backup of the same timeline that never change, by name.
func known(past []Backup, head *Head) map[string]File {
	for _, b := range slices.Backward(past) {
		if b.Database != head.Database || b.Timeline != head.Timeline {
			continue
		}
		files := make(map[string]File, len(b.Files))
		for _, f := range b.Files {
			if f.Modified != 0 {
				files[f.Name] = f
			}
		}
		return files
	}
	return nil
}

// named are the hashes that manifests name.
func named(all []Backup) map[string]bool {
	hashes := map[string]bool{}
	for _, b := range all {
		for _, f := range b.Files {
			hashes[f.Hash] = true
		}
	}
	return hashes
}

// copies are those of one backup.
type copies struct {
	*Writer
	o     WriteOptions
	known map[string]File
	named map[string]bool // hashes that other backups have proven

	mu struct {
		sync.Mutex
		bytes int64 // new ones
	}
}

// keep has the repository hold one file.
func (c *copies) keep(ctx context.Context, it *Item, number int) (File, error) {
	f := File{Name: it.Name, Size: it.Size, Modified: it.Modified}
	if was, ok := c.known[it.Name]; ok && !c.o.Full && it.Modified != 0 && was.Size == it.Size && was.Modified == it.Modified && c.has(was.Hash, was.Size) {
		f.Hash = was.Hash
		return f, nil
	}
	if err := c.fits(it.Size); err != nil {
		return f, err
	}
	part := c.path(partialDir + "/" + strconv.Itoa(number) + partialEnd)
	hash, err := c.copy(ctx, it, part)
	if err == nil {
		f.Hash = hash
		err = c.settle(ctx, part, hash, it.Size)
	}
	if err != nil {
		return f, errors.Join(err, removeIfThere(c.fs, part))
	}
	return f, nil
}

// has reports whether a file of that name and size is there.
func (c *copies) has(hash string, size int64) bool {
	info, err := c.fs.Stat(c.path(filePath(hash)))
	return err == nil && info.Size() == size
}

// fits refuses a file that would take the last space of the disk.
func (c *copies) fits(size int64) error {
	usage, err := c.fs.GetDiskUsage(c.dir)
	if err != nil { // it is not known: the write tells
		return nil
	}
	if free, need := usage.AvailBytes, uint64(size)+uint64(c.o.Reserve); free < need {
		return &fault.Error{
			Kind: fault.ErrDiskFull, What: "write a file of " + strconv.FormatInt(size, 10) + " bytes",
			Why: fmt.Sprintf("the disk of the backup has %d bytes free, and %d of them are kept", free, c.o.Reserve),
			Do:  "make room there: memdbctl backup prune, or name another place",
		}
	}
	return nil
}

// copy writes the content of an item to a file, on disk, and returns its hash.
func (c *copies) copy(ctx context.Context, it *Item, part string) (hash string, err error) {
	from, err := it.Open()
	if err != nil {
		return "", err
	}
	to, err := c.fs.Create(part, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", errors.Join(err, from.Close())
	}
	hash, n, err := copyHashed(ctx, to, from)
	if err == nil && n != it.Size {
		err = fmt.Errorf("it has %d bytes, and had %d when the backup began", n, it.Size)
	}
	if err == nil {
		err = to.Sync()
	}
	return hash, errors.Join(err, to.Close(), from.Close())
}

// settle proves a file that was written, and gives it its name. A file that has the name already
// stays, if another backup has proven it or it is whole.
func (c *copies) settle(ctx context.Context, part, hash string, size int64) error {
	path := c.path(filePath(hash))
	if c.has(hash, size) {
		whole := c.named[hash] && !c.o.Full
		if !whole {
			got, _, err := c.hash(ctx, path)
			if err != nil {
				return err
			}
			whole = got == hash
		}
		if whole {
			if err := c.note(hash, 0); err != nil { // its name is perhaps not on disk yet
				return err
			}
			return c.fs.Remove(part)
		}
	}
	got, _, err := c.hash(ctx, part)
	if err != nil {
		return err
	}
	if got != hash {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: "read back " + part, Why: "the disk of the backup returns other bytes than were written",
			Do: "name a place on another disk",
		}
	}
	if err := c.note(hash, size); err != nil {
		return err
	}
	return c.fs.Rename(part, path)
}

// note makes the folder of a file, and has its names synced at the end.
func (c *copies) note(hash string, size int64) error {
	c.mu.Lock()
	c.mu.bytes += size
	c.mu.Unlock()
	w := c.Writer
	w.mu.Lock()
	defer w.mu.Unlock()
	folder := c.path(filesDir + "/" + hash[:2])
	if w.mu.folders[folder] {
		return nil
	}
	if err := c.fs.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if w.mu.folders == nil {
		w.mu.folders = map[string]bool{}
	}
	w.mu.folders[folder] = true
	return nil
}

// hash is that of a file of the repository, with its size.
func (r *Repository) hash(ctx context.Context, path string) (hash string, size int64, err error) {
	f, err := r.fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return "", 0, err
	}
	hash, size, err = copyHashed(ctx, io.Discard, f)
	return hash, size, errors.Join(err, f.Close())
}

// copyHashed copies until the end or until the context is done.
func copyHashed(ctx context.Context, to io.Writer, from io.Reader) (hash string, n int64, err error) {
	h := sha256.New()
	// A vfs.File may spoil what it is given to write, so the hash comes first.
	n, err = io.CopyBuffer(onlyWriter{io.MultiWriter(h, to)}, onlyReader{ctxio.Reader(ctx, from)}, make([]byte, copyBytes))
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// onlyReader and onlyWriter hide what would copy past the buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

func removeIfThere(files vfs.FS, path string) error {
	if err := files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Pruned is what a prune has removed.
type Pruned struct {
	// Removed are the IDs of the backups that went, ascending, and Kept those that stayed.
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"`
	// Files and Bytes are what went of files.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Prune removes all but the newest keep backups of each database, then the files that none of the
// others names. It is interrupted anywhere without harm; the next one goes on. It returns ErrCorrupt
// where a manifest is damaged, since nobody knows then which files it needs; ErrInvalid for a keep
// below 1; and ErrLocked while another writer has the repository open.
func Prune(ctx context.Context, dir string, keep int, now time.Time) (p Pruned, err error) {
	if keep < 1 {
		return p, fault.Invalid("prune the backups", fmt.Sprintf("%d backups are to stay", keep), "keep 1 or more")
	}
	files, dir := fsys.Named(dir)
	r, err := openRepository(files, dir)
	if err != nil {
		return p, err
	}
	held, err := hold(files, dir, now)
	if err != nil {
		return p, err
	}
	defer func() { err = cmp.Or(err, held.Close()) }()
	all, damaged, err := r.Backups(ctx)
	if err != nil {
		return p, err
	}
	what := "prune the backups in " + dir
	if len(damaged) > 0 {
		return p, &fault.Error{
			Kind: fault.ErrCorrupt, What: what, Why: damaged[0].What + ", so it is not known which files it needs",
			Do: "give that backup up by removing its manifest, if it is there, take another backup, and prune again",
		}
	}
	if err := r.drop(&p, all, keep); err != nil {
		return p, written(what, err)
	}
	kept := slices.DeleteFunc(all, func(b Backup) bool { return slices.Contains(p.Removed, b.ID) })
	return p, written(what, r.sweep(ctx, &p, named(kept)))
}

// drop removes manifests, the oldest first.
func (r *Repository) drop(p *Pruned, all []Backup, keep int) error {
	left := map[string]int{}
	for _, b := range all {
		left[b.Database]++
	}
	p.Removed, p.Kept = []string{}, []string{}
	for _, b := range all {
		if left[b.Database] <= keep {
			p.Kept = append(p.Kept, b.ID)
			continue
		}
		if err := r.fs.Remove(r.path(manifestPath(b.ID))); err != nil {
			return err
		}
		left[b.Database]--
		p.Removed = append(p.Removed, b.ID)
	}
	if len(p.Removed) == 0 {
		return nil
	}
	return fsys.SyncDir(r.fs, r.path(manifestsDir)) // no manifest may come back whose files are gone
}

// sweep removes the files that no manifest names.
func (r *Repository) sweep(ctx context.Context, p *Pruned, needed map[string]bool) error {
	folders, err := r.list(filesDir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !isFolder.MatchString(folder) {
			continue
		}
		names, err := r.list(filesDir + "/" + folder)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if needed[name] || !isHash.MatchString(name) || name[:2] != folder {
				continue
			}
			path := r.path(filesDir + "/" + folder + "/" + name)
			info, err := r.fs.Stat(path)
			if err == nil {
				err = r.fs.Remove(path)
			}
			if err != nil {
				return err
			}
			p.Files++
			p.Bytes += info.Size()
		}
	}
	return r.fs.RemoveAll(r.path(partialDir))
}

// sorted are the keys of a set, ascending.
func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
