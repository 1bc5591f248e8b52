package vectorset

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestNeighbours(t *testing.T) {
	const n, k, dim = 700, 7, 19
	m := NewMixture(dim, 5)
	s, queries := m.Set(0, n), m.Set(n, 20)
	for _, match := range []func(int) bool{nil, func(i int) bool { return i%97 == 3 }, func(int) bool { return false }} {
		truth := Neighbours(s, queries, k, match)
		parts := NewFinder(queries, k)
		parts.Add(s.Head(300), 0, match)
		parts.Add(m.Set(300, n-300), 300, match)
		for q, want := range parts.Truth() {
			if !slices.Equal(truth[q], want) {
				t.Errorf("query %d: %v in one part, %v in two", q, truth[q], want)
			}
		}
		for q := range queries.Len() {
			var all []int
			for i := range n {
				if match == nil || match(i) {
					all = append(all, i)
				}
			}
			score := func(i int) (sum float64) {
				for j, x := range s.Row(i) {
					sum += float64(x) * float64(queries.Row(q)[j])
				}
				return sum
			}
			slices.SortFunc(all, func(a, b int) int {
				if score(a) > score(b) {
					return -1
				}
				return 1
			})
			all = all[:min(k, len(all))]
			if len(all) != len(truth[q]) {
				t.Fatalf("%d neighbours, want %d", len(truth[q]), len(all))
			}
			for i := range all {
				if uint32(all[i]) != truth[q][i] {
					t.Errorf("query %d: neighbours %v, want %v", q, truth[q], all)
				}
			}
		}
	}
}

func TestNearestKeepsTheBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for k := range 4 {
		best := nearest{k: k}
		var scores []float32
		for i := range 50 {
			score := float32(rng.IntN(12))
			scores = append(scores, score)
			best.push(score, uint32(i))
		}
		slices.Sort(scores)
		slices.Reverse(scores)
		if !slices.Equal(best.scores, scores[:k]) {
			t.Errorf("k %d: %v, want %v", k, best.scores, scores[:k])
		}
		for i, id := range best.ids {
			if i > 0 && best.scores[i] == best.scores[i-1] && id < best.ids[i-1] {
				t.Errorf("k %d: equal scores are not in the order they came in: %v", k, best.ids)
			}
		}
	}
}

func TestRecall(t *testing.T) {
	truth := Truth{{1, 2}, {3, 4}, {}}
	for _, c := range []struct {
		answers [][]uint32
		want    float64
	}{
		{[][]uint32{{1, 2}, {3, 4}, {9}}, 1},
		{[][]uint32{{2, 1}, {4}, nil}, 0.75},
		{[][]uint32{{7, 8, 1, 2}, {3, 9}, nil}, 0.25}, // beyond the first two doesn't count
		{[][]uint32{{1, 2}}, 0.5},
		{nil, 0},
	} {
		if got := truth.Recall(c.answers); got != c.want {
			t.Errorf("recall of %v: %v, want %v", c.answers, got, c.want)
		}
	}
	if got := (Truth{{}}).Recall(nil); got != 1 {
		t.Errorf("nothing to find: recall %v", got)
	}
}

func TestMixture(t *testing.T) {
	m := NewMixture(32, 7)
	s := m.Set(0, 300)
	row := make([]float32, 32)
	for i := range s.Len() {
		m.Row(i, row)
		if !slices.Equal(row, s.Row(i)) {
			t.Fatalf("row %d depends on how it is made", i)
		}
		sum := 0.0
		for _, x := range row {
			sum += float64(x) * float64(x)
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("row %d has length %v", i, math.Sqrt(sum))
		}
	}
	if slices.Equal(s.Row(0), s.Row(1)) {
		t.Error("rows are alike")
	}
	if h := s.Head(1000); h.Len() != 300 || s.Head(10).Len() != 10 {
		t.Error("wrong number of vectors in the head")
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte{2, 0, 0, 0, 2, 0, 0, 0, 3, 4, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(dir, "whole")
	if err := os.WriteFile(whole, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := ReadBytes(whole)
	if err != nil || s.Len() != 2 || s.Dim != 2 || !slices.Equal(s.Row(0), []float32{3. / 5, 4. / 5}) || !slices.Equal(s.Row(1), []float32{0, 0}) {
		t.Fatalf("read %+v, %v", s, err)
	}
	cut := filepath.Join(dir, "cut")
	if err := os.WriteFile(cut, b.Bytes()[:b.Len()-3], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadBytes(cut); err == nil {
		t.Error("a file that was cut is read")
	}
	raw := filepath.Join(dir, "raw")
	if err := s.Write(raw); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(raw)
	if err != nil || len(written) != 16 || math.Float32frombits(binary.NativeEndian.Uint32(written)) != 0.6 {
		t.Errorf("wrote % x, %v", written, err)
	}
	if f, err := ReadFloats(raw, 2); err != nil || f.Len() != 2 || f.Row(0)[1] != 0.8 {
		t.Errorf("read %+v, %v", f, err)
	}
	if _, err := ReadFloats(raw, 3); err == nil {
		t.Error("16 bytes are read as vectors of 3 components")
	}
}

// TestFloors: rows that score the same are as good as each other, and a row counts once.
func TestFloors(t *testing.T) {
	base := &Set{1, []float32{5, 1, 1, 9}}
	asked := &Set{1, []float32{1}}
	for _, c := range []struct {
		metric string
		ids    []uint32
		want   float64
	}{
		{L2, []uint32{1}, .5},
		{L2, []uint32{1, 2}, 1},
		{L2, []uint32{1, 1}, .5},
		{L2, []uint32{0, 3}, 0},
		{Dot, []uint32{3, 0}, 1},
		{Dot, []uint32{3, 1}, .5},
	} {
		if got := NewFloors(c.metric, base, asked, 2, nil).Judge([][]uint32{c.ids}); got != c.want {
			t.Errorf("%s, %v: recall %v, want %v", c.metric, c.ids, got, c.want)
		}
	}
}

// TestHards: sets are the same each time, differ from each other, and are normalised under
// cosine alone.
func TestHards(t *testing.T) {
	seen := map[float32]string{}
	for _, h := range Hards() {
		for _, metric := range h.Metrics {
			base, asked := h.Sets(metric, 300, 5)
			again, _ := h.Sets(metric, 300, 5)
			if base.Len() != 300 || asked.Len() != 5 || !slices.Equal(base.flat, again.flat) {
				t.Errorf("%s: %d rows, %d queries, the same again: %t", h.Name, base.Len(), asked.Len(), slices.Equal(base.flat, again.flat))
			}
			norm := 0.0
			for _, v := range base.Row(250) {
				norm += float64(v) * float64(v)
			}
			if metric == Cosine && math.Abs(norm-1) > 1e-5 {
				t.Errorf("%s: a row of length %v", h.Name, math.Sqrt(norm))
			}
		}
		base, _ := h.Sets(L2, 300, 5)
		if other, taken := seen[base.flat[299*h.Dim]+base.flat[299*h.Dim+1]]; taken {
			t.Errorf("%s is %s", h.Name, other)
		}
		seen[base.flat[299*h.Dim]+base.flat[299*h.Dim+1]] = h.Name
	}
}
