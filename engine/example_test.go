package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

var (
	ctx = context.Background()
	ada = memory.Scope{User: "ada"}
)

// must ends an example that fails.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// inMemory is a database for an example, with memories of ada.
func inMemory(o *engine.Options, texts ...string) *engine.DB {
	db, err := engine.OpenMemory(o)
	must(err)
	for i, text := range texts {
		_, err := db.Memories().Store(ctx, memory.Memory{ID: fmt.Sprint("m", i+1), Scope: ada, Text: text}, nil)
		must(err)
	}
	return db
}

func Example() {
	dir, err := os.MkdirTemp("", "memdb")
	must(err)
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := engine.Open(filepath.Join(dir, "memories"), nil)
	must(err)
	defer db.Close()
	for _, text := range []string{"Prefers tea to coffee.", "Has a train to Ghent on Friday.", "Prefers tea to coffee."} {
		stored, err := db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: text}, nil)
		must(err)
		fmt.Println(stored.Stored, stored.Deduplicated)
	}
	found, err := db.Memories().Recall(ctx, memory.Query{Scope: ada, Text: "coffee or tea?", Limit: 1})
	must(err)
	for _, hit := range found.Hits {
		fmt.Println(hit.Text)
	}
	// Output:
	// true false
	// true false
	// false true
	// Prefers tea to coffee.
}

// All that an update did is taken back when its function returns an error.
func ExampleDB_Update() {
	db := inMemory(nil)
	defer db.Close()
	err := db.Update(ctx, func(tx *engine.Tx) error {
		m := tx.Memories()
		if _, err := m.Store(ctx, memory.Memory{ID: "drink", Scope: ada, Text: "Has switched to coffee."}, nil); err != nil {
			return err
		}
		return m.Delete(ctx, ada, "no such memory") // so nothing is stored
	})
	fmt.Println(err)
	_, err = db.Memories().Get(ctx, ada, "drink")
	fmt.Println(err, errors.Is(err, memory.ErrNotFound))
	// Output:
	// delete memory "no such memory": there is none in this scope; check the ID and the scope
	// get memory "drink": there is none in this scope; check the ID and the scope true
}

// A View reads one state, whatever is written beside it.
func ExampleDB_View() {
	db := inMemory(nil, "Drinks tea.")
	defer db.Close()
	must(db.View(ctx, func(tx *engine.Tx) error {
		_, err := db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: "Drinks milk."}, nil)
		must(err)
		n, err := tx.Memories().Count(ctx, memory.ListQuery{Scope: ada})
		fmt.Println(n)
		return err
	}))
	n, err := db.Memories().Count(ctx, memory.ListQuery{Scope: ada})
	fmt.Println(n, err)
	// Output:
	// 1
	// 2 <nil>
}

// With Retain, what was so can be read after it has changed.
func ExampleDB_ViewAt() {
	db := inMemory(&engine.Options{Retain: time.Hour}, "Drinks tea.")
	defer db.Close()
	before := db.LSN()
	text := "Drinks coffee."
	_, err := db.Memories().Update(ctx, ada, "m1", memory.Patch{Text: &text})
	must(err)
	must(db.ViewAt(ctx, before, func(tx *engine.Tx) error {
		m, err := tx.Memories().Get(ctx, ada, "m1")
		fmt.Println(m.Text)
		return err
	}))
	// Output:
	// Drinks tea.
}

// A filter chooses among the memories of the scope, before anything is ranked.
func ExampleMemories_Recall() {
	db := inMemory(nil)
	defer db.Close()
	for _, task := range []struct {
		text string
		due  int
	}{{"Send the report to Grace.", 3}, {"Send the invoice to Grace.", 9}, {"Water the plants.", 1}} {
		_, err := db.Memories().Store(ctx, memory.Memory{Scope: ada, Text: task.text, Metadata: map[string]any{"due": task.due}}, nil)
		must(err)
	}
	found, err := db.Memories().Recall(ctx, memory.Query{
		Scope: ada, Text: "what to send", Filter: filter.Lte("due", 5), Profile: memory.ProfileText, Highlight: true,
	})
	must(err)
	for _, hit := range found.Hits {
		fmt.Println(memory.Highlight(hit.Text, hit.Spans, "<", ">"))
	}
	// Output:
	// <Send> the report to Grace.
}

