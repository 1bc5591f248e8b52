package main

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "lower the limits of limits.json to the figures of the repository")

// TestLimits verifies that no figure of the repository grew, and that every limit is as low as its
// figure. Limits are lowered with -update, and raised by hand with a reason.
func TestLimits(t *testing.T) {
	limits, err := readLimits("limits.json")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := measure(root, true)
	if err != nil {
		t.Fatal(err)
	}
	found, err := tree.figures()
	if err != nil {
		t.Fatal(err)
	}
	faults, lowered := compare(limits, found)
	if *update {
		if err := writeLimits("limits.json", lowered); err != nil {
			t.Fatal(err)
		}
		faults, _ = compare(lowered, found)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// TestCompare verifies what is said of a figure that grew, fell, stayed, has no limit or is not
// measured, and that a limit is only lowered.
func TestCompare(t *testing.T) {
	faults, lowered := compare(
		[]limit{{Figure: "same", Limit: 1}, {Figure: "grown", Limit: 1}, {Figure: "fallen", Limit: 9, Aim: 2}, {Figure: "gone", Limit: 3}},
		map[string]figure{"same": {size: 1}, "grown": named([]string{"a", "b", "c"}), "fallen": {size: 5}, "new": {size: 7}},
	)
	want := []string{
		"grown: grew from 1 to 3, by 2: a, b, c",
		"fallen: fell from 9 to 5; lower the limit with -update",
		"gone: nothing measures this; delete the limit",
		"new: has no limit; add one",
	}
	if !slices.Equal(faults, want) {
		t.Errorf("faults:\n%s\nwant:\n%s", strings.Join(faults, "\n"), strings.Join(want, "\n"))
	}
	wantLimits := []limit{{Figure: "same", Limit: 1}, {Figure: "grown", Limit: 1}, {Figure: "fallen", Limit: 5, Aim: 2}, {Figure: "gone", Limit: 3}}
	if !slices.Equal(lowered, wantLimits) {
		t.Errorf("lowered: %v, want %v", lowered, wantLimits)
	}
	name := filepath.Join(t.TempDir(), "limits.json")
	if err := writeLimits(name, lowered); err != nil {
		t.Fatal(err)
	}
	if read, err := readLimits(name); err != nil || !slices.Equal(read, wantLimits) {
		t.Errorf("read back: %v, %v", read, err)
	}
}
