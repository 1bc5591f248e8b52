package move

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// isLangGraph reports whether a file has the table of a store of LangGraph.
func isLangGraph(f *sqliteFile) bool {
	return f.has("store", "prefix", "key", "value", "created_at", "updated_at")
}

// readLangGraphSQLite reads the table of items of a SQLite store.
func readLangGraphSQLite(in *Input, w *writer) error {
	return w.database(in, func(f *sqliteFile) ([]string, error) {
		if !isLangGraph(f) {
			return nil, errors.New(`the SQLite file has no table "store" with "prefix", "key", "value", "created_at" and "updated_at", as a store of LangGraph has; leave the format out, or name a table with --table`)
		}
		w.opts.Zone = time.UTC // that of SQLite's own times
		return []string{"store"}, w.each(f, "store", func(at exchange.LineError, c *cells) error {
			var value exchange.Object
			if err := exchange.Decode(c.json("value"), &value); err != nil {
				return w.skip(at, fmt.Errorf("value: %w", err))
			}
			created, updated, expires := w.when(c.any("created_at")), w.when(c.any("updated_at")), w.when(c.any("expires_at"))
			i := &exchange.LangGraphItem{Namespace: strings.Split(c.text("prefix"), "."), Key: c.text("key"), Value: value}
			if ttl, ok := c.number("ttl_minutes"); ok && ttl > 0 && !expires.IsZero() {
				i.TTL = &ttl
			}
			return w.langGraph(at, i, created, updated, expires, len(c.text("value")))
		})
	})
}
