package invindex

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

func TestOrders(t *testing.T) {
	floats := []float64{
		math.Inf(-1), -math.MaxFloat64, -1e10, -2, -1.5, -1, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, 0.5, 1, 2, 1 << 53, 1e300, math.MaxFloat64, math.Inf(1),
	}
	for i, f := range floats[1:] {
		if FloatOrder(floats[i]) >= FloatOrder(f) {
			t.Errorf("%v is not below %v", floats[i], f)
		}
	}
	if FloatOrder(math.Copysign(0, -1)) != FloatOrder(0) {
		t.Error("the zeros have two places")
	}
	ints := []int64{math.MinInt64, -5, -1, 0, 1, 1_767_225_600_123, math.MaxInt64}
	for i, n := range ints[1:] {
		if IntOrder(ints[i]) >= IntOrder(n) {
			t.Errorf("%d is not below %d", ints[i], n)
		}
	}
}

func TestRanges(t *testing.T) {
	numbers := []uint64{0, 1, 2, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	for _, v := range numbers {
		for _, x := range numbers {
			for name, tc := range map[string]struct {
				r    Range
				want bool
			}{
				"above": {Above(v), x > v}, "from": {From(v), x >= v}, "below": {Below(v), x < v}, "up to": {UpTo(v), x <= v},
			} {
				if got := x >= tc.r.Lo && x <= tc.r.Hi; got != tc.want {
					t.Errorf("%d is %s %d: %v", x, name, v, got)
				}
			}
		}
	}
}

// ranges compares the documents of a random range with those of the oracle.
func ranges(t *testing.T, c *corpus, x *Index, o *oracle, r Reader) {
	t.Helper()
	s := Snapshot{Docs: o.ids[c.rng.IntN(len(o.ids))] + 1, Reader: r}
	n, m := c.number(), c.number()
	for m.Field != n.Field {
		m = c.number()
	}
	in := []Range{{min(n.Value, m.Value), max(n.Value, m.Value)}, {n.Value, n.Value}, Above(n.Value), Below(n.Value), {1, 0}, {0, math.MaxUint64}}[c.rng.IntN(6)]
	field := n.Field
	if c.rng.IntN(20) == 0 {
		field = 77
	}
	name, docs := c.someDocs(s)
	want := roaring.New()
	for _, id := range o.in(s, Docs{Set: docs.Set}) {
		if slices.ContainsFunc(o.docs[id].Numbers, func(n Number) bool {
			return n.Field == field && n.Value >= in.Lo && n.Value <= in.Hi
		}) {
			want.Add(id)
		}
	}
	got, err := x.FindRange(t.Context(), s, field, in, docs.Set)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equals(want) {
		t.Fatalf("%s: %d documents have a number of field %d in %x, want %d", name, got.GetCardinality(), field, in, want.GetCardinality())
	}
}

// A page of a column is read back whole and by ranges, whatever the numbers.
func TestColumnPage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 300 {
		shift := rng.IntN(64)
		of := uint64(1)<<rng.IntN(64-shift) + 1
		p := make([]pair, 1+rng.IntN(columnBlock))
		for i := range p {
			p[i] = pair{rng.Uint64N(of) << shift, uint16(rng.Uint32())}
		}
		if round%10 == 0 {
			p[0].value, p[len(p)-1].value = 0, math.MaxUint64
		}
		slices.SortFunc(p, comparePairs)
		b := appendColumnPage(nil, p)
		last := p[len(p)-1].value
		for range 20 {
			r := Range{p[rng.IntN(len(p))].value + uint64(rng.IntN(3)) - 1, p[rng.IntN(len(p))].value + uint64(rng.IntN(3)) - 1}
			var want, got mask
			for _, x := range p {
				if x.value >= r.Lo && x.value <= r.Hi {
					want.add(x.slot)
				}
			}
			if !columnPageIn(b, p[0].value, last, r, &got) || got != want {
				t.Fatalf("round %d: the range %x has %d slots, want %d", round, r, got.count(), want.count())
			}
		}
		for n := range min(len(b), 300) {
			var m mask
			if columnPageIn(b[:n], p[0].value, last, Range{0, math.MaxUint64}, &m) && n < 9 {
				t.Fatalf("%d bytes are a page", n)
			}
		}
	}
}

// Numbers that are not known are never taken for numbers that are not there.
func TestNoNumbers(t *testing.T) {
	x, store := New(Config{}), newMemStore()
	find := func(want error, n uint64) {
		t.Helper()
		s := x.Snapshot()
		s.Reader = store
		set, err := x.FindRange(t.Context(), s, 1, UpTo(9), nil)
		if !errors.Is(err, want) || err == nil && set.GetCardinality() != n {
			t.Errorf("%v, error %v; want %d, %v", set, err, n, want)
		}
	}
	one := Doc{Numbered: true, Numbers: []Number{{1, 5}}}
	for doc := range uint32(3) {
		if err := x.Add(doc, &one); err != nil {
			t.Fatal(err)
		}
	}
	find(nil, 3)
	if err := x.Add(3, &Doc{}); err != nil {
		t.Fatal(err)
	}
	find(ErrNoNumbers, 0)
	if err := errors.Join(x.Add(1<<16, &one), x.Seal(store, 0), x.Sealed(store, 0)); err != nil {
		t.Fatal(err)
	}
	find(ErrNoNumbers, 0)
	x.Drop(0)
	find(nil, 1)
	within, err := x.FindRange(t.Context(), x.Snapshot(), 1, UpTo(9), roaring.BitmapOf(7))
	if err != nil || !within.IsEmpty() {
		t.Errorf("%v, %v", within, err)
	}
}

// TestNewFields: a range of one field is the same while others come before it.
func TestNewFields(t *testing.T) {
	const field, docs = 1 << 14, 10
	x := New(Config{})
	add := func(doc uint32, field uint16) {
		if err := x.Add(doc, &Doc{Numbered: true, Numbers: []Number{{Field: field, Value: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	for doc := range uint32(docs) {
		add(doc, field)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint32(field / 4) {
			add(docs+i, uint16(field-1-i))
		}
	}()
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		set, err := x.FindRange(t.Context(), x.Snapshot(), field, Range{0, 1}, nil)
		if err != nil || set.GetCardinality() != docs {
			t.Fatalf("%v, %v; want %d documents", set, err, docs)
		}
	}
}

func BenchmarkFindRange(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 0))
	x, store := New(Config{}), newMemStore()
	for doc := range uint32(4 << 16) {
		d := Doc{Numbered: true, Numbers: []Number{{1, IntOrder(int64(doc))}, {2, FloatOrder(float64(rng.IntN(100)))}, {3, rng.Uint64()}}}
		if err := x.Add(doc, &d); err != nil {
			b.Fatal(err)
		}
	}
	hot := x.Snapshot()
	seal(b, x, store)
	sealed := x.Snapshot()
	sealed.Reader = store
	for name, s := range map[string]Snapshot{"hot": hot, "sealed": sealed} {
		for field, r := range map[uint16]Range{1: {IntOrder(1000), IntOrder(2000)}, 2: UpTo(FloatOrder(49)), 3: UpTo(1 << 57)} {
			b.Run(fmt.Sprintf("%s/field=%d", name, field), func(b *testing.B) {
				for b.Loop() {
					if _, err := x.FindRange(b.Context(), s, field, r, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	size := 0
	for key, page := range store.pages {
		if key[2] == sectionNumbers {
			size += len(page)
		}
	}
	b.Logf("%.2f bytes a number", float64(size)/(3*4<<16))
}
