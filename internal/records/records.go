// Package records keeps the versions of memories within one transaction: it finds a memory by its ID, adds, replaces
// and removes versions, recognises duplicates, and tells the history of a memory.
//
// A memory is all versions under one Seq of one owner. The newest version is in force until another one replaces it or
// the memory dies. A version is a record, under its key for good; its vectors; a forward record by document number, of
// which opening makes the tables; and keys that find it: of its ID, and of what it has in common with duplicates. Older
// versions keep their records, and are the history.
//
// A [View] reads the versions that a state shows. A [Writer] is a View of a transaction that writes: what it has written
// is in the batch and among its [Changes], and in no table before the commit. The functions of this package know no
// database: the transaction is a [Batch], which takes keys, and a [Host].
package records

import (
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
)

// View reads the versions that a state shows.
type View struct {
	*state.State
	// Changes are what the transaction has written, nil for one that only reads.
	Changes *Changes
	Spaces  *spaces.Set
	Seen    *Seen
	// Database is the ID of the database, for the IDs of entries of histories.
	Database uuid.UUID
}

// Writer writes versions of memories in one transaction.
type Writer struct {
	View
	Batch
	Host
	Settings
	Touches *Touches
	// Applied is the LSN of the newest commit before the transaction.
	Applied uint64
	// taken are gathered touches and folds that are in the batch.
	taken map[uint64]layout.Access
}

// Settings are what a database does with what is stored.
type Settings struct {
	Dedup Dedup
	// Embeds reports that the database has an embedder: a new text without a vector waits for it.
	Embeds bool
}

// Dedup says which memories a store takes for the same.
type Dedup uint8

// The values of Dedup.
const (
	DedupScope Dedup = iota
	DedupOwner
	DedupNone
)

// Batch takes what a transaction writes. A failed write breaks the transaction.
type Batch interface {
	Set(key, value []byte) error
	// Encoded sets a key to what encode appends.
	Encoded(key []byte, encode func(dst []byte) []byte) error
	Delete(key []byte) error
	// Merge adds an operand to the value of a key.
	Merge(key, value []byte) error
	// Change takes the number of the next change of the commit.
	Change() uint32
	// Log is the log record of the commit, to which changes are appended.
	Log() *[]byte
	// Break marks the transaction as one that cannot commit, since an operation stopped half-way, and returns err.
	Break(err error) error
	// Room refuses an operation of so many changes and bytes that would take the transaction over its limits, or
	// the disk's last free space. RoomToFree is for an operation that frees space.
	Room(doing string, changes, size int) error
	RoomToFree(doing string, size int) error
}

// Host is what a Writer asks of the database around the transaction.
type Host interface {
	// Admit refuses a name that may not be used: number is that of a known one, 0 for one that is to be given.
	Admit(k layout.Name, number uint32) error
	// Concerns notes that the transaction changes something of an owner.
	Concerns(owner uint32)
	// Registered refuses an agent without a manifest where manifests are required.
	Registered(doing string, o memory.Owner) error
	// Doc gives the number of the next document.
	Doc() (uint32, error)
	// MaySpaces refuses to make so many more spaces.
	MaySpaces(doing string, more uint32) error
	// MakeSpace makes the space of a name with the dimension of its first vector.
	MakeSpace(name string, dim int) (*spaces.Space, error)
	// Part is the transaction as parts see it.
	Part() part.Tx
	// Link links a memory to what it mentions; nil: it is not known.
	Link(s memory.Scope, seq uint64, f *mention.Found) error
	// Forget takes out of the graph what a memory was the reason for.
	Forget(how graph.Forgotten, owner uint32, seq uint64) error
}

// Changes are versions that are written, and that no table shows yet.
type Changes struct {
	// BySeq are the newest of each memory. Added are all, in the order of their writing, also those that another one
	// has replaced since.
	BySeq map[uint64]*Pending
	Added []*Pending
	// Killed are the versions of the tables that died.
	Killed []Dead
	// Overlaps: the transaction changed what an earlier commit of the same batch had made.
	Overlaps bool
	// Spaces are those that it made.
	Spaces map[string]*spaces.Space
}

// Pending is a version that is in the batch and not yet in the tables.
type Pending struct {
	layout.Version
	Doc      uint32
	Dead     bool // the memory is gone; the version is that of its last state
	Gone     bool // another version, or none, took this one's place
	Expires  int64
	Run      uint32
	Rec      *layout.Record
	Index    invindex.Doc
	Access   layout.Access
	Vectors  map[string][]float32
	Inherits uint32 // doc whose slots it takes over for the spaces it does not bring, or doctable.None
	Lasting  bool   // it expires when the version before it does
	Keeps    []uint16
}

// AppendForward appends the forward record of a version.
func (p *Pending) AppendForward(b []byte) []byte {
	r := layout.Row{
		Version: p.Version, Run: p.Run, Created: p.Rec.Created, Expires: p.Rec.Expires,
		Importance: p.Rec.Importance, Confidence: p.Rec.Confidence, Vectors: p.Rec.Vectors,
	}
	return invindex.AppendDoc(r.Append(b), &p.Index)
}

// Forward is all that the tables and indexes need of a document of a chunk that is in RAM, so that opening reads no
// memories.
type Forward struct {
	layout.Row
	Index invindex.Doc
}

// DecodeForward decodes what [Pending.AppendForward] has encoded.
func DecodeForward(b []byte) (*Forward, error) {
	r, idx, err := layout.DecodeRow(b)
	if err != nil {
		return nil, err
	}
	f := &Forward{Row: *r}
	var rest []byte
	if f.Index, rest, err = invindex.DecodeDoc(idx); err != nil || len(rest) > 0 {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a forward record", Cause: err}
	}
	return f, nil
}

// BroughtBy is the version under which the version's vector in a space is stored.
func (p *Pending) BroughtBy(space uint16) layout.Version {
	for _, ref := range p.Rec.Vectors {
		if ref.Space == space {
			return ref.Of(p.Version)
		}
	}
	return p.Version
}

// Dead is a version that died in a transaction.
type Dead struct {
	Doc uint32
	LSN uint64
	// Kept names the spaces whose vector goes on to live with the next version.
	Kept []uint16
	// Of is the version where opening found only its tombstone, so that it has no row.
	Of layout.Version
}

// Live is a version that a state shows.
type Live struct {
	layout.Version
	Doc     uint32
	Expires int64
}

// Expired reports whether the version has expired by a time in Unix milliseconds.
func (l Live) Expired(now int64) bool { return l.Expires != 0 && l.Expires <= now }
