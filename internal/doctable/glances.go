package doctable

import (
	"math"
	"sync/atomic"
)

// Glances hold bounds of the signals in the rows of documents, in a fraction of the memory
// of the rows. A look at one of a million rows waits for the memory, and the bounds rule
// out most candidates of a recall.
type Glances struct {
	Docs  Paged[Glance]
	pages Paged[timeSpan]
}

// Glance has the importance and the confidence of a document, each in steps of
// 1/glanceScale, rounded up. It is written before the document is published, and
// never again.
type Glance struct{ importance, confidence uint8 }

const glanceScale = math.MaxUint8

// timeSpan is the earliest and the latest creation, in milliseconds, in a page of
// document rows; both are 0 where the page has no documents. A span never narrows.
type timeSpan struct{ low, high atomic.Int64 }

// add notes a document. The writer calls it, before the document is published.
func (g *Glances) add(doc uint32, r *Row) {
	*g.Docs.Grow(uint64(doc)) = Glance{roundUp(r.Importance), roundUp(r.Confidence)}
	span := g.pages.Grow(uint64(doc) / PageSize)
	if low := span.low.Load(); low == 0 || r.Created < low {
		span.low.Store(r.Created)
	}
	span.high.Store(max(span.high.Load(), r.Created))
}

func roundUp(share float64) uint8 { return uint8(min(math.Ceil(share*glanceScale), glanceScale)) }

// Of is the glance of a document.
func (g *Glances) Of(doc uint32) Glance {
	at := g.Docs.At(uint64(doc))
	if at == nil {
		return Glance{glanceScale, glanceScale}
	}
	return *at
}

// Bounds are what the importance and the confidence are at most.
func (g Glance) Bounds() (importance, confidence float64) {
	return float64(g.importance) / glanceScale, float64(g.confidence) / glanceScale
}

// Created are the earliest and the latest creation of a page of document rows.
func (g *Glances) Created(page uint32) (low, high int64) {
	if s := g.pages.At(uint64(page)); s != nil {
		return s.low.Load(), s.high.Load()
	}
	return 0, 0
}

func (g *Glances) bytes() int64 {
	const glanceSize, timeSpanSize = 2, 16
	return g.Docs.Bytes(glanceSize) + g.pages.Bytes(timeSpanSize)
}
