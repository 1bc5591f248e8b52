package filter

import (
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

// trial is a filter being tried on one subject.
type trial struct {
	ctx     context.Context
	work    *work // of the context; nil: any
	subject Subject
	err     error             // of the context, or that there is too much work
	seen    int               // conditions; see stopped
	folded  map[string]string // strings of the subject without regard to case
}

const (
	// conditionsPerLook is how many conditions are looked at for a subject between looks at
	// the context: some ms where each reads a text of 8 MiB.
	conditionsPerLook = 8
	// foldPiece is how many bytes of a string are folded between looks at the context: some
	// 3 ms. The folding of a letter does not depend on those beside it.
	foldPiece = 64 << 10
	// matchPiece is how many letters of a string a pattern is matched with between looks at
	// the context: some 20 ms for the worst patterns of MaxPattern. Longer strings are read
	// letter by letter, which takes longer.
	matchPiece = 1 << 10
)

func (t *trial) begin(ctx context.Context, s Subject) {
	if t.ctx != ctx {
		t.ctx = ctx
		t.work, _ = ctx.Value(forWork{}).(*work)
	}
	t.subject, t.err, t.seen = s, nil, 0
	clear(t.folded)
}

// stopped reports whether no more of a subject is to be looked at, and counts what is.
func (t *trial) stopped() bool {
	if t.seen++; t.seen%conditionsPerLook == 0 && t.err == nil {
		t.err = t.ctx.Err()
	}
	return t.err != nil
}

// fold is a string of the subject without regard to case, which is remembered: other
// conditions may ask for it.
func (t *trial) fold(s string) string {
	folded, ok := t.folded[s]
	if !ok {
		t.spend(foldSteps * len(s))
		folded = t.foldCase(s)
		if t.folded == nil {
			t.folded = map[string]string{}
		}
		t.folded[s] = folded
	}
	return folded
}

// foldCase is FoldCase of a string of any length, which it leaves where the context ends.
func (t *trial) foldCase(s string) string {
	if len(s) <= foldPiece {
		return analysis.FoldCase(s)
	}
	var b strings.Builder
	for len(s) > 0 && t.err == nil {
		n := min(foldPiece, len(s))
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++
		}
		b.WriteString(analysis.FoldCase(s[:n]))
		s = s[n:]
		t.err = t.ctx.Err()
	}
	return b.String()
}

// match reports whether the pattern of a condition matches within a string of any length, which it
// leaves where the context ends.
func (t *trial) match(l *look, s string) bool {
	t.spend(len(s) / scannedPerStep)
	if prefix, _ := l.match.LiteralPrefix(); !strings.Contains(s, prefix) {
		return false
	}
	if len(s) > matchPiece {
		return l.match.MatchReader(&letters{t: t, size: l.size, rest: s})
	}
	t.spend(l.size * len(s))
	return t.err == nil && l.match.MatchString(s)
}

// letters reads a string, which seems to end where the context does, or the work.
type letters struct {
	t    *trial
	size int // steps of the pattern
	rest string
	n    int
}

// ReadRune reads a letter as package regexp does of a string.
func (l *letters) ReadRune() (r rune, size int, err error) {
	if l.n++; l.n%matchPiece == 1 && l.t.err == nil {
		l.t.spend(l.size * min(matchPiece, len(l.rest)))
		if l.t.err == nil {
			l.t.err = l.t.ctx.Err()
		}
	}
	if l.rest == "" || l.t.err != nil {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRuneInString(l.rest)
	l.rest = l.rest[size:]
	return r, size, nil
}
