package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// TestForms: the JSON and the short text give the same
func TestForms(t *testing.T) {
	for _, c := range []struct {
		json, text string
		want       Filter
	}{
		{`{"field":"role","operator":"eq","value":"user"}`, `role = user`, Eq("role", "user")},
		{`{"field":"role","op":"ne","value":"user"}`, `role != "user"`, Ne("role", "user")},
		{`{"field":"n","op":"gte","value":3}`, `n >= 3`, Gte("n", json.Number("3"))},
		{`{"field":"n","op":"lt","value":-2.5}`, `n<-2.5`, Lt("n", json.Number("-2.5"))},
		{`{"field":"created_at","op":"gt","value":"2026-01-31"}`, `created_at > 2026-01-31`, Gt("created_at", "2026-01-31")},
		{`{"field":"ok","op":"eq","value":true}`, `ok = true`, Eq("ok", true)},
		{`{"field":"ok","op":"eq","value":"true"}`, `ok = "true"`, Eq("ok", "true")},
		{`{"field":"x","op":"eq","value":null}`, `x = null`, Eq("x", nil)},
		{`{"field":"tag","op":"in","value":["a","b c"]}`, `tag in (a, 'b c')`, In("tag", "a", "b c")},
		{`{"field":"tag","op":"nin","value":[]}`, `tag nin ()`, Nin("tag")},
		{`{"field":"tag","op":"nin","value":["a",1]}`, `tag NOT in (a, 1)`, Nin("tag", "a", json.Number("1"))},
		{`{"field":"tag","op":"contains","value":1}`, `tag contains 1`, Contains("tag", json.Number("1"))},
		{`{"field":"tag","op":"icontains","value":"1"}`, `tag icontains 1`, IContains("tag", "1")},
		{`{"field":"tag","op":"in","value":["a",")"]}`, `tag in (a, ")")`, In("tag", "a", ")")},
		{`{"field":"text","op":"contains","value":"a \"b\""}`, `text contains "a \"b\""`, Contains("text", `a "b"`)},
		{
			`{"AND":[{"field":"a","op":"eq","value":1},{"OR":[{"field":"b","op":"eq","value":2},{"NOT":{"field":"c","op":"icontains","value":"x"}}]}]}`,
			`a = 1 and (b = 2 or not c icontains x)`,
			And(Eq("a", json.Number("1")), Or(Eq("b", json.Number("2")), Not(IContains("c", "x")))),
		},
		{
			`{"OR":[{"AND":[{"field":"a","op":"eq","value":1},{"field":"b","op":"eq","value":2}]},{"field":"c","op":"eq","value":3}]}`,
			`a = 1 AND b = 2 OR c = 3`,
			Or(And(Eq("a", json.Number("1")), Eq("b", json.Number("2"))), Eq("c", json.Number("3"))),
		},
	} {
		for _, form := range []string{c.json, c.text} {
			got, err := Parse(t.Context(), []byte(form))
			if err != nil {
				t.Errorf("%s: %v", form, err)
				continue
			}
			if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", c.want) {
				t.Errorf("%s is %#v, want %#v", form, got, c.want)
			}
		}
	}
}

// FuzzParse: whatever is typed is a filter or an error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`role = user`, `{"AND":[]}`, `not not (a in (1,2))`, `a = "`, `((`, "a \xff b", `a contains 'x\'y'`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := Parse(t.Context(), []byte(s))
		if (g == nil) == (err == nil) {
			t.Errorf("%q: %v, %v", s, g, err)
		}
	})
}

// TestUnknownOperator: the error lists the operators that there are, in each form.
func TestUnknownOperator(t *testing.T) {
	for _, form := range []string{
		`{"field":"tag","operator":"like","value":"w"}`, `{"NOT":{"field":"tag","op":"like","value":"w"}}`,
		`tag like w`, `n = 1 and tag like (a)`, `tag ~ w`,
	} {
		_, err := Parse(t.Context(), []byte(form))
		if !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", form, err)
			continue
		}
		for _, name := range opNames {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v does not name %s", form, err, name)
			}
		}
	}
}

// TestBadFilters: an error says what is wrong and what exists.
func TestBadFilters(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"AND":[`, n) + strings.Repeat(`]}`, n) }
	for _, c := range []struct{ form, says string }{
		{`{"field":"role","operator":"like","value":"user"}`, "icontains"},
		{`role like user`, "icontains"},
		{`{"field":"role","operator":"eq"}`, "value"},
		{`{"operator":"eq","value":1}`, "field"},
		{`{"field":"role","operator":"in","value":"user"}`, "list"},
		{`{"field":"role","operator":"eq","value":{"a":1}}`, "role"},
		{`{"field":"role","AND":[]}`, "nest"},
		{`{"fields":"role"}`, "fields"},
		{`{"AND":[null]}`, "field"},
		{`{"AND":[1]}`, "a condition is a number, not an object"},
		{`{"field":1,"op":"eq","value":1}`, "field is a number"},
		{`{"AND":[{"field":"role","op":"eq","value":"user"}],"AND":[]}`, "twice"},
		{`{"NOT":{"field":"role","operator":"eq","op":"ne","value":"user"}}`, "twice"},
		{`{"field":"role","op":"eq","value":"user","Value":1}`, "twice"},
		{`tag in (a ")"`, "comma"},
		{`tag not = a`, "in"},
		{`{"field":"tag","op":"icontains","value":1}`, "string"},
		{`{"field":"tag","op":"eq","value":[1]}`, "tag is compared with a list"},
		{`{"field":"tag","op":"eq","value":{}}`, "tag is compared with an object"},
		{`{"NOT":[]}`, "a condition is a list, not an object"},
		{`{nonsense`, "JSON"},
		{`nonsense`, "operator"},
		{``, "empty"},
		{" \n", "empty"},
		{`role = `, "value"},
		{`role = user and`, "field"},
		{`(role = user`, "parenthesis"},
		{`role = user)`, "end"},
		{`role = "user`, "quotes"},
		{`tag in a, b`, "parentheses"},
		{`tag in (a b)`, "comma"},
		{`created_at > yesterday`, "2026-01-02"},
		{`created_at contains 2`, "time"},
		{`n > null`, "null"},
		{`n > true`, "boolean"},
		{nested(1_000), "64"},
		{nested(10_000), "64"},
		{strings.Repeat("(", 10_000), "64"},
		{strings.Repeat("not ", 10_000) + "a = 1 or", "field"},
		{strings.Repeat("a = 1 or ", 20_000) + "a = 1", "split"},
	} {
		_, err := Parse(t.Context(), []byte(c.form))
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one that says %q", valid.Short(c.form), err, c.says)
		}
	}
}
