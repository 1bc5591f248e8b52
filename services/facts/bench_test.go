package facts_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// BenchmarkAdd adds a fact to 10,000 others, with a model that answers at once: what an add takes
// beyond its model. The database is on disk.
func BenchmarkAdd(b *testing.B) {
	db, err := engine.Open(filepath.Join(b.TempDir(), "db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	raw := open(b, facts.Config{DB: db})
	for i := 0; i < 10_000; i += 1_000 {
		m := make(facts.Messages, 1_000)
		for j := range m {
			m[j] = facts.Message{Role: llm.User, Content: fmt.Sprintf("customer%d ordered item%d in city%d", i+j, (i+j)%997, (i+j)%31)}
		}
		addWith(b, raw, alice, m, nil)
	}
	f := open(b, facts.Config{DB: db, LLM: &model{}})
	n := 0
	for b.Loop() {
		n++
		if a := add(b, f, alice, fmt.Sprintf("visitor%d saw item%d", n, n%997)); len(a.Results) != 1 {
			b.Fatalf("%+v", a)
		}
	}
}
