package policy

import (
	"context"
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// Trashes are all that the trash has.
func Trashes(ctx context.Context, p Policies) (all []Trash, err error) {
	err = p.run.View(ctx, "read the trash", func(v part.View) error {
		return EachTrash(v, func(t Trash) error {
			all = append(all, t)
			return nil
		})
	})
	return all, err
}

// Damage changes keys behind the back of the part, where one policy was set.
type Damage struct {
	Says  string // a part of what Check says of it
	write func(t part.Tx) error
}

// Damages are those that Check finds.
var Damages = []Damage{
	{"malformed key", func(t part.Tx) error { return t.Set(t.Key(byte(kind), 0), nil) }},
	{"read the trash", func(t part.Tx) error { return t.Set(trashKey(t, 7), []byte{99}) }},
	{"damaged", func(t part.Tx) error { return t.Set(jobKey(t, JobEvict), []byte{99, 1}) }},
	{"damaged", func(t part.Tx) error { return t.Set(runKey(t, 7), []byte{99}) }},
	{"policy of version 1", func(t part.Tx) error { return t.Set(policyKey(t, 1), []byte{99}) }},
	{"owners out of order", func(t part.Tx) error { return t.Set(runKey(t, 7), (&Run{Owners: []uint32{3, 1}}).encode()) }},
	{"it lies under 7, after version 1", func(t part.Tx) error { return setPolicyAt(t, 7, Default()) }},
	{"the newest policy that is there has version 0", func(t part.Tx) error { return t.Delete(policyKey(t, 1)) }},
	{"policy of version 1: ", func(t part.Tx) error {
		p := Default()
		p.Version, p.Rate = 1, 9
		return setPolicyAt(t, 1, p)
	}},
}

func setPolicyAt(t part.Tx, version uint32, p Policy) error {
	b, err := p.encode()
	if err != nil {
		return err
	}
	return t.Set(policyKey(t, version), b)
}

// Do does the damage.
func (d Damage) Do(ctx context.Context, p Policies) error {
	return p.run.Update(ctx, "damage", func(t part.Tx) error {
		t.Log(opTrash, binary.BigEndian.AppendUint64(nil, 1))
		return d.write(t)
	})
}
