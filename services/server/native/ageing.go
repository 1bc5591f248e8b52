package native

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// dryRun is the parameter of a call that changes nothing.
var dryRun = param{name: "dry_run", kind: flag, summary: "change nothing, and report what would change"}

func ageing() []route {
	return []route{
		{at: "GET /policy", summary: "Show the policy by which memories age", reply: policy.Policy{}, admin: true, whole: true, handle: showPolicy},
		{at: "PATCH /policy", summary: "Change keys of the policy; preset starts from a preset", body: map[string]any{}, reply: policy.Policy{}, admin: true, whole: true, handle: setPolicy},
		{at: "POST /evict", summary: "Evict memories by the policy; the last item is the report", reply: api.EvictionItem{}, lines: true, handle: evict, params: inOwner(
			param{name: "max_age", kind: span, summary: "the age from which on memories may be evicted, such as 30d; the default is that of the policy"},
			param{name: "min_importance", kind: number, summary: "the importance from which on memories stay whatever their age, from 0 to 1; the default is that of the policy"},
			param{name: "cap", kind: count, summary: "the number of memories that an owner keeps; the default is that of the policy"}, dryRun,
		)},
		{at: "POST /consolidate", summary: "Decay, prune and merge memories; the last item is the report, and a dry run lists first what it would merge and prune", reply: api.ConsolidationItem{}, lines: true, handle: consolidate, params: inOwner(
			param{name: "rate", kind: number, summary: "the share of their confidence that memories lose, from 0 to 1; the default is that of the policy"},
			param{name: "prune", kind: number, summary: "the decayed importance below which memories are removed, from 0 to 1; the default is that of the policy"},
			param{name: "merge", kind: flag, summary: "merge memories that say the same; the default is that of the policy"}, dryRun,
		)},
		{at: "POST /undo", summary: "Restore the memories that an eviction or a consolidation removed", reply: engine.Undone{}, admin: true, whole: true, stream: true, handle: undo, params: []param{
			{name: "lsn", kind: lsn, required: true, summary: "the LSN in the report of the eviction or the consolidation"},
		}},
	}
}

// inOwner are parameters behind those of a user, an agent or everyone.
func inOwner(more ...param) []param { return append([]param{ofUser, ofAgent, ofAll}, more...) }

func showPolicy(a *ask) error {
	p, err := a.DB.Policies().Show(a.Context())
	return a.ok(p, err)
}

func setPolicy(a *ask) error {
	keys, err := a.policyKeys()
	if err != nil {
		return err
	}
	var set policy.Policy
	err = a.DB.Update(a.Context(), func(tx *engine.Tx) error {
		p, err := tx.Policies().Show(a.Context())
		if err == nil {
			p, err = changed(p, keys)
		}
		if err == nil {
			set, err = tx.Policies().Set(a.Context(), p)
		}
		return err
	})
	return a.ok(set, err)
}

// policyKeys are the keys of the body, each with its value as policy set takes it.
func (a *ask) policyKeys() (map[string]string, error) {
	b, err := a.JSON()
	if err != nil {
		return nil, err
	}
	var given map[string]json.RawMessage
	if err := exchange.Decode(b, &given); err != nil || len(given) == 0 {
		return nil, invalid("set the policy", "the body is no object with keys", "")
	}
	keys := map[string]string{}
	for key, v := range given {
		var text string
		var list []string
		switch {
		case json.Unmarshal(v, &text) == nil && v[0] == '"':
		case json.Unmarshal(v, &list) == nil && v[0] == '[':
			text = strings.Join(list, ",")
		default:
			text = string(v)
		}
		keys[key] = text
	}
	return keys, nil
}

// changed is a policy with other values, the preset first.
func changed(p policy.Policy, keys map[string]string) (policy.Policy, error) {
	if preset, ok := keys["preset"]; ok {
		var err error
		if p, err = policy.Preset(preset); err != nil {
			return p, err
		}
	}
	var order []string
	for key := range keys {
		if key != "preset" {
			order = append(order, key)
		}
	}
	slices.Sort(order)
	for _, key := range order {
		if err := p.Set(key, keys[key]); err != nil {
			return p, err
		}
	}
	return p, p.Check()
}

// aged is the scope of an eviction or a consolidation.
func (a *ask) aged(doing string) (memory.Scope, error) {
	user, agent, all := value[string](a, "user"), value[string](a, "agent"), value[bool](a, "all_scopes")
	switch {
	case all && !a.Admin():
		return memory.Scope{}, server.Denied("all_scopes is for administrators")
	case a.given("user") && user == "", a.given("agent") && agent == "":
		return memory.Scope{}, invalid(doing, "the user or the agent is empty", "leave it out")
	case all && (user != "" || agent != ""):
		return memory.Scope{}, invalid(doing, "all_scopes stands alone: not with user or agent", "")
	}
	s, err := a.Scope(memory.Scope{User: user, Agent: agent})
	switch {
	case err != nil:
		return s, err
	case s.Run != "":
		return s, server.Denied("the key is one of a run, and memories age by user and agent")
	case s == memory.Scope{} && !all:
		return s, &memory.Error{Kind: memory.ErrScope, What: doing, Why: "it names no user and no agent", Do: "name one, or say all_scopes=true"}
	}
	return s, nil
}

func evict(a *ask) error {
	s, err := a.aged("evict")
	if err != nil {
		return err
	}
	o := &engine.EvictOptions{Scope: s, MinImportance: optional[float64](a, "min_importance"), DryRun: value[bool](a, "dry_run")}
	if a.given("max_age") {
		age := time.Duration(value[policy.Span](a, "max_age"))
		o.MaxAge = &age
	}
	if a.given("cap") {
		most := int64(value[int](a, "cap"))
		o.Cap = &most
	}
	return a.list(func(out *stream) error {
		o.Visit = func(v engine.Victim) error { return out.write(v) }
		r, err := a.DB.Evict(a.Context(), o)
		if err != nil {
			return err
		}
		return out.write(r)
	})
}

func consolidate(a *ask) error {
	s, err := a.aged("consolidate")
	if err != nil {
		return err
	}
	o := &engine.ConsolidateOptions{Scope: s, Rate: optional[float64](a, "rate"), PruneBelow: optional[float64](a, "prune"), Merge: optional[bool](a, "merge"), DryRun: value[bool](a, "dry_run")}
	return a.list(func(out *stream) error {
		if o.DryRun {
			o.Visit = func(m engine.Merge) error { return out.write(m) }
			o.VisitPruned = func(p engine.Pruned) error { return out.write(p) }
		}
		r, err := a.DB.Consolidate(a.Context(), o)
		if err != nil {
			return err
		}
		return out.write(exchange.NewConsolidated(r))
	})
}

func undo(a *ask) error {
	r, err := a.DB.Undo(a.Context(), value[uint64](a, "lsn"))
	return a.ok(r, err)
}
