package move

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// What begins with these is packed.
const (
	zipMagic  = "PK\x03\x04"
	zipEmpty  = "PK\x05\x06"
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

const (
	// A text of a few bytes can unpack to any size: beyond freeUnpacked bytes that is refused which
	// is more than maxRatio times as long as it was.
	freeUnpacked = 1 << 30
	maxRatio     = 200
	// maxWindow bounds the memory for unpacking, in bytes.
	maxWindow = 128 << 20
	// mostNamed is how many of the files that are not read are named.
	mostNamed = 40
)

var (
	errUnpacks = fmt.Errorf("it unpacks to more than %d times its size; unpack it, and look at it, before it is imported", maxRatio)
	errNothing = errors.New("none of its files has a known form; name a file")
)

// An opener opens what is read, from its beginning.
type opener func() (io.ReadCloser, error)

// A member is a file of an archive or of a folder.
type member struct {
	name   string
	size   int64
	open   opener
	err    error // why it cannot be read
	format Format
	plain  bool // JSON of no format that is recognised
	other  bool // it is of no kind that is read, such as an archive
}

// budget bounds what an archive or a packed file unpacks to.
type budget struct{ packed, unpacked, free int64 }

// budgeted counts what is unpacked.
type budgeted struct {
	io.ReadCloser
	of *budget
}

func (b budgeted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.of.unpacked += int64(n); b.of.unpacked > b.of.free && b.of.unpacked/maxRatio > b.of.packed {
		return 0, errUnpacks
	}
	return n, err
}

// counted counts the packed bytes of a pipe.
type counted struct {
	io.Reader
	of *budget
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.of.packed += int64(n)
	return n, err
}

// Unpack makes of an input that is compressed, or an archive, what is in it: its one file, or all of
// its files. An input that is neither stays as it is. A folder with one file becomes that file. The
// closer is nil where nothing was opened.
func (in *Input) Unpack() (io.Closer, error) {
	if in.Reader == nil {
		return in.only()
	}
	head, _ := in.Reader.Peek(len(zipMagic))
	switch h := string(head); {
	case h == zipMagic || h == zipEmpty:
		if in.File == nil {
			return nil, errors.New("an archive cannot be read from a pipe; write it to a file, and import that")
		}
		archive, err := zip.NewReader(in.File, in.Size)
		if err != nil {
			return nil, fmt.Errorf("the archive cannot be read: %w", err)
		}
		archive.RegisterDecompressor(zstd.ZipMethodWinZip, zstd.ZipDecompressor(zstd.WithDecoderMaxMemory(maxWindow)))
		in.files = inArchive(archive, &budget{packed: in.Size, free: freeUnpacked})
		in.Reader, in.File, in.Size, in.Beside, in.Folder = nil, nil, 0, nil, archive
		return in.only()
	case strings.HasPrefix(h, gzipMagic):
		return in.decompress(func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }, ".gz", ".gzip")
	case h == zstdMagic:
		return in.decompress(func(r io.Reader) (io.ReadCloser, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}, ".zst", ".zstd")
	}
	return nil, nil
}

// decompress makes of a compressed file what is in it.
func (in *Input) decompress(unpack func(io.Reader) (io.ReadCloser, error), endings ...string) (io.Closer, error) {
	open := func(r io.Reader) (io.ReadCloser, error) {
		of := &budget{free: freeUnpacked}
		c, err := unpack(counted{r, of})
		if err != nil {
			return nil, fmt.Errorf("the file cannot be unpacked: %w", err)
		}
		return budgeted{c, of}, nil
	}
	if at, size := in.File, in.Size; at != nil {
		in.reopen = func() (io.ReadCloser, error) { return open(io.NewSectionReader(at, 0, size)) }
	}
	r, err := open(in.Reader)
	if err != nil {
		return nil, err
	}
	for _, ending := range endings {
		if at := len(in.Name) - len(ending); at > 0 && strings.EqualFold(in.Name[at:], ending) {
			in.Name = in.Name[:at]
			break
		}
	}
	in.Reader, in.File, in.Size, in.Beside = bufio.NewReaderSize(r, splitBuffer), nil, 0, nil
	return r, nil
}

// restart is what opens the input again, nil for a pipe, which can be read once.
func (in *Input) restart() opener {
	if in.reopen == nil && in.File != nil {
		return func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(in.File, 0, in.Size)), nil }
	}
	return in.reopen
}

// inArchive are the files of an archive. Two may have one name. Nothing is written under any of them.
func inArchive(archive *zip.Reader, of *budget) []*member {
	var files []*member
	for _, f := range archive.File {
		if !f.Mode().IsRegular() || strings.HasSuffix(f.Name, "/") || isHidden(f.Name) {
			continue
		}
		one := &member{name: f.Name, size: int64(min(f.UncompressedSize64, 1<<62))}
		one.open = func() (io.ReadCloser, error) {
			const encrypted = 1
			if f.Flags&encrypted != 0 {
				return nil, errors.New("it is encrypted; unpack the archive with its password, and import the folder")
			}
			r, err := f.Open()
			if errors.Is(err, zip.ErrAlgorithm) {
				err = fmt.Errorf("it is compressed by method %d, which is not supported; unpack the archive, and import the folder", f.Method)
			}
			if err != nil {
				return nil, err
			}
			return budgeted{r, of}, nil
		}
		files = append(files, one)
	}
	return files
}

