package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// selected is the set of visible documents in a scope, or in any where all is set,
// for which a filter holds.
func (tx *Tx) selected(ctx context.Context, s Scope, all bool, f Filter) (*roaring.Bitmap, error) {
	set, rest, err := tx.indexed(ctx, s, all, f)
	if err != nil {
		return nil, err
	}
	return tx.settled(ctx, set, rest)
}

// indexed is what the postings alone tell of a selection: a set that may hold
// documents that are not visible, and the parts of the filter that they do not
// decide. Few documents are looked at one by one after it, where many are ruled out
// by their values.
func (tx *Tx) indexed(ctx context.Context, s Scope, all bool, f Filter) (set *roaring.Bitmap, rest []Filter, err error) {
	if set, err = tx.scopeSet(s); err != nil {
		return nil, nil, err
	}
	if set == nil && !all {
		return roaring.New(), nil, nil
	}
	e := evaluation{tx: tx, ctx: ctx}
	var decided []Filter
	switch f := f.(type) {
	case nil:
	case And:
		for _, g := range f {
			if e.cost(g) <= costColumn {
				decided = append(decided, g)
			} else {
				rest = append(rest, g)
			}
		}
	default:
		if rest = []Filter{f}; e.cost(f) <= costColumn {
			decided, rest = rest, nil
		}
	}
	if set == nil {
		if set, decided, err = e.begin(decided); err != nil {
			return nil, nil, err
		}
	}
	for _, g := range e.cheapFirst(decided) {
		if set, err = e.holds(g, set); err != nil {
			return nil, nil, err
		}
	}
	return set, rest, nil
}

// begin is the set that a filter over all documents is evaluated from: what the index
// finds for one of its parts, which is then decided, or else every document.
func (e *evaluation) begin(parts []Filter) (*roaring.Bitmap, []Filter, error) {
	for i, f := range parts {
		c, ok := conditionOf(f)
		if !ok {
			continue
		}
		var set *roaring.Bitmap
		var err error
		if c.op == opEq || c.op == opIn {
			set, ok, err = e.tx.postingsOf(&c)
		}
		if set == nil && err == nil {
			set, ok, err = e.inRange(&c, nil)
		}
		if err != nil {
			return nil, nil, err
		}
		if ok {
			return set, slices.Delete(slices.Clone(parts), i, i+1), nil
		}
	}
	set, err := e.tx.everything(e.ctx, nil)
	return set, parts, err
}

// settled is the visible part of what indexed gave, for which the rest holds too.
func (tx *Tx) settled(ctx context.Context, set *roaring.Bitmap, rest []Filter) (*roaring.Bitmap, error) {
	set, err := tx.onlyVisible(ctx, set, nil)
	if err != nil || len(rest) == 0 {
		return set, err
	}
	e := evaluation{tx: tx, ctx: ctx}
	return e.holds(And(rest), set)
}

// evaluation is one filter being evaluated.
type evaluation struct {
	tx  *Tx
	ctx context.Context
	n   int
}

// holds is the part of among for which f holds. It may change among.
func (e *evaluation) holds(f Filter, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	if among.IsEmpty() {
		return among, nil
	}
	if e.reads(f) {
		return e.read(testOf(f), among)
	}
	switch f := f.(type) {
	case And:
		var err error
		for _, g := range e.parts(f, func(read []Filter) Filter { return And(read) }) {
			if among, err = e.holds(g, among); err != nil {
				return nil, err
			}
		}
		return among, nil
	case Or:
		found := roaring.New()
		for _, g := range e.parts(f, func(read []Filter) Filter { return Or(read) }) {
			part, err := e.holds(g, among.Clone())
			if err != nil {
				return nil, err
			}
			found.Or(part)
			among.AndNot(part)
		}
		return found, nil
	case Not:
		part, err := e.holds(f.Filter, among.Clone())
		if err != nil {
			return nil, err
		}
		among.AndNot(part)
		return among, nil
	}
	c, _ := conditionOf(f)
	return e.condition(&c, among)
}

func (e *evaluation) condition(c *condition, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	if c.isEquality() {
		equal, ok, err := e.tx.postingsOf(c)
		if err != nil {
			return nil, err
		}
		switch {
		case !ok:
		case c.op == opNe || c.op == opNin:
			among.AndNot(equal)
			return among, nil
		default:
			among.And(equal)
			return among, nil
		}
	}
	if found, ok, err := e.inRange(c, among); ok || err != nil {
		return found, err
	}
	return e.looked(c, among)
}

// looked is the part of a set for which a condition holds by the rows or records.
func (e *evaluation) looked(c *condition, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	l := c.look()
	if c.field.row == nil {
		return e.read(l.holdsFor, among)
	}
	return e.keep(among, func(r *doctable.Row) (bool, error) { return l.holds(c.field.row(e.tx, r), nil), nil })
}

