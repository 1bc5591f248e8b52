package folder

import (
	"bytes"
	"cmp"
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
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// Timeline is what an archive has of a timeline.
type Timeline struct {
	// ID is the timeline's own, and the name of its folder.
	ID wal.Timeline
	// End is what the files have, Had how far the archive reached when it was written last; zero where that
	// is not recorded, or cannot be read.
	wal.End
	Had wal.End
	// Segments and bases are the files, Bytes what they take.
	Segments, Bases int
	Bytes           int64
}

// Timelines are those of an archive, the one that was written last at the end. It is ErrNotDatabase where
// the folder is no archive.
func Timelines(dir string) (database string, all []Timeline, err error) {
	f, dir := fsys.Named(dir)
	return timelines(f, dir)
}

func timelines(f vfs.FS, dir string) (database string, all []Timeline, err error) {
	id, err := readIdentity(f, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, &fault.Error{Kind: fault.ErrNotDatabase, What: doing(dir), Why: "there is no archive in this folder", Do: "name the folder of an archive, or make one: memdbctl archive DIR"}
	}
	if err != nil {
		return "", nil, err
	}
	names, err := f.List(dir)
	if err != nil {
		return "", nil, fault.Within(doing(dir), err)
	}
	for _, name := range names {
		name, recorded := strings.CutSuffix(name, endSuffix)
		t, err := wal.ParseTimeline(name)
		if err != nil || recorded && slices.Contains(names, name) {
			continue
		}
		s, err := survey(f, f.PathJoin(dir, name))
		if err != nil {
			return "", nil, fault.Within(doing(dir), err)
		}
		had, err := readEnd(f, dir, t, id)
		if err != nil && !errors.Is(err, errEnd) {
			return "", nil, fault.Within(doing(dir), err)
		}
		if recorded && had.Number == 0 {
			continue // the timeline was not begun
		}
		one := Timeline{ID: t, End: s.End, Had: had.End, Segments: s.segments, Bases: s.bases, Bytes: s.bytes}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b Timeline) int {
		return cmp.Or(cmp.Compare(max(a.Time, a.Had.Time), max(b.Time, b.Had.Time)), cmp.Compare(max(a.Number, a.Had.Number), max(b.Number, b.Had.Number)))
	})
	return id.Database, all, nil
}

// found is what a look at the files of a timeline has found.
type found struct {
	wal.End
	segments, bases int
	bytes           int64
}

// survey looks at the files of a timeline.
func survey(f vfs.FS, dir string) (s found, err error) {
	segments, err := numbers(f, dir, segmentSuffix)
	if err != nil {
		return s, err
	}
	bases, err := numbers(f, dir, baseSuffix)
	if err != nil {
		return s, err
	}
	s.segments, s.bases = len(segments), len(bases)
	begun := uint64(0) // the first number of what follows without a gap
	for _, first := range segments {
		if first > s.Number+1 {
			begun = first
		} else if begun == 0 {
			begun = first
		}
		if err := s.segment(f, f.PathJoin(dir, fileName(first, segmentSuffix))); err != nil {
			return s, err
		}
	}
	s.Whole = begun == 1 && s.Number > 0
	for _, base := range bases {
		size, err := f.Stat(f.PathJoin(dir, fileName(base, baseSuffix)))
		if err != nil {
			return s, err
		}
		s.bytes += size.Size()
		if base >= s.Number || begun > 0 && base+1 >= begun {
			s.Whole = true
		}
		s.Number = max(s.Number, base)
		if err := s.base(f, f.PathJoin(dir, fileName(base, baseSuffix))); err != nil {
			return s, err
		}
	}
	unfinished, err := numbers(f, dir, newSuffix)
	if err != nil {
		return s, err
	}
	for _, base := range unfinished { // its number was given
		if base > s.Number {
			s.Number, s.Whole = base, false
		}
	}
	return s, nil
}

