package embed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/realdata"
)

// TestLocomo measures what the vectors find: R@10 of the evidence for the questions of categories 1 to 4, each asked
// within its conversation, over speaker, text, caption and date of each turn. These are the figures by which the
// dimension was chosen.
func TestLocomo(t *testing.T) {
	conversations := readLocomo(t)
	for _, tc := range []struct {
		dim            int
		cosine, hybrid float64 // the least that must come out
	}{
		{128, .40, .57}, {256, .50, .61}, {lexicalDim, .56, .63}, {1024, .59, .63},
	} {
		l := Lexical{dim: tc.dim}
		var cosine, hybrid float64
		questions := 0
		for i := range conversations {
			c := &conversations[i]
			co, hy := c.recall(&l)
			cosine, hybrid = cosine+co, hybrid+hy
			questions += len(c.questions)
		}
		cosine, hybrid = cosine/float64(questions), hybrid/float64(questions)
		t.Logf("dimension %4d, %d questions: R@10 %.3f by cosine, %.3f by half the cosine and a quarter of the query's terms", tc.dim, questions, cosine, hybrid)
		if cosine < tc.cosine || hybrid < tc.hybrid {
			t.Errorf("dimension %d: R@10 %.3f and %.3f, want at least %.3f and %.3f", tc.dim, cosine, hybrid, tc.cosine, tc.hybrid)
		}
	}
}

// conversation is one of LoCoMo's, its turns as texts.
type conversation struct {
	ids, texts []string
	questions  []question
}

type question struct {
	text     string
	evidence []string // ids of turns
}

// recall returns the sums of R@10 over the questions: by cosine alone, and beside the share of query terms found.
func (c *conversation) recall(l *Lexical) (cosine, hybrid float64) {
	terms := make([]map[string]bool, len(c.texts))
	vectors := make([][]float32, len(c.texts))
	df := map[string]float64{}
	for i, text := range c.texts {
		vectors[i] = l.Document(text)
		terms[i] = map[string]bool{}
		var b analysis.Bag
		b.Add(lexicalRules(), text, 1)
		for _, k := range b.Terms() {
			terms[i][k.Term] = true
			df[k.Term]++
		}
	}
	idf := func(term string) float64 {
		return math.Log(1 + (float64(len(c.texts))-df[term]+.5)/(df[term]+.5))
	}
	for _, q := range c.questions {
		v := l.Query(q.text, idf)
		var b analysis.Bag
		b.AddQuery(lexicalRules(), q.text, 1)
		var places []int // that are not zero: few, in a question
		for i, x := range v {
			if x != 0 {
				places = append(places, i)
			}
		}
		byCosine, byBoth := make([]float64, len(vectors)), make([]float64, len(vectors))
		for i := range vectors {
			for _, p := range places {
				byCosine[i] += float64(v[p]) * float64(vectors[i][p])
			}
			found := 0.0
			for _, k := range b.Terms() {
				if terms[i][k.Term] {
					found++
				}
			}
			byBoth[i] = .5*byCosine[i] + .25*found/float64(max(1, len(b.Terms())))
		}
		cosine += c.recallAt10(byCosine, q.evidence)
		hybrid += c.recallAt10(byBoth, q.evidence)
	}
	return cosine, hybrid
}

// recallAt10 returns the share of the evidence among the ten best turns.
func (c *conversation) recallAt10(scores []float64, evidence []string) float64 {
	turns := make([]int, len(scores))
	for i := range turns {
		turns[i] = i
	}
	slices.SortStableFunc(turns, func(x, y int) int { return cmp.Compare(scores[y], scores[x]) })
	found := 0
	for _, i := range turns[:min(10, len(turns))] {
		if slices.Contains(evidence, c.ids[i]) {
			found++
		}
	}
	return float64(found) / float64(len(evidence))
}

func readLocomo(t *testing.T) []conversation {
	t.Helper()
	b, err := os.ReadFile(realdata.Path(t, "locomo/locomo5.json"))
	if err != nil {
		t.Fatal(err)
	}
	var samples []struct {
		QA []struct {
			Question string   `json:"question"`
			Category int      `json:"category"`
			Evidence []string `json:"evidence"`
		} `json:"qa"`
		Conversation map[string]json.RawMessage `json:"conversation"`
	}
	if err := json.Unmarshal(b, &samples); err != nil {
		t.Fatal(err)
	}
	var all []conversation
	for _, s := range samples {
		c := readTurns(t, s.Conversation)
		for _, q := range s.QA {
			// Category 5 asks for what was never said.
			if evidence := c.evidence(q.Evidence); q.Category <= 4 && len(evidence) > 0 {
				c.questions = append(c.questions, question{text: q.Question, evidence: evidence})
			}
		}
		all = append(all, c)
	}
	return all
}

func readTurns(t *testing.T, raw map[string]json.RawMessage) conversation {
	t.Helper()
	var c conversation
	for session := 1; ; session++ {
		name := fmt.Sprintf("session_%d", session)
		if raw[name] == nil {
			return c
		}
		var turns []struct {
			Speaker string `json:"speaker"`
			ID      string `json:"dia_id"`
			Text    string `json:"text"`
			Caption string `json:"blip_caption"`
		}
		var date string
		if err := errors.Join(json.Unmarshal(raw[name], &turns), json.Unmarshal(raw[name+"_date_time"], &date)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, turn := range turns {
			c.ids = append(c.ids, turn.ID)
			c.texts = append(c.texts, turn.Speaker+": "+turn.Text+" "+turn.Caption+" "+date)
		}
	}
}

// turnID finds the ids in a list of evidence, some of which are misspelt or stand together in one string.
var turnID = regexp.MustCompile(`D:?(\d+):(\d+)`)

// evidence returns the ids of turns that exist, each once.
func (c *conversation) evidence(raw []string) []string {
	var ids []string
	for _, s := range raw {
		for _, m := range turnID.FindAllStringSubmatch(s, -1) {
			session, _ := strconv.Atoi(m[1])
			turn, _ := strconv.Atoi(m[2])
			id := fmt.Sprintf("D%d:%d", session, turn)
			if slices.Contains(c.ids, id) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
