package main

import (
	"fmt"
	"io"
	"os"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
)

// compare sets two reports side by side. It returns the exit code: 1 where a row became slower,
// 2 where there is nothing to compare.
func compare(files []string, stdout, stderr io.Writer) int {
	if len(files) != 2 {
		fmt.Fprintln(stderr, "bench: usage: compare OLD.json NEW.json")
		return 2
	}
	var reports [2]*harness.Report
	for i, name := range files {
		r, err := readReport(name)
		if err != nil {
			fmt.Fprintf(stderr, "bench: reading %s: %v\n", name, err)
			return 2
		}
		reports[i] = r
	}
	rows := harness.Compare(reports[0], reports[1])
	if err := harness.WriteComparison(stdout, reports[0], reports[1], rows); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	count := map[harness.Verdict]int{}
	for _, r := range rows {
		count[r.Verdict]++
	}
	fmt.Fprintf(stdout, "%d rows: %d slower, %d faster, %d missing in the new report, %d with fewer than three rounds or none that counts\n",
		len(rows), count[harness.Slower], count[harness.Faster], count[harness.Gone], count[harness.Unknown])
	switch {
	case count[harness.Slower] > 0:
		return 1
	case len(rows) == count[harness.Gone]+count[harness.Unknown]:
		fmt.Fprintln(stderr, "bench: no row of the reports can be compared: measure the same workloads, three rounds or more")
		return 2
	}
	return 0
}

func readReport(name string) (*harness.Report, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // Nothing was written.
	return harness.ReadReport(file)
}
