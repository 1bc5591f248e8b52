package engine

import (
	"errors"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// TestAdmit: no structure takes something of an owner whom Options.Admit refuses.
func TestAdmit(t *testing.T) {
	db, err := OpenMemory(&Options{Admit: func(o scope.Owner) error {
		if o.User == "ada" {
			return nil
		}
		return &fault.Error{Kind: fault.ErrInvalid, What: "store", Why: "not here"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx := t.Context()
	for _, o := range []scope.Owner{{User: "ada"}, {User: "ada", Agent: "planner"}, {User: "bob"}, {Agent: "planner"}, {}} {
		refused := o.User != "ada"
		s := o.Scope()
		s.Run = "r"
		_, stored := db.Memories().Store(ctx, memory.Memory{Scope: s, Text: "tea"}, nil)
		errs := map[string]error{"memory": stored}
		if o != (scope.Owner{}) {
			_, errs["entry"] = db.KV().Put(ctx, o, "k", 1, nil)
			_, errs["session"] = db.Sessions().Open(ctx, o, "r", nil)
			_, errs["usage"] = db.Usage().Add(ctx, usage.Record{Owner: o, Model: "m"}, nil)
		}
		for what, err := range errs {
			if errors.Is(err, fault.ErrInvalid) != refused || !refused && err != nil {
				t.Errorf("%s of %+v: %v", what, o, err)
			}
		}
	}
	if n, err := db.Memories().Count(ctx, memory.ListQuery{AllScopes: true}); n != 2 || err != nil {
		t.Error(n, err)
	}
}
