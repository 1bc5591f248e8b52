package move

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

// langGraphNames are the keys of an item by the names that clients and tables have for them.
var langGraphNames = map[string]string{
	"prefix": "namespace", "createdAt": "created_at", "updatedAt": "updated_at", "expiresAt": "expires_at",
	"ttl_minutes": "ttl", "ttlMinutes": "ttl",
}

// readLangGraph reads items of LangGraph's store: a list, the answer of a search, or one a line.
func readLangGraph(in *Input, w *writer) error {
	if in.IsSQLite() {
		return readLangGraphSQLite(in, w)
	}
	return eachUnder(in, w, "item", []string{"items"}, func(at exchange.LineError, raw []byte) error {
		f, err := readFields(raw)
		if err != nil {
			return w.skip(at, err)
		}
		f.rename(langGraphNames)
		i := exchange.LangGraphItem{Index: f["index"]}
		if i.Namespace, err = labelsOf(f["namespace"]); err != nil {
			return w.skip(at, err)
		}
		if value := f["value"]; value != nil {
			var v exchange.Object
			if err := exchange.Decode(value, &v); err != nil {
				return w.skip(at, fmt.Errorf("value: %w", err))
			}
			i.Value = v
		}
		i.Key, _ = f.any("key")
		var minutes float64
		if raw := f["ttl"]; raw != nil && string(raw) != "null" {
			if err := json.Unmarshal(raw, &minutes); err != nil {
				return w.skip(at, errors.New("its ttl is not a number of minutes"))
			}
			i.TTL = &minutes
		}
		times := scalar.Reader{Zone: w.opts.Zone}
		created, updated := f.time(times.Time, "created_at"), f.time(times.Time, "updated_at")
		expires := f.time(times.Time, "expires_at")
		for _, key := range []string{"namespace", "value", "index", "ttl"} {
			delete(f, key)
		}
		for _, key := range slices.Sorted(maps.Keys(f)) {
			if string(f[key]) != "null" {
				w.leave(key, 1)
			}
		}
		return w.langGraph(at, &i, created, updated, expires, len(raw))
	})
}

// rename gives keys other names, unless these are taken.
func (f fields) rename(names map[string]string) {
	for from, to := range names {
		raw, ok := f[from]
		if _, taken := f[to]; ok && !taken {
			f[to] = raw
			delete(f, from)
		}
	}
}

// labelsOf is a namespace, which is a list of labels or these with periods between.
func labelsOf(raw []byte) (labels []string, err error) {
	var joined string
	switch {
	case len(raw) == 0:
		err = errors.New("it has no namespace")
	case json.Unmarshal(raw, &joined) == nil:
		labels = strings.Split(joined, ".")
	case json.Unmarshal(raw, &labels) != nil:
		err = errors.New("its namespace is neither a list of texts nor a text")
	}
	return labels, err
}

// langGraph gives an item. Its time to live began when it was put last, unless it says when it ends.
func (w *writer) langGraph(at exchange.LineError, i *exchange.LangGraphItem, created, updated, expires time.Time, size int) error {
	i.Scope = w.scope("", "", "")
	created = cmp.Or(created, updated)
	begun := cmp.Or(updated, created)
	if begun.IsZero() {
		begun = clock.System()
	}
	m, err := i.Memory(begun)
	if err != nil {
		return w.skip(at, fmt.Errorf("item %.80q: %w", i.Key, err))
	}
	m.CreatedAt, m.ExpiresAt = created, cmp.Or(expires, m.ExpiresAt)
	if updated.After(created) {
		m.UpdatedAt = updated
	}
	return w.item(exchange.Item{At: at, Memory: &m, Size: size + overhead})
}
