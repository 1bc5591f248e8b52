package engine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
)

const (
	// rowsVersion is the first byte of a page of rows.
	rowsVersion = 1
	// rowsOfPage is how many documents of a sealed chunk have a page together.
	rowsOfPage = 1 << 12
	checksum   = 8
)

// rowPage gathers the documents of a sealed chunk, column by column: what the
// tables need of them when the database is opened, now that their forward records
// are gone. docs/format/rows.md describes it.
type rowPage struct {
	rows []forwardRecord // without idx
	docs []uint32
}

func (p *rowPage) add(doc uint32, f *forwardRecord) {
	p.docs = append(p.docs, doc)
	p.rows = append(p.rows, *f)
}

// encode returns the page. Neighbours are alike: each number is told by its
// difference from the one before.
func (p *rowPage) encode() []byte {
	b := binary.AppendUvarint([]byte{rowsVersion}, uint64(len(p.rows)))
	prev := uint32(0)
	for _, doc := range p.docs {
		b = binary.AppendUvarint(b, uint64(doc%rowsOfPage-prev))
		prev = doc % rowsOfPage
	}
	for _, column := range rowColumns {
		last := int64(0)
		for i := range p.rows {
			v := column.get(&p.rows[i])
			b = binary.AppendVarint(b, v-last)
			last = v
		}
	}
	b = p.weights(b, func(f *forwardRecord) float64 { return f.importance })
	b = p.weights(b, func(f *forwardRecord) float64 { return f.confidence })
	for i := range p.rows {
		b = binary.AppendUvarint(b, uint64(len(p.rows[i].vectors)))
		for _, v := range p.rows[i].vectors {
			b = appendVectorRef(b, v)
		}
	}
	return binary.LittleEndian.AppendUint64(b, xxh3.Hash(b))
}

func appendVectorRef(b []byte, v vectorRef) []byte {
	b = binary.AppendUvarint(b, uint64(v.space))
	b = binary.AppendUvarint(b, v.born)
	return binary.AppendUvarint(b, uint64(v.change))
}

// weights appends a column of few different numbers: those, and for each row
// which of them it has.
func (p *rowPage) weights(b []byte, get func(*forwardRecord) float64) []byte {
	place := map[float64]int{}
	var distinct []float64
	for i := range p.rows {
		w := get(&p.rows[i])
		if _, known := place[w]; !known {
			place[w] = len(distinct)
			distinct = append(distinct, w)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(distinct)))
	for _, w := range distinct {
		b = codec.AppendFloat64(b, w)
	}
	if len(distinct) == 1 {
		return b
	}
	for i := range p.rows {
		b = binary.AppendUvarint(b, uint64(place[get(&p.rows[i])]))
	}
	return b
}

// rowColumns are the whole numbers of a row.
var rowColumns = []struct {
	get func(*forwardRecord) int64
	set func(*forwardRecord, int64)
}{
	{func(f *forwardRecord) int64 { return int64(f.seq) }, func(f *forwardRecord, v int64) { f.seq = uint64(v) }},
	{func(f *forwardRecord) int64 { return int64(f.born) }, func(f *forwardRecord, v int64) { f.born = uint64(v) }},
	{func(f *forwardRecord) int64 { return int64(f.change) }, func(f *forwardRecord, v int64) { f.change = uint32(v) }},
	{func(f *forwardRecord) int64 { return int64(f.owner) }, func(f *forwardRecord, v int64) { f.owner = uint32(v) }},
	{func(f *forwardRecord) int64 { return int64(f.run) }, func(f *forwardRecord, v int64) { f.run = uint32(v) }},
	{func(f *forwardRecord) int64 { return f.created }, func(f *forwardRecord, v int64) { f.created = v }},
	{func(f *forwardRecord) int64 { return f.expires }, func(f *forwardRecord, v int64) { f.expires = v }},
}

// decodeRows reads a page whose first document would be base. ErrNewerLayout for one
// of a later version, which has the same checksum at its end.
func decodeRows(base uint32, b []byte) (*rowPage, error) {
	p := &rowPage{}
	return p, p.decode(base, b)
}

// decode makes a page what decodeRows returns, in the memory that it has.
func (p *rowPage) decode(base uint32, b []byte) error {
	bad := func(why string) error {
		return &Error{Kind: ErrCorrupt, What: fmt.Sprintf("read the documents from %d on", base), Why: why, Do: "restore a copy of the folder"}
	}
	n := len(b) - checksum
	if n < 2 || xxh3.Hash(b[:n]) != binary.LittleEndian.Uint64(b[n:]) {
		return bad("the checksum does not fit")
	}
	switch version := b[0]; {
	case version > rowsVersion:
		return &Error{
			Kind: ErrNewerLayout, What: fmt.Sprintf("read the documents from %d on", base),
			Why: fmt.Sprintf("the version of the page is %d, this memdb knows %d", version, rowsVersion), Do: "use a newer memdb",
		}
	case version < rowsVersion:
		return bad(fmt.Sprintf("the version of the page is %d", version))
	}
	r := codec.NewReader(b[1:n])
	count := r.Count()
	p.rows, p.docs = slices.Grow(p.rows[:0], count)[:count], slices.Grow(p.docs[:0], count)[:count]
	slot := uint32(0)
	for i := range p.docs {
		d := r.Uint32()
		if d == 0 && i > 0 || d >= rowsOfPage || slot+d >= rowsOfPage {
			return bad("its documents are out of order")
		}
		slot += d
		p.docs[i] = base + slot
	}
	for _, column := range rowColumns {
		v := int64(0)
		for i := range p.rows {
			v += r.Varint()
			column.set(&p.rows[i], v)
		}
	}
	ok := readWeights(r, p.rows, func(f *forwardRecord, w float64) { f.importance = w }) &&
		readWeights(r, p.rows, func(f *forwardRecord, w float64) { f.confidence = w })
	for i := range p.rows {
		p.rows[i].vectors = p.rows[i].vectors[:0]
		for range r.Count() {
			p.rows[i].vectors = append(p.rows[i].vectors, vectorRef{uint16(r.Uint32()), r.Uvarint(), r.Uint32()})
		}
	}
	if !ok || r.Err() != nil || r.Len() > 0 {
		return bad("it is malformed")
	}
	return nil
}

func readWeights(r *codec.Reader, rows []forwardRecord, set func(*forwardRecord, float64)) bool {
	distinct := make([]float64, r.Count())
	for i := range distinct {
		distinct[i] = r.Float64()
	}
	for i := range rows {
		at := uint64(0)
		if len(distinct) != 1 {
			at = r.Uvarint()
		}
		if at >= uint64(len(distinct)) {
			return false
		}
		set(&rows[i], distinct[at])
	}
	return r.Err() == nil
}
