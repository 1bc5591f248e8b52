package sessions

import (
	"bytes"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Check reports sessions that cannot be read, that lie under another owner, that lists lack,
// or whose messages are not all there; messages and markers that cannot be read; lists and
// IDs that lead nowhere; and counters that differ from the number of sessions. Damage within
// the messages, such as one ID twice, is a matter of a repair.
func (*Part) Check(c part.Checker) error {
	counts := map[uint32]int64{}
	err := c.Each(kindSession, func(key, _ []byte) error {
		p, ok := parsePlace(key)
		if !ok || len(key) != keyHeader+placeSize {
			c.Problem("malformed session key %x", key)
			return nil
		}
		h, err := stored(c, p)
		if err != nil {
			c.Problem("session %d of owner number %d: %v", p.run, p.owner, err)
			return nil
		}
		if !h.live() {
			return nil
		}
		counts[p.owner]++
		return checkSession(c, p, h)
	})
	if err != nil {
		return err
	}
	err = eachOwner(c, func(owner uint32) error {
		n, _, err := c.Counter(kindSession, owner)
		if err == nil && n != counts[owner] {
			c.Problem("owner number %d has %d sessions, and its counter says %d", owner, counts[owner], n)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := checkItems(c); err != nil {
		return err
	}
	return checkOrders(c)
}

// checkSession checks one session and that its messages are there.
func checkSession(c part.Checker, p place, h *head) error {
	name := valid.Short(h.name)
	if at, ok, err := locate(c, h.of, h.name); err != nil {
		return err
	} else if !ok || at != p {
		c.Problem("session %q: it lies at owner %d and run %d, it belongs to %d and %d", name, p.owner, p.run, at.owner, at.run)
	}
	b, found, err := c.Get(p.state(c, h.state))
	switch {
	case err != nil:
		return err
	case !found:
		c.Problem("session %q: its state of LSN %d is not there", name, h.state)
	default:
		if _, err := decodeHead(b); err != nil {
			c.Problem("session %q: its state of LSN %d: %v", name, h.state, err)
		}
	}
	for _, l := range h.lists() {
		if _, found, err := c.Get(order(c, p, l, h.listed)); err != nil {
			return err
		} else if !found {
			c.Problem("session %q: a list lacks it", name)
		}
	}
	next := h.first
	lower, upper := p.at(c, kindMessage, h.content, h.first), p.at(c, kindMessage, h.content, h.next)
	err = c.Scan(lower, upper, func(key, _ []byte) error {
		if _, position, _, ok := parseItem(key); ok && position == next {
			next++
		}
		return nil
	})
	if err == nil && next != h.next {
		c.Problem("session %q: its message %d is not there", name, next)
	}
	return err
}

// checkItems checks each message, marker, ID and chore by itself.
func checkItems(c part.Checker) error {
	err := c.Each(kindMessage, func(key, value []byte) error {
		content, position, _, ok := parseItem(key)
		p, _ := parsePlace(key)
		if !ok {
			c.Problem("malformed message key %x", key)
			return nil
		}
		m, err := decodeMessage(value)
		if err != nil {
			c.Problem("message %d of content %d of session %d of owner number %d: %v", position, content, p.run, p.owner, err)
			return nil
		}
		if m.ID == "" {
			return nil
		}
		_, found, err := c.Get(p.id(c, content, m.ID))
		if err == nil && !found {
			c.Problem("message %q of session %d of owner number %d is not found by its ID", valid.Short(m.ID), p.run, p.owner)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = c.Each(kindMarker, func(key, value []byte) error {
		if _, _, _, ok := parseItem(key); !ok {
			c.Problem("malformed marker key %x", key)
		} else if _, err := decodeMarker(value); err != nil {
			c.Problem("marker %x: %v", key, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.Each(kindState, func(key, value []byte) error {
		lsn, ok := parseState(key)
		if !ok {
			c.Problem("malformed state key %x", key)
		} else if h, err := decodeHead(value); err != nil {
			c.Problem("state %x: %v", key, err)
		} else if h.state != lsn {
			c.Problem("state %x: it says that it is of LSN %d", key, h.state)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.Each(kindID, func(key, value []byte) error { return checkID(c, key, value) })
	if err != nil {
		return err
	}
	return c.Each(kindChore, func(key, value []byte) error {
		if _, _, ok := parseChore(key); !ok {
			c.Problem("malformed chore key %x", key)
		} else if _, err := decodeChore(value); err != nil {
			c.Problem("chore %x: %v", key, err)
		}
		return nil
	})
}

// checkID checks that an ID leads to the message that has it.
func checkID(c part.Checker, key, value []byte) error {
	p, _ := parsePlace(key)
	position, ok := readNumber(value)
	const head = keyHeader + placeSize
	if !ok || len(key) != head+numberSize+hashSize {
		c.Problem("malformed message ID key %x", key)
		return nil
	}
	found := false
	prefix := bytes.Clone(key[:head+numberSize])
	prefix[0] = kindMessage
	lower, upper := span(append(prefix, numberKey(position)...))
	err := c.Scan(lower, upper, func(_, b []byte) error {
		m, err := decodeMessage(b)
		if err == nil { // one that cannot be read is reported
			content := contentOf(key)
			found = found || bytes.Equal(p.id(c, content, m.ID), key)
		}
		return nil
	})
	if err == nil && !found {
		c.Problem("message ID %x: there is no such message at position %d", key, position)
	}
	return err
}

// checkOrders checks that what is in a list is a session that belongs there.
func checkOrders(c part.Checker) error {
	return c.Each(kindOrder, func(key, _ []byte) error {
		p, l, updated, ok := parseOrder(key)
		if !ok {
			c.Problem("malformed session list key %x", key)
			return nil
		}
		h, err := stored(c, p)
		if err != nil {
			return nil // reported
		}
		if h == nil || !h.live() || max(h.listed, 0) != updated {
			c.Problem("session list: there is no session %d of owner number %d that was updated then", p.run, p.owner)
			return nil
		}
		if slices.Contains(h.lists(), l) {
			return nil
		}
		c.Problem("session list: session %q is in a list that it does not belong to", valid.Short(h.name))
		return nil
	})
}
