package facts_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// must ends an example that fails.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// scripted stands for a provider's client: it knows about moving.
type scripted struct{}

func (scripted) Model() string { return "scripted" }

func (scripted) Generate(_ context.Context, r llm.Request) (llm.Reply, error) {
	asked := r.Messages[len(r.Messages)-1].Text
	switch {
	case strings.HasPrefix(asked, "New fact: ") && strings.Contains(asked, "- ID: 1, Text: User lives in "):
		return llm.Reply{Text: `[{"event": "UPDATE", "id": "1", "data": "User lives in Ghent"}]`}, nil
	case strings.HasPrefix(asked, "New fact: "):
		return llm.Reply{Text: `[{"event": "ADD"}]`}, nil
	case strings.Contains(asked, "moved"):
		return llm.Reply{Text: `["User moved to Ghent"]`}, nil
	}
	return llm.Reply{Text: `["User lives in Antwerp", "User prefers tea"]`}, nil
}

func Example() {
	ctx, ada := context.Background(), scope.Scope{User: "ada"}
	db, err := engine.OpenMemory(nil)
	must(err)
	defer db.Close()
	f, err := facts.New(&facts.Config{DB: db, LLM: scripted{}})
	must(err)

	for _, said := range []string{"I live in Antwerp, and tea is what I drink.", "We have moved to Ghent!"} {
		added, err := f.Add(ctx, ada, facts.Text(said), nil)
		must(err)
		for _, r := range added.Results {
			fmt.Println(r.Event, r.Memory)
		}
	}
	found, err := f.Search(ctx, ada, "Ghent", &facts.SearchOptions{Limit: 1})
	must(err)
	history, err := f.History(ctx, ada, found.Results[0].ID)
	must(err)
	for _, r := range history {
		fmt.Println(r.Event, *r.NewValue)
	}
	// Output:
	// ADD User lives in Antwerp
	// ADD User prefers tea
	// UPDATE User lives in Ghent
	// ADD User lives in Antwerp
	// UPDATE User lives in Ghent
}

// Without a model the messages are the facts, each once, and the answer says so.
func ExampleNew_withoutModel() {
	ctx, ada := context.Background(), scope.Scope{User: "ada"}
	f, err := facts.New(&facts.Config{})
	must(err)
	defer f.Close()
	for _, said := range []string{"Hello!", "I prefer tea.", "I prefer tea."} {
		added, err := f.Add(ctx, ada, facts.Text(said), nil)
		must(err)
		fmt.Println(len(added.Results), added.Degraded[0].Step)
	}
	all, err := f.GetAll(ctx, ada, nil)
	must(err)
	fmt.Println(len(all.Results), all.Results[0].Memory, all.Results[0].Hash)
	// Output:
	// 0 llm
	// 1 llm
	// 1 llm
	// 1 I prefer tea. 089303771486f7c6590c8994a3dde52a
}
