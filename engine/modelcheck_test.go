package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// modelFilter is a filter, and what it should mean.
type modelFilter struct {
	filter filter.Filter
	holds  func(m *memory.Memory) bool
}

// equals is the condition that a field has one of some values; of reads it.
func equals(field string, of func(m *memory.Memory) any, values ...any) modelFilter {
	c := modelFilter{holds: func(m *memory.Memory) bool {
		return slices.ContainsFunc(values, func(v any) bool { return sameValue(of(m), v) })
	}}
	if len(values) == 1 {
		c.filter = filter.Eq(field, values[0])
	} else {
		c.filter = filter.In(field, values...)
	}
	return c
}

func allOf(cs ...modelFilter) modelFilter {
	and := filter.All{}
	for _, c := range cs {
		and = append(and, c.filter)
	}
	return modelFilter{and, func(m *memory.Memory) bool {
		return !slices.ContainsFunc(cs, func(c modelFilter) bool { return !c.holds(m) })
	}}
}

// absent is the value of a field that a memory has not.
type absent struct{}

func given(s string) any {
	if s == "" {
		return absent{}
	}
	return s
}

// metaAt reads a metadata field through nested objects.
func metaAt(path ...string) func(m *memory.Memory) any {
	return func(m *memory.Memory) any {
		var v any = m.Metadata
		for _, name := range path {
			object, ok := v.(map[string]any)
			if !ok {
				return absent{}
			}
			if v, ok = object[name]; !ok {
				return absent{}
			}
		}
		return v
	}
}

// sameValue compares as JSON does: by type, whole numbers of 64 bits by their
// value, others as the nearest float64.
func sameValue(have, want any) bool {
	a, aNumber := exactNumber(have)
	b, bNumber := exactNumber(want)
	if aNumber && bNumber {
		if a.IsInt() && a.Num().BitLen() <= 64 || b.IsInt() && b.Num().BitLen() <= 64 {
			return a.Cmp(b) == 0
		}
		x, _ := a.Float64()
		y, _ := b.Float64()
		return x == y
	}
	switch have.(type) {
	case string, bool, nil:
		return have == want
	}
	return false
}

func exactNumber(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case json.Number:
		return new(big.Rat).SetString(string(v))
	case float64:
		return new(big.Rat).SetFloat64(v), true
	case float32: // as JSON writes it
		b, err := json.Marshal(v)
		if err != nil {
			return nil, false
		}
		return new(big.Rat).SetString(string(b))
	case int:
		return new(big.Rat).SetInt64(int64(v)), true
	case int64:
		return new(big.Rat).SetInt64(v), true
	}
	return nil, false
}

// ranked is a memory with the score that it should have.
type ranked struct {
	m       modelMemory
	score   float64
	matched string // the terms of the query that it has
}

func sortRanked(all []ranked) {
	slices.SortFunc(all, func(a, b ranked) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return int(a.m.Seq) - int(b.m.Seq)
	})
}

// words counts the terms of a memory, weighted by field, and its length.
func (w *world) words(m *memory.Memory) (map[string]float64, float64) {
	tf := map[string]float64{}
	length := 0.0
	add := func(text string, weight float64) {
		var bag analysis.Bag
		if text == m.Text {
			bag.Add(w.analyzer, text, 1)
		} else if err := bag.AddField(context.Background(), w.analyzer, text, 1); err != nil {
			w.t.Fatal(err)
		}
		for _, t := range bag.Terms() {
			tf[t.Term] += weight * float64(t.Freq)
		}
		length += weight * float64(bag.Length())
	}
	add(m.Text, 1)
	if !slices.ContainsFunc(w.indexed, func(f memory.IndexedField) bool { return f.Field == "name" }) && (m.Kind == memory.KindNote || m.Kind == memory.KindArchive) {
		add(m.Name, 1)
	}
	for _, f := range w.indexed {
		if f.Field == "name" {
			add(m.Name, f.Weight)
			continue
		}
		switch v := m.Metadata[f.Field].(type) {
		case string:
			add(v, f.Weight)
		case json.Number:
			add(string(v), f.Weight)
		}
	}
	return tf, length
}

