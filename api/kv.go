package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// KVPutRequest stores a value under a key.
type KVPutRequest struct {
	Owner
	Key       string          `path:"key" arg:"KEY" help:"the key"`
	TTL       *policy.Span    `query:"ttl" help:"the time after which the key expires, such as 30d or 12h; the default is never"`
	IfVersion *uint64         `query:"if_version" unit:"version" help:"fail unless the key has this version; 0: unless it does not exist"`
	Value     json.RawMessage `body:"json" arg:"JSON" stdin:"8388608" help:"the value"`
}

// Check implements Checked.
func (q *KVPutRequest) Check() error {
	if q.TTL != nil && *q.TTL <= 0 {
		return invalid("put a value", "the ttl is not above 0", "give a longer time, or delete the key")
	}
	return nil
}

// KVPut stores a value under a key.
var KVPut = &Op[KVPutRequest, entries.Line]{
	Operation: Operation{Name: "kv put", Route: "PUT /kv/{key}", Summary: "Store a JSON value under a key", Doing: "put a value", Access: Creates},
	Run: func(ctx context.Context, db *engine.DB, q *KVPutRequest) (entries.Line, error) {
		if err := q.Check(); err != nil {
			return entries.Line{}, err
		}
		o := &entries.PutOptions{IfVersion: q.IfVersion}
		if q.TTL != nil {
			o.TTL = time.Duration(*q.TTL)
		}
		e, err := db.KV().Put(ctx, q.owner(), q.Key, q.Value, o)
		return entries.NewLine(e), err
	},
}

// KVKey is a request about one key.
type KVKey struct {
	Owner
	Key string `path:"key" arg:"KEY" help:"the key"`
}

// KVGet returns the value under a key.
var KVGet = &Op[KVKey, entries.Line]{
	Operation: Operation{Name: "kv get", Route: "GET /kv/{key}", Summary: "Show the value under a key", Doing: "get a value"},
	Run: func(ctx context.Context, db *engine.DB, q *KVKey) (entries.Line, error) {
		e, err := db.KV().Get(ctx, q.owner(), q.Key)
		return entries.NewLine(e), err
	},
}

// KVDelete deletes a key and its value.
var KVDelete = &Op[KVKey, exchange.Deleted]{
	Operation: Operation{Name: "kv delete", Route: "DELETE /kv/{key}", Summary: "Delete a key and its value", Doing: "delete a value", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *KVKey) (exchange.Deleted, error) {
		return exchange.Deleted{Deleted: 1}, db.KV().Delete(ctx, q.owner(), q.Key)
	},
}

// KVListRequest lists keys and values.
type KVListRequest struct {
	Owner
	Prefix string `query:"prefix" arg:"[PREFIX]" help:"only keys that begin with this text"`
	Page
}

// KVList lists keys and values in the order of the keys.
var KVList = &List[KVListRequest, entries.Line]{
	Operation: Operation{Name: "kv list", Route: "GET /kv", Summary: "List keys and values in key order", Doing: "list values"},
	Run: func(ctx context.Context, db *engine.DB, q *KVListRequest, yield func(entries.Line) error) (End, error) {
		page, err := db.KV().List(ctx, entries.Query{Owner: q.owner(), Prefix: q.Prefix, After: q.After, Limit: q.Limit})
		if err != nil {
			return End{}, err
		}
		return End{Next: page.Next}, each(page.Entries, func(e entries.Entry) error { return yield(entries.NewLine(e)) })
	},
}