// read is the part of a set for whose records a test holds.
func (e *evaluation) read(t test, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	return e.keep(among, func(r *doctable.Row) (bool, error) {
		if err := e.ctx.Err(); err != nil { // a memory may be of some MB
			return false, err
		}
		m, err := e.tx.filtered(r)
		if err != nil {
			return false, err
		}
		m.ctx = e.ctx
		ok := t(m)
		return ok, m.err
	})
}

// filtered reads the memory of a row.
func (tx *Tx) filtered(r *doctable.Row) (*filtered, error) {
	rec, err := tx.record(r.Version)
	return &filtered{rec: rec, Access: tx.db.accessOf(r.Seq)}, err
}

// reads tells whether nothing but the records decides any part of a filter.
func (e *evaluation) reads(f Filter) bool {
	switch f := f.(type) {
	case And:
		return len(f) > 0 && !slices.ContainsFunc(f, func(g Filter) bool { return !e.reads(g) })
	case Or:
		return len(f) > 0 && !slices.ContainsFunc(f, func(g Filter) bool { return !e.reads(g) })
	case Not:
		return e.reads(f.Filter)
	}
	return e.cost(f) == costRecord
}

// parts orders the parts of a filter: those that need no memory to be read come first
// and leave fewer to the others. Those that need nothing else are joined to one, which
// reads each memory once.
func (e *evaluation) parts(parts []Filter, join func([]Filter) Filter) []Filter {
	var read, others []Filter
	for _, f := range e.cheapFirst(parts) {
		if e.reads(f) {
			read = append(read, f)
		} else {
			others = append(others, f)
		}
	}
	if len(read) == 0 {
		return others
	}
	at := slices.IndexFunc(others, func(f Filter) bool { return e.cost(f) == costRecord })
	if at < 0 {
		at = len(others)
	}
	return slices.Insert(others, at, join(read))
}

// keep is the part of a set for whose rows a test holds.
func (e *evaluation) keep(set *roaring.Bitmap, test func(*doctable.Row) (bool, error)) (*roaring.Bitmap, error) {
	var docs []uint32
	it := set.Iterator()
	for it.HasNext() {
		doc := it.Next()
		if e.n++; e.n%cancelEvery == 0 && e.ctx.Err() != nil {
			return nil, e.ctx.Err()
		}
		row := e.tx.db.docs.Row(doc)
		if !row.Visible(e.tx.lsn) {
			continue // there may be nothing left to read of it
		}
		ok, err := test(row)
		if err != nil {
			return nil, err
		}
		if ok {
			docs = append(docs, doc)
		}
	}
	return roaring.BitmapOf(docs...), nil
}

// isEquality tells the operators that the postings can decide.
func (c *condition) isEquality() bool {
	return c.op == opEq || c.op == opNe || c.op == opIn || c.op == opNin
}

// cheapFirst orders the parts of a filter by their costs.
func (e *evaluation) cheapFirst(parts []Filter) []Filter {
	ordered := slices.Clone(parts)
	slices.SortStableFunc(ordered, func(a, b Filter) int { return e.cost(a) - e.cost(b) })
	return ordered
}

// The costs of conditions, in the order of their evaluation.
const (
	costPostings = iota
	costColumn
	costRow
	costRecord
)

func (e *evaluation) cost(f Filter) int {
	worst := costPostings
	switch f := f.(type) {
	case And:
		for _, g := range f {
			worst = max(worst, e.cost(g))
		}
		return worst
	case Or:
		for _, g := range f {
			worst = max(worst, e.cost(g))
		}
		return worst
	case Not:
		return e.cost(f.Filter)
	}
	c, _ := conditionOf(f)
	if c.isEquality() {
		if number, _ := e.tx.indexedField(c.field); number != 0 || e.tx.unheard(c.field) {
			return costPostings
		}
	}
	if _, ok := e.tx.column(&c); ok {
		return costColumn
	}
	if c.field.row != nil {
		return costRow
	}
	return costRecord
}

// span is a range of a column that decides a condition.
type span struct {
	field  uint16 // 0: nothing is in the column
	within invindex.Range
	// edge is the place that integers share with the condition's number by rounding,
	// if rounds is set: what is there is to be looked at.
	edge   uint64
	rounds bool
}

