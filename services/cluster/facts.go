package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Facts are what all nodes of a cluster know of it. They never change.
type Facts struct {
	// ID names the cluster, so that no node mixes two.
	ID string `json:"id"`
	// Shards is how many it has.
	Shards int `json:"shards"`
	// Secret is what the nodes seal with what they tell each other.
	Secret []byte `json:"secret"`
}

// factsKey is where the registry has the facts.
const factsKey = "cluster"

const doingJoin = "join the cluster"

// Found returns the facts of the cluster of a backend, and makes them where there are none: with so many
// shards, 0 for DefaultShards. ErrMismatch where the cluster has another number of shards than is asked
// for; it was fixed when the cluster was made.
func Found(ctx context.Context, r Registry, shards int) (Facts, error) {
	if shards < 0 || shards > MaxShards {
		return Facts{}, fault.Invalid(doingJoin, fmt.Sprintf("%d shards", shards), fmt.Sprintf("give 1 to %d", MaxShards))
	}
	for {
		e, err := r.Get(ctx, factsKey)
		if err == nil {
			return readFacts(e.Value, shards)
		}
		if !errors.Is(err, ErrMissing) {
			return Facts{}, unreached(doingJoin, err)
		}
		f := Facts{ID: uuid.NewString(), Shards: shards, Secret: make([]byte, 32)}
		if shards == 0 {
			f.Shards = DefaultShards
		}
		_, _ = rand.Read(f.Secret) // it never fails
		b, err := json.Marshal(f)
		if err != nil {
			return Facts{}, err
		}
		if _, err := r.Swap(ctx, factsKey, b, 0); err == nil {
			return f, nil
		} else if !errors.Is(err, ErrChanged) { // by a node that made them at the same time
			return Facts{}, unreached(doingJoin, err)
		}
	}
}

func readFacts(b []byte, shards int) (f Facts, err error) {
	if err := json.Unmarshal(b, &f); err != nil || f.ID == "" || f.Shards < 1 || f.Shards > MaxShards || len(f.Secret) < 16 {
		return f, &fault.Error{Kind: fault.ErrMismatch, What: doingJoin, Why: "its registry has facts that are not those of a cluster of memdb", Cause: err, Do: "see that the address is the one of this cluster"}
	}
	if shards != 0 && shards != f.Shards {
		return f, &fault.Error{
			Kind: fault.ErrMismatch, What: doingJoin, Why: fmt.Sprintf("it has %d shards, not %d, and that was fixed when it was made", f.Shards, shards),
			Do: "leave the number out",
		}
	}
	return f, nil
}

// unreached is the error of a backend that does not answer.
func unreached(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &fault.Error{Kind: fault.ErrUnavailable, What: what, Why: "what holds the logs and leases does not answer", Cause: err, Do: "see that a majority of its servers runs, and try again"}
}
