package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/reference"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// embedders asks the questions of locomo with the vectors of embedders from useless to good:
// whether the profile best takes from each what it has, and nothing from those that have
// nothing. Beside it stands the best of all fixed weights, which nobody can know beforehand.
func embedders() *harness.Workload {
	w := &harness.Workload{
		Name:    "embedders",
		Summary: "locomo by the profile best with embedders from useless to good, beside the best fixed weight of each (once: -rounds 1)",
		Metrics: []harness.Metric{
			{Name: "r@10", Head: "R@10", Digits: 3},
			{Name: "ndcg@10", Head: "nDCG@10", Digits: 3},
			{Name: "alone", Head: "vector alone", Digits: 3},
			{Name: "fixed", Head: "best fixed weight", Digits: 3},
			{Name: "at", Head: "which is", Digits: 2},
			{Name: "weight", Head: "weight at the end", Digits: 3},
		},
	}
	w.Contestants = func(env *harness.Env) ([]harness.Contestant, error) {
		talks, err := readTalks(env)
		if err != nil {
			return nil, err
		}
		var list []harness.Contestant
		for i, e := range simulated() {
			list = append(list, harness.Contestant{Name: e.name, Baseline: i == 0, Open: func(context.Context) (harness.Runner, error) {
				return &embedderRun{locomoRun: locomoRun{talks: talks, close: func() error { return nil }}, env: env, embedder: e}, nil
			}})
		}
		return list, nil
	}
	return w
}

// simulation is an embedder of one conversation after the other.
type simulation struct {
	name string
	// of makes the vectors of the turns and, by their numbers, of the questions; nil where
	// there are none.
	of func(talk *conversation, rng *rand.Rand) (turns, questions [][]float32)
}

func simulated() []simulation {
	list := []simulation{
		{"no vectors", nil},
		{"random", noisy(0, 384, nil)},
		{"all equal", func(t *conversation, _ *rand.Rand) (turns, questions [][]float32) {
			return slices.Repeat([][]float32{{.6, .8}}, len(t.Turns)), slices.Repeat([][]float32{{.6, .8}}, len(t.Questions))
		}},
		{"one cluster", oneCluster},
		{"hashed words", byWords(hashedWords)},
		{"LSA, 64 dimensions", byLSA},
	}
	for _, pull := range []float32{.08, .12, .2, .3} {
		list = append(list, simulation{fmt.Sprintf("good, %.2f", pull), noisy(pull, 384, nil)})
	}
	for _, pull := range []float32{.1, .2} {
		list = append(list, simulation{fmt.Sprintf("hashed words and good, %.2f", pull), noisy(pull, 384, hashedWords)})
	}
	return list
}

// noisy are random vectors; those of questions are drawn towards the turns that answer them. With
// words, half of each vector is made of them.
func noisy(pull float32, dim int, words func([]string) []float32) func(*conversation, *rand.Rand) (turns, questions [][]float32) {
	return func(talk *conversation, rng *rand.Rand) (turns, questions [][]float32) {
		random := func(terms []string) []float32 {
			v := make([]float32, dim)
			for i := range v {
				v[i] = float32(rng.NormFloat64())
			}
			v = unit(v)
			if words != nil {
				for _, x := range unit(words(terms)) {
					v = append(v, .7*x)
				}
			}
			return v
		}
		place := map[string]int{}
		for i, t := range talk.Turns {
			place[t.ID] = i
			turns = append(turns, random(reference.Document(t.Text)))
		}
		for _, q := range talk.Questions {
			v := random(reference.Question(q.Text))
			towards := make([]float32, len(v))
			for _, id := range q.Evidence {
				if i, ok := place[id]; ok {
					for d, x := range turns[i] {
						towards[d] += x
					}
				}
			}
			for d, x := range unit(towards) {
				v[d] += pull * x
			}
			questions = append(questions, v)
		}
		return turns, questions
	}
}

