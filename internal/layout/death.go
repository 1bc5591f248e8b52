package layout

import (
	"encoding/binary"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// The first byte of an encoded Death: of one without a reason, of one with, and of one that
// names a version whose record stays, also with the ID of a memory of elsewhere.
const (
	historyVersion       = 1
	historyVersionReason = 2
	historyVersionKept   = 3
	historyVersionInto   = 4
)

// Reason is why a memory died, where nobody named it to be deleted.
type Reason byte

// The reasons.
const (
	NoReason         Reason = iota // it was deleted by its ID, or before reasons were kept
	ReasonScope                    // it was in a scope, or fitted a filter, that was deleted
	ReasonAge                      // evicted, for its age and its importance
	ReasonConfidence               // evicted
	ReasonCap                      // evicted, since its owner had too many
	ReasonExpired                  // evicted, as its time was over
	ReasonPruned                   // its decayed importance was too low
	ReasonMerged                   // it was nearly the same as another memory
	ReasonCaller                   // the program said so
	Reasons                        // no reason: the size of a table by reason
)

// Cause is why a memory died: the reason, the version of the policy that said so, and the
// Seq of the memory that it was merged into, 0 for none. Of a death that an import brought,
// IntoID is the ID of that memory, which may come later, or be gone.
type Cause struct {
	Reason Reason
	Policy uint32
	Into   uint64
	IntoID string
}

// Death is the history entry of a delete. Adds and updates need no entry: their records
// are the history.
type Death struct {
	At     int64  // Unix milliseconds
	Born   uint64 // Born and Change name the version that died, see Version
	Change uint32
	Cause
	// Kept: that version's record stays as long as this entry. Otherwise it was of before
	// layout 6, and gone if it only embedded the text.
	Kept bool
}

// DeathOf returns the entry of a memory that dies as version v, whose record is r.
func DeathOf(r *Record, v Version, at int64, why Cause) Death {
	d := Death{At: at, Born: v.Born, Change: v.Change, Cause: why}
	if of := r.History(v); of != (Change{}) {
		d.Born, d.Change, d.Kept = of.Born, of.Number, true
	}
	return d
}

// Encode returns the value that is stored under Keys.History.
func (d Death) Encode() []byte {
	b := []byte{historyVersion}
	if d.Cause != (Cause{}) {
		b[0] = historyVersionReason
	}
	if d.Kept {
		b[0] = historyVersionKept
	}
	if d.IntoID != "" { // which is kept
		b[0] = historyVersionInto
	}
	b = binary.AppendVarint(b, d.At)
	b = binary.AppendUvarint(b, d.Born)
	b = binary.AppendUvarint(b, uint64(d.Change))
	if b[0] == historyVersion {
		return b
	}
	b = append(b, byte(d.Reason))
	b = binary.AppendUvarint(b, uint64(d.Policy))
	b = binary.AppendUvarint(b, d.Into)
	if d.IntoID != "" {
		b = codec.AppendBytes(b, d.IntoID)
	}
	return b
}

// DecodeDeath reads what Encode wrote. It returns ErrCorrupt for damaged bytes and for an
// unknown version.
func DecodeDeath(b []byte) (Death, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	d := Death{At: r.Varint(), Born: r.Uvarint(), Change: r.Uint32()}
	d.Kept = v == historyVersionKept || v == historyVersionInto
	if v == historyVersionReason || d.Kept {
		d.Cause = Cause{Reason: Reason(r.Byte()), Policy: r.Uint32(), Into: r.Uvarint()}
	}
	if v == historyVersionInto {
		d.IntoID = r.String()
	}
	if r.Err() != nil || v < historyVersion || v > historyVersionInto || d.Reason >= Reasons {
		return Death{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read a history entry", Cause: r.Err()}
	}
	return d, nil
}