// Several scopes are searched as one.
func ExampleMemories_Recall_scopes() {
	db := inMemory(nil)
	defer db.Close()
	for _, user := range []string{"ada", "grace", "eve"} {
		_, err := db.Memories().Store(ctx, memory.Memory{Scope: memory.Scope{User: user}, Text: user + " drinks tea."}, nil)
		must(err)
	}
	found, err := db.Memories().Recall(ctx, memory.Query{Scopes: []memory.Scope{{User: "ada"}, {User: "grace"}}, Text: "tea"})
	must(err)
	for _, hit := range found.Hits {
		fmt.Println(hit.Text)
	}
	// Output:
	// ada drinks tea.
	// grace drinks tea.
}

func ExampleMemories_StoreBatch() {
	db := inMemory(nil)
	defer db.Close()
	stored, err := db.Memories().StoreBatch(ctx, []memory.Memory{
		{ID: "a", Scope: ada, Text: "Drinks tea."},
		{ID: "b", Scope: ada, Text: "Lives in Ghent.", Pinned: true},
	}, nil)
	must(err)
	for _, s := range stored {
		fmt.Println(s.ID, s.Seq, s.Stored)
	}
	// Output:
	// a 1 true
	// b 2 true
}

// MergeMetadata changes some keys of the metadata, and removes those that it gives as nil.
func ExampleMemories_Update() {
	db := inMemory(nil)
	defer db.Close()
	_, err := db.Memories().Store(ctx, memory.Memory{ID: "task", Scope: ada, Text: "Write the report.", Metadata: map[string]any{"state": "open", "draft": 1}}, nil)
	must(err)
	m, err := db.Memories().Update(ctx, ada, "task", memory.Patch{MergeMetadata: map[string]any{"state": "done", "draft": nil}})
	must(err)
	fmt.Println(m.Metadata)
	// Output:
	// map[state:done]
}

// A list goes on from page to page by its cursor; All does so by itself.
func ExampleMemories_List() {
	db := inMemory(nil, "one", "two", "three")
	defer db.Close()
	q := memory.ListQuery{Scope: ada, OrderBy: "id", Descending: true, Limit: 2}
	for {
		page, err := db.Memories().List(ctx, q)
		must(err)
		for _, m := range page.Memories {
			fmt.Println(m.Text)
		}
		fmt.Println()
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	// Output:
	// three
	// two
	//
	// one
	//
}

// The history of a memory stays readable when it is gone.
func ExampleMemories_History() {
	db := inMemory(nil, "Drinks tea.")
	defer db.Close()
	text := "Drinks coffee."
	_, err := db.Memories().Update(ctx, ada, "m1", memory.Patch{Text: &text})
	must(err)
	must(db.Memories().Delete(ctx, ada, "m1"))
	history, err := db.Memories().History(ctx, ada, "m1")
	must(err)
	for _, e := range history {
		if e.NewText != nil {
			fmt.Println(e.Event, *e.NewText)
		} else {
			fmt.Println(e.Event)
		}
	}
	// Output:
	// ADD Drinks tea.
	// UPDATE Drinks coffee.
	// DELETE
}

func ExampleMemories_Groups() {
	db := inMemory(nil)
	defer db.Close()
	for i, run := range []string{"monday", "monday", "tuesday"} {
		_, err := db.Memories().Store(ctx, memory.Memory{Scope: memory.Scope{User: "ada", Run: run}, Text: fmt.Sprint("turn ", i)}, nil)
		must(err)
	}
	sizes, err := db.Memories().Groups(ctx, memory.GroupQuery{Scope: ada, By: memory.GroupRun})
	must(err)
	for _, g := range sizes {
		fmt.Println(g.Run, g.Memories)
	}
	// Output:
	// monday 2
	// tuesday 1
}

// letters is an embedder, as a client of a model would be one: it counts letters.
type letters struct{}

func (letters) Dim() int      { return 26 }
func (letters) Model() string { return "letters-1" }

func (letters) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = make([]float32, 26)
		for _, r := range strings.ToLower(text) {
			if 'a' <= r && r <= 'z' {
				vectors[i][r-'a']++
			}
		}
	}
	return vectors, nil
}

