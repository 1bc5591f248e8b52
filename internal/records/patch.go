package records

import (
	"context"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/mention"
)

// Made is what was made of the text of a patch before the writer lock.
type Made struct {
	Embedded []float32
	Found    *mention.Found // what it mentions; nil: it is not known
}

// Patch writes the next version of a memory, and returns it.
func (w *Writer) Patch(ctx context.Context, doing string, l Live, rec *layout.Record, patch *memory.Patch, of Made) (Live, error) {
	p, err := w.Patched(doing, rec, patch)
	if err != nil {
		return l, err
	}
	p.Found = of.Found
	return w.Rewrite(ctx, doing, l, rec, p, of.Embedded)
}

// Patched is the record with the changes of a patch, checked.
func (w *Writer) Patched(doing string, rec *layout.Record, patch *memory.Patch) (*Prepared, error) {
	p := &Prepared{Rec: *rec, Given: GivenFields{Confidence: patch.Confidence != nil}}
	r := &p.Rec
	r.Vectors, r.Aliases = nil, slices.Clone(rec.Aliases)
	r.Flags &^= layout.FlagPending | layout.FlagEmbedded
	if err := memory.CheckPatch(doing, patch); err != nil {
		return nil, err
	}
	var err error
	if p.Vectors, err = memory.MergeVectors(doing, patch.Embedding, patch.Vectors); err != nil {
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
		SetImportance(w.Tables, r, patch.Importance)
	case patch.AutoImportance || r.Flags&layout.FlagAutoImportance != 0:
		SetImportance(w.Tables, r, nil)
	}
	r.Updated = max(w.Now, rec.Updated)
	p.Pending = rec.Flags&layout.FlagPending != 0 && r.Text == rec.Text && p.Vectors[memory.DefaultSpace] == nil
	return p, nil
}

// applyPatch sets the plain fields that a patch names.
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

// Rewrite writes what was prepared as the next version of a memory.
func (w *Writer) Rewrite(ctx context.Context, doing string, l Live, rec *layout.Record, p *Prepared, embedded []float32) (Live, error) {
	if p.Rec.Text != rec.Text && p.Rec.Text != "" && w.Embeds && p.Vectors[memory.DefaultSpace] == nil {
		if p.Pending = embedded == nil; !p.Pending {
			p.Vectors[memory.DefaultSpace] = embedded
		}
	}
	if err := Analyse(ctx, w.Tables, p); err != nil {
		return l, err
	}
	if err := w.Room(doing, 1, p.Size()); err != nil {
		return l, err
	}
	if err := w.Fits(doing, p.Vectors); err != nil {
		return l, err
	}
	if p.Rec.Text == "" && len(p.Vectors) == 0 && (rec.Text != "" || len(rec.Vectors) == 0) {
		return l, fault.Invalid(doing, "it would have neither a text nor a vector", "delete it instead")
	}
	if err := w.Replace(p, rec, l); err != nil {
		return l, err
	}
	next, _ := w.At(l.Seq)
	return next, nil
}
