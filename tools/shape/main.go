// Shape measures how Go trees are built: how large their packages, files, functions
// and structs are, how much they export, explain and branch. It prints a Markdown
// table with a column for each tree:
//
//	go -C tools run ./shape [-main DIR] [-nested] [-packages] [-over] [-types engine.DB,engine.Tx] [DIR...]
//
// Without a DIR it measures the tree around tools. -packages prints a row for each package, too,
// -over names the functions that are too complex or too long, and -types counts the functions and
// structs that use some types of a package. Tests, generated files, vendor,
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
	packages := flags.Bool("packages", false, "print files, code lines, circle of files and most fields of each package, too")
	over := flags.Bool("over", false, "print the functions that are too complex or too long, too")
	types := flags.String("types", "", "count what uses these types, given as FOLDER.TYPE and separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dirs := flags.Args()
	if len(dirs) == 0 {
		dirs = []string{".."}
	}
	names, columns := []string{""}, [][]string{rows}
	var trees []*tree
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
		trees = append(trees, t)
	}
	printTable(out, names, columns)
	for i, t := range trees {
		if err := t.print(out, names[i+1], *packages, *over, *types); err != nil {
			return err
		}
	}
	return nil
}

// print prints what was asked for about one tree.
func (t *tree) print(out io.Writer, name string, packages, over bool, types string) error {
	if packages {
		columns, err := t.packageColumns()
		if err != nil {
			return err
		}
		fmt.Fprintln(out)
		printTable(out, []string{name, "files", "code lines", "largest circle of files", "most fields by value"}, columns)
	}
	if over {
		fmt.Fprintf(out, "\n%s: functions with cyclomatic > %d: %s\n", name, farTooComplex, strings.Join(t.farTooComplex, ", "))
		fmt.Fprintf(out, "%s: functions with > %d lines: %s\n", name, tooLong, strings.Join(t.tooLong, ", "))
	}
	if types != "" {
		u, err := t.uses(strings.Split(types, ",")...)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s: %d functions have a pointer to one of %s as receiver or parameter, %d structs hold one; fields by value: %v\n",
			name, u.functions, types, u.holders, u.fields)
	}
	return nil
}

// packageColumns returns a row for each package, as columns.
func (t *tree) packageColumns() ([][]string, error) {
	columns := make([][]string, 5)
	for _, dir := range t.dirs() {
		p := t.pkgs[dir]
		circle, err := t.circle(dir)
		if err != nil {
			return nil, err
		}
		for i, cell := range []any{dir, p.files, p.codes, len(circle), p.mostByValue()} {
			columns[i] = append(columns[i], fmt.Sprint(cell))
		}
	}
	return columns, nil
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
