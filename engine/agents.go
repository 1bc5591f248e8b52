package engine

import (
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// registered refuses an agent that has no manifest, where the database takes none without.
func (tx *Tx) registered(doing string, o scope.Owner) error {
	if !tx.db.strictAgents || o.Agent == "" {
		return nil
	}
	known, err := usage.Registered((*partTx)(tx), o.Agent)
	if err != nil || known {
		return err
	}
	return &fault.Error{
		Kind: fault.ErrUnknownAgent, What: fmt.Sprintf("%s for the agent %q", doing, valid.Short(o.Agent)),
		Why: "it has no manifest, and the database was opened with StrictAgents", Do: "add its manifest, or open the database without StrictAgents",
	}
}

// DeleteAgent deletes what belongs to an agent, of every user and of none, and its manifest,
// in one commit. It returns how much that was, as [DB.DeleteOwner] does.
func (db *DB) DeleteAgent(ctx context.Context, id string) (deleted map[string]int64, err error) {
	err = db.Update(ctx, func(tx *Tx) error {
		deleted, err = tx.DeleteAgent(ctx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return deleted, nil
}

// DeleteAgent is [DB.DeleteAgent] within this transaction.
func (tx *Tx) DeleteAgent(ctx context.Context, id string) (map[string]int64, error) {
	const doing = "delete an agent"
	if err := tx.check(doing, true); err != nil {
		return nil, err
	}
	if id == "" {
		return nil, fault.Invalid(doing, "its ID is empty", "name the agent")
	}
	if err := valid.Word(doing, "id", id); err != nil {
		return nil, err
	}
	owners, err := tx.ownersOf(ctx, id)
	if err != nil {
		return nil, err
	}
	deleted := map[string]int64{"memories": 0}
	for _, o := range owners {
		of, err := tx.DeleteOwner(ctx, o)
		if err != nil {
			return nil, tx.breaks(err) // those before are deleted
		}
		for what, n := range of {
			deleted[what] += n
		}
	}
	return deleted, nil
}

// ownersOf lists the owners that have an agent, also those of this transaction.
func (tx *Tx) ownersOf(ctx context.Context, agent string) (owners []scope.Owner, err error) {
	err = tx.reader().EachOwner(ctx, func(_ uint32, o scope.Owner) {
		if o.Agent == agent {
			owners = append(owners, o)
		}
	})
	return owners, err
}