func oneCluster(talk *conversation, rng *rand.Rand) (turns, questions [][]float32) {
	near := func() []float32 {
		v := make([]float32, 64)
		for i := range v {
			v[i] = 1 + .05*float32(rng.NormFloat64())
		}
		return v
	}
	for range talk.Turns {
		turns = append(turns, near())
	}
	for range talk.Questions {
		questions = append(questions, near())
	}
	return turns, questions
}

func byWords(of func([]string) []float32) func(*conversation, *rand.Rand) (turns, questions [][]float32) {
	return func(talk *conversation, _ *rand.Rand) (turns, questions [][]float32) {
		for _, t := range talk.Turns {
			turns = append(turns, of(reference.Document(t.Text)))
		}
		for _, q := range talk.Questions {
			questions = append(questions, of(reference.Question(q.Text)))
		}
		return turns, questions
	}
}

// hashedWords puts each word at a place of the vector that its hash says.
func hashedWords(terms []string) []float32 {
	v := make([]float32, 256)
	for _, t := range terms {
		h := xxh3.HashString(t)
		sign := float32(1)
		if h>>32&1 != 0 {
			sign = -1
		}
		v[h%256] += sign
	}
	if len(terms) == 0 {
		v[0] = 1
	}
	return v
}

// byLSA is latent semantic analysis of a conversation: the left singular vectors of its matrix of
// turns and terms, by orthogonal iteration.
func byLSA(talk *conversation, rng *rand.Rand) (turns, questions [][]float32) {
	const rank, rounds = 64, 12
	var docs [][]string
	for _, t := range talk.Turns {
		docs = append(docs, reference.Document(t.Text))
	}
	all := reference.New(docs2texts(docs), func(s string) []string { return docs[place(s)] })
	column := map[string]int{}
	rows := make([]map[int]float64, len(docs))
	weigh := func(terms []string, grow bool) map[int]float64 {
		row := map[int]float64{}
		for _, t := range terms {
			at, ok := column[t]
			if !ok && grow {
				at, ok = len(column), true
				column[t] = at
			}
			if ok {
				row[at] += all.IDF(t)
			}
		}
		return row
	}
	for i, d := range docs {
		rows[i] = weigh(d, true)
	}
	basis := make([][]float64, rank) // of terms
	for k := range basis {
		basis[k] = make([]float64, len(column))
		for i := range basis[k] {
			basis[k][i] = rng.NormFloat64()
		}
	}
	for range rounds {
		orthonormal(basis)
		for k, b := range basis {
			next := make([]float64, len(b))
			for _, row := range rows {
				p := along(row, b)
				for at, x := range row {
					next[at] += p * x
				}
			}
			basis[k] = next
		}
	}
	orthonormal(basis)
	project := func(row map[int]float64) []float32 {
		v := make([]float32, rank)
		for k, b := range basis {
			v[k] = float32(along(row, b))
		}
		if unitLength(v) == 0 {
			v[0] = 1
		}
		return v
	}
	for _, row := range rows {
		turns = append(turns, project(row))
	}
	for _, q := range talk.Questions {
		questions = append(questions, project(weigh(reference.Question(q.Text), false)))
	}
	return turns, questions
}

// docs2texts names documents by their numbers, for a collection whose documents are terms already.
func docs2texts(docs [][]string) []string {
	names := make([]string, len(docs))
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}

func place(name string) (i int) {
	_, _ = fmt.Sscan(name, &i)
	return i
}

func along(row map[int]float64, b []float64) float64 {
	s := 0.0
	for at, x := range row {
		s += x * b[at]
	}
	return s
}

// orthonormal makes vectors orthogonal, of length 1 (Gram and Schmidt, modified).
func orthonormal(vs [][]float64) {
	for i, v := range vs {
		for _, u := range vs[:i] {
			p := 0.0
			for d := range v {
				p += u[d] * v[d]
			}
			for d := range v {
				v[d] -= p * u[d]
			}
		}
		n := 0.0
		for _, x := range v {
			n += x * x
		}
		n = math.Sqrt(max(n, 1e-30))
		for d := range v {
			v[d] /= n
		}
	}
}

func unitLength(v []float32) float64 {
	n := 0.0
	for _, x := range v {
		n += float64(x) * float64(x)
	}
	return math.Sqrt(n)
}

