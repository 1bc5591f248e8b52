package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/bench/reference"
	"github.com/seed-7aedc3ff/memdb/bench/relevance"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// irCollections are judged test collections: documents, queries, and which of the
// documents are relevant to each.
var irCollections = []string{"cranfield", "cisi"}

// irDepth is how many hits of a query are judged.
const irDepth = 10

// ir ranks judged collections, beside exact BM25 over plain terms.
func ir() *harness.Workload {
	w := &harness.Workload{
		Name:        "ir",
		Summary:     "rank judged test collections, beside exact BM25 in float64",
		Contestants: irContestants,
	}
	for _, name := range irCollections {
		w.Metrics = append(w.Metrics,
			harness.Metric{Name: "ndcg@10 " + name, Head: name + " nDCG@10", Digits: 4},
			harness.Metric{Name: "difference " + name, Head: "to exact BM25", Digits: 4})
	}
	return w
}

// irContestants are memdb under the profiles that rank by text, and the reference.
func irContestants(env *harness.Env) ([]harness.Contestant, error) {
	var collections []*irCollection
	for _, name := range irCollections {
		c, err := readCollection(env, name)
		if err != nil {
			return nil, err
		}
		collections = append(collections, c)
	}
	var list []harness.Contestant
	for i, profile := range []memory.Profile{memory.ProfileText, memory.ProfileBest} {
		list = append(list, harness.Contestant{
			Name:     "memdb " + string(profile),
			Baseline: i == 0,
			Open: func(ctx context.Context) (harness.Runner, error) {
				return openIR(ctx, env, collections, profile)
			},
		})
	}
	list = append(list, harness.Contestant{
		Name: "exact BM25",
		Open: func(context.Context) (harness.Runner, error) {
			return &irRun{collections: collections, search: searchExactly}, nil
		},
	})
	return list, nil
}

// irCollection is a judged collection, with its ranking by the reference.
type irCollection struct {
	name      string
	documents []peer.Document
	queries   [][]string // id, text
	relevant  map[string]map[string]float64
	reference *reference.Collection
	exact     float64 // nDCG@10 of the reference
}

func readCollection(env *harness.Env, name string) (*irCollection, error) {
	c := &irCollection{name: name, relevant: map[string]map[string]float64{}}
	path := func(file string) (string, error) { return env.Path("ir/" + name + "/" + file) }
	var texts []string
	err := readTSV(path, "docs.tsv", 2, func(f []string) error {
		if strings.TrimSpace(f[1]) == "" {
			return nil // of no words, and no memory
		}
		c.documents = append(c.documents, peer.Document{ID: f[0], Scope: name, Text: f[1]})
		texts = append(texts, f[1])
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = readTSV(path, "qrels.tsv", 3, func(f []string) error {
		grade, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return err
		}
		if c.relevant[f[0]] == nil {
			c.relevant[f[0]] = map[string]float64{}
		}
		if grade > 0 {
			c.relevant[f[0]][f[1]] = grade
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = readTSV(path, "queries.tsv", 2, func(f []string) error {
		if len(c.relevant[f[0]]) > 0 {
			c.queries = append(c.queries, f)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.reference = reference.New(texts, reference.Plain)
	c.exact, err = c.judge(context.Background(), searchExactly)
	return c, err
}

// readTSV calls each with the fields of every line of a file.
func readTSV(path func(string) (string, error), file string, fields int, each func([]string) error) (err error) {
	full, err := path(file)
	if err != nil {
		return err
	}
	f, err := os.Open(full)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxPassage)
	for n := 1; lines.Scan(); n++ {
		row := strings.SplitN(lines.Text(), "\t", fields)
		if len(row) != fields {
			return fmt.Errorf("%s: line %d has %d fields, not %d", filepath.Base(full), n, len(row), fields)
		}
		if err := each(row); err != nil {
			return fmt.Errorf("%s: line %d: %w", filepath.Base(full), n, err)
		}
	}
	return lines.Err()
}

// irSearch finds the IDs of the best documents for a query.
type irSearch func(ctx context.Context, c *irCollection, query string) ([]string, error)

// judge is the mean nDCG@10 over the queries.
func (c *irCollection) judge(ctx context.Context, search irSearch) (float64, error) {
	sum := 0.0
	for _, q := range c.queries {
		ids, err := search(ctx, c, q[1])
		if err != nil {
			return 0, fmt.Errorf("%s: query %s: %w", c.name, q[0], err)
		}
		sum += relevance.NDCG(ids, c.relevant[q[0]], irDepth)
	}
	return sum / float64(len(c.queries)), nil
}

func searchExactly(_ context.Context, c *irCollection, query string) ([]string, error) {
	scores := reference.Sum(c.reference.Parts(reference.Plain(query)), len(c.documents))
	var ids []string
	for _, i := range ranking(scores, irDepth) {
		ids = append(ids, c.documents[i].ID)
	}
	return ids, nil
}

// ranking is the places of the k highest scores above 0, equal ones in order.
func ranking(scores []float64, k int) []int {
	var places []int
	for i, s := range scores {
		if s > 0 {
			places = append(places, i)
		}
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return places[:min(k, len(places))]
}

// irRun judges one contestant on all collections.
type irRun struct {
	collections []*irCollection
	search      irSearch
	close       func() error
}

func openIR(ctx context.Context, env *harness.Env, collections []*irCollection, profile memory.Profile) (harness.Runner, error) {
	dir, err := env.Fresh("ir-" + string(profile))
	if err != nil {
		return nil, err
	}
	db, err := engine.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	m := &memdb{db: db, profile: profile}
	for _, c := range collections {
		if err := m.Add(ctx, c.documents); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	search := func(ctx context.Context, c *irCollection, query string) ([]string, error) {
		return m.Search(ctx, c.name, query, irDepth)
	}
	return &irRun{collections, search, m.Close}, nil
}

// Round ranks all queries once.
func (r *irRun) Round(ctx context.Context) (harness.Sample, error) {
	sample := harness.Sample{}
	for _, c := range r.collections {
		ndcg, err := c.judge(ctx, r.search)
		if err != nil {
			return nil, err
		}
		sample["ndcg@10 "+c.name], sample["difference "+c.name] = ndcg, ndcg-c.exact
	}
	return sample, nil
}

// Close closes the database.
func (r *irRun) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}