// segment reads the heads of a segment.
func (s *found) segment(f vfs.FS, path string) error {
	return eachHead(f, path, func(h *wal.Frame, end int64) {
		s.Number = max(s.Number, h.Last)
		s.LSN, s.Time = max(s.LSN, h.LSN), max(s.Time, h.Time)
		s.bytes += end
	})
}

// base reads what the first part of a base says.
func (s *found) base(f vfs.FS, path string) error {
	return eachHead(f, path, func(h *wal.Frame, _ int64) { s.LSN, s.Time = max(s.LSN, h.LSN), max(s.Time, h.Time) })
}

// eachHead visits the heads of the frames of a file that are whole, with the bytes of each frame. A frame
// that no head follows is read whole: a crash may have torn it, its head too.
func eachHead(f vfs.FS, path string, visit func(h *wal.Frame, size int64)) error {
	file, err := f.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	var last *wal.Frame
	size := int64(0) // of the last frame
	for at := int64(0); ; {
		r := wal.NewReader(io.NewSectionReader(file, at, info.Size()-at))
		h, err := r.Skip(func(bytes int64) error {
			if at+bytes > info.Size() {
				return wal.ErrTorn
			}
			return nil
		})
		if err == nil && at+r.Offset() > info.Size() {
			err = wal.ErrTorn
		}
		ended := errors.Is(err, wal.ErrTorn) || errors.Is(err, io.EOF) || errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrNewerLayout)
		if err != nil && !ended {
			return fault.Within(path, err)
		}
		if last != nil && ended {
			if _, err := wal.NewReader(io.NewSectionReader(file, at-size, size)).Next(); err != nil {
				return nil
			}
		}
		if last != nil {
			visit(last, size)
		}
		if ended {
			return nil // what comes behind is not followed; who reads it is told
		}
		last, size = h, r.Offset()
		at += size
	}
}

// pollEvery is how often a cursor that waits looks for more.
const pollEvery = 50 * time.Millisecond

// Cursor follows a timeline of an archive, also while it is appended to. Next is a wal.Feed.
type Cursor struct {
	fs     vfs.FS
	dir    string
	path   string // of the archive, dir is that of the timeline
	follow bool
	begin  *uint64 // see BeginAt

	timeline wal.Timeline
	newest   uint64 // the number of the frame of batches that was read last, and its checksum
	sum      uint64

	file vfs.File
	name string
	at   int64
}

// Follow begins to read a timeline: the zero Timeline is the one that was written last. With wait the
// cursor waits for more at the end of the archive; otherwise it returns io.EOF there, joined with a
// *wal.ShortError where the archive had more.
func Follow(dir string, t wal.Timeline, wait bool) (*Cursor, error) {
	f, dir := fsys.Named(dir)
	_, all, err := timelines(f, dir)
	if err != nil {
		return nil, err
	}
	if t == (wal.Timeline{}) {
		if len(all) == 0 {
			return nil, &fault.Error{Kind: fault.ErrNotFound, What: doing(dir), Why: "it holds nothing yet", Do: "archive a database into it first"}
		}
		t = all[len(all)-1].ID
	}
	c := &Cursor{fs: f, path: dir, dir: f.PathJoin(dir, t.String()), follow: wait, timeline: t}
	if _, err := f.Stat(c.dir); err != nil {
		if slices.ContainsFunc(all, func(one Timeline) bool { return one.ID == t }) {
			return nil, &fault.Error{Kind: fault.ErrCorrupt, What: doing(dir), Why: "the folder of the timeline " + t.String() + " is missing", Do: "restore the folder from a copy, or name a backup"}
		}
		return nil, &fault.Error{Kind: fault.ErrNotFound, What: doing(dir), Why: "it has nothing of the timeline " + t.String(), Do: "name another archive"}
	}
	return c, nil
}

// Close ends the reading.
func (c *Cursor) Close() error {
	if c.file == nil {
		return nil
	}
	file := c.file
	c.file = nil
	return file.Close()
}