// bm25 ranks memories by Lucene's formula over their own statistics.
func (w *world) bm25(ms []modelMemory, query map[string]float64) []ranked {
	total := 0.0
	df := map[string]float64{}
	tfs, lengths := make([]map[string]float64, len(ms)), make([]float64, len(ms))
	for i := range ms {
		tfs[i], lengths[i] = w.words(&ms[i].Memory)
		total += lengths[i]
		for term := range query {
			if tfs[i][term] > 0 {
				df[term]++
			}
		}
	}
	n := float64(len(ms))
	var hits []ranked
	for i := range ms {
		score, matched := 0.0, ""
		for _, term := range sortedKeys(query) {
			tf := tfs[i][term]
			if tf == 0 {
				continue
			}
			matched += " " + term
			idf := math.Log(1 + (n-df[term]+0.5)/(df[term]+0.5))
			score += query[term] * idf * tf / (tf + 1.2*(1-0.75+0.75*lengths[i]/(total/n)))
		}
		if score > 0 {
			hits = append(hits, ranked{ms[i], score, matched})
		}
	}
	sortRanked(hits)
	return hits
}

func sortedKeys(m map[string]float64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// byCosine ranks memories by the similarity of their vector in a space.
func byCosine(ms []modelMemory, space string, query []float32) []ranked {
	var hits []ranked
	for _, m := range ms {
		vec := m.Vectors[space]
		if space == memory.DefaultSpace {
			vec = m.Embedding
		}
		if vec != nil {
			hits = append(hits, ranked{m, cosine(query, vec), ""})
		}
	}
	sortRanked(hits)
	return hits
}

// tolerance is how far a score of float32 may be from that of float64.
const tolerance = 1e-5

// compareHits holds a result against all that could be in it, in order.
func compareHits(t *testing.T, hits []memory.Hit, all []ranked, limit int) bool {
	t.Helper()
	if len(hits) != min(limit, len(all)) {
		t.Errorf("%d hits, want %d", len(hits), min(limit, len(all)))
		return false
	}
	scores := map[uint64]float64{}
	for _, r := range all {
		scores[r.m.Seq] = r.score
	}
	found := map[uint64]bool{}
	for i := range hits {
		h := &hits[i]
		want, ok := scores[h.Seq]
		if !ok || found[h.Seq] || math.Abs(want-h.Score) > tolerance*max(1, math.Abs(want)) {
			t.Errorf("hit %d is memory %d with %v, want %v (candidate: %v, twice: %v)", i, h.Seq, h.Score, want, ok, found[h.Seq])
			return false
		}
		found[h.Seq] = true
		if i > 0 && (hits[i-1].Score < h.Score || hits[i-1].Score == h.Score && hits[i-1].Seq > h.Seq) {
			t.Errorf("hits %d and %d are out of order: %v of %d, %v of %d", i-1, i, hits[i-1].Score, hits[i-1].Seq, h.Score, h.Seq)
			return false
		}
	}
	if len(hits) == 0 {
		return true
	}
	last := hits[len(hits)-1]
	matched := all[slices.IndexFunc(all, func(r ranked) bool { return r.m.Seq == last.Seq })].matched
	for _, r := range all {
		if found[r.m.Seq] {
			continue
		}
		// Each part of a score is rounded: one by two terms of half the weight may be a
		// little more than that of one.
		tie := r.score == scores[last.Seq] && r.matched == matched
		if r.score > scores[last.Seq]+tolerance || tie && r.m.Seq < last.Seq {
			t.Errorf("memory %d with %v is missing; the last of %d hits is %d with %v", r.m.Seq, r.score, limit, last.Seq, scores[last.Seq])
			return false
		}
	}
	return true
}

// same compares what was read with what the model holds. Vectors are compared
// where they were asked for.
func (w *world) same(got memory.Memory, want modelMemory, withVectors bool) bool {
	w.t.Helper()
	m := want.Memory
	if noted := (m.Kind == memory.KindNote || m.Kind == memory.KindArchive) && m.Name != ""; noted != (got.NoteID > 0) {
		w.t.Errorf("memory %d, %s %q, has number %d", m.Seq, m.Kind, m.Name, got.NoteID)
	}
	m.NoteID = got.NoteID // check tells that no other has it
	a := layout.Access{Count: m.AccessCount, Last: clock.ToMillis(m.LastAccessed)}.Fold(w.touched[m.Seq])
	m.AccessCount, m.LastAccessed = a.Count, clock.FromMillis(a.Last)
	if !withVectors {
		m.Embedding, m.Vectors = nil, nil
	}
	idle := w.clock.now().UnixMilli() - max(a.Last, clock.ToMillis(m.CreatedAt))
	days := max(0, idle/(24*time.Hour).Milliseconds())
	m.StoredConfidence, m.DecayedImportance = m.Confidence, new(*m.Importance*math.Pow(.95, float64(days)))
	if reflect.DeepEqual(got, m) {
		return true
	}
	a1, _ := json.MarshalIndent(got, "", " ")
	b1, _ := json.MarshalIndent(m, "", " ")
	w.t.Errorf("memory %d read as\n%s\nwant\n%s", m.Seq, a1, b1)
	return false
}

// checkGet looks IDs of the pool up, in random scopes.
func (w *world) checkGet(mm Memories, s *model) {
	for range idPool / 2 {
		id, in := w.idAt(s, w.rng.IntN(idPool)), w.scope()
		if w.rng.IntN(4) == 0 {
			in = memory.Scope{}
		}
		want := s.find(in, id, w.clock.now())
		got, err := mm.GetWithVectors(context.Background(), in, id)
		if kind := findError(len(want)); kind != nil || err != nil {
			w.wantKind("get "+id, err, kind)
			continue
		}
		if !w.same(got, want[0], true) {
			w.t.FailNow()
		}
	}
}

func findError(n int) error {
	switch n {
	case 0:
		return fault.ErrNotFound
	case 1:
		return nil
	}
	return fault.ErrAmbiguous
}

// checkList pages through a scope, with and without a filter.
func (w *world) checkList(mm Memories, s *model) {
	q := memory.ListQuery{Scope: w.scope(), Limit: 1 + w.rng.IntN(40), WithVectors: w.rng.IntN(2) == 0}
	if w.rng.IntN(5) == 0 {
		q.Scope, q.AllScopes = memory.Scope{}, true
	}
	want := s.visible(q.Scope, w.clock.now())
	if w.rng.IntN(3) > 0 {
		c := w.condition()
		q.Filter = c.filter
		want = slices.DeleteFunc(want, func(m modelMemory) bool { return !c.holds(&m.Memory) })
	}
	if w.rng.IntN(3) == 0 {
		w.order(&q, want)
	}
	i := 0
	for m, err := range mm.All(context.Background(), q) {
		if err != nil {
			w.t.Fatalf("list %+v: %v", q, err)
		}
		if i >= len(want) || !w.same(m, want[i], q.WithVectors) {
			w.t.Fatalf("list %+v: memory %d at place %d of %d", q, m.Seq, i, len(want))
		}
		i++
	}
	if i != len(want) {
		w.t.Fatalf("list %+v: %d memories, want %d; the next is %+v", q, i, len(want), want[i])
	}
}

// order makes the list one by a field, and sorts what it should give.
func (w *world) order(q *memory.ListQuery, want []modelMemory) {
	fields := []struct {
		name string
		of   func(*memory.Memory) any
	}{
		{"tag", metaAt("tag")},
		{"metadata.n", metaAt("n")},
		{"flag", metaAt("flag")},
		{"o", metaAt("o")},
		{"o.x", metaAt("o", "x")},
		{"id", func(m *memory.Memory) any { return m.ID }},
		{"name", func(m *memory.Memory) any { return given(m.Name) }},
	}
	q.Descending = w.rng.IntN(2) == 0
	if w.rng.IntN(6) == 0 { // by Seq
		if q.Descending {
			slices.Reverse(want)
		}
		return
	}
	f := fields[w.rng.IntN(len(fields))]
	q.OrderBy = f.name
	slices.SortStableFunc(want, func(a, b modelMemory) int {
		x, y := f.of(&a.Memory), f.of(&b.Memory)
		if class := cmp.Compare(typeRank(x), typeRank(y)); class != 0 {
			if q.Descending && max(typeRank(x), typeRank(y)) < noRank {
				return -class
			}
			return class
		}
		if q.Descending {
			x, y = y, x
		}
		return compareValues(x, y)
	})
}

// noRank is that of what has no place in an order: it comes last.
const noRank = 4

func typeRank(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case json.Number:
		return 2
	case string:
		return 3
	}
	return noRank
}

