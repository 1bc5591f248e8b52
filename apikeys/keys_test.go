package apikeys_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
)

// TestLife verifies expiry, rotation with and without a grace, and how often a last use is stored.
func TestLife(t *testing.T) {
	clock := testdb.NewClock()
	k := testdb.Keys(t, clock.Now)
	works := func(what, secret string, want bool) {
		t.Helper()
		if _, needed, err := k.Find(secret); !needed || (err == nil) != want || err != nil && !errors.Is(err, apikeys.ErrNoKey) {
			t.Errorf("%s: needed %v, %v", what, needed, err)
		}
	}
	until := clock.Now().Add(time.Hour)
	first, key, err := k.Add(t.Context(), apikeys.Rights{Admin: true, Name: "nightly", ExpiresAt: &until})
	testdb.NoError(t, err)
	works("a new key", first, true)
	second, rotated, err := k.Rotate(t.Context(), key.ID, time.Minute)
	testdb.NoError(t, err)
	if !rotated.Admin || rotated.Name != "nightly" || !rotated.ExpiresAt.Equal(until) || rotated.ID == key.ID {
		t.Errorf("%+v", rotated)
	}
	works("within the grace", first, true)
	works("the key that takes its place", second, true)
	clock.Advance(time.Minute)
	works("after the grace", first, false)
	third, _, err := k.Rotate(t.Context(), rotated.ID, 0)
	testdb.NoError(t, err)
	works("rotated at once", second, false)
	works("the third", third, true)
	if _, _, err := k.Rotate(t.Context(), rotated.ID, 0); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("a revoked key is rotated: %v", err)
	}
	clock.Advance(time.Hour)
	works("an expired key", third, false)
	past := clock.Now()
	if _, _, err := k.Add(t.Context(), apikeys.Rights{Admin: true, ExpiresAt: &past}); !errors.Is(err, fault.ErrInvalid) {
		t.Error("a key that has expired is made:", err)
	}

	secret, used, err := k.Add(t.Context(), apikeys.Rights{Metrics: true})
	testdb.NoError(t, err)
	lastUse := func() *time.Time {
		t.Helper()
		testdb.NoError(t, k.NoteUse(t.Context()))
		all, err := k.List()
		testdb.NoError(t, err)
		for _, key := range all {
			if key.ID == used.ID {
				return key.LastUsedAt
			}
		}
		return nil
	}
	if at := lastUse(); at != nil {
		t.Errorf("a key that was never used: %v", at)
	}
	works("used", secret, true)
	begun := clock.Now()
	if at := lastUse(); at == nil || !at.Equal(begun) {
		t.Errorf("%v, want %v", at, begun)
	}
	clock.Advance(apikeys.UsedEvery / 2)
	works("used again", secret, true)
	if at := lastUse(); !at.Equal(begun) {
		t.Errorf("stored again within %v", apikeys.UsedEvery)
	}
	clock.Advance(apikeys.UsedEvery / 2)
	works("used later", secret, true)
	if at := lastUse(); !at.Equal(clock.Now()) {
		t.Errorf("%v, want %v", at, clock.Now())
	}
}
