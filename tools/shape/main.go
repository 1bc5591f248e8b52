// Shape measures how Go trees are built: how large their packages, files, functions
// and structs are, how much they export, explain and branch. It prints a Markdown
// table with a column for each tree:
//
//	go -C tools run ./shape [-main DIR] [-nested] [DIR...]
//
// Without a DIR it measures the tree around tools. Tests, generated files, vendor,
// testdata and hidden folders are left out, and nested modules unless -nested is given.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

// run is the command with its arguments.
func run(args []string, out, help io.Writer) error {
	flags := flag.NewFlagSet("shape", flag.ContinueOnError)
	flags.SetOutput(help)
	mainDir := flags.String("main", "", "folder of the main package within each tree (default: of the packages in ./engine the one that exports most, else the root)")
	nested := flags.Bool("nested", false, "measure nested modules, too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dirs := flags.Args()
	if len(dirs) == 0 {
		dirs = []string{".."}
	}
	names, columns := []string{""}, [][]string{rows}
	for _, dir := range dirs {
		full, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		t, err := measure(full, *nested)
		if err != nil {
			return err
		}
		column, err := t.column(filepath.ToSlash(filepath.Clean(*mainDir)), *mainDir != "")
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		names, columns = append(names, filepath.Base(full)), append(columns, column)
	}
	printTable(out, names, columns)
	return nil
}

// printTable prints columns of as many cells as there are rows.
func printTable(out io.Writer, names []string, columns [][]string) {
	fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for i := range columns[0] {
		cells := make([]string, len(columns))
		for n, c := range columns {
			cells[n] = c[i]
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
}
