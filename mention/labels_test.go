package mention

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/realdata"
)

// labelled are the names that conversations of LoCoMo speak of, by their hashes, and the types
// that each may have: testdata/labels.tsv has no word of the data set, whose terms forbid that.
func labelled(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open("testdata/labels.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	labels := map[string][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if cells := strings.Split(lines.Text(), "\t"); len(cells) == 3 {
			labels[cells[0]+" "+cells[1]] = strings.Split(cells[2], "|")
		}
	}
	return labels
}

func labelOf(conversation, name string) string {
	sum := sha256.Sum256([]byte(conversation + "\x00" + Fold(name)))
	return conversation + " " + hex.EncodeToString(sum[:])[:16]
}

// score is what of the names found in conversations is right.
type score struct{ found, names, types, labels, met int }

func (s score) precision() float64 { return float64(s.names) / float64(max(s.found, 1)) }
func (s score) typed() float64     { return float64(s.types) / float64(max(s.names, 1)) }
func (s score) recall() float64    { return float64(s.met) / float64(max(s.labels, 1)) }

// TestLabels holds the names that Rules finds in whole conversations, each name once a
// conversation, against those that a reader has listed. The rules were made by three of the
// conversations; the figures of the two others are those that count.
func TestLabels(t *testing.T) {
	b, err := os.ReadFile(realdata.Path(t, "locomo/locomo5.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		ID           string `json:"sample_id"`
		Conversation map[string]json.RawMessage
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	labels := labelled(t)
	for _, c := range []struct {
		which            string
		ids              []string
		precision, typed float64
		recall           float64
	}{
		{"tuned by", []string{"conv-26", "conv-30", "conv-41"}, .85, .8, .6},
		{"held out", []string{"conv-42", "conv-43"}, .85, .8, .6},
	} {
		var s score
		for _, conversation := range all {
			if slices.Contains(c.ids, conversation.ID) {
				s.count(t, conversation.ID, namesIn(t, conversation.Conversation), labels)
			}
		}
		t.Logf("%s: %d names, precision %.3f, types %.3f of those, recall %.3f of %d labels", c.which, s.found, s.precision(), s.typed(), s.recall(), s.labels)
		if s.precision() < c.precision || s.typed() < c.typed || s.recall() < c.recall {
			t.Errorf("%s: %+v", c.which, s)
		}
	}
}

// count compares the names of a conversation with its labels.
func (s *score) count(t *testing.T, conversation string, found map[string]string, labels map[string][]string) {
	for name, typ := range found {
		types := labels[labelOf(conversation, name)]
		s.found++
		switch {
		case types == nil:
			t.Logf("%s: %q (%s) is no name", conversation, name, typ)
			continue
		case slices.Contains(types, typ):
			s.types++
		default:
			t.Logf("%s: %q is %s, not %s", conversation, name, strings.Join(types, " or "), typ)
		}
		s.names++
	}
	for label := range labels {
		if strings.HasPrefix(label, conversation+" ") {
			s.labels++
		}
	}
	for name := range found {
		if labels[labelOf(conversation, name)] != nil {
			s.met++
		}
	}
}

// namesIn are the names in the turns of a conversation, with the type that the first turn with the
// name says: it is what a graph keeps.
func namesIn(t *testing.T, conversation map[string]json.RawMessage) map[string]string {
	found := map[string]string{}
	for session := 1; ; session++ {
		raw, ok := conversation[fmt.Sprint("session_", session)]
		if !ok {
			return found
		}
		var turns []struct{ Text string }
		if err := json.Unmarshal(raw, &turns); err != nil {
			t.Fatal(err)
		}
		for _, turn := range turns {
			f, err := Rules{}.Extract(t.Context(), turn.Text)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range f.Entities {
				if name := Fold(e.Name); found[name] == "" {
					found[name] = e.Type
				}
			}
		}
	}
}
