package cli

import (
	"strings"
	"testing"
)

// TestDeleteNothing verifies that a command that deletes what is not there ends with exit code 3, also
// the second time, and beside a program that serves the database.
func TestDeleteNothing(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--user", "ada", "--agent", "coach", "--id", "m1")
	c.ok("graph", "add", `{"id":"tea","entity_type":"drink"}`, "--user", "ada", "--agent", "coach")
	for _, args := range []string{
		"delete nothing --user ada",
		"kv delete nothing --user ada",
		"note remove nothing --user ada",
		"session delete nothing --user ada",
		"graph delete nothing --user ada",
		"graph link tea m1 --remove --user ada --agent coach",
		"graph end nothing likes tea --user ada --agent coach",
		"graph unmerge nothing --user ada",
		"usage budget remove --per day --user ada",
		"fact delete nothing",
		"agent delete nobody --yes",
		"user delete nobody --yes",
	} {
		r := c.run(strings.Fields(args)...)
		if r.code != exitNotFound || r.out != "" || !strings.Contains(r.err, ";") {
			t.Errorf("%s: exit %d, %s%s", args, r.code, r.out, r.err)
		}
	}
	c.ok("agent", "add", "idle")
	for _, args := range []string{"agent delete idle --yes", "agent delete coach --yes"} {
		c.ok(strings.Fields(args)...)
		if r := c.run(strings.Fields(args)...); r.code != exitNotFound {
			t.Errorf("%s again: exit %d, %s%s", args, r.code, r.out, r.err)
		}
	}
}
