package requests

import "github.com/seed-7aedc3ff/memdb/internal/part"

// Check reports halves of records that cannot be read, and those that lack the other half or their
// place in the order of time. An answer may be missing: it is deleted with its owner.
func (Part) Check(c part.Checker) error {
	err := c.Each(kindDone, func(key, value []byte) error {
		p, ok := parseDone(key)
		if !ok {
			c.Problem("malformed key of a request %x", key)
			return nil
		}
		return checkDone(c, p, value)
	})
	if err != nil {
		return err
	}
	return c.Each(kindAnswer, func(key, value []byte) error {
		owner, k, ok := parseAnswer(key)
		var r Record
		if !ok || r.decodeAnswer(value) != nil {
			c.Problem("malformed answer of a request %x", key)
			return nil
		}
		done, found, err := done(c, k)
		if err == nil && (!found || done.Owner != owner) {
			c.Problem("there is an answer of the request %x under owner number %d, and no request", k, owner)
		}
		return nil // an unreadable half is reported separately
	})
}

// done is the first half of a record.
func done(v part.View, k Key) (r Record, found bool, err error) {
	b, found, err := v.Get(doneKey(v, k))
	if err == nil && found {
		r, err = decodeDone(b)
	}
	return r, found, err
}

func checkDone(c part.Checker, p place, value []byte) error {
	if p.section == sectionTime {
		r, found, err := done(c, p.key)
		if err == nil && (!found || r.At != p.ms) {
			c.Problem("the order of requests by time has one of %d that is not there: %x", p.ms, p.key)
		}
		return nil // an unreadable half is reported separately
	}
	r, err := decodeDone(value)
	if err != nil {
		c.Problem("%v", err)
		return nil
	}
	_, listed, err := c.Get(timeKey(c, r.At, p.key))
	if err == nil && !listed {
		c.Problem("the request %x is not in the order of requests by time", p.key)
	}
	return err
}
