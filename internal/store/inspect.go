package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Inspect visits all that the files of a folder hold, byte by byte: each file as it is, and beside
// that, of tables and logs, each block unpacked, and each entry with its whole key, also older ones
// and those of deletes. It is for proofs that something is in no file. The bytes are valid during
// the call.
func Inspect(fs vfs.FS, dir string, merger *pebble.Merger, visit func(file string, b []byte)) error {
	files, err := filesOf(fs, dir)
	for _, path := range files {
		if err == nil {
			err = inspectFile(fs, path, merger, func(_, b []byte) { visit(path, b) })
		}
	}
	return err
}

// searchRounds bounds how often files are listed again that were written during a search.
const searchRounds = 5

// Search is Inspect of a store that is open: key is that of an entry, or nil. Files that are removed
// meanwhile have their entries in newer files, which are visited, too. It returns the names of those
// that could not be read to their ends.
func (s *Store) Search(ctx context.Context, visit func(file string, key, b []byte)) (unread []string, err error) {
	seen := map[string]bool{}
	for range searchRounds {
		files, err := filesOf(s.FS, s.config.Dir)
		if err != nil {
			return nil, err
		}
		fresh := false
		for _, path := range files {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if seen[path] {
				continue
			}
			seen[path], fresh = true, true
			err := inspectFile(s.FS, path, s.config.Merger, func(key, b []byte) { visit(path, key, b) })
			// Nothing is known to be behind the end of a log that is written.
			if err != nil && !errors.Is(err, iofs.ErrNotExist) && !strings.HasSuffix(path, logSuffix) {
				unread = append(unread, path)
			}
		}
		if !fresh {
			break
		}
	}
	return unread, nil
}

// filesOf are the paths of all files in a folder and the folders in it, without sockets.
func filesOf(fs vfs.FS, dir string) (files []string, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode()&iofs.ModeSocket != 0 { // which holds no data
			continue
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		within, err := filesOf(fs, path)
		if err != nil {
			return nil, err
		}
		files = append(files, within...)
	}
	return files, nil
}

// inspectFile visits what a file holds; key is that of an entry, or nil.
func inspectFile(fs vfs.FS, path string, merger *pebble.Merger, visit func(key, b []byte)) (err error) {
	isTable, isLog := strings.HasSuffix(path, tableSuffix), strings.HasSuffix(path, logSuffix)
	if !isTable && !isLog {
		return inspectBytes(fs, path, func(b []byte) { visit(nil, b) })
	}
	b, err := readWhole(fs, path)
	if err != nil {
		return err
	}
	visit(nil, b)
	r := &Remains{FS: fs, Merger: merger, Lost: func(l Loss) { err = errors.Join(err, &l) }}
	var deletions []deletion
	if isTable {
		if err := inspectBlocks(b, merger, func(raw []byte) { visit(nil, raw) }); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		t := r.openTable(path, 0, listed{})
		deletions = t.deletions
		for e := t.next(); e != nil; e = t.next() {
			visit(e.key, e.key)
			visit(e.key, e.value)
		}
	} else {
		for _, e := range r.readLog(path, &deletions) {
			visit(e.key, e.key)
			visit(e.key, e.value)
		}
	}
	for i := range deletions {
		visit(nil, deletions[i].from)
		visit(nil, deletions[i].to)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// inspectPart is how much of a file of other bytes is read at a time, and inspectAgain how much of that
// is visited again with what follows.
const (
	inspectPart  = 1 << 20
	inspectAgain = 4 << 10
)

// inspectBytes visits the bytes of a file, in parts that overlap.
func inspectBytes(fs vfs.FS, path string, visit func(b []byte)) (err error) {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, kept := make([]byte, inspectPart), 0
	for {
		n, err := io.ReadFull(f, b[kept:])
		if n > 0 {
			visit(b[:kept+n])
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kept = copy(b, b[len(b)-inspectAgain:])
	}
}

// inspectBlocks visits the blocks of a table, unpacked.
func inspectBlocks(b []byte, merger *pebble.Merger, visit func(raw []byte)) (err error) {
	reader, err := sstable.NewMemReader(b, sstable.ReaderOptions{Merger: merger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	layout, err := reader.Layout()
	if err != nil {
		return err
	}
	handles := append([]block.Handle{layout.TopIndex, layout.RangeDel, layout.RangeKey, layout.Properties, layout.MetaIndex, layout.ValueIndex}, layout.Index...)
	handles = append(handles, layout.ValueBlock...)
	for _, h := range layout.Data {
		handles = append(handles, h.Handle)
	}
	for _, h := range handles {
		if h.Length == 0 || h.Offset+h.Length >= uint64(len(b)) {
			continue
		}
		raw, err := unpack(b[h.Offset:h.Offset+h.Length], block.CompressionIndicator(b[h.Offset+h.Length]))
		if err != nil {
			return err
		}
		visit(raw)
	}
	return nil
}
