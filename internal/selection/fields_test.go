package selection

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/state"
)

// TestFilterKnowsTheBuiltIns: every built-in field has a place, and every role and kind
// is one that a filter takes.
func TestFilterKnowsTheBuiltIns(t *testing.T) {
	for _, name := range filter.BuiltIn() {
		if at, ok := locations[name]; !ok || at.Of == nil {
			t.Errorf("%s has no location", name)
		}
	}
	if len(locations) != len(filter.BuiltIn()) {
		t.Errorf("%d locations for %d fields", len(locations), len(filter.BuiltIn()))
	}
	for _, r := range state.Roles {
		if err := filter.Check(filter.Eq("role", r)); err != nil {
			t.Error(err)
		}
	}
	for _, k := range state.Kinds {
		if err := filter.Check(filter.Eq("kind", k)); err != nil {
			t.Error(err)
		}
	}
}
