package hnsw

import (
	"slices"
	"testing"
)

func TestGrace(t *testing.T) {
	var g grace
	expect := func(when string, want ...uint32) {
		t.Helper()
		if got := g.advance(nil); !slices.Equal(got, want) {
			t.Fatalf("%s: %v are free; want %v", when, got, want)
		}
	}
	g.retire(1)
	expect("nobody searches", 1)
	early := g.enter()
	g.retire(2)
	expect("a search that began before is running")
	late := g.enter()
	g.retire(3)
	expect("both are running")
	g.leave(late)
	expect("the first is still running")
	g.leave(early)
	expect("all have left", 2, 3)
	later := g.enter()
	expect("nothing is retired")
	g.leave(later)
}
