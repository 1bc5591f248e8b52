// Package reference ranks by exact BM25 in float64, document by document and
// without an index: what an engine's relevance is held to, and where variants of a
// formula are tried.
package reference

import (
	"math"
	"strings"
	"unicode"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

// The parameters of BM25, as Lucene and memdb have them.
const (
	k1 = 1.2
	b  = 0.75
)

// Collection is a set of documents that were taken apart into terms.
type Collection struct {
	// B is how much the length of a document counts.
	B       float64
	freqs   []map[string]float64
	lengths []float64
	average float64
	df      map[string]float64
}

// New takes texts apart by a tokenizer.
func New(texts []string, tokens func(string) []string) *Collection {
	c := &Collection{B: b, df: map[string]float64{}}
	for _, text := range texts {
		freq := map[string]float64{}
		terms := tokens(text)
		for _, t := range terms {
			freq[t]++
		}
		for t := range freq {
			c.df[t]++
		}
		c.freqs = append(c.freqs, freq)
		c.lengths = append(c.lengths, float64(len(terms)))
		c.average += float64(len(terms)) / float64(len(texts))
	}
	return c
}

// IDF is Lucene's.
func (c *Collection) IDF(term string) float64 {
	n, df := float64(len(c.freqs)), c.df[term]
	return math.Log(1 + (n-df+0.5)/(df+0.5))
}

// Parts are what each different term of a query gives to each document.
func (c *Collection) Parts(query []string) [][]float64 {
	var parts [][]float64
	place := map[string]int{}
	for _, term := range query {
		at, ok := place[term]
		if !ok {
			at = len(parts)
			place[term] = at
			parts = append(parts, make([]float64, len(c.freqs)))
		}
		for i, freq := range c.freqs {
			if f := freq[term]; f > 0 {
				parts[at][i] += c.IDF(term) * f / (f + k1*(1-c.B+c.B*c.lengths[i]/c.average))
			}
		}
	}
	return parts
}

// Sum is BM25: the parts of all terms.
func Sum(parts [][]float64, documents int) []float64 {
	scores := make([]float64, documents)
	for _, part := range parts {
		for i, p := range part {
			scores[i] += p
		}
	}
	return scores
}

// stopWords are the 33 that Lucene drops from English.
var stopWords = func() map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(`a an and are as at be but by for if in into is it no not of on or such that
		the their then there these they this to was will with`) {
		set[word] = true
	}
	return set
}()

// Plain yields runs of letters and digits in lower case, without the stop words,
// stemmed by Snowball English.
func Plain(text string) []string {
	var terms []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		if stopWords[word] {
			continue
		}
		env := snowballstem.NewEnv(word)
		english.Stem(env)
		terms = append(terms, env.Current())
	}
	return terms
}

var analyzer = analysis.NewEnglish()

// Document yields the terms that memdb indexes of a text.
func Document(text string) []string { return bag((*analysis.Bag).Add, text) }

// Question yields the terms that memdb looks for.
func Question(text string) []string { return bag((*analysis.Bag).AddQuery, text) }

func bag(add func(*analysis.Bag, *analysis.Analyzer, string, uint32), text string) []string {
	var counts analysis.Bag
	add(&counts, analyzer, text, 1)
	var terms []string
	for _, t := range counts.Terms() {
		for range t.Freq {
			terms = append(terms, t.Term)
		}
	}
	return terms
}
