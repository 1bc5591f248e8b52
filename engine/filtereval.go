package engine

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// narrow is the part of a set of visible documents for which a filter holds. The
// postings decide what they can, the document table what it holds; only for the
// rest are memories read, and only those that are still in question.
func (tx *Tx) narrow(ctx context.Context, set *roaring.Bitmap, f Filter) (*roaring.Bitmap, error) {
	if f == nil {
		return set, nil
	}
	e := evaluation{tx: tx, ctx: ctx}
	return e.holds(f, set)
}

// evaluation is one filter being evaluated.
type evaluation struct {
	tx  *Tx
	ctx context.Context
	n   int
}

// holds is the part of among for which f holds. It may change among.
func (e *evaluation) holds(f Filter, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	if among.IsEmpty() {
		return among, nil
	}
	switch f := f.(type) {
	case And:
		var err error
		for _, g := range e.cheapFirst(f) {
			if among, err = e.holds(g, among); err != nil {
				return nil, err
			}
		}
		return among, nil
	case Or:
		found := roaring.New()
		for _, g := range e.cheapFirst(f) {
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
	if c.field.row != nil {
		return e.keep(among, func(r *docRow) (bool, error) { return c.holds(c.field.row(e.tx, r)), nil })
	}
	return e.keep(among, func(r *docRow) (bool, error) {
		m, err := e.tx.filtered(r, c.field.of == nil)
		if err != nil {
			return false, err
		}
		return c.holds(c.field.value(m)), nil
	})
}

// keep is the part of a set for whose rows a test holds.
func (e *evaluation) keep(set *roaring.Bitmap, test func(*docRow) (bool, error)) (*roaring.Bitmap, error) {
	var docs []uint32
	it := set.Iterator()
	for it.HasNext() {
		doc := it.Next()
		if e.n++; e.n%cancelEvery == 0 && e.ctx.Err() != nil {
			return nil, e.ctx.Err()
		}
		ok, err := test(e.tx.db.docs.row(doc))
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

// filtered reads the memory of a row, its metadata only where that is asked for.
func (tx *Tx) filtered(r *docRow, metadata bool) (*filtered, error) {
	rec, err := tx.record(r.version)
	if err != nil {
		return nil, err
	}
	m := &filtered{rec: rec, access: tx.db.accessOf(r.seq)}
	if metadata {
		m.meta, err = decodeMetadata(rec.metadata)
	}
	return m, err
}

// cheapFirst orders the parts of a filter: those that need no memory to be read
// come first and leave fewer to the others.
func (e *evaluation) cheapFirst(parts []Filter) []Filter {
	ordered := slices.Clone(parts)
	slices.SortStableFunc(ordered, func(a, b Filter) int { return e.cost(a) - e.cost(b) })
	return ordered
}

// The costs of conditions, in the order of their evaluation.
const (
	costPostings = iota
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
	if c.field.row != nil {
		return costRow
	}
	return costRecord
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
			s, isString := v.(string)
			if !isString || s == "" {
				continue
			}
			num, found, err := tx.lookup(nameKey{class, s})
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
	return f.of == nil && len(f.path) <= MaxID && tx.db.fields.count() < MaxIndexedPaths
}

// indexedField is the number of a field in the filter index, 0 for none, and the
// class of its values where those are interned.
func (tx *Tx) indexedField(f field) (number uint16, class nameClass) {
	switch f.number {
	case 0:
	case fieldUser:
		return fieldUser, nameUser
	case fieldAgent:
		return fieldAgent, nameAgent
	case fieldRun:
		return fieldRun, nameRun
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
		if num, ok := tx.names[nameKey{nameField, f.path}]; ok {
			return firstMetadataField + uint16(num), 0
		}
	}
	return 0, 0
}
