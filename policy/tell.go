package policy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// Ran is a consolidation as the log tells of it.
type Ran struct {
	// User and Agent are whose memories it was for, empty for everyone's.
	User  string `json:"user"`
	Agent string `json:"agent"`
	// Rate is what it took of the confidence of what was idle for IdleMillis, down to Floor.
	Rate       float64 `json:"rate"`
	IdleMillis int64   `json:"idle_ms"`
	Floor      float64 `json:"floor"`
	Policy     uint32  `json:"policy"` // the version of the policy
}

// Kept is what the log tells of the trash of a commit.
type Kept struct {
	// LSN is that of the commit whose memories are in the trash.
	LSN uint64 `json:"lsn"`
	// Until is when the trash of it is emptied, Undone whether its memories are back.
	Until  clock.Instant `json:"until"`
	Undone bool          `json:"undone"`
}

var _ part.Teller = (*Part)(nil)

// Tell reads a change of policies out of the log.
func (*Part) Tell(op part.Op, body *codec.Reader) part.Telling {
	switch op {
	case opPolicy:
		return tellPolicy(body)
	case opRun:
		r, version := readRun(body)
		return func(part.View, part.Commit) ([]part.Told, error) {
			if version != runVersion {
				return nil, damagedLog("a consolidation")
			}
			l := Ran{r.Scope.User, r.Scope.Agent, r.Rate, r.Idle, r.Floor, r.Policy}
			return []part.Told{{Op: "consolidate", After: l}}, nil
		}
	case opTrash:
		return tellTrash(body)
	case opJob: // when a schedule came is for itself alone
		body.Byte()
		body.Byte()
		body.Varint()
	}
	return nil
}

// tellPolicy reads a policy, whose JSON says where it ends.
func tellPolicy(body *codec.Reader) part.Telling {
	d := json.NewDecoder(bytes.NewReader(body.Rest()[min(1, body.Len()):]))
	var object json.RawMessage
	if d.Decode(&object) != nil {
		body.Take(body.Len() + 1) // it has no end: the reader fails
		return nil
	}
	value := body.Take(1 + int(d.InputOffset()))
	return func(part.View, part.Commit) ([]part.Told, error) {
		p, err := decodePolicy(value)
		return []part.Told{{Op: "policy_put", After: p}}, err
	}
}

// tellTrash reads the trash of an LSN. Where it was emptied a zero follows, or, as up to layout 7,
// nothing: then it was the last change of its commit.
func tellTrash(body *codec.Reader) part.Telling {
	k := Kept{}
	if b := body.Take(8); b != nil {
		k.LSN = binary.BigEndian.Uint64(b)
	}
	version := byte(0)
	if body.Len() > 0 {
		version = body.Byte()
	}
	if version == 0 {
		return func(part.View, part.Commit) ([]part.Told, error) {
			return []part.Told{{Op: "trash_empty", Before: k}}, nil
		}
	}
	k.Until = clock.Instant{Time: clock.FromMillis(body.Varint())}
	k.Undone = body.Byte() == 1
	counts := 1 // the memories and the survivors are not logged
	if version != trashVersionAlone {
		body.Uvarint() // the trash before it
		counts++
	}
	for range counts {
		body.Uvarint()
	}
	return func(part.View, part.Commit) ([]part.Told, error) {
		if version > trashVersion {
			return nil, damagedLog("trash")
		}
		return []part.Told{{Op: "trash_put", After: k}}, nil
	}
}
