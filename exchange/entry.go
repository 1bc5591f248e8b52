package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

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

// entry takes an entry.
func (b *batch) entry(ctx context.Context, at LineError, e Entry, size int) error {
	if e.User == "" && e.Agent == "" {
		e.User, e.Agent = b.opts.Scope.User, b.opts.Scope.Agent
	}
	if err := b.gone(ctx); err != nil {
		return err
	}
	if err := b.make(ctx, size, len(b.lives) > 0); err != nil {
		return err
	}
	b.entries, b.entriesAt = append(b.entries, e), append(b.entriesAt, at)
	return b.took(ctx, size)
}

// put stores entries in one commit. One that is there with the same value and
// times is left alone; under another value it is an error, or replaced under
// Upsert. Under Strict the first error ends it, after a commit of those before.
func (b *batch) put(ctx context.Context, entries []Entry, at []LineError) error {
	stored := make([]engine.Stored, 0, len(entries))
	err := b.db.Update(ctx, func(tx *engine.Tx) error {
		for i := range entries {
			s, err := b.putOne(ctx, tx, &entries[i])
			if err != nil && !isOfOneMemory(err) {
				return err
			}
			s.Err = err
			stored = append(stored, s)
			if err != nil && b.opts.Strict {
				break
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, s := range stored {
		if err := b.count(at[i], s); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) putOne(ctx context.Context, tx *engine.Tx, e *Entry) (engine.Stored, error) {
	owner := engine.Owner{User: e.User, Agent: e.Agent}
	have, found, err := tx.KV().Get(ctx, owner, e.Key)
	if err == nil && found && sameEntry(&have, e) {
		return engine.Stored{}, nil
	}
	if err == nil && found && !b.opts.Upsert {
		err = &engine.Error{
			Kind: engine.ErrExists, What: fmt.Sprintf("store the entry %q", cut(e.Key)), Why: "there is one with another value",
			Do: "import with Upsert, or delete it first",
		}
	}
	if err == nil {
		_, err = tx.KV().Put(ctx, owner, e.Key, e.Value, &engine.PutOptions{ExpiresAt: e.ExpiresAt.Time, UpdatedAt: e.UpdatedAt.Time})
	}
	return engine.Stored{Stored: !found, Updated: found}, err
}

// sameEntry tells whether an entry is there as it is given: a line that does not
// say when it was updated is the same at any time.
func sameEntry(have *engine.Entry, e *Entry) bool {
	var value bytes.Buffer
	return json.Compact(&value, e.Value) == nil && bytes.Equal(value.Bytes(), have.Value) &&
		(e.UpdatedAt.IsZero() || have.UpdatedAt.Equal(e.UpdatedAt.Time)) && have.ExpiresAt.Equal(e.ExpiresAt.Time)
}

// cut shortens a key for a message.
func cut(key string) string {
	const most = 40
	if len(key) <= most {
		return key
	}
	return strings.ToValidUTF8(key[:most], "") + "…"
}
