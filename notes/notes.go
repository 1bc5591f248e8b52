package notes

import (
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Part is the structure as the database sees it.
type Part struct{}

// Name is "notes".
func (Part) Name() string { return "notes" }

// Kinds are those of the numbers.
func (Part) Kinds() []part.Kind { return []part.Kind{kindNote} }

// Ops are none: a number comes with its memory, which the log tells.
func (Part) Ops() []part.Op { return nil }

// Lines are none: the lines of memories have the numbers.
func (Part) Lines(part.View, scope.Scope, func(part.Line) error) error { return nil }

// NewLine is nil.
func (Part) NewLine(string) part.Line { return nil }

// Figures are the number of notes and archives that have one, as "notes".
func (Part) Figures(v part.View) (map[string]int64, error) {
	n := int64(0)
	lower := v.Key(kindNote, 0)
	err := v.Scan(lower, layout.PrefixEnd(lower), func(key, _ []byte) error {
		if p, ok := parseKey(key); ok && p.side == sideSeq {
			n++
		}
		return nil
	})
	return map[string]int64{"notes": n}, err
}

// DeleteOwner deletes nothing: the numbers go with the memories, and the last one stays, so
// that none is given again.
func (Part) DeleteOwner(part.Tx, uint32) (map[string]int64, error) {
	return map[string]int64{}, nil
}

// MemoryGone deletes the number of a memory.
func (Part) MemoryGone(v part.View, owner uint32, seq uint64, del func(key []byte) error, _ func(_, _ []byte) error) error {
	number, err := Number(v, owner, seq)
	if err != nil || number == 0 {
		return err
	}
	if err := del(seqKey(v, owner, seq)); err != nil {
		return err
	}
	return del(numberKey(v, owner, number))
}

// Number is the number of a memory, 0 where it has none.
func Number(v part.View, owner uint32, seq uint64) (uint64, error) {
	return get(v, seqKey(v, owner, seq))
}

func get(v part.View, key []byte) (uint64, error) {
	b, found, err := v.Get(key)
	if err != nil || !found {
		return 0, err
	}
	return decode(b)
}

// Give gives a memory a number, unless it has one: that which it had elsewhere, if it is free
// here, or else the next one.
func Give(t part.Tx, owner uint32, seq, had uint64) error {
	if number, err := Number(t, owner, seq); err != nil || number != 0 {
		return err
	}
	last, err := get(t, lastKey(t, owner))
	if err != nil {
		return err
	}
	number := had
	if number != 0 {
		taken, err := get(t, numberKey(t, owner, number))
		if err != nil {
			return err
		}
		if taken != 0 {
			number = 0
		}
	}
	if number == 0 {
		number = last + 1
	}
	if number == 0 {
		return &fault.Error{Kind: fault.ErrFull, What: "number a note", Why: "there is no higher number", Do: "export the notes without note_id, and import them into a new database"}
	}
	if err := t.Set(seqKey(t, owner, seq), encode(number)); err != nil {
		return err
	}
	if err := t.Set(numberKey(t, owner, number), encode(seq)); err != nil {
		return err
	}
	return t.Set(lastKey(t, owner), encode(max(last, number)))
}

// Check reports numbers that two memories have, that one side alone knows, that were never
// given, or whose memory there never was.
func (Part) Check(c part.Checker) error {
	seqs, numbers := map[place]uint64{}, map[place]uint64{}
	last := map[uint32]uint64{}
	err := c.Each(kindNote, func(key, value []byte) error {
		p, ok := parseKey(key)
		n, err := decode(value)
		if !ok || err != nil {
			c.Problem("notes: malformed key or value %x", key)
			return nil
		}
		switch p.side {
		case sideSeq:
			seqs[p] = n
		case sideNumber:
			numbers[p] = n
		default:
			last[p.owner] = n
		}
		return nil
	})
	if err != nil {
		return err
	}
	for p, number := range seqs {
		other := place{p.owner, sideNumber, number}
		if numbers[other] != p.of {
			c.Problem("notes: %s is that of memory number %d, and not of %d", named(p.owner, number), numbers[other], p.of)
		}
		if number > last[p.owner] {
			c.Problem("notes: %s was never given", named(p.owner, number))
		}
		if _, found, err := c.MemoryWas(p.owner, p.of); err != nil || !found {
			c.Problem("notes: %s is that of memory number %d, which there never was", named(p.owner, number), p.of)
		}
	}
	for p, seq := range numbers {
		if seqs[place{p.owner, sideSeq, seq}] != p.of {
			c.Problem("notes: %s names memory number %d, which does not have it", named(p.owner, p.of), seq)
		}
	}
	return nil
}

func named(owner uint32, number uint64) string {
	return fmt.Sprintf("number %d of owner number %d", number, owner)
}
