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
// candidates are scored again, in different places. Where the index does not
// hold them, it is the same one.
func memdbVectors() []peer.VectorOpener {
	shared := &codesOnly{built: map[*peer.VectorWork]*builtCodes{}}
	return []peer.VectorOpener{
		{Name: "memdb", Open: openMemdbVectors},
		{Name: "memdb, rows mapped", Open: shared.opener(rowsMapped)},
		{Name: "memdb, rows read", Open: shared.opener(rowsRead)},
		{Name: "memdb, rows in Pebble", Open: shared.opener(rowsInPebble)},
	}
}

func openMemdbVectors(_ context.Context, w *peer.VectorWork) (peer.Vectors, error) {
	x, err := hnsw.New(hnsw.Config{Dim: w.Base.Dim, M: w.M, EfConstruction: w.EfConstruction})
	if err != nil {
		return nil, err
	}
	return &peer.InProcess{Work: w, Fill: fillMemdb(x, w.Base), Search: searchMemdb(x, nil)}, nil
}

// codesOnly are indexes without rows, built when first needed.
type codesOnly struct {
	built map[*peer.VectorWork]*builtCodes
}

type builtCodes struct {
	x     *hnsw.Index
	built peer.VectorBuild
}

// A rowStore makes the truth of a set of vectors.
type rowStore func(w *peer.VectorWork) (hnsw.Truth, func() error, error)

func (c *codesOnly) opener(store rowStore) func(context.Context, *peer.VectorWork) (peer.Vectors, error) {
	return func(_ context.Context, w *peer.VectorWork) (peer.Vectors, error) {
		truth, closeRows, err := store(w)
		if err != nil {
			return nil, err
		}
		return &codesRun{shared: c, work: w, truth: truth, closeRows: closeRows}, nil
	}
}

// codesRun searches a shared index with rows of its own.
type codesRun struct {
	peer.InProcess
	shared    *codesOnly
	work      *peer.VectorWork
	truth     hnsw.Truth
	closeRows func() error
}

// Build builds the index, unless another one has.
func (r *codesRun) Build(ctx context.Context) (peer.VectorBuild, error) {
	b := r.shared.built[r.work]
	if b == nil {
		x, err := hnsw.New(hnsw.Config{Dim: r.work.Base.Dim, M: r.work.M, EfConstruction: r.work.EfConstruction, Truth: r.truth})
		if err != nil {
			return peer.VectorBuild{}, err
		}
		b = &builtCodes{x: x}
		in := peer.InProcess{Fill: fillMemdb(x, r.work.Base)}
		if b.built, err = in.Build(ctx); err != nil {
			return b.built, err
		}
		r.shared.built[r.work] = b
	}
	r.InProcess = peer.InProcess{Work: r.work, Search: searchMemdb(b.x, r.truth)}
	return b.built, nil
}

// Close closes the rows.
func (r *codesRun) Close() error { return r.closeRows() }

// rowsRead reads each row with a call of the system.
func rowsRead(w *peer.VectorWork) (hnsw.Truth, func() error, error) {
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

// searchMemdb searches with a truth, or with the index's own if that is nil.
func searchMemdb(x *hnsw.Index, truth hnsw.Truth) func(ctx context.Context, query []float32, ef, k int, dst []uint32) ([]uint32, error) {
	return func(ctx context.Context, query []float32, ef, k int, dst []uint32) ([]uint32, error) {
		hits, err := x.Search(ctx, query, hnsw.Search{K: k, Ef: ef, Slots: x.Len(), Truth: truth})
		for _, h := range hits {
			dst = append(dst, h.Slot)
		}
		return dst, err
	}
}
