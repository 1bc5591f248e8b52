package api

import (
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

// An EvictionItem is a memory that an eviction removes, or its report.
type EvictionItem struct {
	// Report and Victim are the two forms, of which one is nil.
	Report *engine.Evicted `has:"evicted"`
	Victim *engine.Victim
}

// OneOf returns both forms.
func (EvictionItem) OneOf() []any { return []any{engine.Victim{}, engine.Evicted{}} }

// MarshalJSON writes the memory or the report.
func (i EvictionItem) MarshalJSON() ([]byte, error) { return writeOne(i) }

// UnmarshalJSON reads a memory or a report.
func (i *EvictionItem) UnmarshalJSON(b []byte) error { return readOne(b, i) }

// A ConsolidationItem is what a consolidation would merge or prune, or its report.
type ConsolidationItem struct {
	// Merge, Pruned and Report are the three forms, of which one is set.
	Merge  *engine.Merge  `has:"into"`
	Pruned *engine.Pruned `has:"reason"`
	Report *exchange.Consolidated
}

// OneOf returns the forms.
func (ConsolidationItem) OneOf() []any {
	return []any{engine.Merge{}, engine.Pruned{}, exchange.Consolidated{}}
}

// MarshalJSON writes what there is of the three.
func (i ConsolidationItem) MarshalJSON() ([]byte, error) { return writeOne(i) }

// UnmarshalJSON reads one of the three.
func (i *ConsolidationItem) UnmarshalJSON(b []byte) error { return readOne(b, i) }
