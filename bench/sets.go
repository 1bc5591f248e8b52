package main

import (
	"fmt"
	"io"
	"os"

	"github.com/seed-7aedc3ff/memdb/bench/data"
)

// showData is the verb: it lists the data sets, and what a folder has of them. It returns the
// exit code.
func showData(args []string, stdout, stderr io.Writer) int {
	folder := os.Getenv("MEMDB_DATA")
	switch len(args) {
	case 0:
	case 1:
		folder = args[0]
	default:
		fmt.Fprintln(stderr, "bench: usage: data [FOLDER]")
		return 2
	}
	if err := data.WriteTable(stdout, folder); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}
