package testdb

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Spoil changes keys in the store of the database "db" on files, which is closed, without the database. The keys are
// those of its memories; it must not hold values that wait to be merged.
func Spoil(t testing.TB, files vfs.FS, change func(ks *layout.Keys, s *store.Store) error) {
	t.Helper()
	id, err := place.Read(files, "db")
	NoError(t, err)
	keys, err := layout.NewKeys(id.HashSeed)
	NoError(t, err)
	timeline, err := id.TimelineIn(files, "db")
	NoError(t, err)
	s := store.New(store.Config{
		Dir: "db", Base: files, Log: slog.New(slog.DiscardHandler), Budget: Budget, NumberKey: layout.NumberKey, Resume: func() {},
		Merger: &pebble.Merger{Name: layout.StatsMergerName, Merge: func(_, _ []byte) (pebble.ValueMerger, error) {
			return nil, errors.New("the store of a test has values to be merged")
		}},
	})
	NoError(t, s.Open(true, timeline))
	b, closer, err := s.Get(layout.GenerationsKey)
	NoError(t, err)
	NoError(t, keys.DecodeGenerations(b))
	NoError(t, closer.Close())
	err = change(keys, s)
	NoError(t, errors.Join(err, s.Close()))
}
