package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
	"github.com/seed-7aedc3ff/memdb/hnsw"
)

// memdbVectors is memdb's index with the float32 rows, by which the best
// candidates are scored again, in different places.
func memdbVectors() []peer.VectorOpener {
	built := &builtIndexes{indexes: map[*peer.VectorWork]*hnsw.Index{}}
	return []peer.VectorOpener{
		{Name: "memdb, rows in memory", Open: built.open},
		{Name: "memdb, rows in a file", Missing: noMappedFiles, Open: built.openMapped},
		{Name: "memdb, rows in Pebble, kept when read (as in the engine)", Open: openRowsInPebble},
	}
}

// builtIndexes are those with the rows in memory, to make others of that would be
// built the same.
type builtIndexes struct {
	indexes map[*peer.VectorWork]*hnsw.Index
}

func indexConfig(w *peer.VectorWork) hnsw.Config {
	return hnsw.Config{Dim: w.Base.Dim, M: w.M, EfConstruction: w.EfConstruction}
}

func (b *builtIndexes) open(_ context.Context, w *peer.VectorWork) (peer.Vectors, error) {
	x, err := hnsw.New(indexConfig(w))
	if err != nil {
		return nil, err
	}
	b.indexes[w] = x
	return &peer.InProcess{Work: w, Fill: fillMemdb(x, w.Base), Search: searchMemdb(x)}, nil
}

// openMapped prepares an index that keeps its rows in a mapped file, of which the
// system keeps in memory what it has room for. It is read from the snapshot of the
// one in memory.
func (b *builtIndexes) openMapped(_ context.Context, w *peer.VectorWork) (peer.Vectors, error) {
	f, err := os.Create(filepath.Join(w.Dir, "rows"))
	if err != nil {
		return nil, err
	}
	return &mappedIndex{work: w, file: f, of: b.indexes[w]}, nil
}

type mappedIndex struct {
	peer.InProcess
	work *peer.VectorWork
	file *os.File
	of   *hnsw.Index
}

// Build reads the snapshot, and so says nothing of the time that building takes.
func (m *mappedIndex) Build(context.Context) (b peer.VectorBuild, err error) {
	in, out := io.Pipe()
	go func() {
		s := m.of.Snapshot()
		defer s.Close()
		_, err := s.WriteTo(out)
		out.CloseWithError(err)
	}()
	cfg := indexConfig(m.work)
	cfg.File, cfg.CodeMemory = m.file, math.MaxInt64
	x, err := hnsw.ReadSnapshot(in, cfg)
	if err := errors.Join(err, in.Close()); err != nil {
		return b, err
	}
	m.InProcess = peer.InProcess{Work: m.work, Search: searchMemdb(x)}
	b.Bytes = x.Bytes()
	return b, nil
}

// Close closes the file with the index.
func (m *mappedIndex) Close() error { return errors.Join(m.InProcess.Close(), m.file.Close()) }

// rowsOf makes a file of native float32 rows the truth.
func rowsOf(f *os.File, dim int) hnsw.Truth {
	return func(slot uint32, dst []float32) ([]float32, error) {
		dst = dst[:dim]
		_, err := f.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), dim*4), int64(slot)*int64(dim)*4)
		return dst, err
	}
}

const (
	// pebbleCache and rowMemory are what the engine gives its store and the rows that
	// were read, of a budget of 2 GiB.
	pebbleCache = 256 << 20
	rowMemory   = 256 << 20
	pebbleBlock = 4 << 10
)

// openRowsInPebble prepares an index that gets each row from a store as the engine
// has one, and keeps it; where all have room, it reads all as soon as it is built.
func openRowsInPebble(_ context.Context, w *peer.VectorWork) (peer.Vectors, error) {
	cache := pebble.NewCache(pebbleCache)
	defer cache.Unref()
	opts := &pebble.Options{Cache: cache, Logger: peer.Silent{}, FormatMajorVersion: pebble.FormatNewest}
	opts.EnsureDefaults()
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = pebbleBlock
	}
	db, err := pebble.Open(filepath.Join(w.Dir, "pebble"), opts)
	if err != nil {
		return nil, err
	}
	cfg := indexConfig(w)
	cfg.Truth, cfg.Rows = rowsIn(db), hnsw.NewRowBudget(rowMemory)
	x, err := hnsw.New(cfg)
	if err == nil {
		err = fillPebble(db, w.Base)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	fill := func(ctx context.Context) (int64, error) {
		bytes, err := fillMemdb(x, w.Base)(ctx)
		if err == nil && x.KeepsAll() {
			err = keepRows(x, cfg.Truth)
		}
		// The index counts codes and links alone: the rows it keeps are the budget's.
		return bytes + min(rowMemory, int64(w.Base.Len())*int64(w.Base.Dim)*4), err
	}
	return &pebbleIndex{peer.InProcess{Work: w, Fill: fill, Search: searchMemdb(x)}, db}, nil
}

func keepRows(x *hnsw.Index, truth hnsw.Truth) (err error) {
	var row []float32
	for slot := range x.Len() {
		if row, err = truth(slot, row[:0]); err != nil {
			return err
		}
		x.Keep(slot, row)
	}
	return nil
}

type pebbleIndex struct {
	peer.InProcess
	db *pebble.DB
}

// Close closes the store with the index.
func (p *pebbleIndex) Close() error { return errors.Join(p.InProcess.Close(), p.db.Close()) }

func rowsIn(db *pebble.DB) hnsw.Truth {
	return func(slot uint32, dst []float32) ([]float32, error) {
		var key [4]byte
		binary.BigEndian.PutUint32(key[:], slot)
		value, closer, err := db.Get(key[:])
		if err != nil {
			return nil, err
		}
		for ; len(value) >= 4; value = value[4:] {
			dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(value)))
		}
		return dst, closer.Close()
	}
}

func fillPebble(db *pebble.DB, s *vectorset.Set) error {
	const batchRows = 1000
	var key [4]byte
	var value []byte
	b := db.NewBatch()
	for i := range s.Len() {
		binary.BigEndian.PutUint32(key[:], uint32(i))
		value = value[:0]
		for _, x := range s.Row(i) {
			value = binary.LittleEndian.AppendUint32(value, math.Float32bits(x))
		}
		if err := b.Set(key[:], value, nil); err != nil {
			return err
		}
		if (i+1)%batchRows == 0 || i+1 == s.Len() {
			if err := b.Commit(pebble.NoSync); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return errors.Join(b.Close(), db.Flush(), db.Compact(context.Background(), []byte{0}, []byte{0xff, 0xff, 0xff, 0xff, 0xff}, false))
}

func fillMemdb(x *hnsw.Index, s *vectorset.Set) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		for i := range s.Len() {
			if _, err := x.Add(s.Row(i)); err != nil {
				return 0, err
			}
		}
		err := x.Link(ctx, x.Len())
		return x.Bytes(), err
	}
}

func searchMemdb(x *hnsw.Index) func(ctx context.Context, query []float32, ef, k int, dst []uint32) ([]uint32, error) {
	return func(ctx context.Context, query []float32, ef, k int, dst []uint32) ([]uint32, error) {
		hits, err := x.Search(ctx, query, hnsw.Search{K: k, Ef: ef, Slots: x.Len()})
		for _, h := range hits {
			dst = append(dst, h.Slot)
		}
		return dst, err
	}
}
