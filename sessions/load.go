package sessions

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// DefaultWindow is how many messages a window has if it is not told.
const DefaultWindow = 20

// Window says which messages of a session are loaded: the newest, and none from before
// the newest marker. A call of a tool and its results are not parted: the window is shorter,
// and where only they are within Last, longer. nil is the last DefaultWindow.
type Window struct {
	// Last is how many; 0: DefaultWindow, or without a bound where Tokens is given.
	Last int
	// Tokens bounds the sum of what Count says of the text, the parts and the calls of tools
	// of each message. As many of the newest are loaded as fit, perhaps none. 0: no bound.
	Tokens int
	// Count counts the tokens of a text; nil: a token for each four bytes, rounded up. The
	// module tokens of this repository has the counts of OpenAI's models.
	Count func(string) int
	// Whole loads everything from the newest marker on.
	Whole bool
}

// Loaded is what a conversation goes on with.
type Loaded struct {
	// Session is what is known of it as a whole.
	Session Session `json:"session"`
	// Marker is the newest one, nil where the session was never compacted; Summary is the
	// text of its archive, as long as that is there.
	Marker   *Marker   `json:"marker"`
	Summary  string    `json:"summary"`
	Messages []Message `json:"messages"`
}

func (w *Window) check(doing string) error {
	switch {
	case w.Last < 0 || w.Tokens < 0:
		return fault.Invalid(doing, "the window is negative", "give how many messages or tokens it has")
	case w.Whole && (w.Last > 0 || w.Tokens > 0):
		return fault.Invalid(doing, "the window is whole and bounded", "give one of the two")
	}
	return nil
}

// size is how many messages a window has at most.
func (w *Window) size() int {
	switch {
	case w.Whole || w.Last == 0 && w.Tokens > 0:
		return MaxMessages
	case w.Last == 0:
		return DefaultWindow
	}
	return w.Last
}

// Load returns a session with the newest messages after its newest marker, oldest first.
// ErrNotFound where there is no such session. It reads as many messages as it returns.
func (s Sessions) Load(ctx context.Context, o scope.Owner, name string, w *Window) (out Loaded, err error) {
	if w == nil {
		w = &Window{}
	}
	doing := named("load", name)
	if err := checkName(doing, o, name); err != nil {
		return Loaded{}, err
	}
	if err := w.check(doing); err != nil {
		return Loaded{}, err
	}
	err = s.run.View(ctx, doing, func(v part.View) error {
		p, h, err := find(v, doing, o, name)
		if err != nil {
			return err
		}
		out, err = load(ctx, v, p, h, w)
		return err
	})
	if err != nil {
		return Loaded{}, err
	}
	return out, nil
}

func load(ctx context.Context, v part.View, p place, h *head, w *Window) (Loaded, error) {
	metadata, err := metadataOf(v, p, h)
	if err != nil {
		return Loaded{}, err
	}
	out := Loaded{Session: h.session(metadata)}
	marker, from, err := newestMarker(v, p, h)
	if err != nil {
		return Loaded{}, err
	}
	if marker != nil {
		out.Marker = marker
		if out.Summary, err = summaryOf(v, h.of, marker); err != nil {
			return Loaded{}, err
		}
	}
	if from, err = begins(v, p, h, from, w.size()); err != nil {
		return Loaded{}, err
	}
	if w.Tokens > 0 {
		out.Messages, err = newestWithin(ctx, v, p, h, from, w)
	} else {
		out.Messages, err = read(ctx, v, p, h, from, h.next)
	}
	if err != nil {
		return Loaded{}, err
	}
	return out, nil
}

// summaryOf is the text of the archive of a marker, empty where it is gone.
func summaryOf(v part.View, o scope.Owner, m *Marker) (string, error) {
	mem, found, err := v.Memory(o, m.ArchiveID)
	if err != nil || !found {
		return "", err
	}
	return mem.Text, nil
}

