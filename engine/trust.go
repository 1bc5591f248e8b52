package engine

import (
	"errors"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// loadTrust has the spaces go on from what their vectors had shown in questions. It is nothing that
// anybody stored, so that damage of it is logged, and it is learned anew.
func (db *DB) loadTrust() error {
	value, closer, err := db.store.Get(layout.TrustKey)
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	if err != nil {
		return db.opening.losses.Without("what the vectors have shown", err)
	}
	shown, err := layout.DecodeTrust(value)
	if err = errors.Join(err, closer.Close()); err != nil {
		db.logger.Warn("what the vectors of the spaces have shown in questions is damaged; it is learned anew", "error", err)
		return nil
	}
	for _, s := range db.spaces.All() {
		for _, t := range shown {
			if f := t.Figures; t.Space == s.Num {
				s.Remember(policy.Trust{Asked: f[0], Stands: f[1], Squares: f[2], Compared: f[3], Follows: f[4]})
			}
		}
	}
	return nil
}

// keepTrust writes what the vectors have shown, where recalls go by something that is not in the
// store: with the touches of these recalls.
func (tx *Tx) keepTrust() error {
	var all []layout.Trust
	changed := false
	for _, s := range tx.db.spaces.All() {
		t, unkept := s.Unkept()
		if unkept {
			changed = true
			tx.onApplied(func(uint64) error { s.Kept(t); return nil })
		}
		if t != (policy.Trust{}) {
			all = append(all, layout.Trust{Space: s.Num, Figures: [layout.TrustFigures]float64{t.Asked, t.Stands, t.Squares, t.Compared, t.Follows}})
		}
	}
	if !changed {
		return nil
	}
	return tx.set(layout.TrustKey, layout.EncodeTrust(all))
}