// inFolder are the files of a folder. Links are not followed.
func inFolder(folder fs.FS) (files []*member, err error) {
	err = fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return err
		case err != nil:
			files = append(files, &member{name: name, err: err})
			return nil
		case d.IsDir() && name != "." && strings.HasPrefix(path.Base(name), "."):
			return fs.SkipDir
		case !d.Type().IsRegular() || isHidden(name):
			return nil
		case len(files) >= maxFiles:
			return fmt.Errorf("the folder has more than %d files; import its folders one by one", maxFiles)
		}
		one := &member{name: name}
		if info, err := d.Info(); err == nil {
			one.size = info.Size()
		}
		one.open = func() (io.ReadCloser, error) {
			f, err := folder.Open(name)
			if err != nil {
				return nil, err
			}
			if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // it became another thing
				return nil, errors.Join(fmt.Errorf("%s is no regular file", name), err, f.Close())
			}
			return f, nil
		}
		files = append(files, one)
		return nil
	})
	return files, err
}

// isHidden reports whether programs put the file beside those of people.
func isHidden(name string) bool {
	return strings.HasPrefix(path.Base(name), ".") || strings.HasPrefix(name, "__MACOSX/")
}

// only makes of an archive or a folder with one file that file.
func (in *Input) only() (io.Closer, error) {
	if err := in.list(); err != nil {
		return nil, err
	}
	if len(in.files) != 1 || isPage(in.files[0].name) {
		return nil, nil
	}
	one, err := in.enter(in.files[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.files[0].name, err)
	}
	closer := one.closer
	if head, _ := one.Reader.Peek(len(zipMagic)); string(head) == zipMagic {
		return closer, fmt.Errorf("it holds another archive, %s; unpack it, and import that", one.Name)
	}
	beside := in.Beside
	*in = *one
	in.Beside = beside
	return closer, nil
}

// enter opens a file of the input as an input of its own.
func (in *Input) enter(f *member) (*Input, error) {
	if f.err != nil {
		return nil, f.err
	}
	r, err := f.open()
	if err != nil {
		return nil, err
	}
	one := &Input{Name: f.name, Reader: bufio.NewReaderSize(r, splitBuffer), reopen: f.open, closer: r}
	if at, ok := r.(io.ReaderAt); ok {
		one.File, one.Size = at, f.size
	}
	return one, nil
}

// list finds the files of a folder.
func (in *Input) list() (err error) {
	if in.files == nil {
		in.files, err = inFolder(in.Folder)
	}
	return err
}

// sort recognises the files of an archive or a folder, each by its content.
func (in *Input) sort(ctx context.Context) error {
	if in.sorted {
		return nil
	}
	if err := in.list(); err != nil {
		return err
	}
	for _, f := range in.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if isPage(f.name) {
			f.format = Markdown
			continue
		}
		one, err := in.enter(f)
		if err != nil {
			f.err = err
			continue
		}
		head, _ := one.Reader.Peek(len(zipMagic))
		if packed := string(head); packed == zipMagic || strings.HasPrefix(packed, gzipMagic) || packed == zstdMagic || one.IsSQLite() {
			f.other = true
		} else if format, ok := one.recognise(); ok {
			f.format = format
		} else if l := one.layout(); !l.own && (l.first == '[' || l.first == '{') {
			f.plain = true
		}
		f.err = one.closer.Close()
	}
	in.sorted = true
	return nil
}

// of returns which files are read as a format: those that are recognised as it, or, where there are
// none, those of JSON that nothing else is.
func (in *Input) of(format Format) func(*member) bool {
	is := func(f *member) bool { return f.format == format }
	if slices.ContainsFunc(in.files, is) {
		return is
	}
	return func(f *member) bool { return f.plain }
}

// choose returns the one format that the files of an archive or a folder are read as.
func (in *Input) choose(ctx context.Context) (Format, error) {
	if in.chosen != "" {
		return in.chosen, nil
	}
	if err := in.sort(ctx); err != nil {
		return "", err
	}
	count := map[Format]int{}
	for _, f := range in.files {
		count[f.format]++
	}
	chosen, err := oneOf(count, in.Folder)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, in.firstNames())
	}
	in.chosen = chosen
	return chosen, nil
}

// oneOf is the one format of the files: that of a program before Markdown, and Markdown before forms
// that may be anybody's.
func oneOf(count map[Format]int, folder fs.FS) (Format, error) {
	weak := []Format{Chats, JSON, CSV}
	var strong []string
	for f := range count {
		if f != "" && f != Markdown && !slices.Contains(weak, f) {
			strong = append(strong, string(f))
		}
	}
	slices.Sort(strong)
	vault := false
	if folder != nil && count[Markdown] > 0 {
		_, err := fs.Stat(folder, ".obsidian")
		vault = err == nil
	}
	switch {
	case vault, count[Markdown] > 0 && len(strong) == 0:
		return Markdown, nil
	case len(strong) > 1:
		return "", fmt.Errorf("it has files of %s; name one by --format, and import it again for the others", strings.Join(strong, " and "))
	case len(strong) == 1:
		return Format(strong[0]), nil
	}
	for _, f := range weak {
		if count[f] > 0 {
			return f, nil
		}
	}
	return "", errNothing
}

// firstNames are the names of the first files, for an error.
func (in *Input) firstNames() string {
	var names []string
	for _, f := range in.files[:min(len(in.files), 5)] {
		names = append(names, f.name)
	}
	if len(in.files) > len(names) {
		names = append(names, fmt.Sprintf("and %d more", len(in.files)-len(names)))
	}
	if len(names) == 0 {
		return "it is empty"
	}
	return strings.Join(names, ", ")
}