// Next is the frame that follows a position, see [wal.Feed].
func (c *Cursor) Next(ctx context.Context, after wal.Position) (*wal.Frame, error) {
	for {
		f, err := c.next(after)
		if err == nil || !errors.Is(err, io.EOF) {
			return f, err
		}
		if !c.follow {
			return c.ended(after, err)
		}
		if err := retry.Sleep(ctx, pollEvery); err != nil {
			return nil, err
		}
	}
}

// ended is what follows a position at the end of the archive.
func (c *Cursor) ended(after wal.Position, end error) (*wal.Frame, error) {
	short := c.short(after)
	if short == nil {
		return nil, end
	}
	f, err := c.next(after) // it may have come before the record was read
	if err == nil || !errors.Is(err, io.EOF) {
		return f, err
	}
	return nil, errors.Join(err, short)
}

// next is Next without waiting.
func (c *Cursor) next(after wal.Position) (*wal.Frame, error) {
	if after == (wal.Position{}) {
		return c.first()
	}
	if after.Parts > 0 {
		return c.read(fileName(after.Number, baseSuffix), after)
	}
	segments, err := numbers(c.fs, c.dir, segmentSuffix)
	if err != nil {
		return nil, fault.Within(doing(c.path), err)
	}
	// From the newest segment that can have the next batch back to the one before: that may have been
	// appended to last.
	end := io.EOF
	for _, first := range slices.Backward(segments) {
		if first > after.Number+1 {
			continue
		}
		f, err := c.read(fileName(first, segmentSuffix), after)
		if err != nil && errors.Is(err, wal.ErrTorn) {
			end = errors.Join(io.EOF, err)
		} else if !errors.Is(err, io.EOF) {
			return f, err
		}
		break // what is torn there, the next segment has
	}
	for _, first := range segments {
		if first > after.Number+1 {
			return nil, c.gap(after)
		}
	}
	if bases, err := numbers(c.fs, c.dir, baseSuffix); err != nil || len(bases) > 0 && bases[len(bases)-1] > after.Number {
		return nil, cmp.Or(err, c.gap(after))
	}
	return nil, end
}

// first is the first frame: of the newest base, or the first batch of the database.
func (c *Cursor) first() (*wal.Frame, error) {
	bases, err := numbers(c.fs, c.dir, baseSuffix)
	if err != nil {
		return nil, fault.Within(doing(c.path), err)
	}
	if c.begin != nil && *c.begin > 0 {
		return c.read(fileName(*c.begin, baseSuffix), wal.Position{})
	}
	if n := len(bases); n > 0 && c.begin == nil {
		return c.read(fileName(bases[n-1], baseSuffix), wal.Position{})
	}
	segments, err := numbers(c.fs, c.dir, segmentSuffix)
	if err != nil || len(segments) == 0 {
		return nil, cmp.Or(fault.Within(doing(c.path), err), io.EOF)
	}
	if segments[0] != 1 {
		return nil, c.gap(wal.Position{})
	}
	f, err := c.read(fileName(1, segmentSuffix), wal.Position{})
	if len(segments) > 1 && (errors.Is(err, wal.ErrTorn) || errors.Is(err, io.EOF)) {
		return nil, c.gap(wal.Position{})
	}
	if errors.Is(err, wal.ErrTorn) {
		err = errors.Join(io.EOF, err)
	}
	return f, err
}

func (c *Cursor) gap(after wal.Position) error {
	return &fault.Error{
		Kind: fault.ErrNotRetained, What: doing(c.path), Why: fmt.Sprintf("it does not have what follows batch %d", after.Number), Cause: wal.ErrGap,
		Do: "begin again, from its newest base",
	}
}

