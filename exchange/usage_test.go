package exchange

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// importUsage imports lines, and counts the calls that the database has then.
func importUsage(t *testing.T, db *engine.DB, lines []string) (calls int64, r Report) {
	t.Helper()
	r = importString(t, db, strings.Join(lines, "\n")+"\n", nil)
	s, err := db.Usage().Total(t.Context(), usage.Query{})
	testdb.NoError(t, err)
	return s.Records, r
}

// TestImportUsageTwice imports files of random records without numbers, many of them the same, again and
// again, grown, after a roll-up, and by way of an export: each record counts once.
func TestImportUsageTwice(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var lines []string
	for range 200 {
		lines = append(lines, fmt.Sprintf(`{"type":"usage","user":"u%d","model":"m%d","prompt_tokens":%d,"cost_usd":"0.1","timestamp":%d}`,
			rng.IntN(2), rng.IntN(2), rng.IntN(2), 1767225600+rng.IntN(3)*86400))
	}
	db := testdb.New(t, engine.Options{})
	half := lines[:100]
	for _, c := range []struct {
		what   string
		lines  []string
		stored int
	}{
		{"the first half", half, 100},
		{"again", half, 0},
		{"a file that has grown", lines, 100},
		{"again", lines, 0},
		{"in another order", shuffled(rng, lines), 0},
	} {
		if calls, r := importUsage(t, db, c.lines); r.Stored != c.stored || r.Unchanged != len(c.lines)-c.stored || calls != int64(max(len(c.lines), 100)) {
			t.Fatalf("%s: %d calls, %+v", c.what, calls, r)
		}
	}
	testdb.Check(t, db, 0)

	// A copy by an export knows the lines of the file, too.
	exported := testdb.Lines(t, db, memory.Scope{})
	copied := testdb.New(t, engine.Options{})
	if calls, r := importUsage(t, copied, exported); calls != 200 || r.Stored != 200 {
		t.Fatalf("the export: %d calls, %+v", calls, r)
	}
	for _, of := range [][]string{exported, lines} {
		if calls, r := importUsage(t, copied, of); calls != 200 || r.Stored != 0 || r.Unchanged != 200 {
			t.Fatalf("again into the copy: %d calls, %+v", calls, r)
		}
	}
	testdb.Equal(t, "exported again", testdb.Lines(t, copied, memory.Scope{}), exported)
	testdb.Check(t, copied, 0)

	// The file before its export: the records have other numbers, and are the same.
	mixed := testdb.New(t, engine.Options{})
	importUsage(t, mixed, lines[100:])
	if calls, r := importUsage(t, mixed, exported); calls != 200 || r.Stored != 100 {
		t.Fatalf("the export after half of the file: %d calls, %+v", calls, r)
	}

	for _, user := range []string{"u0", "u1"} {
		testdb.NoError(t, db.Usage().RollUp(t.Context(), memory.Owner{User: user}, time.Unix(1767225600+2*86400, 0)))
	}
	if calls, r := importUsage(t, db, lines); calls != 200 || r.Unchanged != 200 {
		t.Errorf("after a roll-up: %d calls, %+v", calls, r)
	}
	// Numbered records may be part of a roll-up, and are refused.
	numbered := make([]string, len(exported))
	for i, l := range exported {
		before, _, _ := strings.Cut(l, `,"occurrence"`)
		numbered[i] = before + "}"
	}
	if calls, r := importUsage(t, db, numbered); calls != 200 || r.Stored != 0 || r.Skipped == 0 {
		t.Errorf("records with numbers after a roll-up: %d calls, %+v", calls, r)
	}
	testdb.Check(t, db, 0)
}

func shuffled(rng *rand.Rand, lines []string) []string {
	lines = slices.Clone(lines)
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return lines
}

// TestImportUsageRefuses verifies that what cannot be counted is an error of its line, and the others
// are stored.
func TestImportUsageRefuses(t *testing.T) {
	db := testdb.New(t, engine.Options{})
	const head = `{"type":"usage","agent":"b","model":"m","prompt_tokens":100,"completion_tokens":10,`
	for _, c := range []struct{ rest, why string }{
		{`"total_tokens":150,"cost_usd":1.5e-7,"timestamp":"2026-01-01T00:00:00Z"}`, ""},
		{`"cost_usd":"0.1","timestamp":1767225600}`, ""},
		{`"cost_usd":null,"timestamp":1767225600}`, ""},
		{`"total_tokens":50,"timestamp":1767225600}`, "its total is 50 tokens, prompt and completion are 110"},
		{`"total_tokens":-1,"timestamp":1767225600}`, "-1 total tokens"},
		{`"cost_usd":-1,"timestamp":1767225600}`, "-1"},
		{`"cost_usd":"a lot","timestamp":1767225600}`, "a lot"},
		{`"cost_usd":0}`, "has no timestamp"},
	} {
		_, r := importUsage(t, db, []string{head + c.rest})
		if c.why == "" && r.Stored != 1 {
			t.Errorf("%s: %+v", c.rest, r)
		}
		if c.why != "" && (r.Skipped != 1 || len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Error(), c.why)) {
			t.Errorf("%s: %+v, want %s", c.rest, r, c.why)
		}
	}
}
