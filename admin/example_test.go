package admin_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7aedc3ff/memdb/admin"
	"github.com/seed-7aedc3ff/memdb/engine"
)

// A program that has a database open for long lets memdbctl in: while it runs,
// memdbctl --db agent.data list works on the database that is open.
func ExampleServe() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }() // a folder of the example
	db, err := engine.Open(filepath.Join(dir, "agent.data"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := admin.Serve(db, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("listening at", filepath.Base(server.Path()))
	// … the program does its work …
	if err := server.Close(); err != nil { // before the database
		fmt.Println(err)
	}
	if err := db.Close(); err != nil {
		fmt.Println(err)
	}
	// Output: listening at memdb.sock
}