// read returns the messages of positions, with their texts.
func read(ctx context.Context, v part.View, p place, h *head, from, to uint32) ([]Message, error) {
	var all []Message
	err := eachMessage(v, p, h.content, from, to, func(_ uint32, m *Message) error {
		all = append(all, *m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := resolve(v, h.of, p, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// tokenBlock is how many messages are read at a time for a budget of tokens.
const tokenBlock = 32

// newestWithin returns as many of the newest messages as a budget of tokens has room for.
func newestWithin(ctx context.Context, v part.View, p place, h *head, from uint32, w *Window) ([]Message, error) {
	counted := w.Count
	if counted == nil {
		counted = func(s string) int { return (len(s) + 3) / 4 }
	}
	var blocks [][]Message // the newest first
	left, full := w.Tokens, false
	for to := h.next; to > from && !full; {
		begin := max(from, to-min(to, tokenBlock))
		block, err := read(ctx, v, p, h, begin, to)
		if err != nil {
			return nil, err
		}
		n := len(block)
		for ; n > 0; n-- {
			cost := 0
			for _, said := range block[n-1].form().Counted() {
				cost += counted(said)
			}
			if full = cost > left; full {
				break
			}
			left -= cost
		}
		blocks = append(blocks, block[n:])
		to = begin
	}
	var all []Message
	for _, block := range slices.Backward(blocks) {
		all = append(all, block...)
	}
	begin := h.next - uint32(len(all))
	whole, err := wholeWithin(v, p, h, begin)
	if err != nil {
		return nil, err
	}
	return all[whole-begin:], nil
}

// Items iterates over all that a session holds, the messages and the markers in their order,
// also those before a marker. It reads one state for as long as it runs. ErrNotFound where
// there is no such session.
func (s Sessions) Items(ctx context.Context, o scope.Owner, name string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		doing := named("read", name)
		err := checkName(doing, o, name)
		if err == nil {
			err = s.run.View(ctx, doing, func(v part.View) error {
				p, h, err := find(v, doing, o, name)
				if err != nil {
					return err
				}
				return eachItem(v, p, h, func(i Item) error {
					if err := ctx.Err(); err != nil {
						return err
					}
					if i.Message != nil {
						if err := resolve(v, o, p, i.Message); err != nil {
							return err
						}
					}
					if !yield(i, nil) {
						return kv.ErrStop
					}
					return nil
				})
			})
		}
		if err != nil && !errors.Is(err, kv.ErrStop) {
			yield(Item{}, err)
		}
	}
}

// placedMarker is a marker with the position that it stands before.
type placedMarker struct {
	position uint32
	*Marker
}

// eachItem calls visit for what a session shows, in order. The messages have no texts of
// memories yet.
func eachItem(v part.View, p place, h *head, visit func(Item) error) error {
	marks, err := markers(v, p, h)
	if err != nil {
		return err
	}
	before := func(position uint32) error {
		for len(marks) > 0 && marks[0].position <= position {
			if err := visit(Item{Marker: marks[0].Marker}); err != nil {
				return err
			}
			marks = marks[1:]
		}
		return nil
	}
	err = eachMessage(v, p, h.content, h.first, h.next, func(position uint32, m *Message) error {
		if err := before(position); err != nil {
			return err
		}
		return visit(Item{Message: m})
	})
	if err != nil {
		return err
	}
	return before(h.next)
}

// eachMessage calls visit for the messages of positions from one up to another, each as it
// is in the state that is read.
func eachMessage(v part.View, p place, content, from, to uint32, visit func(position uint32, m *Message) error) error {
	if from >= to {
		return nil
	}
	var at uint32
	var value []byte // of the newest version of the position at, nil before the first
	flush := func() error {
		if value == nil {
			return nil
		}
		m, err := decodeMessage(value)
		if err != nil {
			return err
		}
		return visit(at, m)
	}
	err := v.Scan(p.at(v, kindMessage, content, from), p.at(v, kindMessage, content, to), func(key, b []byte) error {
		_, position, born, ok := parseItem(key)
		if !ok {
			return layout.BadKey("message", key)
		}
		if born > v.LSN() {
			return nil
		}
		if value != nil && position != at {
			if err := flush(); err != nil {
				return err
			}
		}
		at, value = position, append(value[:0], b...)
		return nil
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil && !errors.Is(err, kv.ErrStop) {
		return err
	}
	return nil
}

// markers are those of a session, in their order.
func markers(v part.View, p place, h *head) (all []placedMarker, err error) {
	lower := p.at(v, kindMarker, h.content, h.first)
	_, upper := span(p.at(v, kindMarker, h.content, h.next))
	err = v.Scan(lower, upper, func(key, b []byte) error {
		_, position, born, ok := parseItem(key)
		if !ok {
			return layout.BadKey("marker", key)
		}
		if born > v.LSN() {
			return nil
		}
		m, err := decodeMarker(b)
		all = append(all, placedMarker{position, m})
		return err
	})
	return all, err
}

// newestMarker is the last marker of a session, and the position that a load begins at.
func newestMarker(v part.View, p place, h *head) (m *Marker, from uint32, err error) {
	_, upper := span(p.at(v, kindMarker, h.content, h.next))
	it, err := v.Iter(p.at(v, kindMarker, h.content, h.first), upper)
	if err != nil {
		return nil, h.first, err
	}
	from = h.first
	for ok := it.Last(); ok && m == nil; ok = it.Prev() {
		_, position, born, valid := parseItem(it.Key())
		if !valid {
			err = layout.BadKey("marker", it.Key())
			break
		}
		if born > v.LSN() {
			continue
		}
		var b []byte
		if b, err = it.ValueAndErr(); err == nil {
			m, err = decodeMarker(b)
		}
		if err != nil {
			break
		}
		from = position
	}
	err = errors.Join(err, it.Error(), it.Close())
	return m, from, err
}

// resolve reads the texts of the memories that a message refers to.
func resolve(v part.View, o scope.Owner, p place, m *Message) error {
	texts, n := make([]string, 0, 1), 0
	for _, of := range m.pieces {
		text, lives, err := textOf(v, o, p, of)
		if err != nil {
			return err
		}
		if of.id != "" {
			if !lives && of.seq != 0 { // perhaps it was merged
				var into part.Memory
				if into, lives, err = v.Survivor(p.owner, of.seq); err != nil {
					return err
				}
				if lives {
					m.MemoryIDs[n] = into.ID
				}
				if !of.quiet {
					text = cmp.Or(text, into.Text)
				}
			}
			n++
		}
		m.Orphan = m.Orphan || of.id != "" && !lives
		texts = append(texts, text)
	}
	m.Text = joined(texts)
	return nil
}

// textOf is what a piece says: its own text, that of its memory, or that which the memory
// had when it died.
func textOf(v part.View, o scope.Owner, p place, of piece) (text string, lives bool, err error) {
	if of.id == "" {
		return of.text, false, nil
	}
	mem, lives, err := memoryOf(v, o, of)
	switch {
	case err != nil || of.quiet || of.text != "":
		return of.text, lives, err
	case !lives && of.seq != 0:
		mem, _, err = v.MemoryWas(p.owner, of.seq)
	}
	return mem.Text, lives, err
}

// memoryOf is the memory that a piece refers to, if it lives.
func memoryOf(v part.View, o scope.Owner, of piece) (part.Memory, bool, error) {
	if of.seq != 0 {
		return v.MemoryAt(of.seq)
	}
	return v.Memory(o, of.id)
}

// readNumber reads a number that is all of a value.
func readNumber(b []byte) (uint32, bool) {
	n, size := binary.Uvarint(b)
	return uint32(n), size > 0 && size == len(b) && n < MaxMessages
}
