package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Ingest fills a store that is open and empty with keys in their order. It is for stores that are
// being made: nothing of it is handed to an outlet.
func (s *Store) Ingest(each func(visit func(key, value []byte) error) error) (err error) {
	opts := &pebble.Options{Merger: s.config.Merger, FormatMajorVersion: formatVersion}
	opts.EnsureDefaults()
	in := ingesting{s: s, options: opts.MakeWriterOptions(len(opts.Levels)-1, formatVersion.MaxTableFormat())}
	in.options.BlockSize = blockSize
	if vfs.Root(s.FS) == vfs.Default {
		in.options.FilterPolicy = bloom.FilterPolicy(bloomBits)
	} else {
		in.options.Compression = sstable.NoCompression // it is in RAM
	}
	err = each(in.add)
	if err = cmp.Or(err, in.end()); err == nil && len(in.paths) > 0 {
		err = s.db.Ingest(context.Background(), in.paths)
	}
	for _, path := range in.paths { // Pebble has taken each under another name
		if left := s.FS.Remove(path); err == nil && left != nil && !isMissing(left) {
			err = left
		}
	}
	return err
}

// ingesting writes tables one after the other.
type ingesting struct {
	s       *Store
	options sstable.WriterOptions
	w       *sstable.Writer
	table   tableBuffer
	paths   []string
}

func (in *ingesting) add(key, value []byte) error {
	if in.w != nil && in.w.Raw().EstimatedSize() >= tableBytes {
		if err := in.end(); err != nil {
			return err
		}
	}
	if in.w == nil {
		in.table.bytes = in.table.bytes[:0]
		in.w = sstable.NewWriter(&in.table, in.options)
	}
	return in.w.Set(key, value)
}

// end ends the table that was begun, if one was.
func (in *ingesting) end() error {
	if in.w == nil {
		return nil
	}
	err := in.w.Close()
	in.w = nil
	if err != nil {
		return err
	}
	path := in.s.FS.PathJoin(in.s.config.Dir, fmt.Sprintf("ingested-%d.sst", len(in.paths)))
	file, err := in.s.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	in.paths = append(in.paths, path)
	_, err = file.Write(in.table.bytes)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// tableBuffer is a table in RAM: a file in RAM grows by copying, which takes longer than to make the
// table.
type tableBuffer struct{ bytes []byte }

// Write implements objstorage.Writable.
func (b *tableBuffer) Write(p []byte) error {
	b.bytes = append(b.bytes, p...)
	return nil
}

// Finish implements objstorage.Writable.
func (b *tableBuffer) Finish() error { return nil }

// Abort implements objstorage.Writable.
func (b *tableBuffer) Abort() {}
