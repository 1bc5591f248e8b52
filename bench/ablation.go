package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/reference"
	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// ablation takes the profile best apart: the same work as locomo, by the reference
// with one ingredient left out, changed or added.
func ablation() *harness.Workload {
	w := locomo()
	w.Name, w.Summary = "ablation", "locomo by the profile best with one ingredient left out, changed or added"
	w.WarmUp = 0
	w.Contestants = ablationContestants
	w.Metrics = slices.DeleteFunc(w.Metrics, func(m harness.Metric) bool { return m.Timed })
	return w
}

// recipe is a variant of the profile best.
type recipe struct {
	name     string
	text     func(exchange.Turn) string
	question func(string) []string
	weights  []float64 // of neighbours, by how many places away they are
	// join makes one number of a term's own part and those of the neighbours
	// times their weights.
	join func(own float64, near []float64) float64
	// other is what the turns of other speakers count for where the question names one.
	other float64
	// session is the weight of the mean of the three best turns of the session.
	session float64
	// lexical is the weight of the cosine of lexical vectors.
	lexical float64
}

func recipes() []recipe {
	near := policy.NeighbourWeights()
	full := recipe{"reference: all", indexedText, reference.Question, near[:], length, policy.OtherSpeaker, 0, 0}
	vary := func(name string, change func(*recipe)) recipe {
		r := full
		r.name = name
		change(&r)
		return r
	}
	return []recipe{
		full,
		vary("all speakers the same", func(r *recipe) { r.other = 1 }),
		vary("other speakers: 0.8", func(r *recipe) { r.other = .8 }),
		vary("other speakers: 0.4", func(r *recipe) { r.other = .4 }),
		vary("no neighbours", func(r *recipe) { r.weights = nil }),
		vary("neighbours: 1 place", func(r *recipe) { r.weights = near[:1] }),
		vary("neighbours: 2 places", func(r *recipe) { r.weights = near[:2] }),
		vary("neighbours: sum", func(r *recipe) { r.join = sum }),
		vary("neighbours: greatest", func(r *recipe) { r.join = greatest }),
		vary("all words of the question", func(r *recipe) { r.question = reference.Document }),
		vary("text without fields", func(r *recipe) { r.text = turnText }),
		vary("text with speaker only", func(r *recipe) { r.text = speakerAndText }),
		vary("added: 30% of the session", func(r *recipe) { r.session = .3 }),
		vary("added: 5% lexical cosine", func(r *recipe) { r.lexical = .05 }),
		vary("added: 20% lexical cosine", func(r *recipe) { r.lexical = .2 }),
	}
}

// indexedText is what exchange.LocomoIndexedText makes memdb search of a turn.
func indexedText(t exchange.Turn) string {
	parts := []string{t.Text, t.Speaker, t.Caption}
	if !t.Time.IsZero() {
		parts = append(parts, t.Time.UTC().Format("2 January 2006"))
	}
	return strings.Join(parts, "\n")
}

func speakerAndText(t exchange.Turn) string { return t.Text + "\n" + t.Speaker }

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
	path, err := env.Path(locomoFile)
	if err != nil {
		return nil, err
	}
	talks, err := readTalks(path)
	if err != nil {
		return nil, err
	}
	shared := &locomoDB{env: env, path: path}
	list := []harness.Contestant{shared.contestant(talks, engine.ProfileBest, true)}
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
	talk    *exchange.Conversation
	turns   *reference.Collection
	model   *embed.Lexical
	vectors [][]float32
}

func (r recipe) prepare(talk *exchange.Conversation) *cook {
	c := &cook{recipe: r, talk: talk, model: embed.NewLexical()}
	var texts []string
	for _, t := range talk.Turns {
		texts = append(texts, r.text(t))
		if r.lexical > 0 {
			c.vectors = append(c.vectors, c.model.Document(r.text(t)))
		}
	}
	c.turns = reference.New(texts, reference.Document)
	return c
}

func (c *cook) search(question string, k int) []string {
	terms := c.question(question)
	parts := c.turns.Parts(terms)
	scores := make([]float64, len(c.talk.Turns))
	for _, part := range parts {
		for i, own := range part {
			scores[i] += c.join(own, c.near(part, i))
		}
	}
	if asked := c.asked(question); asked != "" {
		for i, t := range c.talk.Turns {
			if t.Speaker != asked {
				scores[i] *= c.other
			}
		}
	}
	c.addSessions(scores, reference.Sum(parts, len(scores)))
	if c.lexical > 0 {
		most := 0.0
		for _, t := range terms {
			most += c.turns.IDF(t)
		}
		query := c.model.Query(question, c.turns.IDF)
		for i, v := range c.vectors {
			scores[i] += c.lexical * most * max(0, dot(query, v))
		}
	}
	var ids []string
	for _, i := range ranking(scores, k) {
		ids = append(ids, c.talk.Turns[i].ID)
	}
	return ids
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
			if i >= 0 && i < len(part) && part[i] > 0 && c.talk.Turns[i].Session == c.talk.Turns[turn].Session {
				near = append(near, w*part[i])
			}
		}
	}
	return near
}

// addSessions adds to each turn its session's share.
func (c *cook) addSessions(scores, own []float64) {
	if c.session == 0 {
		return
	}
	const best = 3
	sessions := map[string][]float64{}
	for i, t := range c.talk.Turns {
		sessions[t.Session] = append(sessions[t.Session], own[i])
	}
	for _, of := range sessions {
		slices.SortFunc(of, func(a, b float64) int { return cmp.Compare(b, a) })
	}
	for i, t := range c.talk.Turns {
		of := sessions[t.Session]
		for _, s := range of[:min(best, len(of))] {
			scores[i] += c.session * s / best
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
