package cli

import (
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// A shell completes users, agents, runs, IDs and names from the database.
func TestCompleteWords(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "Tea at four, and a text that goes on for much longer than that.", "--id", "tea", "--user", "ada", "--agent", "planner")
	c.ok("store", "Milk.", "--id", "milk", "--user", "bob", "--run", "monday")
	c.ok("store", "Hello", "--agent", "planner", "--session", "s-1")
	c.ok("note", "add", "deploys", "Never on Fridays.", "--agent", "planner")
	c.ok("kv", "put", "colour", `"red"`, "--agent", "planner")
	c.in = strings.NewReader(`{"id":"e-1","entity_type":"person","name":"Ilse"}`)
	c.ok("graph", "add", "-", "--agent", "planner")
	offered := func(args ...string) (words []string) {
		r := c.run(append([]string{"__complete"}, args...)...)
		for line := range strings.Lines(r.out) {
			if !strings.HasPrefix(line, ":") {
				words = append(words, strings.TrimSuffix(line, "\n"))
			}
		}
		return words
	}
	for _, test := range []struct{ args, want string }{
		{"list --user ", "ada\t1 memory|bob\t1 memory"},
		{"list --user b", "bob\t1 memory"},
		{"recall --run ", "s-1\t1 memory|monday\t1 memory"},
		{"get t", "tea\tTea at four, and a text that goes on fo…"},
		{"get --user bob ", "milk\tMilk."},
		{"session show --agent planner ", "s-1\t1 message"},
		{"note get --agent planner d", "deploys\tNever on Fridays."},
		{"kv get --agent planner c", "colour\t\"red\""},
		{"graph get --agent planner ", "e-1\tIlse"},
		{"get nobody", ""},
	} {
		if got := strings.Join(offered(strings.Split(test.args, " ")...), "|"); got != test.want {
			t.Errorf("%s: %q, want %q", test.args, got, test.want)
		}
	}
	if got := offered("agent", "get", ""); len(got) != 1 || !strings.HasPrefix(got[0], "planner\t") {
		t.Errorf("agents: %q", got)
	}
	// One that another program holds offers nothing, at once.
	db, err := engine.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := offered("get", ""); len(got) > 0 {
		t.Errorf("of a database that is held: %q", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c.dir = t.TempDir()
	if got := offered("list", "--user", ""); len(got) > 0 {
		t.Errorf("without a database: %q", got)
	}
}