func unit(v []float32) []float32 {
	n := float32(unitLength(v))
	if n == 0 {
		return v
	}
	u := make([]float32, len(v))
	for i, x := range v {
		u[i] = x / n
	}
	return u
}

// embedderRun asks all questions with the vectors of one embedder, of a database that has never
// been asked.
type embedderRun struct {
	locomoRun
	env      *harness.Env
	embedder simulation
}

// Round fills a database, asks, and judges.
func (e *embedderRun) Round(ctx context.Context) (sample harness.Sample, err error) {
	dir, err := e.env.Fresh("embedders")
	if err != nil {
		return nil, err
	}
	db, err := engine.Open(dir, &engine.Options{IndexedText: turnIndexedText()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rng := rand.New(rand.NewPCG(20, 26))
	questions := map[string][][]float32{}
	var alone, text []ranked
	var answers [][]string
	for _, talk := range e.talks {
		turns, asked, err := e.store(ctx, db, talk, rng)
		if err != nil {
			return nil, err
		}
		questions[talk.ID] = asked
		cook := recipes()[0].prepare(talk)
		for n, q := range talk.Questions {
			if counts(q) {
				text = append(text, ranked{talk, cook.scores(q.Text), q})
				if turns != nil {
					alone = append(alone, ranked{talk, similarities(asked[n], turns), q})
				}
			}
		}
	}
	weight := 0.0
	for _, talk := range e.talks {
		for n, q := range talk.Questions {
			if !counts(q) {
				continue
			}
			query := memory.Query{Scope: memory.Scope{Agent: talk.ID}, Text: q.Text, Limit: locomoDepth, Explain: true}
			if e.embedder.of != nil {
				query.Embedding = questions[talk.ID][n]
			}
			found, err := db.Memories().Recall(ctx, query)
			if err != nil {
				return nil, err
			}
			var ids []string
			for _, h := range found.Hits {
				ids = append(ids, h.ID)
			}
			answers = append(answers, ids)
			if found.Plan.Trust != nil {
				weight = found.Plan.Trust.Weight
			}
		}
	}
	sample = harness.Sample{"weight": weight}
	e.judge(sample, answers)
	if alone != nil {
		sample["alone"] = recallOf(alone)
		sample["fixed"], sample["at"] = bestFixed(text, alone)
	}
	return sample, nil
}

// store stores a conversation with its vectors.
func (e *embedderRun) store(ctx context.Context, db *engine.DB, talk *conversation, rng *rand.Rand) (turns, questions [][]float32, err error) {
	if e.embedder.of != nil {
		turns, questions = e.embedder.of(talk, rng)
	}
	err = talk.store(ctx, db, func(i int, m *memory.Memory) {
		if turns != nil {
			m.Embedding = turns[i]
		}
	})
	return turns, questions, err
}

// ranked are the scores of the turns of a conversation for a question.
type ranked struct {
	talk   *conversation
	scores []float64
	q      question
}

func similarities(q []float32, turns [][]float32) []float64 {
	u := unit(q)
	scores := make([]float64, len(turns))
	for i, t := range turns {
		scores[i] = dot(u, unit(t))
	}
	return scores
}

// recallOf is R@10.
func recallOf(all []ranked) float64 {
	var sums relevanceSums
	for _, r := range all {
		var ids []string
		for _, i := range ranking(r.scores, 10) {
			ids = append(ids, r.talk.Turns[i].ID)
		}
		sums.add(ids, r.q.Evidence)
	}
	return sums.mean(sums.at10)
}

// bestFixed is the best R@10 of (1-w) text + w cosine, and its weight.
func bestFixed(text, alone []ranked) (best, at float64) {
	for _, w := range []float64{0, .02, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9} {
		joined := make([]ranked, len(text))
		for i, t := range text {
			joined[i] = ranked{t.talk, make([]float64, len(t.scores)), t.q}
			for n, s := range t.scores {
				joined[i].scores[n] = (1-w)*s + w*max(0, alone[i].scores[n])
			}
		}
		if r := recallOf(joined); r > best {
			best, at = r, w
		}
	}
	return best, at
}
