package main

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/reference"
	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/internal/dates"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// ablation takes the profile best apart: the same work as locomo, by the reference
// with one ingredient left out, changed or added.
func ablation() *harness.Workload {
	w := locomo()
	w.Name, w.Summary = "ablation", "locomo by the profile best with one ingredient left out, changed or added"
	w.WarmUp = 0
	w.Contestants = ablationContestants
	w.Metrics = slices.DeleteFunc(w.Metrics, func(m harness.Metric) bool { return m.Timed && m.Name != "p50_us" })
	const halves = "tuned: the first three conversations; held out: the others"
	for _, name := range []string{"r@10 tuned", "ndcg@10 tuned", "r@10 held-out", "ndcg@10 held-out"} {
		w.Metrics = append(w.Metrics, harness.Metric{Name: name, Head: name, Digits: 3, Table: halves})
	}
	return w
}

// recipe is a variant of the profile best.
type recipe struct {
	name     string
	text     func(turn) string
	question func(string) []string
	b        float64   // how much the length of a turn counts
	weights  []float64 // of neighbours, by how many places away they are
	answer   float64   // of the turn before, where it asks
	// join makes one number of a term's own part and those of the neighbours
	// times their weights.
	join func(own float64, near []float64) float64
	// other is what the turns of other speakers count for where the question names one, asking
	// what turns count for that ask, says what those count for that say when, where the question
	// asks for that, and fits what those count for whose time fits the one that it names.
	other, asking, says, fits float64
	// session is the weight of what the session has: of each term the most that a turn has.
	session float64
	// vague is what words count for that say in which form an answer is wanted.
	vague float64
	// lexical is the weight of the cosine of lexical vectors.
	lexical float64
}

func recipes() []recipe {
	near := policy.NeighbourWeights()
	full := recipe{
		name: "reference: all", text: datedText, question: datedQuestion, b: policy.TurnLength, weights: near[:], answer: policy.AnswerWeight, join: length,
		other: policy.OtherSpeaker, asking: policy.AskingTurn, says: policy.SaysWhen, fits: policy.FitsDate, session: policy.SessionShare, vague: policy.VagueTerm,
	}
	vary := func(name string, change func(*recipe)) recipe {
		r := full
		r.name = name
		change(&r)
		return r
	}
	return []recipe{
		full,
		vary("all speakers the same", func(r *recipe) { r.other = 1 }),
		vary("other speakers: 0.7", func(r *recipe) { r.other = .7 }),
		vary("other speakers: 0.3", func(r *recipe) { r.other = .3 }),
		vary("no neighbours", func(r *recipe) { r.weights, r.answer = nil, 0 }),
		vary("neighbours: 1 place", func(r *recipe) { r.weights = near[:1] }),
		vary("neighbours: 2 places", func(r *recipe) { r.weights = near[:2] }),
		vary("neighbours: sum", func(r *recipe) { r.join = sum }),
		vary("neighbours: greatest", func(r *recipe) { r.join = greatest }),
		vary("answers as other turns", func(r *recipe) { r.answer = near[0] }),
		vary("turns that ask as others", func(r *recipe) { r.asking = 1 }),
		vary("length of turns: 0.75", func(r *recipe) { r.b = .75 }),
		vary("length of turns: 0.5", func(r *recipe) { r.b = .5 }),
		vary("length of turns: 0", func(r *recipe) { r.b = 0 }),
		vary("no dates resolved", func(r *recipe) { r.text, r.question = indexedText, reference.Question }),
		vary("what says when as other texts", func(r *recipe) { r.says = 1 }),
		vary("what fits the time as others", func(r *recipe) { r.fits = 1 }),
		vary("all words of the question", func(r *recipe) { r.question = reference.Document }),
		vary("text without fields", func(r *recipe) { r.text = turnText }),
		vary("text with speaker only", func(r *recipe) { r.text = speakerAndText }),
		vary("vague words as others", func(r *recipe) { r.vague = 1 }),
		vary("vague words left out", func(r *recipe) { r.vague = 0 }),
		vary("session: 0", func(r *recipe) { r.session = 0 }),
		vary("session: 0.05", func(r *recipe) { r.session = .05 }),
		vary("session: 0.2", func(r *recipe) { r.session = .2 }),
		vary("added: 5% lexical cosine", func(r *recipe) { r.lexical = .05 }),
		vary("added: 20% lexical cosine", func(r *recipe) { r.lexical = .2 }),
	}
}

