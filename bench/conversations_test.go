package main

import (
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
)

// TestParseTalks verifies what is read of a file: sessions in the order of their numbers, dates,
// pictures, and evidence with slips of the pen.
func TestParseTalks(t *testing.T) {
	text, err := os.ReadFile("testdata/locomo.json")
	if err != nil {
		t.Fatal(err)
	}
	may := time.Date(2023, 5, 8, 13, 56, 0, 0, time.UTC)
	want := []*conversation{
		{
			ID: "talk-1", Speakers: [2]string{"Ilse", "Bram"},
			Turns: []turn{
				{"talk-1/D1:1", "session_1", "Ilse", "The kiln arrived this morning.", "", may},
				{"talk-1/D1:2", "session_1", "Bram", "Look at mine!", "a photo of a blue kiln", may},
				{"talk-1/D2:1", "session_2", "Ilse", "I fired forty tiles.", "", time.Date(2023, 9, 13, 0, 9, 0, 0, time.UTC)},
				{"talk-1/D10:1", "session_10", "Bram", "Happy new year.", "", time.Date(2024, 1, 1, 12, 30, 0, 0, time.UTC)},
			},
			Questions: []question{
				{"When did the kiln arrive?", 2, []string{"talk-1/D1:1"}},
				{"What did they make?", 1, []string{"talk-1/D1:2", "talk-1/D2:1", "talk-1/D10:1"}},
				{"Who flew?", 5, nil},
			},
		},
		{
			ID: "talk-2", Speakers: [2]string{"Noor", "Piet"},
			Turns: []turn{{"talk-2/D1:1", "session_1", "Noor", "The kiln arrived this morning.", "", time.Time{}}},
		},
	}
	if got, err := parseTalks(text); err != nil || !reflect.DeepEqual(got, want) {
		for i := range got {
			t.Errorf("got  %+v", *got[i])
		}
		t.Errorf("error %v", err)
	}
	for _, bad := range []string{"", "{}", "[7]", `[{"sample_id":"s","conversation":{"session_1":{}}}]`, `[{"conversation":{"session_1_date_time":"May 8","session_1":[]}}]`} {
		if got, err := parseTalks([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

// TestRealTalks verifies the numbers of the real conversations, which were counted apart from this
// code.
func TestRealTalks(t *testing.T) {
	talks, err := readTalks(&harness.Env{Data: os.Getenv("MEMDB_DATA")})
	if errors.Is(err, harness.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	turns, questions, judged := 0, 0, 0
	for _, c := range talks {
		turns += len(c.Turns)
		for _, q := range c.Questions {
			if q.Category != 5 {
				questions++
				if len(q.Evidence) > 0 {
					judged++
				}
			}
		}
	}
	if turns != 2760 || questions != 762 || judged != 760 {
		t.Errorf("%d turns, %d questions of the categories 1 to 4, %d with evidence", turns, questions, judged)
	}
}
