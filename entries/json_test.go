package entries

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

// TestJSON: an entry has the JSON of an export's line.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 5e6, time.UTC)
	for _, e := range []Entry{
		{Owner: scope.Owner{User: "ada", Agent: "coach"}, Key: "k", Value: json.RawMessage(`{"page":4}`), Version: 7, UpdatedAt: at, ExpiresAt: at.AddDate(1, 0, 0)},
		{Owner: scope.Owner{Agent: "coach"}, Key: "k", Value: json.RawMessage(`null`), UpdatedAt: at},
	} {
		wantBack(t, e, NewLine(e))
	}
}
