package entries

import (
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Check reports entries that cannot be read, that lie under another owner, or that the index
// by expiry lacks; keys of that index without an entry; and counters that differ from the
// number of entries.
func (Part) Check(c part.Checker) error {
	counts := map[uint32]int64{}
	err := c.Each(kindEntry, func(key, value []byte) error {
		owner, name, ok := parseEntryKey(key)
		if !ok {
			c.Problem("malformed entry key %x", key)
			return nil
		}
		counts[owner]++
		return checkStored(c, owner, name, value)
	})
	if err != nil {
		return err
	}
	err = c.EachCounter(kindEntry, func(owner uint32, have int64) {
		if n := counts[owner]; have != n {
			c.Problem("owner number %d has %d entries, and its counter says %d", owner, n, have)
		}
	})
	if err != nil {
		return err
	}
	return checkExpiry(c)
}

// checkExpiry checks the index by expiry. Owners that were deleted have left keys in it that
// the worker removes.
func checkExpiry(c part.Checker) error {
	gone, err := goneOwners(c)
	if err != nil {
		c.Problem("%v", err)
	}
	return c.Each(kindExpiry, func(key, _ []byte) error {
		expires, owner, name, ok := parseExpiryKey(key)
		if !ok {
			c.Problem("malformed expiry key %x", key)
			return nil
		}
		e, found, err := stored(c, owner, name)
		if err == nil && gone[owner] == 0 && (!found || max(clock.ToMillis(e.ExpiresAt), 0) != expires) {
			c.Problem("expiry index: there is no entry %q of owner number %d that expires then", valid.Short(name), owner)
		}
		return nil // an entry that cannot be read is reported
	})
}

// checkStored checks one entry.
func checkStored(c part.Checker, owner uint32, name string, value []byte) error {
	e, err := decodeEntry(name, value)
	if err != nil {
		c.Problem("%v", err)
		return nil
	}
	if !json.Valid(e.Value) || valid.JSON(e.Value) != nil {
		c.Problem("entry %q: its value is no JSON", valid.Short(name))
	}
	if num, ok, err := c.Owner(e.Owner); err != nil || !ok || num != owner {
		c.Problem("entry %q: it lies under owner number %d, it belongs to %d", valid.Short(name), owner, num)
	}
	if e.ExpiresAt.IsZero() {
		return nil
	}
	_, indexed, err := c.Get(expiryKey(c, clock.ToMillis(e.ExpiresAt), owner, name))
	if err == nil && !indexed {
		c.Problem("entry %q: it is not in the expiry index", valid.Short(name))
	}
	return err
}