// compareValues compares two values of one type.
func compareValues(x, y any) int {
	switch x := x.(type) {
	case bool:
		switch {
		case x == y:
			return 0
		case x:
			return 1
		}
		return -1
	case json.Number:
		if sameValue(x, y) {
			return 0
		}
		a, _ := exactNumber(x)
		b, _ := exactNumber(y)
		return a.Cmp(b)
	case string:
		return strings.Compare(x, y.(string))
	}
	return 0
}

// checkRecall asks by text or by vector.
func (w *world) checkRecall(mm Memories, s *model) {
	q := memory.Query{Scope: w.scope(), Limit: 1 + w.rng.IntN(12), NoTouch: w.rng.IntN(3) > 0, WithVectors: w.rng.IntN(2) == 0, Explain: true}
	ms := s.visible(q.Scope, w.clock.now())
	if w.rng.IntN(3) == 0 {
		c := w.condition()
		q.Filter = c.filter
		ms = slices.DeleteFunc(ms, func(m modelMemory) bool { return !c.holds(&m.Memory) })
	}
	var all []ranked
	switch w.rng.IntN(3) {
	case 0:
		q.Profile, q.Space, q.Embedding = memory.ProfileVector, memory.DefaultSpace, w.vector(w.dim)
		all = byCosine(ms, q.Space, q.Embedding)
	case 1:
		q.Profile, q.Space, q.Embedding = memory.ProfileVector, "img", w.vector(imageDim)
		all = byCosine(ms, q.Space, q.Embedding)
	default:
		q.Profile, q.Text, q.OnlyWords = memory.ProfileText, w.sentence(1+w.rng.IntN(4)), true
		all = w.bm25(ms, w.queryTerms(q.Text, ms))
	}
	r, err := mm.Recall(context.Background(), q)
	if q.Space == "img" && w.db.spaces.Named("img") == nil {
		w.wantKind("recall in a space that there is not yet", err, fault.ErrInvalid)
		return
	}
	if err != nil {
		w.t.Fatalf("recall %+v: %v", q, err)
	}
	if !compareHits(w.t, r.Hits, all, q.Limit) || r.Plan.InScope != len(ms) {
		w.t.Fatalf("recall %+v: %d in scope, want %d", q, r.Plan.InScope, len(ms))
	}
	for i := range r.Hits {
		if !w.same(r.Hits[i].Memory, s.live[r.Hits[i].Seq], q.WithVectors) {
			w.t.FailNow()
		}
	}
	if q.NoTouch {
		return
	}
	for i := range r.Hits {
		seq := r.Hits[i].Seq
		w.touched[seq] = w.touched[seq].Fold(layout.Access{Count: 1, Last: w.clock.now().UnixMilli()})
	}
}

