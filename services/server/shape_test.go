package server

import (
	"net/url"
	"strings"
	"testing"
)

// TestShape verifies what is refused of a body before it is decoded.
func TestShape(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"user":"a","text":"b"}`, ""},
		{`{"user":"a","user":"b"}`, "given twice"},
		{`{"user_id":"a","x":[1,{"y":"}"}],"USER_ID":"b"}`, "given twice"},
		{`{"us\u0065r_id":"a","user_id":"b"}`, "given twice"},
		{`{"filters":{"user_id":"a","user_id":"b"}}`, "given twice"},
		{`[{"run":"a"},{"run":"b"}]`, ""},
		{`{"metadata":{"User":"a","user":"b"}}`, ""},
		{`{"text":"user","user":"user"}`, ""},
		{`{"a":"user","b":["user","user"]}`, ""},
		{`{"text":"a","text":"b"}`, ""}, // which those that decode refuse
		{`{"user":"a\"","user":"b"}`, "given twice"},
		{strings.Repeat("[", 64) + strings.Repeat("]", 64), ""},
		{strings.Repeat("[", 65), "deeper than 64"},
		{`}}}]]"{"`, ""},
		{`{"user`, ""},
		{`"`, ""},
	} {
		if err := CheckJSON([]byte(c.body)); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.body, err, c.want)
		}
	}
	for query, want := range map[string]string{
		"user=a&agent=b": "", "user=a&user=a": "given twice", "user_id=a&x=1&user_id=b": "given twice", "filter=a&filter=b": "",
		"user=a;agent=b": "malformed", "user=%zz": "malformed",
	} {
		if err := checkQuery(&url.URL{RawQuery: query}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}
