package layout

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

const (
	// RowsVersion is the first byte of an encoded RowPage.
	RowsVersion = 1
	// RowsOfPage is how many document numbers a RowPage covers: 16 pages to a chunk.
	RowsOfPage = 1 << 12
	// Checksum is the size of the XXH3-64 hash at the end of a page, in bytes.
	Checksum = 8
)

// RowPage holds the rows of up to RowsOfPage documents of a sealed chunk, and is stored
// column by column. Opening the database fills its tables from the pages, since sealing
// removes the forward records. docs/format/rows.md describes the bytes.
type RowPage struct {
	Rows []Row
	Docs []uint32 // the document number of each row, rising
}

// Add appends a document. Documents must come in rising order, all of one page.
func (p *RowPage) Add(doc uint32, r *Row) {
	p.Docs = append(p.Docs, doc)
	p.Rows = append(p.Rows, *r)
}

// Encode returns the value that is stored under Keys.Rows. Each whole number is written as
// its difference from the row before: neighbours are alike, and small numbers take few bytes.
func (p *RowPage) Encode() []byte {
	b := binary.AppendUvarint([]byte{RowsVersion}, uint64(len(p.Rows)))
	prev := uint32(0)
	for _, doc := range p.Docs {
		b = binary.AppendUvarint(b, uint64(doc%RowsOfPage-prev))
		prev = doc % RowsOfPage
	}
	for _, column := range rowColumns {
		last := int64(0)
		for i := range p.Rows {
			v := column.get(&p.Rows[i])
			b = binary.AppendVarint(b, v-last)
			last = v
		}
	}
	b = p.weights(b, func(r *Row) float64 { return r.Importance })
	b = p.weights(b, func(r *Row) float64 { return r.Confidence })
	for i := range p.Rows {
		b = binary.AppendUvarint(b, uint64(len(p.Rows[i].Vectors)))
		for _, v := range p.Rows[i].Vectors {
			b = appendVectorRef(b, v)
		}
	}
	return binary.LittleEndian.AppendUint64(b, xxh3.Hash(b))
}

// weights appends a column that has few distinct numbers: first the distinct numbers, then
// for each row the place of its number among them. A single distinct number needs no places.
func (p *RowPage) weights(b []byte, get func(*Row) float64) []byte {
	place := map[float64]int{}
	var distinct []float64
	for i := range p.Rows {
		w := get(&p.Rows[i])
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
	for i := range p.Rows {
		b = binary.AppendUvarint(b, uint64(place[get(&p.Rows[i])]))
	}
	return b
}

// rowColumns are the columns of whole numbers, in the order in which they are stored.
var rowColumns = []struct {
	get func(*Row) int64
	set func(*Row, int64)
}{
	{func(r *Row) int64 { return int64(r.Seq) }, func(r *Row, v int64) { r.Seq = uint64(v) }},
	{func(r *Row) int64 { return int64(r.Born) }, func(r *Row, v int64) { r.Born = uint64(v) }},
	{func(r *Row) int64 { return int64(r.Change) }, func(r *Row, v int64) { r.Change = uint32(v) }},
	{func(r *Row) int64 { return int64(r.Owner) }, func(r *Row, v int64) { r.Owner = uint32(v) }},
	{func(r *Row) int64 { return int64(r.Run) }, func(r *Row, v int64) { r.Run = uint32(v) }},
	{func(r *Row) int64 { return r.Created }, func(r *Row, v int64) { r.Created = v }},
	{func(r *Row) int64 { return r.Expires }, func(r *Row, v int64) { r.Expires = v }},
}

// DecodeRows reads what Encode wrote. base is the lowest document number of the page, as
// ParseRowsKey returns it. DecodeRows returns ErrNewerLayout for a page of a later version,
// and ErrCorrupt for a damaged page. All versions end in the same checksum, so damage is
// never taken for a later version.
func DecodeRows(base uint32, b []byte) (*RowPage, error) {
	p := &RowPage{}
	return p, p.Decode(base, b)
}

// Decode reads a page like DecodeRows, into the memory that p has. It overwrites the rows,
// documents and vectors that p held before. After an error p holds nothing of use.
func (p *RowPage) Decode(base uint32, b []byte) error {
	bad := func(why string) error {
		return &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("read the documents from %d on", base), Why: why, Do: "restore a copy of the folder"}
	}
	n := len(b) - Checksum
	if n < 2 || xxh3.Hash(b[:n]) != binary.LittleEndian.Uint64(b[n:]) {
		return bad("the checksum does not fit")
	}
	switch version := b[0]; {
	case version > RowsVersion:
		return &fault.Error{
			Kind: fault.ErrNewerLayout, What: fmt.Sprintf("read the documents from %d on", base),
			Why: fmt.Sprintf("the version of the page is %d, this memdb knows %d", version, RowsVersion), Do: "use a newer memdb",
		}
	case version < RowsVersion:
		return bad(fmt.Sprintf("the version of the page is %d", version))
	}
	r := codec.NewReader(b[1:n])
	count := r.Count()
	p.Rows, p.Docs = slices.Grow(p.Rows[:0], count)[:count], slices.Grow(p.Docs[:0], count)[:count]
	slot := uint32(0)
	for i := range p.Docs {
		d := r.Uint32()
		if d == 0 && i > 0 || d >= RowsOfPage || slot+d >= RowsOfPage {
			return bad("its documents are out of order")
		}
		slot += d
		p.Docs[i] = base + slot
	}
	for _, column := range rowColumns {
		v := int64(0)
		for i := range p.Rows {
			v += r.Varint()
			column.set(&p.Rows[i], v)
		}
	}
	ok := readWeights(r, p.Rows, func(r *Row, w float64) { r.Importance = w }) &&
		readWeights(r, p.Rows, func(r *Row, w float64) { r.Confidence = w })
	for i := range p.Rows {
		p.Rows[i].Vectors = p.Rows[i].Vectors[:0]
		for range r.Count() {
			p.Rows[i].Vectors = append(p.Rows[i].Vectors, readVectorRef(r))
		}
	}
	if !ok || r.Err() != nil || r.Len() > 0 {
		return bad("it is malformed")
	}
	return nil
}

// readWeights reads a column that weights wrote, and reports whether it is well formed.
func readWeights(r *codec.Reader, rows []Row, set func(*Row, float64)) bool {
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
