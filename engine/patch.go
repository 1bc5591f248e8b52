package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
)

// refused tells an error that concerns one memory and left the transaction whole.
func refused(err error) bool {
	return errors.Is(err, fault.ErrInvalid) || errors.Is(err, fault.ErrExists) || errors.Is(err, fault.ErrScope) || errors.Is(err, fault.ErrUnknownAgent)
}

// made is what was made of the text of a patch before the writer lock.
type made struct {
	embedded []float32
	found    *mention.Found // what it mentions; nil: it is not known
}

// patch writes the next version of a memory.
func (tx *Tx) patch(ctx context.Context, doing string, l live, rec *layout.Record, patch *memory.Patch, of made) (live, error) {
	p, err := tx.patched(doing, rec, patch)
	if err != nil {
		return l, err
	}
	p.found = of.found
	return tx.rewrite(ctx, doing, l, rec, p, of.embedded)
}

// rewrite writes what was prepared as the next version of a memory.
func (tx *Tx) rewrite(ctx context.Context, doing string, l live, rec *layout.Record, p *prepared, embedded []float32) (live, error) {
	db := tx.db
	if p.rec.Text != rec.Text && p.rec.Text != "" && db.embedder != nil && p.vectors[memory.DefaultSpace] == nil {
		if p.pending = embedded == nil; !p.pending {
			p.vectors[memory.DefaultSpace] = embedded
		}
	}
	if err := db.analyse(ctx, p); err != nil {
		return l, err
	}
	if err := tx.need(doing, p.size()); err != nil {
		return l, err
	}
	if err := tx.fits(doing, p.vectors); err != nil {
		return l, err
	}
	if p.rec.Text == "" && len(p.vectors) == 0 && (rec.Text != "" || len(rec.Vectors) == 0) {
		return l, fault.Invalid(doing, "it would have neither a text nor a vector", "delete it instead")
	}
	if err := tx.replace(p, rec, l); err != nil {
		return l, err
	}
	next, _ := tx.at(l.Seq)
	return next, nil
}

// patched is the record with the changes of a patch, checked.
func (tx *Tx) patched(doing string, rec *layout.Record, patch *memory.Patch) (*prepared, error) {
	p := &prepared{rec: *rec, explicit: givenFields{confidence: patch.Confidence != nil}}
	r := &p.rec
	r.Vectors, r.Aliases = nil, slices.Clone(rec.Aliases)
	r.Flags &^= layout.FlagPending | layout.FlagEmbedded
	if err := memory.CheckPatch(doing, patch); err != nil {
		return nil, err
	}
	var err error
	if p.vectors, err = memory.MergeVectors(doing, patch.Embedding, patch.Vectors); err != nil {
		return nil, err
	}
	switch {
	case patch.Metadata != nil && patch.MergeMetadata != nil:
		return nil, fault.Invalid(doing, "it has metadata and also some to merge", "give one of the two")
	case patch.Metadata != nil:
		r.Metadata, err = metadata.Encode(*patch.Metadata)
	case patch.MergeMetadata != nil:
		r.Metadata, err = metadata.Merge(rec.Metadata, patch.MergeMetadata)
	}
	if err != nil {
		return nil, err
	}
	applyPatch(r, patch)
	switch {
	case patch.Importance != nil:
		tx.db.setImportance(r, patch.Importance)
	case patch.AutoImportance || r.Flags&layout.FlagAutoImportance != 0:
		tx.db.setImportance(r, nil)
	}
	r.Updated = max(tx.state.Now, rec.Updated)
	p.pending = rec.Flags&layout.FlagPending != 0 && r.Text == rec.Text && p.vectors[memory.DefaultSpace] == nil
	return p, nil
}

// apply sets the plain fields that a patch names.
func applyPatch(r *layout.Record, patch *memory.Patch) {
	if patch.Text != nil {
		r.Text = *patch.Text
	}
	if patch.Role != nil {
		r.Role = byte(max(slices.Index(state.Roles[:], *patch.Role), 0))
	}
	if patch.Source != nil {
		r.Source = string(*patch.Source)
	}
	if patch.Name != nil {
		r.Name = *patch.Name
	}
	if patch.Aliases != nil {
		r.Aliases = slices.Clone(*patch.Aliases)
	}
	if patch.EventTime != nil {
		r.Event = clock.ToMillis(*patch.EventTime)
	}
	if patch.ExpiresAt != nil {
		r.Expires = clock.ToMillis(*patch.ExpiresAt)
	}
	if patch.Pinned != nil {
		r.Flags &^= layout.FlagPinned
		if *patch.Pinned {
			r.Flags |= layout.FlagPinned
		}
	}
	if patch.Confidence != nil {
		r.Confidence = *patch.Confidence
	}
}
