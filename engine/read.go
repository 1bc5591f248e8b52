package engine

import (
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
)

// memoryOf turns the record into what a caller sees; stats and vectors are added by
// the transaction.
func memoryOf(r *layout.Record, seq uint64) (memory.Memory, error) {
	meta, err := metadata.Decode(r.Metadata)
	if err != nil {
		return memory.Memory{}, err
	}
	importance, confidence := r.Importance, r.Confidence
	return memory.Memory{
		ID: r.ID, Seq: seq, Scope: r.Scope,
		Role: state.Roles[r.Role], Kind: state.Kinds[r.Kind], Source: memory.Source(r.Source),
		Text: r.Text, Name: r.Name, Aliases: r.Aliases, Metadata: meta,
		CreatedAt: clock.FromMillis(r.Created), UpdatedAt: clock.FromMillis(r.Updated),
		EventTime: clock.FromMillis(r.Event), ExpiresAt: clock.FromMillis(r.Expires),
		Pinned:     r.Flags&layout.FlagPinned != 0,
		Importance: &importance, AutoImportance: r.Flags&layout.FlagAutoImportance != 0,
		Confidence: &confidence, Hash: records.TextHash(r.Text),
	}, nil
}

// load reads a memory as a caller sees it.
func (tx *Tx) load(v layout.Version, withVectors bool) (memory.Memory, error) {
	rec, err := tx.state.Record(v)
	if err != nil {
		return memory.Memory{}, err
	}
	return tx.present(rec, v, withVectors)
}

func (tx *Tx) present(rec *layout.Record, v layout.Version, withVectors bool) (memory.Memory, error) {
	m, err := memoryOf(rec, v.Seq)
	if err != nil {
		return memory.Memory{}, err
	}
	a := tx.reader().Access(v.Seq)
	m.AccessCount, m.LastAccessed = a.Count, clock.FromMillis(a.Last)
	if state.IsNote(rec) {
		if m.NoteID, err = notes.Number((*partTx)(tx), v.Owner, v.Seq); err != nil {
			return memory.Memory{}, err
		}
	}
	m.StoredConfidence = new(rec.Confidence)
	m.Confidence = new(tx.state.ConfidenceOf(v, rec.Created, rec.Confidence))
	m.DecayedImportance = new(tx.decayedImportance(rec.Importance, rec.Created, a))
	if !withVectors {
		return m, nil
	}
	vectors := map[string][]float32{}
	for _, ref := range rec.Vectors {
		vec, err := tx.reader().Vector(v, ref)
		if err != nil {
			return memory.Memory{}, err
		}
		s := tx.reader().SpaceNumbered(ref.Space)
		if s == nil {
			return memory.Memory{}, &fault.Error{Kind: fault.ErrCorrupt, What: "read memory " + m.ID, Why: fmt.Sprintf("it has a vector in space number %d, which does not exist", ref.Space)}
		}
		vectors[s.Name] = vec
	}
	setVectors(&m, vectors)
	return m, nil
}

// setVectors gives a memory its vectors, by the names of their spaces.
func setVectors(m *memory.Memory, vectors map[string][]float32) {
	m.Embedding = vectors[memory.DefaultSpace]
	delete(vectors, memory.DefaultSpace)
	if len(vectors) > 0 {
		m.Vectors = vectors
	}
}
