package notes

import (
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/part"
)

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
			c.Problem("notes: %s is that of memory number %d, and not of %d", numbered(p.owner, number), numbers[other], p.of)
		}
		if number > last[p.owner] {
			c.Problem("notes: %s was never given", numbered(p.owner, number))
		}
		if _, found, err := c.MemoryWas(p.owner, p.of); err != nil || !found {
			c.Problem("notes: %s is that of memory number %d, which there never was", numbered(p.owner, number), p.of)
		}
	}
	for p, seq := range numbers {
		if seqs[place{p.owner, sideSeq, seq}] != p.of {
			c.Problem("notes: %s names memory number %d, which does not have it", numbered(p.owner, p.of), seq)
		}
	}
	return nil
}

func numbered(owner uint32, number uint64) string {
	return fmt.Sprintf("number %d of owner number %d", number, owner)
}
