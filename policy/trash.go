package policy

import (
	"encoding/binary"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// Trash is what one commit has evicted, pruned or merged away, so that it can be brought back.
type Trash struct {
	LSN    uint64
	Until  int64 // Unix milliseconds: then it is emptied
	Undone bool
	Things []Trashed
}

// Trashed is a memory in the trash: its last version, and what its record does not have.
type Trashed struct {
	layout.Version
	Confidence float64 // then
	Count      uint64
	Last       int64
	Into       uint64 // the Seq of what it was merged into, 0 for none
}

const (
	trashVersion         = 1
	opTrash      part.Op = 46 // LSN, 8 bytes, and the until and undone of its trash as they are stored; none: it was emptied
)

func trashKey(v part.View, lsn uint64) []byte {
	return binary.BigEndian.AppendUint64(section(v, sectionTrash), lsn)
}

func (t *Trash) encode() []byte {
	b := binary.AppendVarint([]byte{trashVersion}, t.Until)
	undone := byte(0)
	if t.Undone {
		undone = 1
	}
	b = append(b, undone)
	b = binary.AppendUvarint(b, uint64(len(t.Things)))
	for i := range t.Things {
		x := &t.Things[i]
		b = binary.AppendUvarint(b, uint64(x.Owner))
		b = binary.AppendUvarint(b, x.Seq)
		b = binary.AppendUvarint(b, x.Born)
		b = binary.AppendUvarint(b, uint64(x.Change))
		b = codec.AppendFloat64(b, x.Confidence)
		b = binary.AppendUvarint(b, x.Count)
		b = binary.AppendVarint(b, x.Last)
		b = binary.AppendUvarint(b, x.Into)
	}
	return b
}

func decodeTrash(lsn uint64, b []byte) (Trash, error) {
	c := codec.NewReader(b)
	v := c.Byte()
	t := Trash{LSN: lsn, Until: c.Varint(), Undone: c.Byte() == 1}
	t.Things = make([]Trashed, c.Count())
	for i := range t.Things {
		t.Things[i] = Trashed{
			Version:    layout.Version{Owner: c.Uint32(), Seq: c.Uvarint(), Born: c.Uvarint(), Change: c.Uint32()},
			Confidence: c.Float64(), Count: c.Uvarint(), Last: c.Varint(), Into: c.Uvarint(),
		}
	}
	if c.Err() != nil || c.Len() > 0 || v != trashVersion {
		return Trash{}, &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("read the trash of LSN %d", lsn), Cause: c.Err(), Do: "run check"}
	}
	return t, nil
}

// TrashBytes is about what the trash of so many memories takes, in bytes.
func TrashBytes(memories int) int { return 64 + 64*memories }

// Keep writes what a commit has put in the trash, or that it was undone.
func (t *Trash) Keep(tx part.Tx) error {
	if err := tx.Set(trashKey(tx, t.LSN), t.encode()); err != nil {
		return err
	}
	short := Trash{Until: t.Until, Undone: t.Undone}
	tx.Log(opTrash, append(binary.BigEndian.AppendUint64(nil, t.LSN), short.encode()...))
	return nil
}

// Empty removes the trash of an LSN.
func (t *Trash) Empty(tx part.Tx) error {
	if err := tx.NeedToFree("empty the trash", 64); err != nil {
		return err
	}
	tx.Log(opTrash, binary.BigEndian.AppendUint64(nil, t.LSN))
	return tx.Delete(trashKey(tx, t.LSN))
}

// TrashOf is the trash of an LSN, false where there is none.
func TrashOf(v part.View, lsn uint64) (Trash, bool, error) {
	b, known, err := v.Get(trashKey(v, lsn))
	if err != nil || !known {
		return Trash{}, false, err
	}
	t, err := decodeTrash(lsn, b)
	return t, err == nil, err
}

// EachTrash visits the trash in the order of LSNs.
func EachTrash(v part.View, visit func(Trash) error) error {
	return v.Scan(section(v, sectionTrash), section(v, sections), func(key, value []byte) error {
		_, lsn, _ := parseKey(key)
		t, err := decodeTrash(lsn, value)
		if err != nil {
			return err
		}
		return visit(t)
	})
}
