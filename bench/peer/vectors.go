package peer

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/philippgille/chromem-go"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
)

// VectorWork is what an index over vectors is to be built of and asked.
type VectorWork struct {
	Base, Queries       *vectorset.Set
	BaseFile, QueryFile string // the same, in files of native float32
	Dir                 string // a folder for what it needs
	M, EfConstruction   int
	// Metric is one of vectorset's; "" is cosine, of vectors of length one. Only hnswlib and
	// faiss know others.
	Metric string
}

// Vectors is an index over vectors.
type Vectors interface {
	// Build fills the index on one thread. It is called once, before Ask.
	Build(ctx context.Context) (VectorBuild, error)
	// Ask asks all queries once, one after the other, for the k best of ef
	// candidates kept.
	Ask(ctx context.Context, ef, k int) (VectorAnswers, error)
	Close() error
}

// VectorBuild is what building an index took.
type VectorBuild struct {
	CPU   time.Duration // processor time
	Bytes int64         // of memory that the index holds
}

// VectorAnswers are the answers to all queries, or to the first of them, by an
// index too slow for all.
type VectorAnswers struct {
	IDs   [][]uint32      // for each query the rows found, best first
	Times []time.Duration // processor time of each query
}

// A VectorOpener prepares an index.
type VectorOpener struct {
	Name string
	// Missing says why this build cannot open it, and is empty where it can.
	Missing string
	// Small: it is measured on small sets alone, because it would take too long.
	Small bool
	Open  func(ctx context.Context, w *VectorWork) (Vectors, error)
}

// VectorIndexes lists the indexes over vectors.
func VectorIndexes() []VectorOpener {
	return []VectorOpener{
		{Name: "hnswlib", Open: hnswlib.open},
		{Name: "SymphonyQG", Open: symphonyQG.open},
		// Debian builds faiss for any processor, without the vector instructions
		// of this one.
		{Name: "faiss HNSWFlat", Small: true, Open: faiss.open},
		coder,
		{Name: "chromem-go", Small: true, Open: openChromem},
	}
}

// InProcess is an index that this process holds.
type InProcess struct {
	Work *VectorWork
	// Fill builds the index and returns the bytes it holds, or 0 if only the
	// heap can tell.
	Fill func(ctx context.Context) (int64, error)
	// Search appends the k best rows for a query to dst.
	Search func(ctx context.Context, query []float32, ef, k int, dst []uint32) ([]uint32, error)
	// Most bounds the queries that are asked; 0: all.
	Most int
}

// Build fills the index.
func (p *InProcess) Build(ctx context.Context) (b VectorBuild, err error) {
	before := heap()
	began := harness.Processor()
	b.Bytes, err = p.Fill(ctx)
	b.CPU = harness.Processor() - began
	if b.Bytes == 0 {
		b.Bytes = heap() - before
	}
	return b, err
}

// heap is the memory in use by what is reachable.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Ask asks the queries.
func (p *InProcess) Ask(ctx context.Context, ef, k int) (a VectorAnswers, err error) {
	n := p.Work.Queries.Len()
	if p.Most > 0 {
		n = min(n, p.Most)
	}
	a.IDs = make([][]uint32, n)
	room := make([]uint32, n*k)
	for i := range a.IDs {
		query := p.Work.Queries.Row(i)
		began := harness.Processor()
		a.IDs[i], err = p.Search(ctx, query, ef, k, room[i*k:i*k:(i+1)*k])
		a.Times = append(a.Times, harness.Processor()-began)
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// Close lets the collector have the index.
func (p *InProcess) Close() error {
	p.Fill, p.Search = nil, nil
	return nil
}

// chromemQueries is how many queries it is asked: each takes a tenth of a second.
const chromemQueries = 10

// openChromem prepares github.com/philippgille/chromem-go, which compares all.
func openChromem(_ context.Context, w *VectorWork) (Vectors, error) {
	c, err := chromem.NewDB().CreateCollection("bench", nil, nil)
	if err != nil {
		return nil, err
	}
	return &InProcess{
		Work: w,
		Most: chromemQueries,
		Fill: func(ctx context.Context) (int64, error) {
			for i := range w.Base.Len() {
				if err := c.AddDocument(ctx, chromem.Document{ID: strconv.Itoa(i), Embedding: slices.Clone(w.Base.Row(i))}); err != nil {
					return 0, err
				}
			}
			return 0, nil
		},
		Search: func(ctx context.Context, query []float32, _, k int, dst []uint32) ([]uint32, error) {
			results, err := c.QueryEmbedding(ctx, query, k, nil, nil)
			if err != nil {
				return nil, err
			}
			for _, r := range results {
				id, err := strconv.ParseUint(r.ID, 10, 32)
				if err != nil {
					return nil, err
				}
				dst = append(dst, uint32(id))
			}
			return dst, nil
		},
	}, nil
}
