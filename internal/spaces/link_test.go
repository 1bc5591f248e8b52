package spaces

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

// restingLinker is a space whose vectors nobody links.
func restingLinker(t *testing.T, limits Limits) (*Set, *Space) {
	t.Helper()
	ss := NewSet(Host{Limits: limits, Codes: 64 << 20})
	s, err := ss.New(1, "s", 2, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	ss.Add(s)
	return ss, s
}

// TestBackPressure: with as many unlinked vectors as there may be, writers wait, for
// their time and no longer.
func TestBackPressure(t *testing.T) {
	ss, s := restingLinker(t, Limits{Crossover: 10, UnlinkedMost: 20})
	l := ss.Linker
	for i := range uint32(20) {
		if err := l.Admit(t.Context()); err != nil {
			t.Fatalf("with %d unlinked: %v", i, err)
		}
		if err := s.Add(i, layout.Version{Seq: uint64(i)}, []float32{1, float32(i)}); err != nil {
			t.Fatal(err)
		}
		l.Stored(s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.Admit(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("too many: %v", err)
	}
	admitted := make(chan error)
	go func() { admitted <- l.Admit(t.Context()) }()
	if err := s.Index.Link(t.Context(), s.Index.Len()); err != nil {
		t.Fatal(err)
	}
	if err := <-admitted; err != nil {
		t.Errorf("a writer for whom there is room again: %v", err)
	}
	if l.behind.Load() {
		t.Error("writers still wait")
	}
	l.behind.Store(true)
	close(l.ended)
	if err := l.Admit(t.Context()); err != nil {
		t.Errorf("when the linker has ended: %v", err)
	}
}

// TestLinkingIsHurried: whoever waits for links ends the turn that runs, and the next
// takes all processors; without anybody who waits it leaves half of them.
func TestLinkingIsHurried(t *testing.T) {
	all := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(all)
	runtime.GOMAXPROCS(6)
	l := NewSet(Host{}).Linker
	if n := l.builders(); n != 3 {
		t.Errorf("%d builders in the background", n)
	}
	turn, end := context.WithCancel(t.Context())
	l.turn.Store(&end)
	waits, enough := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Await(waits, func() bool { return false }) }()
	<-turn.Done()
	if n := l.builders(); n != 6 {
		t.Errorf("%d builders while somebody waits", n)
	}
	enough()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
	if n := l.builders(); n != 3 {
		t.Errorf("%d builders afterwards", n)
	}
}

// TestLinkedForSearches: in the midst of writes vectors are linked for searches that
// gain by it, or where very many wait.
func TestLinkedForSearches(t *testing.T) {
	ss, s := restingLinker(t, Limits{Exhaustive: 5, Crossover: 10, UnlinkedSoft: 20, UnlinkedIdle: 50, UnlinkedMost: 100})
	l := ss.Linker
	fill := func(from, to uint32) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := s.Add(i, layout.Version{Seq: uint64(i)}, []float32{1, float32(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	recall := func(docs int) {
		t.Helper()
		if s.Walks(docs) {
			t.Error("a graph without links is walked")
		}
	}
	want := func(when string, pressed bool) {
		t.Helper()
		if l.pressed(s) != pressed {
			t.Errorf("%s: pressed %v", when, !pressed)
		}
	}
	fill(0, 19)
	recall(19)
	want("few vectors, and a search", false)
	fill(19, 20)
	want("more vectors, and a search", true)
	s.Asked.Store(false)
	want("nobody searches", false)
	recall(5)
	want("searches of small scopes", false)
	fill(20, 50)
	want("very many vectors", true)
	l.link(t.Context(), s)
	want("all are linked", false)
	fill(50, 70)
	want("nobody has searched since", false)
}
