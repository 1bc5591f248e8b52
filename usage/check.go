package usage

import (
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// Check reports records, budgets and manifests that cannot be read, whose owner is not
// theirs, or that are lost, and sums that differ from those of the records.
func (Part) Check(c part.Checker) error {
	homes, budgets, err := checkHomes(c)
	if err != nil {
		return err
	}
	for owner, h := range homes {
		if _, err := budgetsOf(c, owner, h.owner); err != nil {
			c.Problem("%v", err)
		}
		if err := eachReservation(c, owner, func(uint64, uint64, USD) {}); err != nil {
			c.Problem("%v", err)
		}
	}
	if err := checkSums(c, homes); err != nil {
		return err
	}
	err = c.Each(kindModel, func(key, value []byte) error {
		const at = keyHeader + ownerSize
		if m := modelOf(string(value)); len(key) != at+modelSize || string(key[at:]) != string(m[:]) {
			c.Problem("usage: the name of a model lies under a key that is not its own, %x", key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := lost(c, kindHome, "budgets", budgets); err != nil {
		return err
	}
	return checkAgents(c)
}

// checkHomes reports what is wrong with the keys of owners, and returns the owners and the numbers of their budgets.
func checkHomes(c part.Checker) (homes map[uint32]home, budgets map[uint32]int64, err error) {
	homes, budgets = map[uint32]home{}, map[uint32]int64{}
	err = c.Each(kindHome, func(key, value []byte) error {
		owner, ok := ownerOf(key)
		const which = keyHeader + ownerSize
		if !ok || len(key) <= which {
			c.Problem("usage: malformed key %x", key)
			return nil
		}
		if key[which] != homeOwner {
			if _, known := homes[owner]; !known { // its key is before theirs
				c.Problem("usage: owner number %d has budgets or reservations, and it is not known who that is", owner)
			}
			switch key[which] {
			case homeBudget:
				budgets[owner]++
			case homeIdentity:
				if _, _, err := identified(c, key); err != nil || len(key) != which+1+identitySize {
					c.Problem("usage: malformed identity of a record of owner number %d", owner)
				}
			}
			return nil
		}
		h, err := decodeHome(value)
		if err != nil {
			c.Problem("%v", err)
			return nil
		}
		homes[owner] = h
		if num, known, err := c.Owner(h.owner); err != nil || !known || num != owner {
			c.Problem("usage: owner number %d names an owner with the number %d", owner, num)
		}
		return nil
	})
	return homes, budgets, err
}

// lost reports owners that have less of a kind than is counted.
func lost(c part.Checker, kind byte, what string, have map[uint32]int64) error {
	return c.EachCounter(kind, func(owner uint32, n int64) {
		if have[owner] != n {
			c.Problem("usage: owner number %d has %d %s, and its counter says %d", owner, have[owner], what, n)
		}
	})
}

func checkAgents(c part.Checker) error {
	have := map[uint32]int64{}
	err := c.Each(kindAgent, func(key, value []byte) error {
		owner, _ := ownerOf(key)
		have[owner]++
		a, err := decodeAgent(value)
		if err != nil {
			c.Problem("%v", err)
			return nil
		}
		if num, known, err := c.Owner(a.owner()); err != nil || !known || num != owner {
			c.Problem("agent: its manifest lies under owner number %d, it belongs to %d", owner, num)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return lost(c, kindAgent, "manifests", have)
}

// checkSums compares the sums with those of the records.
func checkSums(c part.Checker, homes map[uint32]home) error {
	want := map[sumPlace]*Totals{}
	err := c.Each(kindRecord, func(key, value []byte) error {
		owner, ms, number, ok := parseRecordKey(key)
		if !ok {
			c.Problem("usage: malformed record key %x", key)
			return nil
		}
		r, err := decodeRecord(ms, number, value)
		if err != nil {
			c.Problem("%v", err)
			return nil
		}
		h, known := homes[owner]
		if !known || number > h.last {
			c.Problem("usage: record %d of owner number %d has a number that was not given", number, owner)
		}
		for l := narrowest(ms, h.floor); l <= forever; l++ {
			for _, m := range []model{modelOf(r.Model), {}} {
				at := sumPlace{owner, l, m, l.bucket(ms)}
				if want[at] == nil {
					want[at] = &Totals{}
				}
				want[at].add(r.totals())
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.Each(kindSum, func(key, value []byte) error {
		at, ok := parseSumKey(key)
		if !ok {
			c.Problem("usage: malformed sum key %x", key)
			return nil
		}
		s, err := decodeTotals(value)
		if err != nil {
			c.Problem("%v", err)
			return nil
		}
		if w := want[at]; w == nil || !w.equal(s) {
			c.Problem("usage: the sum of level %d, bucket %d, of owner number %d differs from its records", at.level, at.bucket, at.owner)
		}
		delete(want, at)
		return nil
	})
	if err == nil && len(want) > 0 {
		c.Problem("usage: %d sums are missing", len(want))
	}
	return err
}
