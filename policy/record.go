package policy

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The first bytes of the values.
const (
	policyVersion = 1
	runVersion    = 1
	jobVersion    = 1
)

func (p *Policy) encode() ([]byte, error) {
	b, err := json.Marshal(p)
	return append([]byte{policyVersion}, b...), err
}

// decodePolicy reads what encode wrote. It returns ErrNewerLayout for a policy of a later version of the format.
func decodePolicy(b []byte) (Policy, error) {
	const doing = "read the policy"
	if len(b) > 0 && b[0] > policyVersion {
		return Policy{}, &fault.Error{
			Kind: fault.ErrNewerLayout, What: doing,
			Why: fmt.Sprintf("the version of its format is %d, this memdb knows %d", b[0], policyVersion), Do: "use a newer memdb",
		}
	}
	p := Default()
	if len(b) == 0 || b[0] != policyVersion {
		return Policy{}, &fault.Error{Kind: fault.ErrCorrupt, What: doing, Why: "it is malformed", Do: "run check"}
	}
	if err := json.Unmarshal(b[1:], &p); err != nil {
		return Policy{}, &fault.Error{Kind: fault.ErrCorrupt, What: doing, Cause: err, Do: "run check"}
	}
	return p, nil
}

func (r *Run) encode() []byte {
	b := binary.AppendVarint([]byte{runVersion}, r.At)
	b = codec.AppendFloat64(b, r.Rate)
	b = binary.AppendVarint(b, r.Idle)
	b = codec.AppendFloat64(b, r.Floor)
	b = binary.AppendUvarint(b, uint64(r.Policy))
	b = codec.AppendBytes(b, r.Scope.User)
	b = codec.AppendBytes(b, r.Scope.Agent)
	last := uint32(0)
	b = binary.AppendUvarint(b, uint64(len(r.Owners)))
	for _, o := range r.Owners {
		b = binary.AppendUvarint(b, uint64(o-last))
		last = o
	}
	return b
}

// decodeRun reads what encode wrote, of the run with an LSN.
func decodeRun(lsn uint64, b []byte) (Run, error) {
	c := codec.NewReader(b)
	r, v := readRun(c)
	r.LSN = lsn
	if c.Err() != nil || c.Len() > 0 || v != runVersion {
		return Run{}, &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("read the consolidation of LSN %d", lsn), Cause: c.Err(), Do: "run check"}
	}
	return r, nil
}

// readRun reads a run without its LSN.
func readRun(c *codec.Reader) (r Run, version byte) {
	version = c.Byte()
	r = Run{At: c.Varint(), Rate: c.Float64(), Idle: c.Varint(), Floor: c.Float64(), Policy: c.Uint32()}
	r.Scope = scope.Scope{User: c.String(), Agent: c.String()}
	n, last := c.Count(), uint32(0)
	if r.Scope != (scope.Scope{}) {
		r.Owners = make([]uint32, 0, n)
	}
	for range n {
		last += c.Uint32()
		r.Owners = append(r.Owners, last)
	}
	return r, version
}

// damagedLog is the error of a change whose form no version of memdb has written.
func damagedLog(what string) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read " + what + " of the log", Why: "the version of its form is unknown"}
}

func encodeJob(at int64) []byte { return binary.AppendVarint([]byte{jobVersion}, at) }

// decodeJob reads the time that encodeJob wrote.
func decodeJob(b []byte) (at int64, err error) {
	c := codec.NewReader(b)
	v := c.Byte()
	if at = c.Varint(); c.Err() != nil || c.Len() > 0 || v != jobVersion {
		return 0, &fault.Error{Kind: fault.ErrCorrupt, What: "read when a scheduled job came last", Cause: c.Err(), Do: "run check"}
	}
	return at, nil
}
