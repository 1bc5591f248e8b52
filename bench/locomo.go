package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/bench/relevance"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// locomoFile holds conversations with questions and the turns that answer them.
const locomoFile = "locomo/locomo5.json"

// locomoDepth is how many hits each question asks for.
const locomoDepth = 20

// locomoCategories are the kinds of questions that count; 5, adversarial, asks
// for what was never said.
var locomoCategories = []struct {
	number int
	name   string
}{{1, "multi-hop"}, {2, "temporal"}, {3, "open-domain"}, {4, "single-hop"}}

// locomo recalls the evidence for questions about long conversations.
func locomo() *harness.Workload {
	w := &harness.Workload{
		Name:    "locomo",
		Summary: "recall the turns of long conversations that answer a question (no LLM)",
		WarmUp:  1,
		Metrics: []harness.Metric{
			{Name: "r@5", Head: "R@5", Digits: 3},
			{Name: "r@10", Head: "R@10", Digits: 3},
			{Name: "r@20", Head: "R@20", Digits: 3},
			{Name: "ndcg@10", Head: "nDCG@10", Digits: 3},
			{Name: "queries_per_second", Head: "queries/s", Timed: true},
			{Name: "cpu_us", Head: "CPU µs", Timed: true},
			{Name: "p50_us", Head: "p50 µs", Timed: true},
			{Name: "p99_us", Head: "p99 µs", Timed: true},
		},
		Contestants: locomoContestants,
	}
	for _, c := range locomoCategories {
		w.Metrics = append(w.Metrics, harness.Metric{Name: "r@10 " + c.name, Head: c.name, Digits: 3, Table: "R@10 by category"})
	}
	return w
}

// locomoContestants are memdb under each profile, and each peer over the text
// alone and over everything that memdb indexes of a turn.
func locomoContestants(env *harness.Env) ([]harness.Contestant, error) {
	talks, err := readTalks(env)
	if err != nil {
		return nil, err
	}
	var list []harness.Contestant
	shared := &locomoDB{env: env, talks: talks}
	for i, profile := range []memory.Profile{
		memory.ProfileText, memory.ProfileBest, memory.ProfileSubstrate, memory.ProfileVector, memory.ProfileHybrid,
	} {
		list = append(list, shared.contestant(profile, i == 0))
	}
	for _, o := range peer.Texts() {
		for _, variant := range []struct {
			name string
			text func(turn) string
		}{{" text", turnText}, {" text+fields", turnFields}} {
			list = append(list, harness.Contestant{
				Name:    o.Name + variant.name,
				Missing: o.Missing,
				Open: func(ctx context.Context) (harness.Runner, error) {
					return openLocomoPeer(ctx, env, o, talks, variant.text)
				},
			})
		}
	}
	return list, nil
}

func turnText(t turn) string { return t.Text }

// turnFields is the text of a turn with the fields of
// turnIndexedText: who speaks, what the picture shows, and when.
func turnFields(t turn) string {
	parts := []string{t.Speaker, t.Text, t.Caption}
	if !t.Time.IsZero() {
		parts = append(parts, t.Time.Format("Monday 2 January 2006"))
	}
	return strings.Join(parts, "\n")
}

// searcher finds the IDs of the k best turns of a conversation.
type searcher func(ctx context.Context, talk, question string, k int) ([]string, error)

// locomoDB is memdb with all conversations, which the profiles share.
type locomoDB struct {
	env   *harness.Env
	talks []*conversation
	db    *engine.DB
	users int
	// extract has the turns linked to what they mention.
	extract bool
	// foreign are memories beside the turns.
	foreign []peer.Document
}

func (l *locomoDB) contestant(profile memory.Profile, baseline bool) harness.Contestant {
	return harness.Contestant{
		Name:     "memdb " + string(profile),
		Baseline: baseline,
		Open: func(ctx context.Context) (harness.Runner, error) {
			if err := l.open(ctx); err != nil {
				return nil, err
			}
			view := &memdb{db: l.db, profile: profile}
			return &locomoRun{talks: l.talks, search: view.Search, close: l.close}, nil
		},
	}
}

func (l *locomoDB) open(ctx context.Context) (err error) {
	if l.db == nil {
		dir, err := l.env.Fresh("locomo-memdb")
		if err != nil {
			return err
		}
		if l.db, err = engine.Open(dir, &engine.Options{IndexedText: turnIndexedText()}); err != nil {
			return err
		}
		for _, talk := range l.talks {
			if err == nil {
				err = talk.store(ctx, l.db, nil)
			}
		}
		if err == nil && len(l.foreign) > 0 {
			err = l.addForeign(ctx)
		}
		if err == nil && l.extract {
			err = l.extractAll(ctx)
		}
		if err != nil {
			return errors.Join(err, l.close())
		}
	}
	l.users++
	return nil
}

// close closes the database with its last user.
func (l *locomoDB) close() error {
	l.users--
	if l.users > 0 || l.db == nil {
		return nil
	}
	db := l.db
	l.db = nil
	return db.Close()
}