// An embedder of your own makes the vectors of texts and queries.
func ExampleOptions_embedder() {
	db := inMemory(&engine.Options{Embedder: letters{}}, "listen", "coffee")
	defer db.Close()
	found, err := db.Memories().Recall(ctx, memory.Query{Scope: ada, Text: "silent", Profile: memory.ProfileVector, Limit: 1})
	must(err)
	fmt.Printf("%s %.2f\n", found.Hits[0].Text, found.Hits[0].Score)
	// Output:
	// listen 1.00
}

// A key can be put only where nobody has changed it since it was read.
func ExampleDB_KV() {
	db := inMemory(nil)
	defer db.Close()
	owner := memory.Owner{User: "ada"}
	first, err := db.KV().Put(ctx, owner, "cart", map[string]int{"tea": 2}, nil)
	must(err)
	_, err = db.KV().Put(ctx, owner, "cart", map[string]int{"tea": 3}, &entries.PutOptions{IfVersion: &first.Version})
	must(err)
	_, err = db.KV().Put(ctx, owner, "cart", map[string]int{"tea": 4}, &entries.PutOptions{IfVersion: &first.Version})
	fmt.Println(errors.Is(err, memory.ErrConflict))
	cart, err := db.KV().Get(ctx, owner, "cart")
	fmt.Println(string(cart.Value), err)
	// Output:
	// true
	// {"tea":3} <nil>
}

// A session has the messages of a conversation, in their order.
func ExampleDB_Sessions() {
	db := inMemory(nil)
	defer db.Close()
	owner := memory.Owner{User: "ada"}
	for _, text := range []string{"Do you want tea?", "yes", "With milk?", "yes"} {
		_, err := db.Sessions().Append(ctx, owner, "monday", []sessions.Message{{Role: "user", Text: text}}, nil)
		must(err)
	}
	window, err := db.Sessions().Load(ctx, owner, "monday", &sessions.Window{Last: 2})
	must(err)
	for _, m := range window.Messages {
		fmt.Println(m.Text)
	}
	// Output:
	// With milk?
	// yes
}

// Relations lead from entity to entity, and back by their inverse.
func ExampleDB_Graph() {
	db := inMemory(nil)
	defer db.Close()
	owner := memory.Owner{User: "ada"}
	_, err := db.Graph().Put(ctx, owner, graph.Entity{ID: "ada", Type: "person"}, []graph.Edge{{Type: "works_on", Target: "engine"}}, nil)
	must(err)
	_, err = db.Graph().Put(ctx, owner, graph.Entity{ID: "engine", Type: "project"}, nil, nil)
	must(err)
	walk, err := db.Graph().Find(ctx, owner, "engine", graph.FindOptions{Relation: "inverse:works_on"})
	must(err)
	for _, f := range walk.Found {
		fmt.Println(f.ID, f.Depth)
	}
	// Output:
	// ada 1
}

// An eviction says first what it would do.
func ExampleDB_Evict() {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	db := inMemory(&engine.Options{Clock: func() time.Time { return now }})
	defer db.Close()
	low, old := 0.1, now.AddDate(0, 0, -60)
	for _, m := range []memory.Memory{
		{ID: "weather", Scope: ada, Text: "It rains.", Importance: &low, CreatedAt: old},
		{ID: "allergy", Scope: ada, Text: "Must not eat nuts.", Importance: &low, CreatedAt: old, Pinned: true},
	} {
		_, err := db.Memories().Store(ctx, m, nil)
		must(err)
	}
	report, err := db.Evict(ctx, &engine.EvictOptions{DryRun: true, Visit: func(v engine.Victim) error {
		fmt.Println(v.ID, v.Reason)
		return nil
	}})
	must(err)
	fmt.Println(report.Evicted, report.DryRun)
	// Output:
	// weather age
	// 1 true
}
