package analysis

import (
	"math/bits"
	"strings"
)

// Shares say how many documents of a scope are in each language.
type Shares struct {
	All    int                // documents
	Unsure int                // of these, those that are too short to say their language
	In     [languageCount]int // those in each language; English is not counted
}

// Add notes that so many documents are marked with a language.
func (s *Shares) Add(l Language, docs int) {
	if l == Unsure {
		s.Unsure += docs
		return
	}
	s.In[l] += docs
}

// Languages returns those that documents are in, besides English.
func (s *Shares) Languages() (in Languages) {
	for l, docs := range s.In {
		if docs > 0 {
			in = in.With(Language(l))
		}
	}
	return in
}

// english is how many documents are in English, at least as they are read.
func (s *Shares) english() int {
	n := s.All - s.Unsure
	for _, docs := range s.In {
		n -= docs
	}
	return max(0, n)
}

// Reading is how a query is read.
type Reading struct {
	// In are the languages besides English.
	In      Languages
	weights [languageCount]float64
}

// Weight is what a term counts for that a query has in some languages: 1 if English is among them, else by the
// language of most weight.
func (r *Reading) Weight(in Languages) float64 {
	if in == 0 || in.Has(base) {
		return 1
	}
	weight := 0.0
	for l := range in.All() {
		weight = max(weight, r.weights[l])
	}
	return weight
}

// leastShare is the least weight of a language in which a query is read.
const leastShare = .02

// unsureWeight is the weight of languages that a query may be in.
const unsureWeight = .5

// Asked says how a query of a scope is read: in the language that it says, and in the languages of the documents, each
// for their share of the scope. Where documents are too short to say their language and the query does not say its own,
// and no other document says more, it may be any.
func (a *Analyzer) Asked(text string, of *Shares) (r Reading) {
	if *of == (Shares{}) || !a.detects {
		return r
	}
	text = text[:headOf(text)]
	if of.Languages() == 0 && of.english() > 0 && !hints(text) {
		return r // English: most scopes have a short text
	}
	t := tally{seen: map[string]bool{}}
	t.count(text)
	said := t.said(of)
	most := 1
	if said == 0 {
		most = of.english()
	}
	for _, docs := range of.In {
		most = max(most, docs)
	}
	for l := base + 1; l < languageCount; l++ {
		if of.In[l] == 0 && !said.Has(l) {
			continue
		}
		switch {
		case said.Has(l):
			r.weights[l] = 1
		case said.Has(base):
			r.weights[l] = float64(of.In[l]) / float64(of.All)
		default:
			r.weights[l] = float64(of.In[l]) / float64(most)
		}
		if r.weights[l] >= leastShare {
			r.In = r.In.With(l)
		}
	}
	if said == 0 && r.In == 0 && of.Unsure > 0 && of.english() == 0 && len(text) < detectBytes {
		r.In = r.In.With(Unsure)
		for l := range latinLanguages.All() {
			r.weights[l] = unsureWeight
		}
	}
	return r
}

// hints reports whether a text has words or letters that are not English.
func hints(text string) bool {
	for lo, hi := nextWord(text, 0); lo < hi; lo, hi = nextWord(text, hi) {
		word := text[lo:hi]
		if beyondEnglish(word) {
			return true
		}
		if word = strings.ToLower(word); !silent(word) && isForeign(Fold(word)) {
			return true
		}
	}
	return false
}

// said are the languages that a query says it is in, among them English: of those of its scope, or any where documents
// do not say theirs. None if it says nothing.
func (t *tally) said(of *Shares) (said Languages) {
	most := 0
	for l := range languageCount {
		if of.In[l] > 0 || of.Unsure > 0 && (tongues[l].script != latinScript || t.hint) || l == base {
			most = max(most, t.points[l])
		}
	}
	if most == 0 {
		return 0
	}
	if t.english > 0 && t.points[base] >= most {
		return said.With(base)
	}
	for l := base + 1; l < languageCount; l++ {
		if (of.In[l] > 0 || of.Unsure > 0 && t.hint) && 2*t.points[l] >= most {
			said = said.With(l)
		}
	}
	if bits.OnesCount32(uint32(said)) > fewLanguages {
		said &= of.Languages()
	}
	return said
}
