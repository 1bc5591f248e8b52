package exchange

import "testing"

// TestRepeated marks objects and last lines, and nothing else.
func TestRepeated(t *testing.T) {
	for _, c := range []struct{ answer, want string }{
		{`{"id":"a"}` + "\n", `{"id":"a","repeated":true}` + "\n"},
		{`{}`, `{"repeated":true}`},
		{"{\n  \"id\": \"a\"\n}\n", "{\n  \"id\": \"a\",\"repeated\":true\n}\n"},
		{`{"id":1}` + "\n" + `{"end":true}` + "\n", `{"id":1}` + "\n" + `{"end":true,"repeated":true}` + "\n"},
		{`{"id":"a","repeated":true}`, `{"id":"a","repeated":true}`},
		{`[{"id":"a"}]`, `[{"id":"a"}]`},
		{"stored a\n", "stored a\n"},
		{"", ""},
	} {
		if got := string(Repeated([]byte(c.answer))); got != c.want {
			t.Errorf("%q: %q, want %q", c.answer, got, c.want)
		}
	}
}
