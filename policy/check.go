package policy

import (
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// Check reports policies and runs that cannot be read or that do not follow each other.
func (p *Part) Check(c part.Checker) error {
	version, lsn := uint64(0), uint64(0)
	err := c.Each(byte(kind), func(key, value []byte) error {
		s, number, ok := parseKey(key)
		if !ok {
			c.Problem("malformed key of a policy %x", key)
			return nil
		}
		if s == sectionTrash {
			if _, err := decodeTrash(number, value); err != nil {
				c.Problem("%v", err)
			}
			return nil
		}
		if s == sectionJob {
			if _, err := decodeJob(value); err != nil {
				c.Problem("%v", err)
			}
			return nil
		}
		if s == sectionRun {
			r, err := decodeRun(number, value)
			switch {
			case err != nil:
				c.Problem("%v", err)
			case !slices.IsSorted(r.Owners):
				c.Problem("the consolidation of LSN %d has its owners out of order", r.LSN)
			}
			return nil
		}
		q, err := decodePolicy(value)
		switch {
		case err != nil:
			c.Problem("policy of version %d: %v", number, err)
		case uint64(q.Version) != number || number != version+1 || q.LSN < lsn:
			c.Problem("policy of version %d: it lies under %d, after version %d", q.Version, number, version)
		case q.Check() != nil:
			c.Problem("policy of version %d: %v", number, q.Check())
		}
		version, lsn = number, q.LSN
		return nil
	})
	if err != nil {
		return err
	}
	return c.EachCounter(byte(kind), func(_ uint32, n int64) {
		if uint64(n) != version {
			c.Problem("the newest policy that is there has version %d, and %d were set", version, n)
		}
	})
}
