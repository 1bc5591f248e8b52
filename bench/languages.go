package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/languageset"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// everyLanguage is the scope that has the memories of all languages.
const everyLanguage = "every language"

// languages asks questions in many languages with other forms of the words that the
// memories have: within the memories of the language, and within those of all of them.
func languages() *harness.Workload {
	w := &harness.Workload{
		Name:        "languages",
		Summary:     "ask in 28 languages with other forms of the words; the share found first",
		Contestants: languageContestants,
		Metrics: []harness.Metric{
			{Name: "own", Head: "within the language", Digits: 3},
			{Name: "all", Head: "within all languages", Digits: 3},
		},
	}
	for _, l := range languageset.All() {
		w.Metrics = append(w.Metrics, harness.Metric{Name: "found " + l.Code, Head: l.Code, Table: "found first, of 10, within the language"})
	}
	return w
}

// languageContestants are memdb as it is, memdb for English alone, and the peers: bleve
// with the analyzer of each language, which it has to be told, and FTS5's tokenizers.
func languageContestants(env *harness.Env) ([]harness.Contestant, error) {
	open := func(name string, baseline bool, one func(dir string) (peer.Text, error)) harness.Contestant {
		return harness.Contestant{Name: name, Baseline: baseline, Open: func(ctx context.Context) (harness.Runner, error) {
			dir, err := env.Fresh("languages")
			if err != nil {
				return nil, err
			}
			index, err := one(dir)
			if err != nil {
				return nil, err
			}
			return openLanguages(ctx, func(string) peer.Text { return index }, index.Close)
		}}
	}
	database := func(profile memory.Profile, language string) func(dir string) (peer.Text, error) {
		return func(dir string) (peer.Text, error) {
			db, err := engine.Open(dir, &engine.Options{Language: language})
			if err != nil {
				return nil, err
			}
			return &memdb{db: db, profile: profile}, nil
		}
	}
	bleve := func(analyzer string) func(dir string) (peer.Text, error) {
		return func(dir string) (peer.Text, error) { return peer.OpenBleveIn(dir, analyzer) }
	}
	fts5 := func(tokenizer string) func(dir string) (peer.Text, error) {
		return func(dir string) (peer.Text, error) { return peer.OpenFTS5In(dir, tokenizer) }
	}
	return []harness.Contestant{
		open("memdb text", true, database(memory.ProfileText, "")),
		open("memdb best", false, database(memory.ProfileBest, "")),
		open("memdb, English alone", false, database(memory.ProfileText, "english")),
		{Name: "bleve, told the language", Open: func(ctx context.Context) (harness.Runner, error) { return openBleveLanguages(ctx, env) }},
		open("bleve en", false, bleve("en")),
		open("bleve standard", false, bleve("standard")),
		open("fts5 porter unicode61", false, fts5(peer.FTS5Porter)),
		open("fts5 unicode61", false, fts5(peer.FTS5Words)),
		open("fts5 trigram", false, fts5(peer.FTS5Trigram)),
	}, nil
}

// languageRun asks one contestant.
type languageRun struct {
	index func(code string) peer.Text // that of the memories of a language, or of all
	close func() error
}

// openBleveLanguages makes an index for each language, with its analyzer, and one of bleve's
// own standard for all of them.
func openBleveLanguages(ctx context.Context, env *harness.Env) (harness.Runner, error) {
	dir, err := env.Fresh("languages")
	if err != nil {
		return nil, err
	}
	indexes := map[string]peer.Text{}
	closeAll := func() (err error) {
		for _, index := range indexes {
			err = errors.Join(err, index.Close())
		}
		return err
	}
	codes := []string{everyLanguage}
	for _, l := range languageset.All() {
		codes = append(codes, l.Code)
	}
	for i, code := range codes {
		analyzer := "standard"
		if a, ok := peer.BleveLanguages[code]; ok {
			analyzer = a
		}
		place := filepath.Join(dir, fmt.Sprint(i))
		if err := os.MkdirAll(place, 0o755); err != nil {
			return nil, errors.Join(err, closeAll())
		}
		index, err := peer.OpenBleveIn(place, analyzer)
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
		indexes[code] = index
	}
	return openLanguages(ctx, func(code string) peer.Text { return indexes[code] }, closeAll)
}

// openLanguages stores each memory twice: in the scope of its language, and in that of all.
func openLanguages(ctx context.Context, index func(code string) peer.Text, closeAll func() error) (harness.Runner, error) {
	for _, l := range languageset.All() {
		for _, scope := range []string{l.Code, everyLanguage} {
			var docs []peer.Document
			for i, p := range l.List {
				docs = append(docs, peer.Document{ID: memoryID(scope, l.Code, i), Scope: scope, Text: p.Memory})
			}
			if err := index(scope).Add(ctx, docs); err != nil {
				return nil, errors.Join(err, closeAll())
			}
		}
	}
	return &languageRun{index, closeAll}, nil
}

func memoryID(scope, code string, i int) string { return fmt.Sprintf("%s in %s %d", code, scope, i) }

// Round asks all questions once.
func (r *languageRun) Round(ctx context.Context) (harness.Sample, error) {
	sample := harness.Sample{}
	asked := 0.0
	for _, l := range languageset.All() {
		for i, p := range l.List {
			asked++
			for scope, metric := range map[string]string{l.Code: "own", everyLanguage: "all"} {
				ids, err := r.index(scope).Search(ctx, scope, p.Question, 1)
				if err != nil {
					return nil, fmt.Errorf("%s, question %d: %w", l.Name, i, err)
				}
				if len(ids) == 0 || ids[0] != memoryID(scope, l.Code, i) {
					continue
				}
				sample[metric]++
				if metric == "own" {
					sample["found "+l.Code]++
				}
			}
		}
	}
	sample["own"] /= asked
	sample["all"] /= asked
	return sample, nil
}

// Close closes what was opened.
func (r *languageRun) Close() error { return r.close() }
