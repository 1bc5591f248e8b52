package server

import (
	"fmt"
	"testing"
)

// TestSeals: each number of a sender counts once, in whatever order they come, and none that is too far behind to know.
func TestSeals(t *testing.T) {
	s := newSeals()
	take := func(from string, n uint64, want coming) {
		t.Helper()
		if got := s.take(&inner{To: s.mu.run, From: from, Number: n}); got != want {
			t.Errorf("%s %d: %d, want %d", from, n, got, want)
		}
	}
	for _, c := range []struct {
		n    uint64
		want coming
	}{
		{5, first},
		{5, again},
		{3, first},
		{3, again},
		{4, first},
		{6, first},
		{70, first},
		{6, again},
		{69, first},
		{sealWindow + 3, first},
		{4, again},
		{3, unknown},
		{7, first},
		{sealWindow + 4, first},
		{5, again},
		{4, unknown},
		{10 * sealWindow, first},
		{sealWindow + 4, unknown},
		{10*sealWindow - 1, first},
		{9*sealWindow + 1, first},
		{9 * sealWindow, unknown},
	} {
		take("a", c.n, c.want)
	}
	take("b", 5, first)
	if got := s.take(&inner{To: "another", From: "b", Number: 6}); got != unknown {
		t.Errorf("for another run: %d", got)
	}
	// Of more senders than are remembered none is heard by what it has sealed before.
	run := s.mu.run
	for n := range maxSenders {
		s.take(&inner{To: run, From: fmt.Sprint("s", n), Number: 1})
	}
	if s.mu.run == run || len(s.mu.heard) > maxSenders {
		t.Errorf("%d senders are remembered in one run", len(s.mu.heard))
	}
	if got := s.take(&inner{To: run, From: "a", Number: 1}); got != unknown {
		t.Errorf("sealed for a run that is over: %d", got)
	}
}

// TestSealsLearn: a node believes no run that another one has not said to the same request.
func TestSealsLearn(t *testing.T) {
	a, b, secret := newSeals(), newSeals(), []byte("of the cluster")
	said := b.said(secret, "request")
	for _, wrong := range []string{"", "not_owner", "run.", "run.x.y", b.said(secret, "another"), b.said([]byte("else"), "request"), said[:len(said)-2]} {
		if a.learn(secret, "http://b", "request", wrong) {
			t.Errorf("believed %q", wrong)
		}
	}
	if !a.learn(secret, "http://b", "request", said) {
		t.Error("not learned")
	}
	var i inner
	a.address(&i, "http://b")
	if i.Number != 1 || b.take(&i) != first || b.take(&i) != again {
		t.Errorf("%+v", i)
	}
}
