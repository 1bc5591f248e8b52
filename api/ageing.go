package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// Nothing is a request about the database as a whole.
type Nothing struct{}

// PolicyShow shows the policy by which memories age.
var PolicyShow = &Op[Nothing, policy.Policy]{
	Operation: Operation{Name: "policy show", Route: "GET /policy", Summary: "Show the policy by which memories age", Doing: "show the policy", Admin: true, Whole: true},
	Run: func(ctx context.Context, db *engine.DB, _ *Nothing) (policy.Policy, error) {
		return db.Policies().Show(ctx)
	},
}

// PolicyKeys are keys of the policy, each as KEY=VALUE. As JSON they are an object.
type PolicyKeys []string

// ReadForm implements Form. The keys are in order, for an object has none.
func (k *PolicyKeys) ReadForm(object []byte) error {
	var given map[string]json.RawMessage
	if err := exchange.Decode(object, &given); err != nil || len(given) == 0 {
		return invalid("set the policy", "the body is no object with keys", "")
	}
	for key, v := range given {
		text := string(v)
		var list []string
		switch {
		case v[0] == '"' && json.Unmarshal(v, &text) == nil:
		case v[0] == '[' && json.Unmarshal(v, &list) == nil:
			text = strings.Join(list, ",")
		}
		*k = append(*k, key+"="+text)
	}
	slices.Sort(*k)
	return nil
}

// MarshalJSON writes the object, whose values are texts.
func (k PolicyKeys) MarshalJSON() ([]byte, error) {
	object := map[string]string{}
	for _, pair := range k {
		key, value, _ := strings.Cut(pair, "=")
		object[key] = value
	}
	return json.Marshal(object)
}

// change returns a policy with the keys set. A preset is applied first.
func (k PolicyKeys) change(p policy.Policy) (policy.Policy, error) {
	for _, pair := range k {
		if preset, is := strings.CutPrefix(pair, "preset="); is {
			var err error
			if p, err = policy.Preset(preset); err != nil {
				return p, err
			}
		}
	}
	for _, pair := range k {
		key, value, is := strings.Cut(pair, "=")
		if !is {
			return p, invalid("set the policy", fmt.Sprintf("%.60q is not KEY=VALUE", pair), "")
		}
		if key == "preset" {
			continue
		}
		if err := p.Set(key, value); err != nil {
			return p, err
		}
	}
	return p, p.Check()
}

// PolicySetRequest changes the policy.
type PolicySetRequest struct {
	Keys PolicyKeys `body:"keys" arg:"[KEY=VALUE]..." help:"the keys and their values"`
}

// Check implements Checked.
func (q *PolicySetRequest) Check() error {
	_, err := q.Keys.change(policy.Default())
	return err
}

// PolicySet changes keys of the policy.
var PolicySet = &Op[PolicySetRequest, policy.Policy]{
	Operation: Operation{
		Name: "policy set", Route: "PATCH /policy", Summary: "Change keys of the policy; preset starts from a preset", Doing: "set the policy",
		Access: Creates, Admin: true, Whole: true,
	},
	Run: func(ctx context.Context, db *engine.DB, q *PolicySetRequest) (set policy.Policy, err error) {
		err = db.Update(ctx, func(tx *engine.Tx) error {
			p, err := tx.Policies().Show(ctx)
			if err == nil {
				p, err = q.Keys.change(p)
			}
			if err == nil {
				set, err = tx.Policies().Set(ctx, p)
			}
			return err
		})
		return set, err
	},
}

// An EvictionItem is a memory that an eviction removes, or its report.
type EvictionItem struct {
	// Report and Victim are the two forms, of which one is nil.
	Report *engine.Evicted `has:"evicted"`
	Victim *engine.Victim
}

// OneOf returns an empty value of each form.
func (EvictionItem) OneOf() []any { return []any{engine.Victim{}, engine.Evicted{}} }

// MarshalJSON writes the memory or the report.
func (i EvictionItem) MarshalJSON() ([]byte, error) { return writeOne(i) }

// UnmarshalJSON reads a memory or a report.
func (i *EvictionItem) UnmarshalJSON(b []byte) error { return readOne(b, i) }

// A ConsolidationItem is what a consolidation would merge or prune, or its report.
type ConsolidationItem struct {
	// Merge, Pruned and Report are the three forms, of which one is set.
	Merge  *engine.Merge  `has:"into"`
	Pruned *engine.Pruned `has:"reason"`
	Report *exchange.Consolidated
}

// OneOf returns the forms.
func (ConsolidationItem) OneOf() []any {
	return []any{engine.Merge{}, engine.Pruned{}, exchange.Consolidated{}}
}

// MarshalJSON writes what there is of the three.
func (i ConsolidationItem) MarshalJSON() ([]byte, error) { return writeOne(i) }

// UnmarshalJSON reads one of the three.
func (i *ConsolidationItem) UnmarshalJSON(b []byte) error { return readOne(b, i) }
