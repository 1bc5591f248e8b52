package sessions

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// change is one change of a session in a transaction.
type change struct {
	part.Tx
	*head
	at  place
	was *head // before the change; nil for a new one
}

// begin begins a change of a session, which is new where there is none.
func begin(t part.Tx, o scope.Owner, name string) (*change, error) {
	c := &change{Tx: t}
	p, known, err := locate(t, o, name)
	if err == nil && known {
		c.at = p
		c.was, err = stored(t, p)
	}
	if err != nil {
		return nil, err
	}
	if !c.fresh() {
		h := *c.was
		c.head = &h
		return c, nil
	}
	c.head = &head{of: o, name: name, flags: flagLive, created: t.Now(), updated: t.Now(), content: 1, contents: 1}
	if c.was != nil { // it was deleted: what is left of its contents may be there yet
		c.contents = c.was.contents + 1
		c.content = c.contents
	}
	return c, nil
}

// beginKnown is begin for a session that must be there.
func beginKnown(t part.Tx, doing string, o scope.Owner, name string) (*change, error) {
	c, err := begin(t, o, name)
	if err == nil && c.fresh() {
		err = notFound(doing)
	}
	return c, err
}

// fresh reports whether the session is new.
func (c *change) fresh() bool { return c.was == nil || !c.was.live() }

// settle gives the session its numbers, before anything is written.
func (c *change) settle() (err error) {
	if c.at.owner, err = c.GiveOwner(c.of); err != nil {
		return err
	}
	c.at.run, err = c.GiveRun(c.name)
	return err
}

// save writes the session after an append.
func (c *change) save() error {
	c.version, c.listed = c.LSN(), c.updated
	if err := c.relist(); err != nil {
		return err
	}
	return c.Set(c.at.head(c), c.encode(nil))
}

// saveState writes the session after any other change, with its state.
func (c *change) saveState(metadata []byte) error {
	if c.fresh() {
		if err := c.Count(kindSession, c.at.owner, 1); err != nil {
			return err
		}
	}
	c.state = c.LSN()
	if c.was != nil && c.was.state != c.state {
		if err := c.later(noContent, 0); err != nil { // the state before is to be removed
			return err
		}
	}
	c.listed = c.updated
	value := c.encode(metadata)
	if err := c.Set(c.at.state(c, c.state), value); err != nil {
		return err
	}
	c.Log(opSession, logged(c.at, value))
	return c.save()
}

// mark writes a marker before a position. number is another one for each marker of a commit.
func (c *change) mark(position uint32, m *Marker, number uint32) error {
	c.markers = max(c.markers, number)
	c.Log(opMarker, logged(c.at, numbers(c.content, position)))
	return c.Set(c.at.marker(c, c.content, position, c.LSN(), number), m.encode())
}

// refer makes the pieces of a message that comes with its text and the IDs of memories. It
// refers to those that are there. Where they do not say the text, it carries the text.
func (c *change) refer(m *Message) error {
	m.pieces = nil
	var texts []string
	for _, id := range m.MemoryIDs {
		mem, _, err := c.Memory(c.of, id)
		if err != nil {
			return err
		}
		m.pieces = append(m.pieces, piece{seq: mem.Seq, id: id})
		texts = append(texts, mem.Text)
	}
	switch said := (&messages.Message{Parts: m.Parts}).Words(); {
	case m.Text == "" && said != "" && len(texts) == 1 && texts[0] == said: // as Append has stored it
		m.pieces[0].quiet = true
	case joined(texts) == m.Text:
	case len(m.pieces) == 1:
		m.pieces[0].text = m.Text
	default:
		for i := range m.pieces {
			m.pieces[i].quiet = true
		}
		m.pieces = append(m.pieces, piece{text: m.Text})
	}
	return nil
}

// later notes that the positions of a content below one are to be removed, once nobody
// reads a state before this commit.
func (c *change) later(content, below uint32) error {
	return c.Set(c.at.chore(c, c.LSN(), content), chore{below: below}.encode())
}

// metadata is what the newest state of the session says.
func (c *change) metadata() ([]byte, error) {
	if c.fresh() {
		return nil, nil
	}
	return metadataOf(c, c.at, c.was)
}

// metadataOf reads the metadata of a session from its state.
func metadataOf(v part.View, p place, h *head) ([]byte, error) {
	b, found, err := v.Get(p.state(v, h.state))
	if err != nil || !found {
		return nil, err
	}
	s, err := decodeHead(b)
	if err != nil {
		return nil, err
	}
	return s.metadata, nil
}

// lists are those that have the session.
func (h *head) lists() []listID {
	l := everyday
	if h.archived() {
		l = archives
	}
	if h.channel == "" {
		return []listID{l}
	}
	return []listID{l, channelList(h.channel)}
}

// relist moves the session to its place in the lists.
func (c *change) relist() error {
	if !c.fresh() {
		if c.was.listed == c.listed && c.was.flags == c.flags {
			return nil
		}
		if err := c.unlist(); err != nil {
			return err
		}
	}
	for _, l := range c.lists() {
		if err := c.Set(order(c, c.at, l, c.listed), nil); err != nil {
			return err
		}
	}
	return nil
}

// unlist takes the session out of the lists that it was in.
func (c *change) unlist() error {
	for _, l := range c.was.lists() {
		if err := c.Delete(order(c, c.at, l, c.was.listed)); err != nil {
			return err
		}
	}
	return nil
}

// logged is what the log says of a change: of which session, and what follows.
func logged(p place, value []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(p.owner))
	b = binary.AppendUvarint(b, uint64(p.run))
	return append(b, value...)
}

// numbers are numbers in a body of the log.
func numbers(all ...uint32) (b []byte) {
	for _, n := range all {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}
