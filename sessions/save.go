package sessions

import (
	"context"
	"fmt"
	"math"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// SaveOptions changes what Save does. nil is the default.
type SaveOptions struct {
	// Channel is that of a new session; one that is there under another is ErrConflict.
	Channel string
	// IfVersion saves only where the session has this version, 0: only where there is none.
	// Otherwise Save returns ErrConflict. nil saves over whatever is there.
	IfVersion *uint64
	// Strict is that of AppendOptions.
	Strict bool
}

// Save replaces all that a session holds, or makes it, and returns how many messages it has.
// What is given is taken as it is, damaged or not: see Repair; only a message without an ID
// gets one. No memory is stored; a message refers to those of its memories that are there. A long session is written aside,
// in commits of bounded size, and shown by one.
func (s Sessions) Save(ctx context.Context, o scope.Owner, name string, items []Item, opts *SaveOptions) (int, error) {
	if opts == nil {
		opts = &SaveOptions{}
	}
	doing := named("save", name)
	if err := checkName(doing, o, name); err != nil {
		return 0, err
	}
	if err := valid.Word(doing, "channel", opts.Channel); err != nil {
		return 0, err
	}
	w := &rewriting{doing: doing, owner: o, name: name, channel: opts.Channel, ifVersion: opts.IfVersion}
	for i, of := range items {
		checked, err := checkItem(doing, of)
		if err == nil && opts.Strict && checked.Message != nil {
			_, err = checked.Message.unknown(doing, true)
		}
		if err != nil {
			return 0, fault.Within(fmt.Sprintf("item %d of %d", i+1, len(items)), err)
		}
		w.items = append(w.items, checked)
	}
	w.identify()
	if err := w.run(ctx, s.run); err != nil {
		return 0, err
	}
	return int(w.next), nil
}

// identify gives an ID to each message that has none.
func (w *rewriting) identify() {
	taken := map[string]bool{}
	for _, i := range w.items {
		if i.Message != nil {
			taken[i.Message.ID] = true
		}
	}
	for _, i := range w.items {
		if m := i.Message; m != nil && m.ID == "" {
			m.ID = giveID(m, taken)
		}
	}
}

// checkItem returns a copy of an item, as it is stored.
func checkItem(doing string, i Item) (Item, error) {
	switch {
	case i.Marker != nil && i.Message == nil:
		m := *i.Marker
		return Item{Marker: &m}, checkMarker(doing, &m)
	case i.Message == nil || i.Marker != nil:
		return Item{}, fault.Invalid(doing, "it is not either a message or a marker", "give one of the two")
	}
	m := *i.Message
	m.pieces, m.Orphan = nil, false
	err := checkWords(doing, &m)
	m.At = stamped(m.At)
	return Item{Message: &m}, err
}

// rewriting writes a content and has a session show it.
type rewriting struct {
	doing, name, channel string
	owner                scope.Owner
	items                []Item
	ifVersion            *uint64
	keep                 bool // the content before can be had back

	content, next, markers uint32
	chore                  uint64 // the LSN in the key of the chore that removes the content if it is left
	done                   int    // items that are written
}

const (
	// asideItems and asideBytes bound what one commit writes aside.
	asideItems = 1000
	asideBytes = 4 << 20
)

// chunk is how many of the items that are left one commit writes, and about how many bytes.
func (w *rewriting) chunk() (n, bytes int) {
	for _, i := range w.items[w.done:] {
		size := messageBytes
		if i.Message != nil {
			size += i.Message.size()
		}
		if n > 0 && (n == asideItems || bytes+size > asideBytes) {
			break
		}
		n, bytes = n+1, bytes+size
	}
	return n, bytes
}

// run writes all, and switches.
func (w *rewriting) run(ctx context.Context, r part.Runner) error {
	for last := false; !last; {
		n, bytes := w.chunk()
		last = w.done+n == len(w.items)
		if err := ctx.Err(); err != nil {
			return err
		}
		var again rewriting
		err := r.Update(ctx, w.doing, func(t part.Tx) error {
			again = *w
			return again.commit(t, n, bytes, last)
		})
		if err != nil {
			return err
		}
		*w = again
	}
	return nil
}

// commit writes a chunk, and with the last one has the session show the content.
func (w *rewriting) commit(t part.Tx, n, bytes int, last bool) error {
	if err := t.Need(w.doing, bytes+2*stateBytes+MaxMetadata); err != nil {
		return err
	}
	c, err := begin(t, w.owner, w.name)
	if err != nil {
		return err
	}
	if err := w.expected(c); err != nil {
		return err
	}
	if c.fresh() {
		c.channel = w.channel
	} else if err := c.sameChannel(w.doing, w.channel); err != nil {
		return err
	}
	metadata, err := c.metadata()
	if err != nil {
		return err
	}
	if err := c.settle(); err != nil {
		return err
	}
	if w.content == noContent {
		if !c.fresh() {
			c.contents++
		}
		w.content = c.contents
	}
	if err := w.write(c, n); err != nil {
		return err
	}
	if last {
		return w.show(c, metadata)
	}
	return w.lease(c)
}

// expected refuses a session that was changed since, and a content that was removed, since
// its writer was taken for gone.
func (w *rewriting) expected(c *change) error {
	have := uint64(0)
	if !c.fresh() {
		have = c.was.version
	}
	if w.ifVersion != nil && *w.ifVersion != have {
		return &fault.Error{Kind: fault.ErrConflict, What: w.doing, Why: fmt.Sprintf("its version is %d, not %d", have, *w.ifVersion), Do: "read it again and decide"}
	}
	if w.content == noContent {
		return nil
	}
	_, found, err := c.Get(c.at.chore(c, w.chore, w.content))
	if err == nil && !found {
		err = &fault.Error{Kind: fault.ErrConflict, What: w.doing, Why: "what was written so far is gone", Do: "save it again"}
	}
	return err
}

// write writes the next items.
func (w *rewriting) write(c *change, n int) error {
	first := w.next
	for _, i := range w.items[w.done : w.done+n] {
		if i.Marker != nil {
			w.markers++
			if err := c.Set(c.at.marker(c, w.content, w.next, c.LSN(), w.markers), i.Marker.encode()); err != nil {
				return err
			}
			continue
		}
		m := *i.Message
		if m.pieces == nil {
			if err := c.refer(&m); err != nil {
				return err
			}
		}
		if err := c.putIn(w.content, w.next, &m); err != nil {
			return err
		}
		w.next++
	}
	w.done += n
	c.Log(opWrite, logged(c.at, numbers(w.content, first, w.next-first)))
	return nil
}

// lease leaves the content aside, for a while. A session that is not there yet stays so.
func (w *rewriting) lease(c *change) error {
	if w.chore == 0 {
		w.chore = c.LSN()
		h := *c.head
		if c.fresh() {
			h.flags, h.version = 0, c.LSN()
			if err := c.later(noContent, 0); err != nil {
				return err
			}
		}
		if err := c.Set(c.at.head(c), h.encode(nil)); err != nil {
			return err
		}
	}
	until := c.Now() + asideLease.Milliseconds()
	return c.Set(c.at.chore(c, w.chore, w.content), chore{below: math.MaxUint32, until: until}.encode())
}

// show has the session show the content.
func (w *rewriting) show(c *change, metadata []byte) error {
	if w.chore != 0 {
		if err := c.Delete(c.at.chore(c, w.chore, w.content)); err != nil {
			return err
		}
	}
	if c.fresh() {
		c.contents = max(c.contents, w.content)
	} else if err := w.replace(c); err != nil {
		return err
	}
	c.content, c.first, c.next = w.content, 0, w.next
	if w.keep {
		c.undo.repaired = w.next
	} else {
		c.markers = w.markers
	}
	c.updated = max(c.updated, c.Now())
	return c.saveState(metadata)
}

// replace has the content that the session shows removed, or kept for an undo.
func (w *rewriting) replace(c *change) error {
	if c.undo.content != noContent {
		if err := c.later(c.undo.content, math.MaxUint32); err != nil {
			return err
		}
	}
	c.undo = undo{}
	if w.keep {
		c.undo = undo{content: c.content, first: c.first, next: c.next, markers: c.markers}
		return nil
	}
	return c.later(c.content, math.MaxUint32)
}
