package backup

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

// maxWindow bounds the memory of who reads an archive, in bytes.
const maxWindow = 32 << 20

// Archive is a backup in one file. Its files come in this order: the marker, the files by their
// hashes, [IdentityFile] first, and the manifest. So it is whole only if the manifest is there.
type Archive struct {
	fs   vfs.FS
	path string
}

var _ Source = (*Archive)(nil)

// errEnd ends a scan early.
var errEnd = errors.New("what was looked for is found")

// scan reads an archive to its end, and calls visit with each file in it.
func (a *Archive) scan(ctx context.Context, visit func(name string, size int64, r io.Reader) error) error {
	f, err := a.fs.Open(a.path, vfs.SequentialReadsOption)
	if err != nil {
		return fault.Within("read "+a.path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fault.Within("read "+a.path, err)
	}
	defer z.Close()
	t := tar.NewReader(z)
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return a.damaged(err)
		}
		if n == 0 && h.Name != markerName {
			return a.damaged(errors.New("it is no archive of memdb"))
		}
		if h.Typeflag != tar.TypeReg || h.Size > maxFile || n > maxFiles+1 {
			return a.damaged(fmt.Errorf("%.200q is nothing that an archive has", h.Name))
		}
		if err := visit(h.Name, h.Size, t); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, z); err != nil { // the checksum at the end
		return a.damaged(err)
	}
	return nil
}

func (a *Archive) damaged(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read the archive " + a.path, Why: "it is damaged or cut off", Cause: err, Do: "use another backup"}
}

// whole reads all of the archive, and proves its files by their names.
func (a *Archive) whole(ctx context.Context) (b *Backup, err error) {
	hashes := map[string]int64{}
	err = a.scan(ctx, func(name string, size int64, r io.Reader) error {
		switch folder, base, _ := strings.Cut(name, "/"); {
		case b != nil:
			return a.damaged(errors.New("something follows its manifest"))
		case name == markerName:
			content, err := a.small(r, size, maxMarker)
			if err != nil {
				return err
			}
			_, err = decodeMarker(a.path, content)
			return err
		case folder == manifestsDir && isID.MatchString(strings.TrimSuffix(base, manifestEnd)):
			content, err := a.small(r, size, maxManifest)
			if err == nil {
				b, err = decodeManifest(strings.TrimSuffix(base, manifestEnd), content)
			}
			return err
		}
		want := name[strings.LastIndexByte(name, '/')+1:]
		hash, _, err := copyHashed(ctx, io.Discard, r)
		if err == nil && (hash != want || name != filePath(hash)) {
			err = fmt.Errorf("%.200q has another content than it had", name)
		}
		if err != nil {
			return cmp.Or(ctx.Err(), a.damaged(err))
		}
		hashes[hash] = size
		return nil
	})
	if err == nil && b == nil {
		err = a.damaged(errors.New("its manifest is missing"))
	}
	if err != nil {
		return nil, err
	}
	for _, f := range b.Files {
		if size, ok := hashes[f.Hash]; !ok || size != f.Size {
			return nil, a.damaged(fmt.Errorf("%s (%s) is missing", filePath(f.Hash), f.Name))
		}
	}
	return b, nil
}

// small reads a file of the archive whole.
func (a *Archive) small(r io.Reader, size, most int64) ([]byte, error) {
	if size > most {
		return nil, a.damaged(fmt.Errorf("a file of %d bytes is larger than it can be", size))
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, a.damaged(err)
	}
	return b, nil
}

