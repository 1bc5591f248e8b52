package notes

import (
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

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
