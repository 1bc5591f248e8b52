package recall

import (
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/dates"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// whenAsked is what a question says of time.
type whenAsked struct {
	asked    bool      // it asks for a time
	from, to time.Time // the days that it names; zero for none
	words    []string  // that say them
}

// readWhen reads what the text of the query says of time, where the profile goes by that.
func (r *recalling) readWhen() {
	if r.q.Ranking.AnyTime || r.q.Profile != memory.ProfileBest && r.q.Profile != memory.ProfileText {
		return
	}
	w := &r.when
	for _, m := range dates.In(r.q.Text, clock.FromMillis(r.st.Now)) {
		w.words = append(w.words, m.Words)
		if m.From.IsZero() {
			continue
		}
		if w.from.IsZero() || m.From.Before(w.from) {
			w.from = m.From
		}
		if m.To.After(w.to) {
			w.to = m.To
		}
	}
	if r.q.Profile != memory.ProfileBest {
		return
	}
	w.asked = asksWhen(wordsOf(r.q.Text))
	r.plan.When, r.plan.From, r.plan.To = w.asked, w.from, w.to
}

// timeWords are words that ask for a time, of languages whose question words are no words of
// another one; timeNouns do so behind "what" and "which".
var (
	timeWords = setOf(`wann quand cuándo quando wanneer när hvornår koska milloin когда kiedy kdy коли mikor când πότε متى कब いつ 언제`)
	timeNouns = setOf(`date day month year week weekend season time century decade`)
	askedIn   = setOf(`in on at since until by of from`)
)

// asksWhen reports whether a question asks for a time. "When" alone also joins sentences, so a
// verb of a question must follow.
func asksWhen(words []string) bool {
	for i, w := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch {
		case timeWords[w], w == "when" && (next == "" || auxiliaries[next]):
			return true
		case (w == "what" || w == "which") && timeNouns[next] && (i == 0 || i == 1 && askedIn[words[0]]):
			return true
		case w == "how" && (next == "long" && slices.Contains(words[i:], "ago") || next == "recently"):
			return true
		}
	}
	return false
}
