package recall

import "github.com/seed-7aedc3ff/memdb/invindex"

// talks are the runs of the matches of one recall, with what they have of its query.
type talks struct {
	of    []int32   // the run of each match, -1 for none
	term  []float64 // the most that a match of each run has of the term at hand
	total []float64 // the sum of those over the terms
}

// sessionsOf finds the runs of the matches; nil where the query declines.
func (r *recalling) sessionsOf(m *matches) *talks {
	if r.q.Ranking.AnySession {
		return nil
	}
	type run struct{ owner, run uint32 }
	numbers := map[run]int32{}
	t := &talks{of: make([]int32, len(m.docs))}
	var last run // neighbours stand side by side
	lastNumber := int32(-1)
	for i, doc := range m.docs {
		t.of[i] = -1
		row := r.st.Docs.Row(doc)
		if row.Run == 0 {
			continue
		}
		key := run{row.Owner, row.Run}
		if key != last {
			n, ok := numbers[key]
			if !ok {
				n = int32(len(numbers))
				numbers[key] = n
			}
			last, lastNumber = key, n
		}
		t.of[i] = lastNumber
	}
	t.term, t.total = make([]float64, len(numbers)), make([]float64, len(numbers))
	return t
}

// add adds what one term gives: hits are those of the first matches.
func (t *talks) add(hits []invindex.Hit) {
	if t == nil {
		return
	}
	for i := range hits {
		if n := t.of[i]; n >= 0 {
			t.term[n] = max(t.term[n], float64(hits[i].Score))
		}
	}
	for n, most := range t.term {
		t.total[n] += most
		t.term[n] = 0
	}
}

// share gives each match what its run has, as a share of the most that there could be.
func (t *talks) share(m *matches, most float64) {
	if t == nil {
		return
	}
	for i, n := range t.of {
		if n >= 0 {
			m.session[i] = t.total[n] / most
		}
	}
}