// openLocomoPeer fills an empty peer with all turns.
func openLocomoPeer(ctx context.Context, env *harness.Env, o peer.Opener, talks []*conversation, text func(turn) string) (harness.Runner, error) {
	dir, err := env.Fresh("locomo-" + o.Name)
	if err != nil {
		return nil, err
	}
	x, err := o.Open(dir)
	if err != nil {
		return nil, err
	}
	for _, talk := range talks {
		docs := make([]peer.Document, len(talk.Turns))
		for i, t := range talk.Turns {
			docs[i] = peer.Document{ID: t.ID, Scope: talk.ID, Text: text(t)}
		}
		if err := x.Add(ctx, docs); err != nil {
			return nil, errors.Join(err, x.Close())
		}
	}
	return &locomoRun{talks: talks, search: x.Search, close: x.Close}, nil
}

// locomoRun asks one contestant all questions.
type locomoRun struct {
	talks  []*conversation
	search searcher
	close  func() error
}

// Round asks all questions once, and judges the answers afterwards.
func (l *locomoRun) Round(ctx context.Context) (harness.Sample, error) {
	var times harness.Latencies
	var answers [][]string
	meter := harness.StartMeter()
	for talk, q := range l.questions() {
		began := time.Now()
		ids, err := l.search(ctx, talk, q.Text, locomoDepth)
		times.Add(time.Since(began))
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", talk, q.Text, err)
		}
		answers = append(answers, ids)
	}
	sample := harness.Sample{
		"queries_per_second": times.PerSecond(),
		"p50_us":             times.Percentile(0.5),
		"p99_us":             times.Percentile(0.99),
	}
	meter.Record(sample, "cpu_us", len(answers))
	l.judge(sample, answers)
	return sample, nil
}

// questions are those that count, with the conversations that they are about.
func (l *locomoRun) questions() iter.Seq2[string, question] {
	return func(yield func(string, question) bool) {
		for _, talk := range l.talks {
			for _, q := range talk.Questions {
				if counts(q) && !yield(talk.ID, q) {
					return
				}
			}
		}
	}
}

// judge compares the answers with the evidence.
func (l *locomoRun) judge(sample harness.Sample, answers [][]string) {
	var all relevanceSums
	categories := map[int]*relevanceSums{}
	for _, c := range locomoCategories {
		categories[c.number] = &relevanceSums{}
	}
	for _, q := range l.questions() {
		all.add(answers[all.n], q.Evidence)
		categories[q.Category].add(answers[all.n-1], q.Evidence)
	}
	sample["questions"] = float64(all.n)
	sample["r@5"], sample["r@10"], sample["r@20"] = all.mean(all.at5), all.mean(all.at10), all.mean(all.at20)
	sample["ndcg@10"] = all.mean(all.ndcg)
	l.judgeHalves(sample, answers)
	for _, c := range locomoCategories {
		if sums := categories[c.number]; sums.n > 0 {
			sample["r@10 "+c.name] = sums.mean(sums.at10)
		}
	}
}

// locomoTuned is how many conversations, the first of the file, choices were made on.
const locomoTuned = 3

// judgeHalves judges the conversations on which choices were made, and the others.
func (l *locomoRun) judgeHalves(sample harness.Sample, answers [][]string) {
	tuned := map[string]bool{}
	for _, talk := range l.talks[:min(locomoTuned, len(l.talks))] {
		tuned[talk.ID] = true
	}
	halves := map[bool]*relevanceSums{true: {}, false: {}}
	n := 0
	for talk, q := range l.questions() {
		halves[tuned[talk]].add(answers[n], q.Evidence)
		n++
	}
	for half, name := range map[bool]string{true: " tuned", false: " held-out"} {
		sums := halves[half]
		sample["r@10"+name], sample["ndcg@10"+name] = sums.mean(sums.at10), sums.mean(sums.ndcg)
	}
}

// Close closes the database.
func (l *locomoRun) Close() error { return l.close() }

// counts reports whether a question is of a category that counts and has
// evidence.
func counts(q question) bool {
	for _, c := range locomoCategories {
		if c.number == q.Category {
			return len(q.Evidence) > 0
		}
	}
	return false
}

// relevanceSums adds up the judgements of several questions.
type relevanceSums struct {
	n                     int
	at5, at10, at20, ndcg float64
}

func (s *relevanceSums) add(ids, evidence []string) {
	relevant := make(map[string]float64, len(evidence))
	for _, id := range evidence {
		relevant[id] = 1
	}
	s.n++
	s.at5 += relevance.Recall(ids, relevant, 5)
	s.at10 += relevance.Recall(ids, relevant, 10)
	s.at20 += relevance.Recall(ids, relevant, 20)
	s.ndcg += relevance.NDCG(ids, relevant, 10)
}

// mean divides a sum by the number of questions.
func (s *relevanceSums) mean(sum float64) float64 {
	if s.n == 0 {
		return 0
	}
	return sum / float64(s.n)
}
