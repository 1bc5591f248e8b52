package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/host"
)

const (
	markerName   = "memdb-backup.json"
	newestName   = "newest.json"
	filesDir     = "files"
	manifestsDir = "backups"
	partialDir   = "partial"
	manifestEnd  = ".json"
	partialEnd   = ".part"
)

// Repository is a repository that is read.
type Repository struct {
	fs  vfs.FS
	dir string
	// recorded: there is a file of the newest backups.
	recorded bool
}

var _ Source = (*Repository)(nil)

// Open opens a repository to read it. It returns ErrNotDatabase for a folder that is none,
// ErrNewerLayout for one that a newer memdb has made, and ErrCorrupt where its marker is damaged.
func Open(dir string) (*Repository, error) {
	files, dir := fsys.Named(dir)
	return openRepository(files, dir)
}

func openRepository(files vfs.FS, dir string) (*Repository, error) {
	b, err := readSmall(files, files.PathJoin(dir, markerName), maxMarker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{
			Kind: fault.ErrNotDatabase, What: "open the backups in " + dir, Why: "it holds no backups of memdb",
			Do: "name a folder that memdbctl backup has made",
		}
	}
	if err != nil {
		return nil, fault.Within("open the backups in "+dir, err)
	}
	m, err := decodeMarker(dir, b)
	if err != nil {
		return nil, err
	}
	return &Repository{files, dir, m.Newest}, nil
}

func filePath(hash string) string   { return filesDir + "/" + hash[:2] + "/" + hash }
func manifestPath(id string) string { return manifestsDir + "/" + id + manifestEnd }

// path is where a file of the repository lies, by its name with slashes.
func (r *Repository) path(name string) string {
	return r.fs.PathJoin(append([]string{r.dir}, strings.Split(name, "/")...)...)
}

