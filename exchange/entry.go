package exchange

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// TypeEntry is the type of a line that holds an entry of the key-value store.
const TypeEntry = "kv"

// Entry is an entry as one flat JSON object. When read, the version is ignored:
// the database makes its own.
type Entry struct {
	Type      string          `json:"type"`
	User      string          `json:"user"`
	Agent     string          `json:"agent"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Version   uint64          `json:"version,omitzero"`
	UpdatedAt Time            `json:"updated_at,omitzero"`
	ExpiresAt Time            `json:"expires_at,omitzero"`
}

// NewEntry is the line of an entry.
func NewEntry(e engine.Entry) Entry {
	return Entry{
		Type: TypeEntry, User: e.User, Agent: e.Agent, Key: e.Key, Value: e.Value, Version: e.Version,
		UpdatedAt: Time{e.UpdatedAt}, ExpiresAt: Time{e.ExpiresAt},
	}
}

// put stores an entry, behind the memories that stood before it. One that is
// there with the same value and times is left alone; under another value it is an
// error, or replaced under Upsert.
func (b *batch) put(ctx context.Context, at LineError, e *Entry) error {
	if err := b.flush(ctx); err != nil {
		return err
	}
	owner := engine.Owner{User: e.User, Agent: e.Agent}
	have, found, err := b.db.KV().Get(ctx, owner, e.Key)
	if err == nil && found && string(have.Value) == string(e.Value) &&
		have.UpdatedAt.Equal(e.UpdatedAt.Time) && have.ExpiresAt.Equal(e.ExpiresAt.Time) {
		return b.count(at, engine.Stored{})
	}
	if err == nil && found && !b.opts.Upsert {
		err = &engine.Error{
			Kind: engine.ErrExists, What: fmt.Sprintf("store the entry %q", e.Key), Why: "there is one with another value",
			Do: "import with Upsert, or delete it first",
		}
	}
	if err == nil {
		_, err = b.db.KV().Put(ctx, owner, e.Key, e.Value, &engine.PutOptions{ExpiresAt: e.ExpiresAt.Time, UpdatedAt: e.UpdatedAt.Time})
	}
	if err != nil && !isOfOneMemory(err) {
		return err
	}
	return b.count(at, engine.Stored{Stored: !found, Updated: found, Err: err})
}
