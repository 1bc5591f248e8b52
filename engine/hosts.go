package engine

import (
	"fmt"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/ageing"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// recordsHost is a transaction as the versions of memories are written in it.
type recordsHost Tx

var (
	_ records.Batch = (*recordsHost)(nil)
	_ records.Host  = (*recordsHost)(nil)
)

func (h *recordsHost) tx() *Tx { return (*Tx)(h) }

func (h *recordsHost) Set(key, value []byte) error          { return h.tx().set(key, value) }
func (h *recordsHost) Delete(key []byte) error              { return h.tx().del(key) }
func (h *recordsHost) Merge(key, value []byte) error        { return h.tx().merge(key, value) }
func (h *recordsHost) Change() uint32                       { return h.tx().change() }
func (h *recordsHost) Log() *[]byte                         { return &h.log }
func (h *recordsHost) Break(err error) error                { return h.tx().breaks(err) }
func (h *recordsHost) RoomToFree(doing string, n int) error { return h.tx().needToFree(doing, n) }
func (h *recordsHost) Concerns(owner uint32)                { h.tx().concerns(owner) }
func (h *recordsHost) Doc() (uint32, error)                 { return h.tx().giveDoc() }
func (h *recordsHost) Part() part.Tx                        { return (*partTx)(h) }

func (h *recordsHost) Encoded(key []byte, encode func(dst []byte) []byte) error {
	return h.tx().setEncoded(key, encode)
}

func (h *recordsHost) Room(doing string, changes, size int) error {
	return h.tx().needFor(doing, changes, size)
}

func (h *recordsHost) Registered(doing string, o memory.Owner) error {
	return h.tx().registered(doing, o)
}

// Admit refuses an owner that is being erased, and one that the program does not want here: see Options.Admit.
func (h *recordsHost) Admit(k layout.Name, number uint32) error {
	switch {
	case k.Class != layout.NameOwner:
		return nil
	case number != 0:
		return h.db.refuseErased(number)
	case h.db.owns == nil:
		return nil
	}
	o, _ := scope.ParseKey(k.Text) // each name of an owner is a key
	return h.db.owns(o)
}

func (h *recordsHost) MaySpaces(doing string, more uint32) error {
	if err := h.tx().maySpace(doing); err != nil {
		return err
	}
	if h.next.Names[layout.NameSpace]+more > MaxSpaces {
		return fault.Invalid(doing, fmt.Sprintf("its vectors would make more than %d spaces", MaxSpaces), "use those that exist")
	}
	return nil
}

func (h *recordsHost) MakeSpace(name string, dim int) (*spaces.Space, error) {
	c := &SpaceConfig{Name: name, Dim: dim}
	if name == memory.DefaultSpace && h.db.embedder != nil {
		c.Model, c.Base = h.db.embedder.Model(), embed.Base(h.db.embedder)
	}
	return h.tx().newSpace(c, hnsw.Cosine)
}

func (h *recordsHost) Link(s memory.Scope, seq uint64, f *mention.Found) error {
	_, err := h.tx().linkMentions(s, seq, f)
	return err
}

func (h *recordsHost) Forget(how graph.Forgotten, owner uint32, seq uint64) error {
	return h.tx().forgetInGraph(how, ageing.Dying{Owner: owner, Seq: seq})
}