// column tells where the numbers and times for which a condition holds are, false
// where no column decides it.
func (tx *Tx) column(c *condition) (span, bool) {
	switch {
	case c.op == opGt, c.op == opGte, c.op == opLt, c.op == opLte:
	case c.op == opEq && c.field.column != 0:
	default:
		return span{}, false
	}
	var p span
	var at uint64
	if c.field.column != 0 {
		ms, ok := timeValue(c.values[0])
		if !ok {
			return span{}, false
		}
		p.field, at = c.field.column, invindex.IntOrder(ms)
	} else {
		num, class := tx.indexedField(c.field)
		n, ok := numberOf(c.values[0])
		if c.field.of != nil || class != 0 || !ok || num == 0 && !tx.unheard(c.field) {
			return span{}, false
		}
		const exact = 1 << 53 // integers below it are float64s
		p.field, at = num, invindex.FloatOrder(n.f)
		p.edge, p.rounds = at, math.Abs(n.f) >= exact
	}
	switch op := c.op; {
	case op == opEq:
		p.within = invindex.Range{Lo: at, Hi: at}
	case op == opGt, op == opGte && p.rounds:
		p.within = invindex.Above(at)
	case op == opGte:
		p.within = invindex.From(at)
	case op == opLt, op == opLte && p.rounds:
		p.within = invindex.Below(at)
	default:
		p.within = invindex.UpTo(at)
	}
	return p, true
}

// Sets as small as this are looked at one by one, by their rows or records, instead of
// by a column.
const (
	fewRows    = 4096
	fewRecords = 32
)

// inRange is the part of a set for which a condition holds by a column, false where
// none decides it. nil stands for all documents.
func (e *evaluation) inRange(c *condition, among *roaring.Bitmap) (*roaring.Bitmap, bool, error) {
	p, ok := e.tx.column(c)
	if !ok {
		return nil, false, nil
	}
	if few := fewRecords; among != nil && !e.tx.db.columns {
		if c.field.row != nil {
			few = fewRows
		}
		if among.GetCardinality() <= uint64(few) {
			return nil, false, nil
		}
	}
	if p.field == 0 {
		return roaring.New(), true, nil
	}
	found, ok, err := e.find(&p, p.within, among)
	if !ok || err != nil || !p.rounds {
		return found, ok, err
	}
	edge, ok, err := e.find(&p, invindex.Range{Lo: p.edge, Hi: p.edge}, among)
	if !ok || err != nil {
		return nil, false, err
	}
	if edge, err = e.looked(c, edge); err != nil {
		return nil, false, err
	}
	found.Or(edge)
	return found, true, nil
}

// find looks a range up, false where documents of an older layout are in no column.
func (e *evaluation) find(p *span, r invindex.Range, among *roaring.Bitmap) (*roaring.Bitmap, bool, error) {
	found, err := e.tx.index.FindRange(e.ctx, e.tx.text, p.field, r, among)
	if errors.Is(err, invindex.ErrNoNumbers) {
		return nil, false, nil
	}
	return found, err == nil, textError("read the filter index", err)
}

// postingsOf is the union of the postings of a condition's values, false where
// the field or a value is not indexed.
func (tx *Tx) postingsOf(c *condition) (*roaring.Bitmap, bool, error) {
	number, class := tx.indexedField(c.field)
	if number == 0 && !tx.unheard(c.field) {
		return nil, false, nil
	}
	set := roaring.New()
	for _, v := range c.values {
		key, ok := exactKey(v)
		if !ok || len(key) > MaxIndexedValue && class == 0 {
			return nil, false, nil
		}
		if number == 0 {
			continue
		}
		if class != 0 {
			name, isText := strings.CutPrefix(key, textKey(""))
			if !isText || name == "" {
				continue
			}
			num, found, err := tx.lookup(layout.Name{Class: class, Text: name})
			if err != nil {
				return nil, false, err
			}
			if !found {
				continue
			}
			key = numberValue(num)
		}
		with, err := tx.withValue(number, key)
		if err != nil {
			return nil, false, err
		}
		set.Or(with)
	}
	return set, true, nil
}

// unheard tells whether no memory has a value of a metadata field that could be
// indexed: all such fields get a number while there is room for more.
func (tx *Tx) unheard(f field) bool {
	known := uint32(tx.db.fields.count())
	if tx.writes != nil {
		known = tx.next.Names[layout.NameField] // with those of this transaction
	}
	return f.of == nil && len(f.path) <= valid.MaxID && known < MaxIndexedPaths
}

// indexedField is the number of a field in the filter index, 0 for none, and the
// class of its values where those are interned.
func (tx *Tx) indexedField(f field) (number uint16, class layout.NameClass) {
	switch f.number {
	case 0:
	case fieldUser:
		return fieldUser, layout.NameUser
	case fieldAgent:
		return fieldAgent, layout.NameAgent
	case fieldRun:
		return fieldRun, layout.NameRun
	default:
		return f.number, 0
	}
	if f.of != nil {
		return 0, 0
	}
	if num, ok := tx.db.fields.number(f.path); ok {
		return firstMetadataField + uint16(num), 0
	}
	if tx.writes != nil {
		if num, ok := tx.names[layout.Name{Class: layout.NameField, Text: f.path}]; ok {
			return firstMetadataField + uint16(num), 0
		}
	}
	return 0, 0
}