// queryTerms are the words that a query of some memories is searched by.
func (w *world) queryTerms(text string, ms []modelMemory) map[string]float64 {
	shares := analysis.Shares{All: len(ms)}
	for i := range ms {
		tf, _ := w.words(&ms[i].Memory)
		for _, l := range analysis.MarkedLanguages() {
			if tf[l.Mark()] > 0 {
				shares.Add(l, 1)
			}
		}
	}
	reading := w.analyzer.Asked(text, &shares)
	var bag analysis.Bag
	if err := bag.AddQueryIn(context.Background(), w.analyzer, text, 1, reading.In); err != nil {
		w.t.Fatal(err)
	}
	terms := map[string]float64{}
	for _, t := range bag.Terms() {
		terms[t.Term] = float64(t.Freq) * reading.Weight(t.In)
	}
	return terms
}

// checkHistory reads the histories of IDs of the pool.
func (w *world) checkHistory(mm Memories, s *model) {
	lives := map[string]map[memory.Scope][]uint64{} // by ID and owner, Seqs
	for seq, life := range s.life {
		id, owner := life[0].MemoryID, ownerOf(life[0].Scope)
		if lives[id] == nil {
			lives[id] = map[memory.Scope][]uint64{}
		}
		lives[id][owner] = append(lives[id][owner], seq)
	}
	for range idPool / 3 {
		id := w.idAt(s, w.rng.IntN(idPool))
		got, err := mm.History(context.Background(), memory.Scope{}, id)
		if kind := findError(len(lives[id])); kind != nil || err != nil {
			w.wantKind("history of "+id, err, kind)
		}
		if len(lives[id]) != 1 {
			continue
		}
		for _, seqs := range lives[id] {
			w.sameHistory(id, got, s, seqs, mm.tx == nil)
		}
	}
}

