package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

const (
	// mostDamage bounds the damages that are told apart. A file with more of them is beyond
	// reading, and a larger number says nothing new.
	mostDamage = 10_000
	// mostDescribed bounds the damages that are described.
	mostDescribed = 20
)

// Damages are what of an open database is known to be lost or unreadable: what Open went without,
// and what any read has met since. Pebble reports each block that it cannot read, whoever reads
// it; values with a checksum of their own are reported by those who decode them. A damage that
// is met again counts once. The zero Damages are those of a database without any.
type Damages struct {
	n    atomic.Int64
	mu   sync.Mutex
	seen map[string]struct{}
	what []string
}

// Count is how many damages are known. It is one atomic load.
func (d *Damages) Count() int64 { return d.n.Load() }

// Known describes the first damages that were met.
func (d *Damages) Known() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.what)
}

// Note adds a damage, and reports whether it was not known before.
func (d *Damages) Note(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.seen[what]; known || len(d.seen) >= mostDamage {
		return false
	}
	if d.seen == nil {
		d.seen = map[string]struct{}{}
	}
	d.seen[what] = struct{}{}
	if len(d.what) < mostDescribed {
		d.what = append(d.what, what)
	}
	d.n.Add(1)
	return true
}

// Met notes the damage that an error reports, if it reports one. Blocks that Pebble cannot read
// are known already.
func (d *Damages) Met(err error) {
	if d == nil || err == nil || IsBlock(err) {
		return
	}
	if errors.Is(err, fault.ErrCorrupt) || Corrupted(err) {
		d.Note(fault.CauseText(err))
	}
}

// IsBlock reports whether an error is one of a block that Pebble could not read, and has reported.
func IsBlock(err error) bool { return pebble.ExtractDataCorruptionInfo(err) != nil }

// Damages are what of the store is known to be unreadable. Callers may add to them.
func (s *Store) Damages() *Damages { return s.damages }

// corrupted is called by Pebble for each block that it cannot read, each time.
func (s *Store) corrupted(info pebble.DataCorruptionInfo) {
	what := fmt.Sprintf("%s: %s", s.FS.PathBase(info.Path), fault.CauseText(info.Details))
	if s.damages.Note(what) {
		s.config.Log.Error("a file of the store is damaged", "file", info.Path, "error", info.Details)
	}
}
