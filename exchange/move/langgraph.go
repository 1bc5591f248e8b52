package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// readLangGraph reads items of LangGraph's store: a list, the answer of a search, or one a line.
func readLangGraph(in *Input, w *writer) error {
	if in.IsSQLite() {
		return readLangGraphSQLite(in, w)
	}
	return eachUnder(in, w, "item", []string{"items"}, func(at exchange.LineError, raw []byte) error {
		var l struct {
			Namespace json.RawMessage `json:"namespace"`
			Key       string          `json:"key"`
			Value     exchange.Object `json:"value"`
			CreatedAt any             `json:"created_at"`
			UpdatedAt any             `json:"updated_at"`
		}
		if err := exchange.Decode(raw, &l); err != nil {
			return w.skip(at, err)
		}
		space, err := labelsOf(l.Namespace)
		if err != nil {
			return w.skip(at, err)
		}
		return w.langGraph(at, &exchange.LangGraphItem{Namespace: space, Key: l.Key, Value: l.Value}, w.when(l.CreatedAt), w.when(l.UpdatedAt), len(raw))
	})
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

// langGraph gives an item.
func (w *writer) langGraph(at exchange.LineError, i *exchange.LangGraphItem, created, updated time.Time, size int) error {
	i.Scope = w.scope("", "", "")
	m, err := i.Memory(created)
	if err != nil {
		return w.skip(at, fmt.Errorf("item %.80q: %w", i.Key, err))
	}
	m.CreatedAt = created
	if updated.After(created) {
		m.UpdatedAt = updated
	}
	return w.item(exchange.Item{At: at, Memory: &m, Size: size + overhead})
}