// Backups is that of [Source]. It reads the whole archive.
func (a *Archive) Backups(ctx context.Context) (all []Backup, damaged []Problem, err error) {
	b, err := a.whole(ctx)
	if errors.Is(err, fault.ErrCorrupt) {
		return nil, []Problem{{Kind: KindArchive, What: err.Error(), Remedy: RemedyOther}}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return []Backup{*b}, nil, nil
}

// Verify is that of [Source].
func (a *Archive) Verify(ctx context.Context, id string) (report Report, err error) {
	all, damaged, err := a.Backups(ctx)
	if err != nil {
		return report, err
	}
	if len(damaged) > 0 {
		id = "" // what it is of is not known
	}
	needs, err := report.begin(all, damaged, id)
	for _, n := range needs {
		report.Files++
		report.Bytes += n.size
	}
	report.OK = len(report.Problems) == 0
	return report, err
}

// Identity is that of [Source].
func (a *Archive) Identity(ctx context.Context, b *Backup) (content []byte, err error) {
	f, what := b.file(IdentityFile), "restore the backup "+b.ID
	err = a.scan(ctx, func(name string, size int64, r io.Reader) (err error) {
		if name != filePath(f.Hash) {
			return nil
		}
		if content, err = a.small(r, size, MaxIdentity); err == nil {
			err = errEnd
		}
		return err
	})
	if err != nil && !errors.Is(err, errEnd) {
		return nil, fault.Within(what, err)
	}
	if hashOf(content) != f.Hash {
		return nil, damagedFile(what, f)
	}
	return content, nil
}

// Extract is that of [Source].
func (a *Archive) Extract(ctx context.Context, b *Backup, files vfs.FS, dir string) error {
	what := "restore the backup " + b.ID
	if err := makeFolders(b, files, dir); err != nil {
		return extracted(what, err)
	}
	places := map[string][]*File{}
	for i := range b.Files {
		if f := &b.Files[i]; f.Name != IdentityFile {
			places[filePath(f.Hash)] = append(places[filePath(f.Hash)], f)
		}
	}
	err := a.scan(ctx, func(name string, size int64, r io.Reader) error {
		same := places[name]
		delete(places, name)
		for i, f := range same {
			to := filePlace(files, dir, f.Name)
			if i > 0 { // the archive has it once
				if err := copyAgain(ctx, f, files, filePlace(files, dir, same[0].Name), to); err != nil {
					return err
				}
				continue
			}
			if err := put(ctx, f, r, files, to); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(places) > 0 {
		err = a.damaged(errors.New("files of it are missing"))
	}
	if err != nil {
		return extracted(what, err)
	}
	return extracted(what, syncFolders(b, files, dir))
}

func copyAgain(ctx context.Context, f *File, files vfs.FS, from, to string) error {
	r, err := files.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	return errors.Join(put(ctx, f, r, files, to), r.Close())
}

// WriteArchive writes a backup to one file, and reads it back. It returns ErrExists where there is
// a file of that name. It reads each item twice.
func WriteArchive(ctx context.Context, path string, head Head, items []Item) (Written, error) {
	b := Backup{ID: nextID(nil, head.Time), Head: head, Files: make([]File, len(items))}
	b.Time = head.Time.UTC()
	err := each(ctx, len(items), func(i int) error {
		it := &items[i]
		from, err := it.Open()
		if err != nil {
			return err
		}
		hash, n, err := copyHashed(ctx, io.Discard, from)
		if err == nil && n != it.Size {
			err = fmt.Errorf("%s has %d bytes, and had %d when the backup began", it.Name, n, it.Size)
		}
		b.Files[i] = File{Name: it.Name, Size: it.Size, Hash: hash, Modified: it.Modified}
		return errors.Join(err, from.Close())
	})
	if err != nil {
		return Written{}, fault.Within("read what is to be archived", err)
	}
	for _, f := range b.Files {
		b.Bytes += f.Size
	}
	open := make(map[string]func() (io.ReadCloser, error), len(items))
	for i := range items {
		open[b.Files[i].Hash] = items[i].Open
	}
	files, path := fsys.Named(path)
	return writeArchive(ctx, files, path, &b, func(hash string) (io.ReadCloser, error) { return open[hash]() })
}

// Archive writes a backup of the repository to one file, as [WriteArchive] does.
func (r *Repository) Archive(ctx context.Context, path string, b *Backup) (Written, error) {
	files, path := fsys.Named(path)
	return writeArchive(ctx, files, path, b, func(hash string) (io.ReadCloser, error) {
		return r.fs.Open(r.path(filePath(hash)), vfs.SequentialReadsOption)
	})
}

func writeArchive(ctx context.Context, files vfs.FS, path string, b *Backup, open func(hash string) (io.ReadCloser, error)) (Written, error) {
	what := "write the archive " + path
	if _, err := files.Stat(path); err == nil {
		return Written{}, &fault.Error{Kind: fault.ErrExists, What: what, Why: "there is a file of that name", Do: "name another"}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Written{}, written(what, err)
	}
	part := path + partialEnd
	err := fillArchive(ctx, files, part, b, open)
	var info vfs.FileInfo
	if err == nil {
		info, err = files.Stat(part)
	}
	if err == nil {
		_, err = (&Archive{files, part}).whole(ctx)
	}
	if err == nil {
		err = files.Rename(part, path)
	}
	if err == nil {
		err = fsys.SyncDir(files, files.PathDir(path))
	}
	if err != nil {
		return Written{}, written(what, errors.Join(err, removeIfThere(files, part)))
	}
	return Written{Backup: *b, NewBytes: info.Size()}, nil
}

// fillArchive writes an archive under the name that it has until it is whole.
func fillArchive(ctx context.Context, files vfs.FS, part string, b *Backup, open func(hash string) (io.ReadCloser, error)) error {
	f, err := files.Create(part, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(mangled{f}, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	t := tar.NewWriter(z)
	err = fillTar(ctx, t, b, open)
	if err == nil {
		err = t.Close()
	}
	if err = errors.Join(err, z.Close()); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// mangled gives a file copies of what is written: a vfs.File may spoil what it is given.
type mangled struct{ w io.Writer }

func (m mangled) Write(p []byte) (int, error) { return m.w.Write(append([]byte(nil), p...)) }

func fillTar(ctx context.Context, t *tar.Writer, b *Backup, open func(hash string) (io.ReadCloser, error)) error {
	marker, err := encodeMarker(false)
	if err != nil {
		return err
	}
	manifest, err := encodeManifest(b)
	if err != nil {
		return err
	}
	if err := addSmall(t, markerName, b.Time, marker); err != nil {
		return err
	}
	there := map[string]bool{}
	add := func(f *File) error {
		if there[f.Hash] {
			return nil
		}
		there[f.Hash] = true
		from, err := open(f.Hash)
		if err != nil {
			return err
		}
		err = t.WriteHeader(header(filePath(f.Hash), f.Size, b.Time))
		if err == nil {
			_, _, err = copyHashed(ctx, t, from)
		}
		return errors.Join(err, from.Close())
	}
	if err := add(b.file(IdentityFile)); err != nil {
		return err
	}
	for i := range b.Files {
		if err := add(&b.Files[i]); err != nil {
			return err
		}
	}
	return addSmall(t, manifestPath(b.ID), b.Time, manifest)
}

func header(name string, size int64, at time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: at.Truncate(time.Second)}
}

func addSmall(t *tar.Writer, name string, at time.Time, content []byte) error {
	err := t.WriteHeader(header(name, int64(len(content)), at))
	if err == nil {
		_, err = t.Write(content)
	}
	return err
}
