package store

import (
	"errors"
	"fmt"
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
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := Inspect(fs, path, merger, visit); err != nil {
				return err
			}
			continue
		}
		b, err := readWhole(fs, path)
		if err != nil {
			return err
		}
		visit(path, b)
		r := &Remains{FS: fs, Merger: merger, Lost: func(l Loss) { err = errors.Join(err, &l) }}
		var entries []entry
		var deletions []deletion
		switch {
		case strings.HasSuffix(name, tableSuffix):
			if err := inspectBlocks(b, merger, func(raw []byte) { visit(path, raw) }); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			t := r.openTable(path, 0, listed{})
			deletions = t.deletions
			for e := t.next(); e != nil; e = t.next() {
				entries = append(entries, *e)
			}
		case strings.HasSuffix(name, logSuffix):
			entries = r.readLog(path, &deletions)
		}
		for i := range entries {
			visit(path, entries[i].key)
			visit(path, entries[i].value)
		}
		for i := range deletions {
			visit(path, deletions[i].from)
			visit(path, deletions[i].to)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
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
