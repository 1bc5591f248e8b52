package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

// Source is where backups are read from: a repository or an archive.
type Source interface {
	// Backups returns the backups, the oldest first, and a Problem for each that is damaged so that
	// nobody knows what it names.
	Backups(ctx context.Context) (all []Backup, damaged []Problem, err error)
	// Verify reads all that one backup needs, or with an empty ID all that any does, and holds it
	// against the hashes. An ID that is not there is ErrNotFound.
	Verify(ctx context.Context, id string) (Report, error)
	// Identity is the content of the file IdentityFile of a backup, proven.
	Identity(ctx context.Context, b *Backup) ([]byte, error)
	// Extract copies all other files of a backup into a folder, proven and durable.
	Extract(ctx context.Context, b *Backup, files vfs.FS, dir string) error
}

// OpenSource opens a repository, or an archive where path is a file.
func OpenSource(path string) (Source, error) {
	files, path := fsys.Named(path)
	info, err := files.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Error{
			Kind: fault.ErrNotDatabase, What: "open the backups in " + path, Why: "there is no such folder or file",
			Do: "name a folder that memdbctl backup has made, or an archive",
		}
	}
	if err != nil {
		return nil, fault.Within("open the backups in "+path, err)
	}
	if !info.IsDir() {
		return &Archive{files, path}, nil
	}
	return openRepository(files, path)
}

// Wanted says which backup is meant.
type Wanted struct {
	// ID is that of the backup; empty: the newest.
	ID string
	// Database is the ID of its database; empty: the only one of which there are backups.
	Database string
	// LSN, if not 0, is the highest that the backup may have.
	LSN uint64
	// Time, if not zero, is the latest at which the backup may have been taken.
	Time time.Time
}

// may reports whether a backup with a problem may be the one that is meant.
func (w *Wanted) may(p Problem) bool {
	if w.ID != "" {
		return w.ID == p.ID
	}
	of := p.lost
	return of.Database == "" || (w.Database == "" || w.Database == of.Database) && (w.LSN == 0 || of.LSN <= w.LSN) && (w.Time.IsZero() || !of.Time.After(w.Time))
}