// list are the names in a folder of the repository, none where the folder is missing.
func (r *Repository) list(folder string) ([]string, error) {
	names, err := r.fs.List(r.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

// ids are the IDs of the backups, ascending.
func (r *Repository) ids() ([]string, error) {
	names, err := r.list(manifestsDir)
	if err != nil {
		return nil, fault.Within("list the backups in "+r.dir, err)
	}
	var ids []string
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, manifestEnd); ok && isID.MatchString(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Backups returns the backups, the oldest first, and a Problem for each whose manifest is damaged.
func (r *Repository) Backups(ctx context.Context) (all []Backup, damaged []Problem, err error) {
	ids, err := r.ids()
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		b, err := r.manifest(id)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was pruned meanwhile
		case errors.Is(err, fault.ErrCorrupt):
			damaged = append(damaged, Problem{Kind: KindManifest, What: manifestPath(id) + " is damaged: " + cause(err), ID: id, Remedy: RemedyOther})
		case err != nil:
			return nil, nil, err
		default:
			all = append(all, *b)
		}
	}
	lost, err := r.lostNewest(ids)
	return all, append(damaged, lost...), err
}

// lostNewest are the problems of newest backups that are not there.
func (r *Repository) lostNewest(ids []string) (lost []Problem, err error) {
	newest, err := r.newest()
	if errors.Is(err, fault.ErrCorrupt) {
		return []Problem{{Kind: KindManifest, What: newestName + " is damaged or missing: " + cause(err) + "; whether a newer backup is lost is not known", Remedy: RemedyOther}}, nil
	}
	for _, b := range newest {
		if !slices.Contains(ids, b.ID) {
			lost = append(lost, Problem{Kind: KindManifest, What: fmt.Sprintf("%s is missing: the newest backup of the database %s, of LSN %d", manifestPath(b.ID), b.Database, b.LSN), ID: b.ID, Remedy: RemedyOther, lost: b.Head})
		}
	}
	return lost, err
}

// newest are the newest backups, one of each database, as the repository recorded them; none in one of
// before version 0.4.
func (r *Repository) newest() ([]newestOf, error) {
	b, err := readSmall(r.fs, r.path(newestName), maxManifest)
	if errors.Is(err, fs.ErrNotExist) && !r.recorded {
		return nil, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Within("read the backups in "+r.dir, err)
	}
	var n newest
	if err := decode(b, &n); err != nil || n.Magic != newestMagic {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read the backups in " + r.dir, Why: newestName + " is damaged or missing", Cause: err, Do: "name a backup by its ID; the next backup writes the file again"}
	}
	return n.Newest, checkVersion("read the backups in "+r.dir, n.Version)
}

// manifest reads that of a backup.
func (r *Repository) manifest(id string) (*Backup, error) {
	b, err := readSmall(r.fs, r.path(manifestPath(id)), maxManifest)
	if err != nil {
		return nil, fault.Within("read the backup "+id, err)
	}
	return decodeManifest(id, b)
}

// cause is what has damaged what an error is about.
func cause(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Cause != nil {
		return fault.CauseText(f.Cause)
	}
	return fault.CauseText(err)
}

// readSmall reads a file of at most so many bytes.
func readSmall(files vfs.FS, path string, most int64) (b []byte, err error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	b, err = io.ReadAll(io.LimitReader(f, most+1))
	if err = errors.Join(err, f.Close()); err == nil && int64(len(b)) > most {
		err = &fault.Error{Kind: fault.ErrCorrupt, What: "read " + path, Why: fmt.Sprintf("it has more than %d bytes", most)}
	}
	return b, err
}

// writeFile writes a file whole, under another name first, and renames it.
func writeFile(files vfs.FS, part, path string, b []byte) error {
	f, err := files.Create(part, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(b))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = files.Rename(part, path)
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(files, files.PathDir(path))
}

// litter is what an interrupted making of a repository leaves, and what systems leave in folders by
// themselves.
var litter = []string{
	markerName + partialEnd, "memdb.lock", "memdb.holder", partialDir,
	".DS_Store", ".localized", "Thumbs.db", "desktop.ini", "lost+found",
}

// mayBecome refuses a folder that is no repository and cannot become one.
func mayBecome(files vfs.FS, dir string) error {
	what := "back up to " + dir
	info, err := files.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Within(what, err)
	}
	if !info.IsDir() {
		return &fault.Error{Kind: fault.ErrNotDatabase, What: what, Why: "it is a file, not a folder", Do: "name a folder, or make an archive: --archive FILE"}
	}
	names, err := files.List(dir)
	if err != nil {
		return fault.Within(what, err)
	}
	if slices.Contains(names, markerName) {
		return nil
	}
	for _, name := range names {
		if !slices.Contains(litter, name) && !strings.HasPrefix(name, "._") {
			return &fault.Error{
				Kind: fault.ErrNotDatabase, What: what, Why: "the folder holds other files and no backups of memdb",
				Do: "name another folder, or an empty one",
			}
		}
	}
	return nil
}

// hold locks a repository for one writer.
func hold(files vfs.FS, dir string, now time.Time) (io.Closer, error) {
	pid, program, machine := host.Process()
	held, err := fsys.LockDir(files, dir, fsys.Holder{PID: pid, Program: program, Host: machine, Since: now})
	if err == nil {
		return held, nil
	}
	what := "write to the backups in " + dir
	if locked, ok := errors.AsType[*fsys.LockedError](err); ok {
		return nil, &fault.Error{Kind: fault.ErrLocked, What: what, Why: locked.Error(), Do: "wait until it is done"}
	}
	if fsys.Unwritable(err) {
		return nil, &fault.Error{Kind: fault.ErrReadOnly, What: what, Why: "its folder cannot be written", Cause: err, Do: "see who may write there, or name another folder"}
	}
	return nil, fault.Within(what, err)
}

// written gives an error of writing to a repository its kind.
func written(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case fsys.IsFull(err):
		return &fault.Error{Kind: fault.ErrDiskFull, What: what, Why: "the disk of the backup is full", Cause: err, Do: "make room there: memdbctl backup prune, or name another place"}
	case fsys.Unwritable(err):
		return &fault.Error{Kind: fault.ErrReadOnly, What: what, Why: "it cannot be written", Cause: err, Do: "see who may write there, or name another place"}
	}
	return fault.Within(what, err)
}