// read is the first frame of a file that goes beyond a position, io.EOF or ErrTorn where there is none.
func (c *Cursor) read(name string, after wal.Position) (*wal.Frame, error) {
	if c.file == nil || c.name != name {
		if err := c.Close(); err != nil {
			return nil, err
		}
		file, err := c.fs.Open(c.fs.PathJoin(c.dir, name))
		if err != nil {
			return nil, fault.Within(doing(c.path), err)
		}
		c.file, c.name, c.at = file, name, 0
	}
	for {
		info, err := c.file.Stat()
		if err != nil {
			return nil, fault.Within(doing(c.path), err)
		}
		r := wal.NewReader(io.NewSectionReader(c.file, c.at, info.Size()-c.at))
		f, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, wal.ErrTorn) {
			return nil, err
		}
		// Of a frame that is torn even the version may be chance.
		if (errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrNewerLayout)) && torn(io.NewSectionReader(c.file, c.at, info.Size()-c.at)) {
			return nil, wal.ErrTorn
		}
		if err != nil {
			return nil, fault.Within(fmt.Sprintf("%s: %s, byte %d", doing(c.path), c.fs.PathJoin(c.dir, name), c.at), err)
		}
		if f.Kind == wal.Batches {
			c.newest, c.sum = f.Last, r.Sum()
			if f.Last <= after.Number {
				c.at += r.Offset()
				continue
			}
			if f.Behind(after.Number); f.First != after.Number+1 {
				return nil, c.gap(after)
			}
		} else if f.Last < after.Parts {
			c.at += r.Offset()
			continue
		}
		c.at += r.Offset()
		return f, nil
	}
}

// mostBehind bounds what is read behind a frame that is damaged: a segment and its last frame.
const mostBehind = segmentBytes + wal.MaxFrame

// torn reports whether nothing comes behind a frame that cannot be read: a machine that stopped while the
// frame was written leaves that. Each frame is on disk before the next is written, so with a whole one
// behind it, it was damaged later.
func torn(r io.Reader) bool {
	b, err := io.ReadAll(io.LimitReader(r, mostBehind))
	if err != nil {
		return false
	}
	for at := 1; at < len(b); at++ {
		next := bytes.Index(b[at:], []byte(wal.Magic))
		if next < 0 {
			return true
		}
		at += next
		if _, err := wal.NewReader(bytes.NewReader(b[at:])).Next(); err == nil {
			return false
		}
	}
	return true
}

// Bases are the complete bases of the timeline, rising, with what their ends say.
func (c *Cursor) Bases() ([]wal.End, error) {
	all, err := numbers(c.fs, c.dir, baseSuffix)
	if err != nil {
		return nil, fault.Within(doing(c.path), err)
	}
	ends := make([]wal.End, 0, len(all))
	for _, n := range all {
		var s found
		if err := s.base(c.fs, c.fs.PathJoin(c.dir, fileName(n, baseSuffix))); err != nil {
			return nil, fault.Within(doing(c.path), err)
		}
		ends = append(ends, wal.End{Number: n, LSN: s.LSN, Time: s.Time, Whole: true})
	}
	return ends, nil
}

// BeginAt has the zero Position mean the base of a number, or for 0 the first batch of the database. Without
// it that is the newest base, if there is one.
func (c *Cursor) BeginAt(base uint64) { c.begin = &base }

// Before is the position before the frame that has the commit of an LSN, or the one behind it. It is
// wal.ErrGap where no such frame is there.
func (c *Cursor) Before(lsn uint64) (wal.Position, error) {
	all, err := numbers(c.fs, c.dir, segmentSuffix)
	if err != nil {
		return wal.Position{}, fault.Within(doing(c.path), err)
	}
	at := wal.Position{Timeline: c.timeline}
	for _, first := range all {
		reached := false
		err := eachHead(c.fs, c.fs.PathJoin(c.dir, fileName(first, segmentSuffix)), func(h *wal.Frame, _ int64) {
			if !reached && h.LSN >= lsn && h.Since <= lsn {
				reached, at.Number = true, h.First-1
			}
		})
		if err != nil {
			return at, fault.Within(doing(c.path), err)
		}
		if reached {
			return at, nil
		}
	}
	return at, &fault.Error{
		Kind: fault.ErrNotRetained, What: doing(c.path), Why: fmt.Sprintf("it does not have what follows LSN %d", lsn), Cause: wal.ErrGap,
		Do: "begin from a backup or a base behind it",
	}
}
