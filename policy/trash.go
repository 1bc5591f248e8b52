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
	// LSN is that of the commit that deleted.
	LSN    uint64
	Until  int64 // Unix milliseconds: then it is emptied
	Undone bool
	// Before is the LSN of the commit before it in the same consolidation that put something in the trash, 0 for none:
	// the last one of a consolidation leads to all that it took.
	Before uint64
	Things []Trashed
	Heirs  []Heir
}

// Heir is a memory that something was merged into, and what it had before.
type Heir struct {
	layout.Version // that the merge made
	Importance     float64
	AutoImportance bool // it was computed
	Pinned         bool
	Confidence     float64
	Confident      bool // it got another confidence
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
	trashVersionAlone         = 1 // written before layout 7: no Before and no Heirs
	trashVersion              = 2
	opTrash           part.Op = 46 // LSN, 8 bytes, and the until and undone of its trash as they are stored; 0 (up to layout 7: nothing): it was emptied
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
	b = binary.AppendUvarint(b, t.Before)
	b = binary.AppendUvarint(b, uint64(len(t.Things)))
	for i := range t.Things {
		x := &t.Things[i]
		b = appendVersion(b, &x.Version)
		b = codec.AppendFloat64(b, x.Confidence)
		b = binary.AppendUvarint(b, x.Count)
		b = binary.AppendVarint(b, x.Last)
		b = binary.AppendUvarint(b, x.Into)
	}
	b = binary.AppendUvarint(b, uint64(len(t.Heirs)))
	for i := range t.Heirs {
		b = t.Heirs[i].append(b)
	}
	return b
}

// The flags of an heir.
const (
	heirAuto = 1 << iota
	heirPinned
	heirConfident
)

func (h *Heir) append(b []byte) []byte {
	flags := byte(0)
	for flag, is := range map[byte]bool{heirAuto: h.AutoImportance, heirPinned: h.Pinned, heirConfident: h.Confident} {
		if is {
			flags |= flag
		}
	}
	b = appendVersion(append(b, flags), &h.Version)
	b = codec.AppendFloat64(b, h.Importance)
	return codec.AppendFloat64(b, h.Confidence)
}

func readHeir(c *codec.Reader) Heir {
	flags := c.Byte()
	return Heir{
		AutoImportance: flags&heirAuto != 0, Pinned: flags&heirPinned != 0, Confident: flags&heirConfident != 0,
		Version: readVersion(c), Importance: c.Float64(), Confidence: c.Float64(),
	}
}

func appendVersion(b []byte, v *layout.Version) []byte {
	b = binary.AppendUvarint(b, uint64(v.Owner))
	b = binary.AppendUvarint(b, v.Seq)
	b = binary.AppendUvarint(b, v.Born)
	return binary.AppendUvarint(b, uint64(v.Change))
}

func readVersion(c *codec.Reader) layout.Version {
	return layout.Version{Owner: c.Uint32(), Seq: c.Uvarint(), Born: c.Uvarint(), Change: c.Uint32()}
}

func decodeTrash(lsn uint64, b []byte) (Trash, error) {
	c := codec.NewReader(b)
	v := c.Byte()
	t := Trash{LSN: lsn, Until: c.Varint(), Undone: c.Byte() == 1}
	whole := v != trashVersionAlone
	if whole {
		t.Before = c.Uvarint()
	}
	t.Things = make([]Trashed, c.Count())
	for i := range t.Things {
		x := &t.Things[i]
		*x = Trashed{Version: readVersion(c), Confidence: c.Float64(), Count: c.Uvarint(), Last: c.Varint(), Into: c.Uvarint()}
	}
	if whole {
		t.Heirs = make([]Heir, c.Count())
		for i := range t.Heirs {
			t.Heirs[i] = readHeir(c)
		}
	}
	if c.Err() != nil || c.Len() > 0 || v != trashVersion && v != trashVersionAlone {
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
	short := Trash{Until: t.Until, Undone: t.Undone, Before: t.Before}
	tx.Log(opTrash, append(binary.BigEndian.AppendUint64(nil, t.LSN), short.encode()...))
	return nil
}

// Empty removes the trash of an LSN.
func (t *Trash) Empty(tx part.Tx) error {
	if err := tx.NeedToFree("empty the trash", 64); err != nil {
		return err
	}
	tx.Log(opTrash, append(binary.BigEndian.AppendUint64(nil, t.LSN), 0))
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
