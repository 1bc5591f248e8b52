package cli

import (
	"strings"
	"testing"
)

// TestUnknownField verifies that a field which no memory of the scope has is warned of, with the
// nearest name that the scope knows, and that the query is answered all the same.
func TestUnknownField(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "tea", "--user", "ada", "--metadata", `{"priority":3,"deep":{"inner":1}}`)
	c.ok("store", "rum", "--user", "bob", "--metadata", `{"secret":3}`)
	for _, test := range []struct{ args, want string }{
		{"list --user ada --filter priorty=3", `no memory has the field "priorty"; did you mean "priority"?`},
		{"list --user ada --order-by createdat", `no memory has the field "createdat"; did you mean "created_at"?`},
		{"list --user ada --count --filter importence>0.5", `did you mean "importance"?`},
		{"recall tea --user ada --filter priorty=3", `did you mean "priority"?`},
		{"list --all-scopes --filter secrt=3", `did you mean "secret"?`},
		{"list --user ada --filter secrt=3", `no memory has the field "secrt"` + "\n"}, // which is bob's
		{"list --user ada --filter zzzzzzzz=3", `no memory has the field "zzzzzzzz"` + "\n"},
		{"delete --all --user ada --filter priorty=3", `did you mean "priority"?`},
		{"export - --user ada --filter priorty=3", `did you mean "priority"?`},
		{"list --user ada --filter priority=3 --order-by seq", ""},
		{"list --user ada --filter deep.inner=1", ""},
		{"list --user ada --filter metadata.priority=3 --order-by user_id", ""},
		{"list --user nobody --filter priorty=3", ""},
		{"list --user ada --filter priorty=3 --quiet", ""},
	} {
		r := c.run(strings.Fields(test.args)...)
		if r.code != exitDone && r.code != exitNotFound || test.want == "" && strings.Contains(r.err, "has the field") || !strings.Contains(r.err, test.want) {
			t.Errorf("%s: exit %d, %q, want %q", test.args, r.code, r.err, test.want)
		}
	}
	hits := c.objects("recall", "tea", "--user", "ada", "--explain", "--filter", "priorty=3 or priority=3")
	if said, _ := hits[len(hits)-1]["warnings"].([]any); len(said) != 1 {
		t.Errorf("the last line: %v", hits[len(hits)-1])
	}
}

// TestOwnersOfRows verifies that lists over several scopes show whose a row is.
func TestOwnersOfRows(t *testing.T) {
	c := newCLI(t)
	c.ok("store", "green tea", "--user", "ada", "--agent", "coach", "--id", "a")
	c.ok("store", "black tea", "--user", "bob", "--run", "monday", "--id", "b")
	if got, want := c.ok("list", "--all-scopes"), "1\ta\tada\tcoach\t\tuser\tgreen tea\n2\tb\tbob\t\tmonday\tuser\tblack tea\n"; got != want {
		t.Errorf("a list: %q", got)
	}
	if got := c.ok("recall", "tea", "--all-scopes"); !strings.Contains(got, "\ta\tada\tcoach\t\tgreen tea\n") {
		t.Errorf("a recall: %q", got)
	}
	if got := c.ok("list", "--user", "ada"); got != "1\ta\tuser\tgreen tea\n" {
		t.Errorf("a list of one user: %q", got)
	}
	c.ok("store", "white tea", "--user", "ada", "--agent", "planner", "--id", "c")
	c.outWidth = 100
	if got := c.ok("list", "--user", "ada"); !strings.HasPrefix(got, "SEQ  ID  AGENT    ROLE  TEXT\n") {
		t.Errorf("a table of one user with two agents:\n%s", got)
	}
	if got := c.ok("list", "--user", "bob"); !strings.HasPrefix(got, "SEQ  ID  ROLE  TEXT\n") {
		t.Errorf("a table of one owner:\n%s", got)
	}
	if got := c.ok("list", "--all-scopes"); !strings.HasPrefix(got, "SEQ  ID  USER  AGENT    RUN     ROLE  TEXT\n") {
		t.Errorf("a table of everyone:\n%s", got)
	}
}
