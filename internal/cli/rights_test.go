package cli

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

// TestRightsAreComplete verifies that each command that can be run has a right, and that the table of rights has no other
// command, and none of which the operation says the same.
func TestRightsAreComplete(t *testing.T) {
	root := (&app{console: console{getenv: func(string) string { return "" }}}).root()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	seen := []string{"__complete", "__completeNoDesc"} // which the library adds while it runs one
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		name := nameOf(cmd)
		seen = append(seen, name)
		if rightTo(name) == 0 {
			t.Errorf("%q is no operation, and not in the table of rights", name)
		}
		if names := namesVerbs(cmd) && rightTo(name) != OnClient; names && rightTo(name) != Anyone && cmd.Args(cmd, []string{"x"}) != nil {
			t.Errorf("%q only names other commands, and has the right %v", name, rightTo(name))
		}
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(root)
	for name, right := range rights {
		if rightOf(name) == right {
			t.Errorf("the table of rights has %q, of which the operation says the same", name)
		}
		if !slices.Contains(seen, name) {
			t.Errorf("the table of rights has %q, and there is no such command", name)
		}
	}
	for _, name := range slices.Concat(undoes, ofOwner) {
		if rightTo(name) == 0 {
			t.Errorf("there is no command %q", name)
		}
	}
	for _, list := range [][]string{beyondScope, beyondRun} {
		for _, name := range list {
			if !slices.ContainsFunc(seen, func(verb string) bool {
				cmd, _, err := root.Find(splitWords(t, verb))
				return err == nil && cmd.Flags().Lookup(name) != nil
			}) {
				t.Errorf("no command has --%s", name)
			}
		}
	}
}

func splitWords(t *testing.T, s string) []string {
	t.Helper()
	all, err := words(s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
