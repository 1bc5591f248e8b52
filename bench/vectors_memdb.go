package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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
	return []peer.VectorOpener{
		{Name: "memdb", Open: openMemdbVectors(rowsInMemory)},
		{Name: "memdb, rows in a file", Open: openMemdbVectors(rowsInFile)},
		{Name: "memdb, rows in Pebble", Open: openMemdbVectors(rowsInPebble)},
	}
}

// A rowStore makes a set of vectors the truth of an index, which holds the rows
// itself if there is none.
type rowStore func(w *peer.VectorWork) (hnsw.Truth, func() error, error)

func rowsInMemory(*peer.VectorWork) (hnsw.Truth, func() error, error) {
	return nil, func() error { return nil }, nil
}

// rowsInFile reads each row with a call of the system.
func rowsInFile(w *peer.VectorWork) (hnsw.Truth, func() error, error) {
	f, err := os.Open(w.BaseFile)
	if err != nil {
		return nil, nil, err
	}
	return rowsOf(f, w.Base.Dim), f.Close, nil
}

// rowsOf makes a file of native float32 rows the truth.
func rowsOf(f *os.File, dim int) hnsw.Truth {
	return func(slot uint32, dst []float32) ([]float32, error) {
		dst = dst[:dim]
		_, err := f.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), dim*4), int64(slot)*int64(dim)*4)
		return dst, err
	}
}

// pebbleCache holds a part of the rows, as a budget would allow for.
const pebbleCache = 64 << 20

// rowsInPebble gets each row from a store as the engine has one.
func rowsInPebble(w *peer.VectorWork) (hnsw.Truth, func() error, error) {
	cache := pebble.NewCache(pebbleCache)
	defer cache.Unref()
	db, err := pebble.Open(filepath.Join(w.Dir, "pebble"), &pebble.Options{
		Cache: cache, Logger: quiet{}, FormatMajorVersion: pebble.FormatNewest,
	})
	if err != nil {
		return nil, nil, err
	}
	if err := fillPebble(db, w.Base); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return func(slot uint32, dst []float32) ([]float32, error) {
		var key [4]byte
		binary.BigEndian.PutUint32(key[:], slot)
		value, closer, err := db.Get(key[:])
		if err != nil {
			return nil, err
		}
		for i := range w.Base.Dim {
			dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(value[4*i:])))
		}
		return dst, closer.Close()
	}, db.Close, nil
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

// quiet drops what Pebble tells of itself.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func openMemdbVectors(store rowStore) func(context.Context, *peer.VectorWork) (peer.Vectors, error) {
	return func(_ context.Context, w *peer.VectorWork) (peer.Vectors, error) {
		truth, closeRows, err := store(w)
		if err != nil {
			return nil, err
		}
		x, err := hnsw.New(hnsw.Config{Dim: w.Base.Dim, M: w.M, EfConstruction: w.EfConstruction, Truth: truth})
		if err != nil {
			return nil, errors.Join(err, closeRows())
		}
		return &memdbIndex{peer.InProcess{Work: w, Fill: fillMemdb(x, w.Base), Search: searchMemdb(x)}, closeRows}, nil
	}
}

// memdbIndex closes the rows with the index.
type memdbIndex struct {
	peer.InProcess
	closeRows func() error
}

func (m *memdbIndex) Close() error { return errors.Join(m.InProcess.Close(), m.closeRows()) }

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