// Find returns the backup that is meant. It returns ErrNotFound where there is none, ErrInvalid
// where the newest is meant and there are backups of several databases, and ErrCorrupt where it may
// be one that is damaged.
func Find(ctx context.Context, s Source, w Wanted) (*Backup, error) {
	what := "look for the backup " + w.ID
	if w.ID == "" {
		what = "look for the newest backup"
	}
	all, damaged, err := s.Backups(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range damaged {
		if w.may(p) {
			return nil, &fault.Error{
				Kind: fault.ErrCorrupt, What: what, Why: p.What, Do: "name another backup by its ID; memdbctl backup list shows them",
			}
		}
	}
	databases, found := map[string]bool{}, (*Backup)(nil)
	for i := range all {
		b := &all[i]
		if w.ID != "" && b.ID != w.ID || w.Database != "" && b.Database != w.Database {
			continue
		}
		databases[b.Database] = true
		if w.LSN != 0 && b.LSN > w.LSN || !w.Time.IsZero() && b.Time.After(w.Time) {
			continue
		}
		found = b
	}
	if len(databases) > 1 {
		return nil, fault.Invalid(what, "there are backups of several databases: "+strings.Join(sorted(databases), ", "), "name the backup (--id) or the database (--database)")
	}
	if found == nil {
		return nil, &fault.Error{Kind: fault.ErrNotFound, What: what, Why: "there is no such backup", Do: "memdbctl backup list shows those that there are"}
	}
	return found, nil
}

// The kinds of problems, and what helps.
const (
	KindManifest = "manifest" // of a backup
	KindFile     = "file"     // that backups name
	KindArchive  = "archive"

	// RemedyOther: use another backup.
	RemedyOther = "restore --id"
	// RemedyFull: a backup that reads all files again replaces those of the repository that are
	// damaged, as far as the database still has them.
	RemedyFull = "backup --full"
)

// mostProblems bounds a report: the files of a disk that is gone have one cause.
const mostProblems = 1000

// Problem is damage of a backup.
type Problem struct {
	// Kind is one of the kinds above; What says which file is damaged, and how.
	Kind string `json:"kind"`
	What string `json:"what"`
	// ID is that of the newest backup that is damaged by it, Backups those of all.
	ID      string   `json:"id"`
	Backups []string `json:"backups,omitempty"`
	// Remedy is the verb of memdbctl that helps.
	Remedy string `json:"remedy"`
	// lost is the backup, where it is missing whole.
	lost Head
}

// Report is the result of a verification.
type Report struct {
	// OK: there are no problems.
	OK bool `json:"ok"`
	// LSN is that of the newest backup that was verified.
	LSN uint64 `json:"lsn"`
	// Backups, Files and Bytes are how much was verified.
	Backups  int       `json:"backups"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Problems []Problem `json:"problems"`
}

func (r *Report) problem(p Problem) {
	if len(r.Problems) < mostProblems {
		r.Problems = append(r.Problems, p)
	}
}

// need is a file that backups name.
type need struct {
	hash    string
	size    int64
	backups []string
}

// begin takes down what a verification is of.
func (r *Report) begin(all []Backup, damaged []Problem, id string) (needs []*need, err error) {
	r.Problems = []Problem{}
	for _, p := range damaged {
		if id == "" || p.ID == id {
			r.problem(p)
		}
	}
	byHash := map[string]*need{}
	for _, b := range all {
		if id != "" && b.ID != id {
			continue
		}
		r.Backups, r.LSN = r.Backups+1, b.LSN
		for _, f := range b.Files {
			n := byHash[f.Hash]
			if n == nil {
				n = &need{hash: f.Hash, size: f.Size}
				byHash[f.Hash] = n
				needs = append(needs, n)
			}
			if len(n.backups) == 0 || n.backups[len(n.backups)-1] != b.ID {
				n.backups = append(n.backups, b.ID)
			}
		}
	}
	if id != "" && r.Backups == 0 && len(r.Problems) == 0 {
		return nil, &fault.Error{Kind: fault.ErrNotFound, What: "verify the backup " + id, Why: "there is no such backup", Do: "memdbctl backup list shows those that there are"}
	}
	return needs, nil
}

// Verify is that of [Source].
func (r *Repository) Verify(ctx context.Context, id string) (Report, error) {
	var report Report
	all, damaged, err := r.Backups(ctx)
	if err != nil {
		return report, err
	}
	needs, err := report.begin(all, damaged, id)
	if err != nil {
		return report, err
	}
	wrong := make([]string, len(needs))
	err = each(ctx, len(needs), func(i int) (err error) {
		wrong[i], err = r.wrong(ctx, needs[i])
		return err
	})
	if err != nil {
		return report, fault.Within("verify the backups in "+r.dir, err)
	}
	for i, n := range needs {
		report.Files++
		report.Bytes += n.size
		if wrong[i] != "" && r.stillNeeded(n) {
			report.problem(Problem{
				Kind: KindFile, What: filePath(n.hash) + " " + wrong[i], ID: n.backups[len(n.backups)-1], Backups: n.backups, Remedy: RemedyFull,
			})
		}
	}
	report.OK = len(report.Problems) == 0
	return report, nil
}

// wrong says what is wrong with a file, empty where nothing is.
func (r *Repository) wrong(ctx context.Context, n *need) (string, error) {
	hash, size, err := r.hash(ctx, r.path(filePath(n.hash)))
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return "is missing", nil
	case err != nil:
		return "cannot be read: " + fault.CauseText(err), nil
	case size != n.size:
		return fmt.Sprintf("has %d bytes of %d", size, n.size), nil
	case hash != n.hash:
		return "has another content than it had", nil
	}
	return "", nil
}

// stillNeeded reports whether a backup names the file that was not pruned meanwhile.
func (r *Repository) stillNeeded(n *need) bool {
	for _, id := range n.backups {
		if _, err := r.fs.Stat(r.path(manifestPath(id))); err == nil {
			return true
		}
	}
	return false
}

// Identity is that of [Source].
func (r *Repository) Identity(ctx context.Context, b *Backup) ([]byte, error) {
	f, what := b.file(IdentityFile), "restore the backup "+b.ID
	content, err := readSmall(r.fs, r.path(filePath(f.Hash)), MaxIdentity)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), r.unread(what, b, f, err))
	}
	if hashOf(content) != f.Hash {
		return nil, damagedFile(what, f)
	}
	return content, nil
}

// Extract is that of [Source].
func (r *Repository) Extract(ctx context.Context, b *Backup, files vfs.FS, dir string) error {
	what := "restore the backup " + b.ID
	if err := makeFolders(b, files, dir); err != nil {
		return extracted(what, err)
	}
	err := each(ctx, len(b.Files), func(i int) error {
		f := &b.Files[i]
		if f.Name == IdentityFile {
			return nil
		}
		from, err := r.fs.Open(r.path(filePath(f.Hash)), vfs.SequentialReadsOption)
		if err != nil {
			return cmp.Or(ctx.Err(), r.unread(what, b, f, err))
		}
		return errors.Join(put(ctx, f, from, files, filePlace(files, dir, f.Name)), from.Close())
	})
	if err != nil {
		return extracted(what, err)
	}
	return extracted(what, syncFolders(b, files, dir))
}

// unread is the error of a file that cannot be read.
func (r *Repository) unread(what string, b *Backup, f *File, err error) error {
	if _, gone := r.fs.Stat(r.path(manifestPath(b.ID))); errors.Is(gone, fs.ErrNotExist) {
		return &fault.Error{Kind: fault.ErrNotFound, What: what, Why: "it was pruned meanwhile", Do: "memdbctl backup list shows those that there are"}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Kind: fault.ErrCorrupt, What: what, Why: filePath(f.Hash) + " is missing", Do: otherBackup}
	}
	return fault.Within(what, err)
}

const otherBackup = "use another backup; memdbctl backup verify says which are whole"

func damagedFile(what string, f *File) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: what, Why: filePath(f.Hash) + " (" + f.Name + ") is damaged", Do: otherBackup}
}

// filePlace is where a file of a database lies.
func filePlace(files vfs.FS, dir, name string) string {
	return files.PathJoin(append([]string{dir}, strings.Split(name, "/")...)...)
}

// folders are those of the files of a backup.
func folders(b *Backup, files vfs.FS, dir string) map[string]bool {
	all := map[string]bool{}
	for _, f := range b.Files {
		all[files.PathDir(filePlace(files, dir, f.Name))] = true
	}
	return all
}

func makeFolders(b *Backup, files vfs.FS, dir string) error {
	for _, folder := range sorted(folders(b, files, dir)) {
		if err := makeFolder(files, folder); err != nil {
			return err
		}
	}
	return nil
}

func syncFolders(b *Backup, files vfs.FS, dir string) error {
	for _, folder := range sorted(folders(b, files, dir)) {
		if err := fsys.SyncDir(files, folder); err != nil {
			return err
		}
	}
	return nil
}

// put writes a file of a database, and proves what was read.
func put(ctx context.Context, f *File, from io.Reader, files vfs.FS, path string) error {
	to, err := files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	hash, _, err := copyHashed(ctx, to, io.LimitReader(from, f.Size+1))
	if err == nil && hash != f.Hash {
		err = damagedFile("copy "+f.Name, f)
	}
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// extracted gives an error of a copy its kind.
func extracted(what string, err error) error {
	if err != nil && fsys.IsFull(err) {
		return &fault.Error{Kind: fault.ErrDiskFull, What: what, Why: "the disk is full", Cause: err, Do: "make room there, or restore to another disk"}
	}
	return fault.Within(what, err)
}
