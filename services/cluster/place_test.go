package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// TestShardOf: the shards of some owners, which stay as they are for ever, and an even spread.
func TestShardOf(t *testing.T) {
	for _, c := range []struct {
		o    scope.Owner
		want int
	}{
		{scope.Owner{User: "ada"}, 5},
		{scope.Owner{User: "ada", Agent: "planner"}, 5},
		{scope.Owner{Agent: "ada"}, 40},
		{scope.Owner{}, 0},
	} {
		if got := ShardOf(c.o, DefaultShards); got != c.want {
			t.Errorf("%+v: %d, want %d", c.o, got, c.want)
		}
	}
	var sizes [16]int
	for u := range 16_000 {
		sizes[ShardOf(scope.Owner{User: fmt.Sprint("user", u)}, len(sizes))]++
	}
	if slices.Min(sizes[:]) < 850 || slices.Max(sizes[:]) > 1150 {
		t.Error(sizes)
	}
}

func TestAdmit(t *testing.T) {
	of := ShardOf(scope.Owner{User: "ada"}, 8)
	if err := Admit(of, 8)(scope.Owner{User: "ada", Agent: "planner"}); err != nil {
		t.Error(err)
	}
	if err := Admit((of+1)%8, 8)(scope.Owner{User: "ada"}); !errors.Is(err, fault.ErrInvalid) {
		t.Error(err)
	}
}

// TestPlace: a member that comes gets shards from all, and one that goes leaves its own alone.
func TestPlace(t *testing.T) {
	three, four := []string{"a", "b", "c"}, []string{"d", "c", "b", "a"}
	counts := map[string]int{}
	for s := range 1024 {
		before, after := Place(s, three), Place(s, four)
		if after != before && after != "d" {
			t.Errorf("shard %d went from %s to %s", s, before, after)
		}
		counts[after]++
	}
	for _, m := range four {
		if counts[m] < 200 || counts[m] > 320 {
			t.Error(counts)
		}
	}
	if got := Place(1, nil); got != "" {
		t.Error(got)
	}
}
