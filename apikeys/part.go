package apikeys

import (
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// kindKey is the kind of the keys of the store: section, and the name of a line.
const kindKey = 'K'

// The sections of kindKey.
const (
	sectionHead = 0
	sectionLine = 1
)

// Part is the structure as the database sees it.
type Part struct {
	version atomic.Uint64 // of the lines, which each commit that changes them raises
}

var _ part.Lasting = (*Part)(nil)

// Name is "api_keys".
func (*Part) Name() string { return "api_keys" }

// Kinds lists the kind of the keys of the store.
func (*Part) Kinds() []part.Kind { return []part.Kind{kindKey} }

// Ops are none: the log is for readers of memories.
func (*Part) Ops() []part.Op { return nil }

// Lasts says that a reset leaves the keys: it empties a database and must not open its server.
func (*Part) Lasts() {}

// Lines are none: an export is data, and whoever imports one must not get keys with it.
func (*Part) Lines(part.View, scope.Scope, func(part.Line) error) error { return nil }

// NewLine is nil, see Lines.
func (*Part) NewLine(string) part.Line { return nil }

// Figures are none.
func (*Part) Figures(part.View) (map[string]int64, error) { return nil, nil }

// DeleteOwner deletes nothing: keys belong to the server. A key of an owner that is gone sees nothing.
func (*Part) DeleteOwner(part.Tx, uint32) (map[string]int64, error) { return nil, nil }

// Check reports keys that cannot be read.
func (*Part) Check(c part.Checker) error {
	if _, _, err := read(c); err != nil {
		c.Problem("%v", err)
	}
	return nil
}

func headKey(v part.View) []byte { return append(v.Key(kindKey, 1), sectionHead) }

func lineKey(v part.View, name string) []byte {
	return append(append(v.Key(kindKey, 1+len(name)), sectionLine), name...)
}
