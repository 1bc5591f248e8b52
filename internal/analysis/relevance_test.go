package analysis

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/realdata"
)

// TestRelevance holds the analyzer to the relevance of exact BM25 (Lucene's idf, k1 = 1.2, b = 0.75) over letters and
// digits with the same stop words and stemmer: identifiers as a whole must not cost plain prose anything.
func TestRelevance(t *testing.T) {
	race.Sequential(t)
	const tolerance = .005
	for _, tc := range []struct {
		collection string
		plain      float64 // nDCG@10 of the plain analyzer
	}{
		{"cranfield", .4317},
		{"cisi", .3835},
	} {
		t.Run(tc.collection, func(t *testing.T) {
			c := readCollection(t, tc.collection)
			a := NewEnglish()
			all, asked := c.ndcg(a, (*Bag).Add), c.ndcg(a, (*Bag).AddQuery)
			t.Logf("nDCG@10: plain %.4f, with all words of the query %.4f, without those that questions are put with %.4f", tc.plain, all, asked)
			if all < tc.plain-tolerance {
				t.Errorf("nDCG@10 = %.4f, more than %.3f below %.4f", all, tolerance, tc.plain)
			}
			if asked <= all {
				t.Errorf("nDCG@10 = %.4f without the words that questions are put with, %.4f with them", asked, all)
			}
		})
	}
}

// collection is a judged test collection.
type collection struct {
	ids, texts []string
	queries    [][]string // id, text
	grades     map[string]map[string]float64
}

func readCollection(t *testing.T, name string) *collection {
	t.Helper()
	dir := realdata.Path(t, "ir/"+name)
	c := &collection{grades: map[string]map[string]float64{}, queries: readTSV(t, filepath.Join(dir, "queries.tsv"))}
	for _, row := range readTSV(t, filepath.Join(dir, "docs.tsv")) {
		c.ids = append(c.ids, row[0])
		c.texts = append(c.texts, row[1])
	}
	for _, row := range readTSV(t, filepath.Join(dir, "qrels.tsv")) {
		grade, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		if grade <= 0 {
			continue
		}
		if c.grades[row[0]] == nil {
			c.grades[row[0]] = map[string]float64{}
		}
		c.grades[row[0]][row[1]] = grade
	}
	return c
}

func readTSV(t *testing.T, path string) [][]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(b)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

// ndcg returns the mean nDCG@10 of exact BM25 over the judged queries, whose terms addQuery gathers.
func (c *collection) ndcg(a *Analyzer, addQuery func(*Bag, *Analyzer, string, uint32)) float64 {
	type posting struct {
		doc  int
		freq float64
	}
	postings := map[string][]posting{}
	lengths := make([]float64, len(c.texts))
	total := 0.0
	var bag Bag
	for doc, text := range c.texts {
		bag.Reset()
		bag.Add(a, text, 1)
		for _, t := range bag.Terms() {
			postings[t.Term] = append(postings[t.Term], posting{doc, float64(t.Freq)})
		}
		lengths[doc] = float64(bag.Length())
		total += lengths[doc]
	}
	mean, n := total/float64(len(c.texts)), float64(len(c.texts))

	sum, judged := 0.0, 0
	for _, q := range c.queries {
		grades := c.grades[q[0]]
		if len(grades) == 0 {
			continue
		}
		judged++
		bag.Reset()
		addQuery(&bag, a, q[1], 1)
		scores := make([]float64, len(c.texts))
		for _, t := range bag.Terms() {
			list := postings[t.Term]
			df := float64(len(list))
			idf := math.Log(1 + (n-df+.5)/(df+.5))
			for _, p := range list {
				const k1, b = 1.2, .75
				scores[p.doc] += float64(t.Freq) * idf * p.freq * (k1 + 1) / (p.freq + k1*(1-b+b*lengths[p.doc]/mean))
			}
		}
		sum += c.queryNDCG(scores, grades)
	}
	return sum / float64(judged)
}

func (c *collection) queryNDCG(scores []float64, grades map[string]float64) float64 {
	docs := make([]int, len(scores))
	for i := range docs {
		docs[i] = i
	}
	slices.SortStableFunc(docs, func(x, y int) int { return cmp.Compare(scores[y], scores[x]) })
	var ideal []float64
	for _, g := range grades {
		ideal = append(ideal, g)
	}
	slices.SortFunc(ideal, func(x, y float64) int { return cmp.Compare(y, x) })
	var dcg, best float64
	for i := range min(10, len(docs)) {
		discount := math.Log2(float64(i) + 2)
		if scores[docs[i]] > 0 {
			dcg += grades[c.ids[docs[i]]] / discount
		}
		if i < len(ideal) {
			best += ideal[i] / discount
		}
	}
	return dcg / best
}
