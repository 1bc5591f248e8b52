package engine

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// twoSpeakers stores a run of two speakers who say the same in turns.
func twoSpeakers(t testing.TB, db *DB, speakers ...string) {
	t.Helper()
	for i := range 12 {
		mustStore(t, db.Memories(), memory.Memory{
			ID: fmt.Sprint(speakers[i%len(speakers)], " ", i), Scope: memory.Scope{User: "u", Run: "r"}, Text: fmt.Sprint("I painted a lighthouse, and thing ", i),
			Metadata: map[string]any{"speaker": speakers[i%len(speakers)]},
		})
	}
}

// TestWhoIsAskedAbout: where a question names one speaker, others' turns count less; the plan
// says who it is, and a query can decline.
func TestWhoIsAskedAbout(t *testing.T) {
	open := func(speakers ...string) *DB {
		db := openTest(t, vfs.NewMem(), setup{Options: Options{IndexedText: []memory.IndexedField{{Field: "metadata.speaker"}}}})
		twoSpeakers(t, db, speakers...)
		return db
	}
	for _, c := range []struct {
		speakers []string
		question string
		want     string
	}{
		{[]string{"Anna", "Bo"}, "What did Anna paint, a lighthouse?", "Anna"},
		{[]string{"Anna", "Bo"}, "What did anna paint, a lighthouse?", "Anna"},
		{[]string{"Anna", "Bo"}, "Did Anna and Bo paint a lighthouse?", ""},
		{[]string{"Anna", "Bo"}, "Who painted a lighthouse?", ""},
		{[]string{"Anna", "Bo"}, "Bo's lighthouse", "Bo"},
		{[]string{"Anna Lee", "Bo"}, "Where is the lighthouse of Anna Lee?", "Anna Lee"},
		{[]string{"Ann", "Ann Lee"}, "Where is the lighthouse of Ann Lee?", "Ann Lee"},
		{[]string{"Will", "Bo"}, "Will the lighthouse be painted?", ""},
		{[]string{"Will", "Bo"}, "When did Will paint the lighthouse?", "Will"},
		{[]string{"May", "Bo"}, "Who painted the lighthouse in May?", ""},
		{[]string{"May", "Bo"}, "Who painted the lighthouse on May 3?", ""},
		{[]string{"May", "Bo"}, "What lighthouse has May painted?", "May"},
		{[]string{"张伟", "Bo"}, "lighthouse 张伟", "张伟"},
	} {
		db := open(c.speakers...)
		q := memory.Query{Scope: memory.Scope{User: "u"}, Text: c.question, Limit: 12, Explain: true, NoTouch: true, Ranking: policy.Ranking{AnySession: true}}
		result, err := db.Memories().Recall(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if result.Plan.Speaker != c.want {
			t.Errorf("%q among %q is about %q, want %q", c.question, c.speakers, result.Plan.Speaker, c.want)
		}
		q.Ranking.AnySpeaker = true
		all, err := db.Memories().Recall(t.Context(), q)
		if err != nil || all.Plan.Speaker != "" {
			t.Errorf("with AnySpeaker: %+v, %v", all.Plan, err)
		}
		before := map[string]float64{}
		for _, h := range all.Hits {
			before[h.ID] = h.Score
		}
		for _, h := range result.Hits {
			want := before[h.ID]
			if c.want != "" && h.Metadata["speaker"] != c.want {
				want *= policy.OtherSpeaker
			}
			if sum := h.Parts.BM25 + h.Parts.Neighbours; sum != h.Score || h.Score < want*(1-1e-9) || h.Score > want*(1+1e-9) {
				t.Errorf("%q: %s has %v of parts %v, want %v", c.question, h.ID, h.Score, sum, want)
			}
		}
	}
	bare := openTest(t, vfs.NewMem(), setup{})
	twoSpeakers(t, bare, "Anna", "Bo")
	if r, err := bare.Memories().Recall(t.Context(), memory.Query{Scope: memory.Scope{User: "u"}, Text: "Anna's lighthouse", Explain: true}); err != nil || r.Plan.Speaker != "" {
		t.Errorf("without an indexed speaker: %+v, %v", r.Plan, err)
	}
}
