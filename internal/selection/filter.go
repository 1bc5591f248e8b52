package selection

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Selected is the set of visible documents in a scope, or in any where all is set,
// for which a filter holds.
func Selected(ctx context.Context, st *state.State, s memory.Scope, all bool, f filter.Filter) (*roaring.Bitmap, error) {
	set, rest, err := Indexed(ctx, st, s, all, f)
	if err != nil {
		return nil, err
	}
	return Settled(ctx, st, set, rest)
}

// Indexed is what the postings alone tell of a selection: a set that may hold
// documents that are not visible, and the parts of the filter that they do not
// decide. Few documents are looked at one by one after it, where many are ruled out
// by their values.
func Indexed(ctx context.Context, st *state.State, s memory.Scope, all bool, f filter.Filter) (set *roaring.Bitmap, rest []filter.Filter, err error) {
	if set, err = ScopeSet(st, s); err != nil {
		return nil, nil, err
	}
	if set == nil && !all {
		return roaring.New(), nil, nil
	}
	e := evaluation{st: st, ctx: ctx}
	var decided []filter.Filter
	switch f := f.(type) {
	case nil:
	case filter.All:
		for _, g := range f {
			if e.cost(g) <= costColumn {
				decided = append(decided, g)
			} else {
				rest = append(rest, g)
			}
		}
	default:
		if rest = []filter.Filter{f}; e.cost(f) <= costColumn {
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
func (e *evaluation) begin(parts []filter.Filter) (*roaring.Bitmap, []filter.Filter, error) {
	for i, f := range parts {
		c, ok := conditionOf(f)
		if !ok {
			continue
		}
		set, inside, ok, err := e.postingsOf(&c)
		if err == nil && (!ok || !inside) {
			set, ok, err = e.inRange(&c, nil)
		}
		if err != nil {
			return nil, nil, err
		}
		if ok {
			return set, slices.Delete(slices.Clone(parts), i, i+1), nil
		}
	}
	set, err := everything(e.ctx, e.st, nil)
	return set, parts, err
}

// Settled is the visible part of what indexed gave, for which the rest holds too.
func Settled(ctx context.Context, st *state.State, set *roaring.Bitmap, rest []filter.Filter) (*roaring.Bitmap, error) {
	set, err := onlyVisible(ctx, st, set, nil)
	if err != nil || len(rest) == 0 {
		return set, err
	}
	e := evaluation{st: st, ctx: ctx}
	if len(rest) == 1 { // to join it to others would make it larger than it may be
		return e.holds(rest[0], set)
	}
	return e.holds(filter.All(rest), set)
}

// evaluation is one filter being evaluated.
type evaluation struct {
	st  *state.State
	ctx context.Context
	n   int
}

// holds is the part of among for which f holds. It may change among.
func (e *evaluation) holds(f filter.Filter, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	if among.IsEmpty() {
		return among, nil
	}
	if e.reads(f) {
		return e.read(f, among)
	}
	switch f := f.(type) {
	case filter.All:
		var err error
		for _, g := range e.parts(f, func(read []filter.Filter) filter.Filter { return filter.All(read) }) {
			if among, err = e.holds(g, among); err != nil {
				return nil, err
			}
		}
		return among, nil
	case filter.Any:
		found := roaring.New()
		for _, g := range e.parts(f, func(read []filter.Filter) filter.Filter { return filter.Any(read) }) {
			part, err := e.holds(g, among.Clone())
			if err != nil {
				return nil, err
			}
			found.Or(part)
			among.AndNot(part)
		}
		return found, nil
	case filter.Negation:
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

// condition is a condition, and where the values of its field are.
type condition struct {
	filter.Condition
	field Field
	timed bool // it compares values of the metadata with times
}

// conditionOf is the condition that f is, false for All, Any and Negation.
func conditionOf(f filter.Filter) (condition, bool) {
	c, ok := f.(filter.Condition)
	if !ok {
		return condition{}, false
	}
	at, err := FieldOf(c.Field)
	if err != nil {
		return condition{}, false
	}
	return condition{c, at, filter.IsOfTimes(at.Field, c)}, true
}

func (e *evaluation) condition(c *condition, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	if c.timed && !e.st.Columns && among.GetCardinality() <= fewRecords {
		return e.looked(c, among) // instead of all values of the field
	}
	set, inside, ok, err := e.postingsOf(c)
	switch {
	case err != nil:
		return nil, err
	case ok && inside:
		among.And(set)
		return among, nil
	case ok:
		among.AndNot(set)
		return among, nil
	}
	if found, ok, err := e.inRange(c, among); ok || err != nil {
		return found, err
	}
	if !partly(e.st, c) {
		return e.looked(c, among)
	}
	yes, no, err := e.sure(c)
	if err != nil {
		return nil, err
	}
	yes.And(among)
	among.AndNot(yes)
	among.AndNot(no)
	found, err := e.looked(c, among)
	if err != nil {
		return nil, err
	}
	found.Or(yes)
	return found, nil
}

// looked is the part of a set for which a condition holds by the rows or records.
func (e *evaluation) looked(c *condition, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	if c.field.Row == nil {
		return e.read(c.Condition, among)
	}
	holds, err := filter.Compile(c.Condition)
	if err != nil {
		return nil, err
	}
	m := &filteredRow{st: e.st, value: c.field.Row}
	return e.keep(among, func(r *doctable.Row) (bool, error) {
		m.row = r
		return holds(e.ctx, m)
	})
}

// read is the part of a set for whose records a filter holds.
func (e *evaluation) read(f filter.Filter, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	holds, err := filter.Compile(f)
	if err != nil {
		return nil, err
	}
	return e.keep(among, func(r *doctable.Row) (bool, error) {
		if err := e.ctx.Err(); err != nil { // a memory may be of some MB
			return false, err
		}
		m, err := Look(e.st, r)
		if err != nil {
			return false, e.st.Without(err)
		}
		ok, err := holds(e.ctx, m)
		return ok, cmp.Or(m.Err, err)
	})
}

// filtered reads the memory of a row.
func Look(st *state.State, r *doctable.Row) (*Filtered, error) {
	rec, err := st.Record(r.Version)
	return &Filtered{Rec: rec, access: st.Docs.Access(r.Seq), confidence: st.Confidence(r)}, err
}

// reads reports whether nothing but the records decides any part of a filter.
func (e *evaluation) reads(f filter.Filter) bool {
	switch f := f.(type) {
	case filter.All:
		return len(f) > 0 && !slices.ContainsFunc(f, func(g filter.Filter) bool { return !e.reads(g) })
	case filter.Any:
		return len(f) > 0 && !slices.ContainsFunc(f, func(g filter.Filter) bool { return !e.reads(g) })
	case filter.Negation:
		return e.reads(f.Filter)
	}
	return e.cost(f) == costRecord
}

// parts orders the parts of a filter: those that need no memory to be read come first
// and leave fewer to the others. Those that need nothing else are joined to one, which
// reads each memory once.
func (e *evaluation) parts(parts []filter.Filter, join func([]filter.Filter) filter.Filter) []filter.Filter {
	var read, others []filter.Filter
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
	at := slices.IndexFunc(others, func(f filter.Filter) bool { return e.cost(f) == costRecord })
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
		if e.n++; e.n%state.CancelEvery == 0 && e.ctx.Err() != nil {
			return nil, e.ctx.Err()
		}
		row := e.st.Docs.Row(doc)
		if !row.Visible(e.st.LSN) {
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

// cheapFirst orders the parts of a filter by their costs.
func (e *evaluation) cheapFirst(parts []filter.Filter) []filter.Filter {
	ordered := slices.Clone(parts)
	slices.SortStableFunc(ordered, func(a, b filter.Filter) int { return e.cost(a) - e.cost(b) })
	return ordered
}

// The costs of conditions, in the order of their evaluation.
const (
	costPostings = iota
	costColumn
	costRow // or postings, and the records of some
	costRecord
)

func (e *evaluation) cost(f filter.Filter) int {
	worst := costPostings
	switch f := f.(type) {
	case filter.All:
		for _, g := range f {
			worst = max(worst, e.cost(g))
		}
		return worst
	case filter.Any:
		for _, g := range f {
			worst = max(worst, e.cost(g))
		}
		return worst
	case filter.Negation:
		return e.cost(f.Filter)
	}
	c, _ := conditionOf(f)
	switch {
	case !posted(e.st, &c):
	case c.timed: // it reads all values of the field
		return costColumn
	default:
		return costPostings
	}
	if _, ok := column(e.st, &c); ok {
		return costColumn
	}
	if c.field.Row != nil || partly(e.st, &c) {
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
func column(st *state.State, c *condition) (span, bool) {
	switch {
	case c.Op.IsOrder():
	case c.Op == filter.OpEq && c.field.Column != 0:
	case c.Op == filter.OpExists && c.field.Column != 0:
		return span{field: c.field.Column, within: invindex.From(0)}, true
	default:
		return span{}, false
	}
	var p span
	var at uint64
	if c.field.Column != 0 {
		ms, ok := scalar.Millis(c.Values[0])
		if !ok {
			return span{}, false
		}
		p.field, at = c.field.Column, invindex.IntOrder(ms)
	} else {
		num, class := indexedField(st, c.field)
		n, ok := scalar.NumberOf(c.Values[0])
		if c.field.Name != "" || class != 0 || !ok || num == 0 && !unheard(st, c.field) {
			return span{}, false
		}
		const exact = 1 << 53 // integers below it are float64s
		p.field, at = num, invindex.FloatOrder(n.Float)
		p.edge, p.rounds = at, math.Abs(n.Float) >= exact
	}
	switch op := c.Op; {
	case op == filter.OpEq:
		p.within = invindex.Range{Lo: at, Hi: at}
	case op == filter.OpGt, op == filter.OpGte && p.rounds:
		p.within = invindex.Above(at)
	case op == filter.OpGte:
		p.within = invindex.From(at)
	case op == filter.OpLt, op == filter.OpLte && p.rounds:
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
	p, ok := column(e.st, c)
	if !ok {
		return nil, false, nil
	}
	if few := fewRecords; among != nil && !e.st.Columns {
		if c.field.Row != nil {
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
	found, err := e.st.Index.FindRange(e.ctx, e.st.Postings, p.field, r, among)
	if errors.Is(err, invindex.ErrNoNumbers) {
		return nil, false, nil
	}
	return found, err == nil, state.TextError("read the filter index", err)
}

// posted reports whether the postings alone are likely to decide a condition: but for
// values that are too long for the index they do.
func posted(st *state.State, c *condition) bool {
	number, class := indexedField(st, c.field)
	switch {
	case c.Op == filter.OpExists:
		return c.field.Always || class != 0
	case !c.Op.IsEquality() && !c.timed:
		return false
	case number == layout.FieldSource && slices.ContainsFunc(c.Values, isEmptyText):
		return false // see partly
	}
	return number != 0 || unheard(st, c.field)
}

func isEmptyText(v any) bool {
	key, _ := scalar.Key(v)
	return key == scalar.TextKey("")
}

// partly reports whether postings decide a condition for some documents, and records for
// the others: whether a metadata field exists, which may hold a list, an object or a long
// string that is in no posting; and whether there is no source, where a long one is not.
func partly(st *state.State, c *condition) bool {
	number, _ := indexedField(st, c.field)
	if c.Op == filter.OpExists {
		return c.field.Name == "" && number != 0
	}
	return c.Op.IsEquality() && number == layout.FieldSource && slices.ContainsFunc(c.Values, isEmptyText)
}

// sure are the documents for which a condition that postings decide in part holds, and
// those for which it does not.
func (e *evaluation) sure(c *condition) (yes, no *roaring.Bitmap, err error) {
	number, _ := indexedField(e.st, c.field)
	yes, err = withField(e.ctx, e.st, number)
	if err != nil || c.Op == filter.OpExists {
		return yes, roaring.New(), err
	}
	other := *c
	other.Values = slices.DeleteFunc(slices.Clone(c.Values), isEmptyText)
	set, _, ok, err := e.postingsOf(&other)
	if err != nil || !ok { // one of the others is too long
		return roaring.New(), roaring.New(), err
	}
	yes.AndNot(set)
	if c.Op == filter.OpEq || c.Op == filter.OpIn {
		return set, yes, nil
	}
	return yes, set, nil
}

// postingsOf is a set of documents by which the postings decide a condition: it holds
// for those inside, or for those outside. false where they do not decide it.
func (e *evaluation) postingsOf(c *condition) (set *roaring.Bitmap, inside, ok bool, err error) {
	st := e.st
	if !posted(st, c) {
		return nil, false, false, nil
	}
	number, class := indexedField(st, c.field)
	if c.Op == filter.OpExists {
		if c.field.Always {
			return roaring.New(), false, true, nil
		}
		set, err = withField(e.ctx, st, number)
		return set, true, true, err
	}
	inside = c.Op != filter.OpNe && c.Op != filter.OpNin
	set = roaring.New()
	if c.timed && number != 0 {
		if set, err = withTimes(e.ctx, st, number, filter.TimeTest(c.Condition)); err != nil {
			return nil, false, false, err
		}
	}
	none := false
	for _, v := range c.Values {
		if _, isTime := v.(time.Time); isTime || !c.Op.IsEquality() {
			continue // see withTimes
		}
		key, ok := scalar.Key(v)
		if !ok || len(key) > memory.MaxIndexedValue && class == 0 {
			return nil, false, false, nil
		}
		if number == 0 {
			continue
		}
		if class != 0 {
			name, _ := scalar.TextOf(key)
			none = none || name == ""
			if key, err = interned(st, class, name); err != nil {
				return nil, false, false, err
			}
			if key == "" {
				continue
			}
		}
		with, err := WithValue(st, number, key)
		if err != nil {
			return nil, false, false, err
		}
		set.Or(with)
	}
	if !none {
		return set, inside, true, nil
	}
	// Of the memories that have the field, those with another value are the others.
	others, err := withField(e.ctx, st, number)
	if err != nil {
		return nil, false, false, err
	}
	others.AndNot(set)
	return others, !inside, true, nil
}

// interned is the value of a name in the filter index, empty for a name that no memory has.
func interned(st *state.State, class layout.NameClass, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	num, found, err := st.Lookup(layout.Name{Class: class, Text: name})
	if err != nil || !found {
		return "", err
	}
	return layout.NumberValue(num), nil
}

// unheard reports whether no memory has a value of a metadata field that could be
// indexed: all such fields get a number while there is room for more.
func unheard(st *state.State, f Field) bool {
	known := st.Fields.Given()
	if st.Own != nil {
		known = st.Own.Given.Names[layout.NameField] // with those of the writer
	}
	return f.Name == "" && len(f.Path) <= valid.MaxID && known < memory.MaxIndexedPaths
}

// indexedField is the number of a field in the filter index, 0 for none, and the
// class of its values where those are interned.
func indexedField(st *state.State, f Field) (number uint16, class layout.NameClass) {
	switch f.Number {
	case 0:
	case layout.FieldUser:
		return layout.FieldUser, layout.NameUser
	case layout.FieldAgent:
		return layout.FieldAgent, layout.NameAgent
	case layout.FieldRun:
		return layout.FieldRun, layout.NameRun
	default:
		return f.Number, 0
	}
	if f.Name != "" {
		return 0, 0
	}
	if num, ok := st.Fields.Number(f.Path); ok {
		return layout.FirstMetadataField + uint16(num), 0
	}
	if st.Own != nil {
		if num, ok := st.Own.Names[layout.Name{Class: layout.NameField, Text: f.Path}]; ok {
			return layout.FirstMetadataField + uint16(num), 0
		}
	}
	return 0, 0
}

// Holds is the part of a set for which a filter holds. It may change the set.
func Holds(ctx context.Context, st *state.State, f filter.Filter, among *roaring.Bitmap) (*roaring.Bitmap, error) {
	e := evaluation{st: st, ctx: ctx}
	return e.holds(f, among)
}
