package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

func TestWhose(t *testing.T) {
	for _, c := range []struct {
		line  string
		key   []memory.Scope
		want  scope.Owner
		named bool
	}{
		{"store tea --user ada", nil, scope.Owner{User: "ada"}, true},
		{"store --agent=planner --user=ada tea", nil, scope.Owner{User: "ada", Agent: "planner"}, true},
		{"recall tea --agent planner", nil, scope.Owner{Agent: "planner"}, false},
		{"store tea --agent planner", nil, scope.Owner{Agent: "planner"}, true},
		{"list --agent planner --user ''", nil, scope.Owner{Agent: "planner"}, true},
		{"kv put k 1 --agent planner", nil, scope.Owner{Agent: "planner"}, true},
		{"usage add --agent planner --model m", nil, scope.Owner{Agent: "planner"}, true},
		{"usage total --agent planner", nil, scope.Owner{Agent: "planner"}, false},
		{"user show ada", nil, scope.Owner{User: "ada"}, true},
		{"user list", nil, scope.Owner{}, false},
		{"stats", nil, scope.Owner{}, false},
		{"list --all-scopes", nil, scope.Owner{}, false},
		{`recall tea --user ada --scope '{"user":"bob"}'`, nil, scope.Owner{}, false},
		{"list", []memory.Scope{{User: "ada"}}, scope.Owner{User: "ada"}, true},
		{"list --user bob", []memory.Scope{{User: "ada"}}, scope.Owner{User: "ada"}, true}, // which is refused there
		{"list", []memory.Scope{{User: "ada"}, {User: "bob"}}, scope.Owner{}, false},
		{`recall tea --user ada --filter "role = user"`, nil, scope.Owner{User: "ada"}, true},
		{`list --user ada --filter "role ="`, nil, scope.Owner{}, false},
		{"nonsense --user ada", nil, scope.Owner{}, false},
		{"list --nonsense --user ada", nil, scope.Owner{}, false},
	} {
		if o, named := Whose(t.Context(), splitWords(t, c.line), c.key); named != c.named || named && o != c.want {
			t.Errorf("%s: %+v %v, want %+v %v", c.line, o, named, c.want, c.named)
		}
	}
}

func TestMerges(t *testing.T) {
	for line, want := range map[string]bool{
		"recall tea --all-scopes": true, `recall tea --agent planner --filter "role = user"`: true,
		"recall --queries a.jsonl --all-scopes": false, "list --all-scopes": true, "groups --by user --all-scopes": true, "stats": false, "recall tea --nonsense": false, "nonsense": false,
	} {
		if got := Merges(t.Context(), splitWords(t, line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// TestWhoseOfAll: the lines of the help are read, whatever flags they have.
func TestWhoseOfAll(t *testing.T) {
	seen := 0
	var read func(cmd *cobra.Command)
	read = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			args := splitWords(t, strings.TrimSpace(line))
			if len(args) < 2 || args[0] != "memdbctl" {
				continue
			}
			if _, ok := parsed(t.Context(), args[1:]); !ok && !strings.ContainsAny(line, "|<>") {
				t.Errorf("%s is not read", line)
			}
			Whose(t.Context(), args[1:], nil)
			seen++
		}
		for _, c := range cmd.Commands() {
			read(c)
		}
	}
	read((&app{console: console{getenv: func(string) string { return "" }}}).root())
	if seen < 100 {
		t.Errorf("%d lines", seen)
	}
}
