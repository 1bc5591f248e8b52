package sessions

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// DeleteOwner deletes the sessions of an owner: a range of keys of each kind. A state of
// before, read while it is retained, has none of them either.
func (p *Part) DeleteOwner(t part.Tx, owner uint32) (map[string]int64, error) {
	n, _, err := t.Counter(kindSession, owner)
	if err != nil {
		return nil, err
	}
	if err := t.NeedToFree("delete the sessions of an owner", len(p.Kinds())*valid.MaxID); err != nil {
		return nil, err
	}
	for _, kind := range p.Kinds() {
		lower := binary.BigEndian.AppendUint32(t.Key(byte(kind), numberSize), owner)
		if err := t.DeleteRange(lower, layout.PrefixEnd(lower)); err != nil {
			return nil, err
		}
	}
	if n != 0 {
		if err := t.Count(kindSession, owner, -n); err != nil {
			return nil, err
		}
	}
	t.Log(opOwner, binary.AppendUvarint(nil, uint64(owner)))
	return map[string]int64{"sessions": n}, nil
}
