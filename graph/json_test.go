package graph

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// wantBack marshals a value, reads it again, and wants it as it was, with the keys of a line.
func wantBack[T any](t *testing.T, v T, line any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back T
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(v, back) {
		t.Errorf("%T\n%+v\nis read back as\n%+v\nfrom %s, error %v", v, v, back, b, err)
	}
	if want, err := json.Marshal(line); err != nil || string(want) != string(b) {
		t.Errorf("%s\nis not the line\n%s, error %v", b, want, err)
	}
}

// TestJSON: entities and relations have the JSON of an export's lines.
func TestJSON(t *testing.T) {
	of, at := scope.Owner{User: "ada", Agent: "coach"}, time.Date(2026, 11, 20, 8, 0, 0, 5e6, time.UTC)
	whole := Entity{
		Owner: of, ID: "e", Type: "person", Name: "Ada", Aliases: []string{"A"}, Properties: json.RawMessage(`{"age":36}`),
		CreatedAt: at, UpdatedAt: at, Extracted: true,
	}
	for _, e := range []Entity{whole, {Owner: of, ID: "bare"}} {
		wantBack(t, e, NewEntityLine(e))
	}
	n := Named{whole, "ada", .5}
	wantBack(t, n, namedLine{NewEntityLine(whole), "ada", .5})
	r := Relation{
		Owner: of, ID: "r", From: "e", Type: "knows", To: "f", Properties: json.RawMessage(`{"since":1840}`), ValidFrom: at, ValidTo: at.AddDate(1, 0, 0),
		CreatedAt: at, SupersededAt: at, Extracted: true,
	}
	for _, r := range []Relation{r, {Owner: of, ID: "r", From: "e", Type: "knows", To: "f"}} {
		wantBack(t, r, NewRelationLine(r))
	}
	e := Edge{Target: "f", Type: "knows", ID: "r", Properties: json.RawMessage(`{"since":1840}`), ValidFrom: at}
	wantBack(t, e, EdgeLine{Target: "f", Type: "knows", ID: "r", Properties: e.Properties, ValidFrom: clock.Instant{Time: at}})
}
