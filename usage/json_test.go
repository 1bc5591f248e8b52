package usage

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

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

// TestJSON: what a program holds has the JSON of an export's lines.
func TestJSON(t *testing.T) {
	of, at := scope.Owner{User: "ada", Agent: "coach"}, time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	cost, err := ParseUSD("0.0123")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Record{
		{Owner: of, Number: 3, Model: "m", PromptTokens: 2, CompletionTokens: 1, TotalTokens: 3, Cost: cost, Time: at, Calls: 1},
		{Owner: scope.Owner{User: "ada"}, Number: 4, Model: "m", Cost: cost, Time: at, Calls: 7},
	} {
		wantBack(t, r, NewLine(r))
	}
	b := Budget{Owner: of, Per: PerDay, Limit: cost}
	wantBack(t, b, NewBudgetLine(b))
	for _, a := range []Agent{{ID: "coach", CreatedAt: at}, {"coach", "The coach", at, json.RawMessage(`{"team":"b"}`)}} {
		wantBack(t, a, NewAgentLine(a))
	}
}