// datedText is indexedText with the times that the text speaks of, as dates.
func datedText(t turn) string {
	var text strings.Builder
	text.WriteString(indexedText(t))
	for _, m := range dates.In(t.Text, t.Time) {
		text.WriteString("\n" + m.Words)
	}
	return text.String()
}

// datedQuestion yields the terms that memdb looks for, and those of the times that a question names.
func datedQuestion(text string) []string {
	terms := reference.Question(text)
	for _, m := range dates.In(text, time.Now()) {
		for _, t := range reference.Document(m.Words) {
			if !slices.Contains(terms, t) {
				terms = append(terms, t)
			}
		}
	}
	return terms
}

// indexedText is what turnIndexedText makes memdb search of a turn.
func indexedText(t turn) string {
	parts := []string{t.Text, t.Speaker, t.Caption}
	if !t.Time.IsZero() {
		parts = append(parts, t.Time.UTC().Format("2 January 2006"))
	}
	return strings.Join(parts, "\n")
}

func speakerAndText(t turn) string { return t.Text + "\n" + t.Speaker }

// length is what policy.WithNeighbours does.
func length(own float64, near []float64) float64 {
	squares := 0.0
	for _, n := range near {
		squares += n * n
	}
	return policy.WithNeighbours(own, squares)
}

func sum(own float64, near []float64) float64 {
	for _, n := range near {
		own += n
	}
	return own
}

func greatest(own float64, near []float64) float64 {
	for _, n := range near {
		own = max(own, n)
	}
	return own
}

func ablationContestants(env *harness.Env) ([]harness.Contestant, error) {
	talks, err := readTalks(env)
	if err != nil {
		return nil, err
	}
	shared := &locomoDB{env: env, talks: talks}
	list := []harness.Contestant{shared.contestant(memory.ProfileBest, true)}
	for _, without := range []struct {
		name string
		q    memory.Query
	}{
		{"memdb, AnySession", memory.Query{Ranking: policy.Ranking{AnySession: true}}},
		{"memdb, AnyTime", memory.Query{Ranking: policy.Ranking{AnyTime: true}}},
		{"memdb, AnySpeaker", memory.Query{Ranking: policy.Ranking{AnySpeaker: true}}},
		{"memdb, all three", memory.Query{Ranking: policy.Ranking{AnySession: true, AnyTime: true, AnySpeaker: true}}},
	} {
		list = append(list, shared.declining(without.name, without.q))
	}
	for _, r := range recipes() {
		list = append(list, harness.Contestant{Name: r.name, Open: func(context.Context) (harness.Runner, error) {
			cooks := map[string]*cook{}
			for _, talk := range talks {
				cooks[talk.ID] = r.prepare(talk)
			}
			search := func(_ context.Context, talk, question string, k int) ([]string, error) {
				return cooks[talk].search(question, k), nil
			}
			return &locomoRun{talks, search, func() error { return nil }}, nil
		}})
	}
	return list, nil
}

// cook follows a recipe in one conversation.
type cook struct {
	recipe
	talk    *conversation
	turns   *reference.Collection
	model   *embed.Lexical
	vectors [][]float32
}

func (r recipe) prepare(talk *conversation) *cook {
	c := &cook{recipe: r, talk: talk, model: embed.NewLexical()}
	var texts []string
	for _, t := range talk.Turns {
		texts = append(texts, r.text(t))
		if r.lexical > 0 {
			c.vectors = append(c.vectors, c.model.Document(r.text(t)))
		}
	}
	c.turns = reference.New(texts, reference.Document)
	c.turns.B = r.b
	return c
}

func (c *cook) search(question string, k int) []string {
	var ids []string
	for _, i := range ranking(c.scores(question), k) {
		ids = append(ids, c.talk.Turns[i].ID)
	}
	return ids
}

