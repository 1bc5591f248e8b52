package main

import (
	"cmp"
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

// askedSet is what is asked for.
type askedSet struct {
	list []languageset.Language
	// beside are longer memories that lie in a third scope with those of the list; nil for none.
	beside []languageset.Language
}

// languages asks questions in many languages with other forms of the words that the
// memories have: within the memories of the language, and within those of all of them.
func languages() *harness.Workload {
	return askLanguages("languages", "ask in 28 languages with other forms of the words; the share found first", askedSet{list: languageset.All()})
}

// short is languages for notes of one to three words, in ten of them, which it also asks for
// beside longer memories of their language.
func short() *harness.Workload {
	return askLanguages("short", "notes of one to three words in ten languages, asked for with other forms; the share found first",
		askedSet{languageset.Short(), languageset.All()})
}

// askLanguages asks for the memories of a set.
func askLanguages(name, summary string, set askedSet) *harness.Workload {
	w := &harness.Workload{
		Name:    name,
		Summary: summary,
		Contestants: func(env *harness.Env) ([]harness.Contestant, error) {
			return languageContestants(env, set)
		},
		Metrics: []harness.Metric{
			{Name: "own", Head: "within the language", Digits: 3},
			{Name: "all", Head: "within all languages", Digits: 3},
		},
	}
	if set.beside != nil {
		w.Metrics = append(w.Metrics, harness.Metric{Name: "beside", Head: "beside longer memories", Digits: 3})
	}
	for _, l := range set.list {
		w.Metrics = append(w.Metrics, harness.Metric{Name: "found " + l.Code, Head: l.Code, Table: "found first, of 10, within the language"})
	}
	return w
}

// scopes are the scopes in which the memories of a language lie, with the metric of each.
func (s askedSet) scopes(code string) map[string]string {
	scopes := map[string]string{code: "own", everyLanguage: "all"}
	if s.beside != nil {
		scopes[besideScope(code)] = "beside"
	}
	return scopes
}

func besideScope(code string) string { return code + " beside longer memories" }

// languageContestants are memdb as it is, memdb for English alone, and the peers: bleve
// with the analyzer of each language, which it has to be told, and FTS5's tokenizers.
func languageContestants(env *harness.Env, set askedSet) ([]harness.Contestant, error) {
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
			return openLanguages(ctx, set, func(string) peer.Text { return index }, index.Close)
		}}
	}
	database := func(profile memory.Profile, language string, onlyWords bool) func(dir string) (peer.Text, error) {
		return func(dir string) (peer.Text, error) {
			db, err := engine.Open(dir, &engine.Options{Language: language})
			if err != nil {
				return nil, err
			}
			return &memdb{db: db, profile: profile, onlyWords: onlyWords}, nil
		}
	}
	bleve := func(analyzer string) func(dir string) (peer.Text, error) {
		return func(dir string) (peer.Text, error) { return peer.OpenBleveIn(dir, analyzer) }
	}
	fts5 := func(tokenizer string) func(dir string) (peer.Text, error) {
		return func(dir string) (peer.Text, error) { return peer.OpenFTS5In(dir, tokenizer) }
	}
	return []harness.Contestant{
		open("memdb text", true, database(memory.ProfileText, "", false)),
		open("memdb best", false, database(memory.ProfileBest, "", false)),
		open("memdb text without near words", false, database(memory.ProfileText, "", true)),
		open("memdb, English alone", false, database(memory.ProfileText, "english", false)),
		{Name: "bleve, told the language", Open: func(ctx context.Context) (harness.Runner, error) { return openBleveLanguages(ctx, env, set) }},
		open("bleve en", false, bleve("en")),
		open("bleve standard", false, bleve("standard")),
		open("fts5 porter unicode61", false, fts5(peer.FTS5Porter)),
		open("fts5 unicode61", false, fts5(peer.FTS5Words)),
		open("fts5 trigram", false, fts5(peer.FTS5Trigram)),
	}, nil
}

// languageRun asks one contestant.
type languageRun struct {
	set   askedSet
	index func(code string) peer.Text // that of the memories of a language, or of all
	close func() error
}

// openBleveLanguages makes an index for each language, with its analyzer, and one of bleve's
// own standard for all of them.
func openBleveLanguages(ctx context.Context, env *harness.Env, set askedSet) (harness.Runner, error) {
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
	type one struct{ scope, analyzer string }
	all := []one{{everyLanguage, "standard"}}
	for _, l := range set.list {
		analyzer := cmp.Or(peer.BleveLanguages[l.Code], "standard")
		all = append(all, one{l.Code, analyzer})
		if set.beside != nil {
			all = append(all, one{besideScope(l.Code), analyzer})
		}
	}
	for i, o := range all {
		place := filepath.Join(dir, fmt.Sprint(i))
		if err := os.MkdirAll(place, 0o755); err != nil {
			return nil, errors.Join(err, closeAll())
		}
		index, err := peer.OpenBleveIn(place, o.analyzer)
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
		indexes[o.scope] = index
	}
	return openLanguages(ctx, set, func(code string) peer.Text { return indexes[code] }, closeAll)
}

// openLanguages stores each memory in all of its scopes.
func openLanguages(ctx context.Context, set askedSet, index func(scope string) peer.Text, closeAll func() error) (harness.Runner, error) {
	for _, l := range set.list {
		for scope := range set.scopes(l.Code) {
			var docs []peer.Document
			for i, p := range l.List {
				docs = append(docs, peer.Document{ID: memoryID(scope, l.Code, i), Scope: scope, Text: p.Memory})
			}
			if scope == besideScope(l.Code) {
				docs = append(docs, set.longer(l.Code)...)
			}
			if err := index(scope).Add(ctx, docs); err != nil {
				return nil, errors.Join(err, closeAll())
			}
		}
	}
	return &languageRun{set, index, closeAll}, nil
}

// longer are the longer memories of a language.
func (s askedSet) longer(code string) (docs []peer.Document) {
	for _, l := range s.beside {
		for i, p := range l.List {
			if l.Code == code {
				docs = append(docs, peer.Document{ID: memoryID("longer", code, i), Scope: besideScope(code), Text: p.Memory})
			}
		}
	}
	return docs
}

func memoryID(scope, code string, i int) string { return fmt.Sprintf("%s in %s %d", code, scope, i) }

// Round asks all questions once.
func (r *languageRun) Round(ctx context.Context) (harness.Sample, error) {
	sample := harness.Sample{}
	asked := 0.0
	for _, l := range r.set.list {
		for i, p := range l.List {
			asked++
			for scope, metric := range r.set.scopes(l.Code) {
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
	for _, metric := range r.set.scopes("") {
		sample[metric] /= asked
	}
	return sample, nil
}

// Close closes what was opened.
func (r *languageRun) Close() error { return r.close() }
