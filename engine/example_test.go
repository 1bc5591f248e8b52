package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// temporary is a folder for an example's database.
func temporary() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "memdb")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "memories"), func() { _ = os.RemoveAll(dir) }
}

func Example() {
	dir, remove := temporary()
	defer remove()
	ctx, ada := context.Background(), engine.Scope{User: "ada"}
	db, err := engine.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, text := range []string{"Prefers tea to coffee.", "Has a train to Ghent on Friday.", "Prefers tea to coffee."} {
		stored, err := db.Memories().Store(ctx, engine.Memory{Scope: ada, Text: text}, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(stored.Stored, stored.Deduplicated)
	}
	found, err := db.Memories().Recall(ctx, engine.Query{Scope: ada, Text: "coffee or tea?", Limit: 1})
	if err != nil {
		log.Fatal(err)
	}
	for _, hit := range found.Hits {
		fmt.Println(hit.Text)
	}
	// Output:
	// true false
	// true false
	// false true
	// Prefers tea to coffee.
}

func ExampleDB_Update() {
	dir, remove := temporary()
	defer remove()
	ctx, ada := context.Background(), engine.Scope{User: "ada"}
	db, err := engine.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Update(ctx, func(tx *engine.Tx) error {
		m := tx.Memories()
		if _, err := m.Store(ctx, engine.Memory{ID: "drink", Scope: ada, Text: "Has switched to coffee."}, nil); err != nil {
			return err
		}
		return m.Delete(ctx, ada, "no such memory") // so nothing is stored
	})
	fmt.Println(err)
	_, err = db.Memories().Get(ctx, ada, "drink")
	fmt.Println(err)
	// Output:
	// delete memory "no such memory": there is none in this scope; check the ID and the scope
	// get memory "drink": there is none in this scope; check the ID and the scope
}