// scores are those of all turns, as shares of what the terms of the question could give.
func (c *cook) scores(question string) []float64 {
	terms := c.question(question)
	parts := c.turns.Parts(terms)
	for i, t := range unique(terms) {
		for n := range parts[i] {
			parts[i][n] *= c.weight(t)
		}
	}
	scores := make([]float64, len(c.talk.Turns))
	for _, part := range parts {
		for i, own := range part {
			scores[i] += c.join(own, c.near(part, i))
		}
	}
	c.weigh(question, scores)
	c.addSessions(scores, parts)
	most := 0.0
	for _, t := range terms {
		most += c.weight(t) * c.turns.IDF(t)
	}
	if c.lexical > 0 {
		query := c.model.Query(question, c.turns.IDF)
		for i, v := range c.vectors {
			scores[i] += c.lexical * most * max(0, dot(query, v))
		}
	}
	for i := range scores {
		scores[i] /= max(most, 1e-9)
	}
	return scores
}

// unique are the different terms, in the order in which they come first.
func unique(terms []string) []string {
	var all []string
	for _, t := range terms {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// weight is what a term of the question counts for.
func (c *cook) weight(term string) float64 {
	if policy.IsVague(term) {
		return c.vague
	}
	return 1
}

// weigh weighs turns by who says them, whether they ask, say when, and when they were.
func (c *cook) weigh(question string, scores []float64) {
	asked, when := c.asked(question), strings.HasPrefix(question, "When ")
	var from, to time.Time
	for _, m := range dates.In(question, time.Now()) {
		if !m.From.IsZero() {
			from, to = m.From, m.To.Add(policy.FitsAfter)
		}
	}
	for i, t := range c.talk.Turns {
		if asked != "" && t.Speaker != asked {
			scores[i] *= c.other
		}
		if c.asks(i) {
			scores[i] *= c.asking
		}
		if when && len(dates.In(t.Text, t.Time)) > 0 {
			scores[i] *= c.says
		}
		if !from.IsZero() && !t.Time.Before(from) && t.Time.Before(to) {
			scores[i] *= c.fits
		}
	}
}

// asks reports whether a turn ends with a question.
func (c *cook) asks(i int) bool {
	return strings.HasSuffix(strings.TrimSpace(c.talk.Turns[i].Text), "?")
}

// asked is the one speaker of the conversation that a question names, empty for none or both.
func (c *cook) asked(question string) (name string) {
	words := strings.FieldsFunc(question, func(r rune) bool { return !unicode.IsLetter(r) })
	for _, t := range c.talk.Turns {
		if t.Speaker == name || !slices.Contains(words, t.Speaker) {
			continue
		}
		if name != "" {
			return ""
		}
		name = t.Speaker
	}
	return name
}

// near lists the parts of a turn's neighbours times their weights.
func (c *cook) near(part []float64, turn int) []float64 {
	var near []float64
	for d, w := range c.weights {
		for _, i := range []int{turn - d - 1, turn + d + 1} {
			if i < 0 || i >= len(part) || part[i] == 0 || c.talk.Turns[i].Session != c.talk.Turns[turn].Session {
				continue
			}
			if i == turn-1 && c.asks(i) {
				near = append(near, c.answer*part[i])
				continue
			}
			near = append(near, w*part[i])
		}
	}
	return near
}

// declining is memdb's best without what a query declines.
func (l *locomoDB) declining(name string, q memory.Query) harness.Contestant {
	return harness.Contestant{Name: name, Open: func(ctx context.Context) (harness.Runner, error) {
		if err := l.open(ctx); err != nil {
			return nil, err
		}
		return &locomoRun{l.talks, asking(l.db, q), l.close}, nil
	}}
}

// addSessions adds to each turn its session's share.
func (c *cook) addSessions(scores []float64, parts [][]float64) {
	if c.session == 0 {
		return
	}
	share := map[string]float64{}
	for _, part := range parts {
		most := map[string]float64{}
		for i, t := range c.talk.Turns {
			most[t.Session] = max(most[t.Session], part[i])
		}
		for session, m := range most {
			share[session] += m
		}
	}
	for i, t := range c.talk.Turns {
		if scores[i] > 0 {
			scores[i] += c.session * share[t.Session]
		}
	}
}

func dot(a, b []float32) float64 {
	s := 0.0
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}
