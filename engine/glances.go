package engine

import (
	"math"
	"sync/atomic"
)

// glances tell of documents, in a fraction of the memory of their rows, what bounds
// the signals that the rows have: a look at one of a million rows is a wait for
// the memory, and most candidates of a recall are ruled out by less.
type glances struct {
	docs  paged[glance]
	pages paged[timeSpan]
}

// glance has the importance and the confidence of a document, each in steps of
// 1/glanceScale, rounded up. It is written before the document is published, and
// never again.
type glance struct{ importance, confidence uint8 }

const glanceScale = math.MaxUint8

// timeSpan are the earliest and the latest creation, in milliseconds, of a page of
// document rows; both are 0 where it has none. It never narrows.
type timeSpan struct{ low, high atomic.Int64 }

// add notes a document. The writer calls it, before the document is published.
func (g *glances) add(doc uint32, r *docRow) {
	*g.docs.grow(uint64(doc)) = glance{roundUp(r.importance), roundUp(r.confidence)}
	span := g.pages.grow(uint64(doc) / pageSize)
	if low := span.low.Load(); low == 0 || r.created < low {
		span.low.Store(r.created)
	}
	span.high.Store(max(span.high.Load(), r.created))
}

func roundUp(share float64) uint8 { return uint8(min(math.Ceil(share*glanceScale), glanceScale)) }

// of is the glance of a document.
func (g *glances) of(doc uint32) glance {
	at := g.docs.at(uint64(doc))
	if at == nil {
		return glance{glanceScale, glanceScale}
	}
	return *at
}

// steps are what the steps of a glance stand for: to divide for each of thousands takes
// longer.
var steps = func() (steps [glanceScale + 1]float64) {
	for i := range steps {
		steps[i] = float64(i) / glanceScale
	}
	return steps
}()

// bounds are what the importance and the confidence are at most.
func (g glance) bounds() (importance, confidence float64) {
	return steps[g.importance], steps[g.confidence]
}

// created are the earliest and the latest creation of a page of document rows.
func (g *glances) created(page uint32) (low, high int64) {
	if s := g.pages.at(uint64(page)); s != nil {
		return s.low.Load(), s.high.Load()
	}
	return 0, 0
}

func (g *glances) bytes() int64 {
	const glanceSize, timeSpanSize = 2, 16
	return g.docs.bytes(glanceSize) + g.pages.bytes(timeSpanSize)
}