func (w *world) sameHistory(id string, got []memory.HistoryEntry, s *model, seqs []uint64, committed bool) {
	slices.Sort(seqs)
	var want []memory.HistoryEntry
	for _, seq := range seqs {
		want = append(want, s.life[seq]...)
	}
	for i := range got {
		if i < len(want) && committed {
			w.sameEntry(got[i].ID, &want[i], i)
		}
		got[i].ID, got[i].LSN = "", 0
	}
	if !reflect.DeepEqual(got, want) {
		a, _ := json.MarshalIndent(got, "", " ")
		b, _ := json.MarshalIndent(want, "", " ")
		w.t.Fatalf("history of %s:\n%s\nwant\n%s", id, a, b)
	}
}

// sameEntry makes sure that an entry has the ID that it had when it was first
// read, and no other entry has it.
func (w *world) sameEntry(entryID string, e *memory.HistoryEntry, place int) {
	key := historyPlace{e.Seq, place, e.Event, e.Time}
	if before, seen := w.entryIDs[key]; seen && before != entryID {
		w.t.Fatalf("the entry %+v had the ID %s and has %s", key, before, entryID)
	}
	w.entryIDs[key] = entryID
}

// historyPlace names an entry for the test.
type historyPlace struct {
	seq   uint64
	place int
	event memory.Event
	at    time.Time
}

// checkAll compares everything that is cheap enough.
func (w *world) checkAll() {
	w.checkGet(w.db.Memories(), w.model)
	w.checkHistory(w.db.Memories(), w.model)
	w.checkHistories()
	for range 4 {
		w.checkList(w.db.Memories(), w.model)
		w.checkRecall(w.db.Memories(), w.model)
	}
	st, err := w.db.Stats(context.Background())
	if err != nil || st.Memories != int64(len(w.model.live)) {
		w.t.Fatalf("statistics count %d memories, %v; want %d", st.Memories, err, len(w.model.live))
	}
}

func (w *world) wantKind(what string, err, kind error) {
	w.t.Helper()
	wantError(w.t, what, err, kind)
	if w.t.Failed() {
		w.t.FailNow()
	}
}
