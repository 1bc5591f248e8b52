package native

import (
	"encoding/json"
	"time"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/policy"
)

func values() []route {
	return []route{
		{at: "GET /kv", summary: "List keys and values in key order", reply: entries.Line{}, lines: true, handle: listValues, params: ofOwner(
			param{name: "prefix", kind: text, summary: "only keys that begin with this text"}, upTo, after, wholeOf,
		)},
		{at: "GET /kv/{key}", summary: "Show the value under a key", reply: entries.Line{}, handle: getValue, params: ofOwner()},
		{at: "PUT /kv/{key}", summary: "Store a JSON value under a key", body: json.RawMessage{}, reply: entries.Line{}, handle: putValue, params: ofOwner(
			param{name: "ttl", kind: span, summary: "the time after which the key expires, such as 30d or 12h; the default is never"},
			param{name: "if_version", kind: lsn, summary: "fail unless the key has this version; 0: unless it does not exist"},
		)},
		{at: "DELETE /kv/{key}", summary: "Delete a key and its value", handle: deleteValue, params: ofOwner(), reply: deletedOne},
	}
}

func listValues(a *ask) error {
	owner, err := a.owner("list values")
	if err != nil {
		return err
	}
	q := entries.Query{Owner: owner, Prefix: value[string](a, "prefix")}
	return a.list(func(s *stream) error {
		return s.pages(func(after string, limit int) (string, error) {
			q.After, q.Limit = after, limit
			page, err := a.DB.KV().List(a.Context(), q)
			if err != nil {
				return "", err
			}
			for _, e := range page.Entries {
				if err := s.write(entries.NewLine(e)); err != nil {
					return "", err
				}
			}
			return page.Next, nil
		})
	})
}

func getValue(a *ask) error {
	owner, err := a.owner("get a value")
	if err != nil {
		return err
	}
	e, err := a.DB.KV().Get(a.Context(), owner, a.id("key"))
	return a.ok(entries.NewLine(e), err)
}

func putValue(a *ask) error {
	owner, err := a.owner("put a value")
	if err != nil {
		return err
	}
	b, err := a.JSON()
	if err != nil {
		return err
	}
	if !json.Valid(b) {
		return invalid("put a value", "the body is no JSON", "a string needs quotes of its own")
	}
	o := &entries.PutOptions{TTL: time.Duration(value[policy.Span](a, "ttl")), IfVersion: optional[uint64](a, "if_version")}
	if a.given("ttl") && o.TTL <= 0 {
		return invalid("put a value", "the ttl is not above 0", "give a longer time, or delete the key")
	}
	e, err := a.DB.KV().Put(a.Context(), owner, a.id("key"), json.RawMessage(b), o)
	return a.ok(entries.NewLine(e), err)
}

func deleteValue(a *ask) error {
	owner, err := a.owner("delete a value")
	if err != nil {
		return err
	}
	return a.deleted(1, a.DB.KV().Delete(a.Context(), owner, a.id("key")))
}
