package wiretest

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	const document = `{
		"schema": {"type": "object", "required": ["model"], "allOf": [{"$ref": "#/common"}], "properties": {
			"model": {"type": "string", "minLength": 1},
			"input": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 2, "minItems": 1}]},
			"format": {"enum": ["a", "b"]},
			"free": {"type": "object"},
			"free2": {"x-note": "anything"},
			"free3": {"type": "object", "unevaluatedProperties": {}, "properties": {"n": {"type": "integer"}}},
			"map": {"type": "object", "additionalProperties": {"type": "integer"}},
			"maybe": {"type": ["string", "null"]},
			"old": {"type": "string", "nullable": true}
		}},
		"common": {"type": "object", "properties": {"temperature": {"type": "number", "minimum": 0, "maximum": 2}, "more": {"$ref": "#/common"}}}
	}`
	var root map[string]any
	if err := json.Unmarshal([]byte(document), &root); err != nil {
		t.Fatal(err)
	}
	s := &Schema{root, root["schema"]}
	for _, c := range []struct{ body, want string }{
		{`{"model":"m"}`, ""},
		{`{"model":"m","input":"x","format":"a","free":{"any":1},"free2":{"any":1},"free3":{"any":1,"n":2},"map":{"n":1},"maybe":null,"old":null,"temperature":1.5,"more":{"temperature":0}}`, ""},
		{`{"model":"m","input":["x","y"]}`, ""},
		{`{}`, "no model"},
		{`{"model":""}`, "shorter"},
		{`{"model":1}`, "not [string]"},
		{`{"model":"m","input":["x","y","z"]}`, "more than 2"},
		{`{"model":"m","input":[]}`, "less than 1"},
		{`{"model":"m","input":[1]}`, "fits none"},
		{`{"model":"m","format":"c"}`, "none of"},
		{`{"model":"m","map":{"n":1.5}}`, "not [integer]"},
		{`{"model":"m","maybe":1}`, "not [string null]"},
		{`{"model":"m","temperature":3}`, "more than 2"},
		{`{"model":"m","more":{"temperature":-1}}`, "less than 0"},
		{`{"model":"m","more":{"tempreature":1}}`, "more.tempreature is not described"},
		{`{"model":"m","modle":"m"}`, "modle is not described"},
		{`[]`, "not [object]"},
		{`{`, "unexpected end"},
	} {
		err := s.Check([]byte(c.body))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.body, err, c.want)
		}
	}
}
