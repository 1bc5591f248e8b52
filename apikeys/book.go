package apikeys

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// Seal is a second record, beside the head, that a database has ever had a key.
type Seal interface {
	// Sealed reports whether it had.
	Sealed() bool
	// SetSealed records that it had, or that it never had. It is durable with the next commit at the latest.
	SetSealed(ctx context.Context, sealed bool) error
}

// Book is the keys of a database, as a [Store].
type Book struct {
	runner part.Runner
	part   *Part
	seal   Seal
	broken error // what an older file of keys could not be read for
}

// NewBook returns the keys of a database. broken is why the keys of an older database could not be taken over, nil
// where they were or there were none: then nobody is let in before the lines can be read.
func NewBook(r part.Runner, p *Part, s Seal, broken error) *Book {
	return &Book{runner: r, part: p, seal: s, broken: broken}
}

// The bytes of a head.
const (
	headVersion = 1
	flagKeyed   = 1
)

// head says what lines there are.
type head struct {
	keyed  bool  // there was a key; false after Clear
	since  int64 // Unix milliseconds
	lines  uint64
	digest [sha256.Size]byte
}

func (h *head) encode() []byte {
	b := []byte{headVersion, 0}
	if h.keyed {
		b[1] = flagKeyed
	}
	b = binary.AppendVarint(b, h.since)
	b = binary.AppendUvarint(b, h.lines)
	return append(b, h.digest[:]...)
}

func decodeHead(b []byte) (h head, err error) {
	r := codec.NewReader(b)
	v, flags := r.Byte(), r.Byte()
	h = head{keyed: flags&flagKeyed != 0, since: r.Varint(), lines: r.Uvarint()}
	rest := r.Rest()
	if r.Err() != nil || v != headVersion || flags&^flagKeyed != 0 || len(rest) != len(h.digest) {
		return head{}, damaged(r.Err(), "their head is malformed")
	}
	h.digest = [sha256.Size]byte(rest)
	return h, nil
}

// count adds a line to the head, or takes it out again.
func (h *head) count(name string, value []byte, by int) {
	s := sha256.New()
	s.Write(binary.AppendUvarint(nil, uint64(len(name))))
	s.Write([]byte(name))
	s.Write(value)
	for i, b := range s.Sum(nil) {
		h.digest[i] ^= b
	}
	h.lines += uint64(by)
}

func damaged(cause error, why string) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: doingRead, Why: why, Cause: cause, Do: wayOn}
}

// Version implements [Store].
func (b *Book) Version() (uint64, error) { return b.part.version.Load(), nil }

// Lines implements [Store].
func (b *Book) Lines() (lines []byte, keyed bool, err error) {
	var h *head
	err = b.runner.View(context.Background(), doingRead, func(v part.View) (err error) {
		h, lines, err = read(v)
		return err
	})
	switch {
	case err != nil:
		return nil, true, err
	case h != nil && (h.keyed || !b.seal.Sealed()):
		return lines, h.keyed, nil
	case b.broken != nil:
		return nil, true, b.broken
	}
	return nil, b.seal.Sealed(), nil // where it is sealed, the keys are missing
}

// read reads the head, nil where there is none, and the lines.
func read(v part.View) (h *head, lines []byte, err error) {
	value, found, err := v.Get(headKey(v))
	if err != nil {
		return nil, nil, err
	}
	var want, has head
	if found {
		if want, err = decodeHead(value); err != nil {
			return nil, nil, err
		}
		h = &want
	}
	lower := lineKey(v, "")
	err = v.Scan(lower, layout.PrefixEnd(lower), func(key, value []byte) error {
		has.count(string(key[len(lower):]), value, 1)
		lines = append(append(lines, value...), '\n')
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, err
	case has.lines != want.lines || has.digest != want.digest:
		return nil, nil, damaged(nil, fmt.Sprintf("lines are missing or damaged: %d were written, and %d are there", want.lines, has.lines))
	}
	return h, lines, nil
}

// Begun reports whether the store has, or had, lines: also when all were cleared. ErrCorrupt where that cannot be
// read.
func (b *Book) Begun() (begun bool, err error) {
	err = b.runner.View(context.Background(), doingRead, func(v part.View) error {
		_, begun, err = v.Get(headKey(v))
		return err
	})
	return begun, err
}

// Put implements [Store].
func (b *Book) Put(ctx context.Context, name string, line []byte) error {
	return b.putAll(ctx, []named{{name, line}})
}

// Adopt stores the lines of another store, or of a file of keys, in one commit. ErrCorrupt where they cannot be read.
func (b *Book) Adopt(ctx context.Context, lines []byte) error {
	all, err := split(lines)
	if err != nil {
		return damaged(err, "")
	}
	out := make([]named, len(all))
	for i := range all {
		text, err := json.Marshal(&all[i])
		if err != nil {
			return err
		}
		out[i] = named{all[i].name(), text}
	}
	return b.putAll(ctx, out)
}

// named is a line with its name.
type named struct {
	name string
	line []byte
}

func (b *Book) putAll(ctx context.Context, all []named) error {
	size := 0
	for _, n := range all {
		size += headSize + len(n.line)
	}
	if err := b.seal.SetSealed(ctx, true); err != nil { // first, so that a crash leaves a server closed rather than open
		return err
	}
	return b.update(ctx, "change the keys", size, func(t part.Tx) error {
		value, found, err := t.Get(headKey(t))
		if err != nil {
			return err
		}
		var h head
		if found {
			if h, err = decodeHead(value); err != nil {
				return err
			}
		}
		if !h.keyed {
			h.keyed, h.since = true, t.Now()
		}
		for _, n := range all {
			if err := h.put(t, n); err != nil {
				return err
			}
		}
		return t.Set(headKey(t), h.encode())
	})
}

// put writes a line, and counts it in place of the one that had its name.
func (h *head) put(t part.Tx, n named) error {
	key := lineKey(t, n.name)
	old, found, err := t.Get(key)
	if err != nil {
		return err
	}
	if found {
		h.count(n.name, old, -1)
	}
	h.count(n.name, n.line, 1)
	return t.Set(key, n.line)
}

// Clear implements [Store].
func (b *Book) Clear(ctx context.Context, keyed bool) error {
	if err := b.seal.SetSealed(ctx, keyed); err != nil {
		return err
	}
	return b.update(ctx, "clear the keys", 0, func(t part.Tx) error {
		lower := lineKey(t, "")
		if err := t.DeleteRange(lower, layout.PrefixEnd(lower)); err != nil {
			return err
		}
		h := head{keyed: keyed, since: t.Now()}
		return t.Set(headKey(t), h.encode())
	})
}

// headSize is more than a head and its key need, in bytes.
const headSize = 128

// update changes lines in a commit of its own, which readers of the log see nothing of.
func (b *Book) update(ctx context.Context, doing string, size int, fn func(part.Tx) error) error {
	defer b.part.version.Add(1) // when readers see the commit: they read the lines of a version once
	return b.runner.Update(ctx, doing, func(t part.Tx) error {
		if err := t.Need(doing, headSize+size); err != nil {
			return err
		}
		t.Log(part.OpInternal, nil)
		return fn(t)
	})
}
