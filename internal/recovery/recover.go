package recovery

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// recoverBatch bounds the memories of one commit of recovery.
const recoverBatch = 500

// Opened is what opening knows of a database whose lost places are recovered.
type Opened struct {
	*Losses
	// Ranges are the death ranges that are not cleaned up.
	Ranges []layout.DeathRange
	// Applied is the LSN of the newest commit, Seq the highest number of a memory.
	Applied, Seq uint64
	// Stats reads the access statistics again.
	Stats func() error
}

// Recover gives the memories that have a record and no place in the indexes new ones,
// where Open has found that places are lost. Their versions stay what they were. Nobody else uses the database yet.
func (o *Opened) Recover(ctx context.Context, h Host) error {
	st := h.Newest(h.Store())
	remains := st.Name != nil
	if len(o.docs) == 0 && !remains {
		return nil
	}
	for _, d := range o.Ranges {
		if d.Listed && !remains { // by places, of which some are lost: nobody knows which memories it means
			o.log.Error("memories without a place in the indexes are not recovered: a delete by filter was not cleaned up; open the database again once it is")
			return nil
		}
	}
	found, unknown, err := o.placeless(st)
	if store.Unreadable(err) {
		o.log.Error("memories without a place in the indexes are not recovered: their records cannot be read", "error", err)
		return nil
	} else if err != nil {
		return err
	}
	for part := range slices.Chunk(found, recoverBatch) {
		if err := h.Update(ctx, func(st *State, w *records.Writer) error { return placeAgain(ctx, st, w, part) }); err != nil {
			return err
		}
	}
	if len(found) > 0 { // they had no places when the statistics were read
		if err := o.Stats(); err != nil {
			return err
		}
	}
	if unknown { // the next Open is to know what is lost, too
		return h.Republish()
	}
	// At last, so that the next Open begins again where this one does not end.
	err = h.Bare(func(b *pebble.Batch) error {
		for _, d := range o.docs {
			if err := b.DeleteRange(d.from, d.to, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return h.Republish() // nobody writes yet
}

// placeless are the versions that live and have no place. unknown reports that there may be more.
func (o *Opened) placeless(st *State) (found []layout.Version, unknown bool, err error) {
	dying := map[uint64]bool{} // of deletes by filter, evictions and merges: by place alone
	for _, d := range o.Ranges {
		for it := d.Docs.Iterator(); it.HasNext(); {
			dying[st.Docs.Row(it.Next()).Seq] = true
		}
	}
	all := versions{visit: func(v layout.Version) error {
		if dying[v.Seq] {
			return nil
		}
		lives, err := st.placeless(v)
		if store.Unreadable(err) {
			unknown, err = true, nil
		}
		if lives && v.Born <= o.Applied {
			found = append(found, v)
		}
		return err
	}}
	err = o.scanVersions(st, &all)
	return found, unknown || all.lacks, err
}

// scanVersions gives all keys of records to vs, but for those that cannot be read. A memory
// of which some version cannot be read is left out: what is read may not be its newest.
func (o *Opened) scanVersions(st *State, vs *versions) error {
	ks := st.Keys
	lower, upper := ks.Span(layout.KindRecord)
	if !ks.RecordsBySeq() {
		return errors.Join(kv.Scan(st.Reader, lower, upper, func(key, _ []byte) error { return vs.key(key) }), vs.end())
	}
	seqs := &Numbered{
		key: func(n uint64) []byte { return binary.BigEndian.AppendUint64(ks.Header(layout.KindRecord, 8), n) },
		parse: func(key []byte) (uint64, bool) {
			v, ok := layout.ParseRecordKey(key)
			return v.Seq, ok
		},
		end: o.Seq + 1,
	}
	err := seqs.scanAround(st.Reader, func(_ uint64, key, _ []byte) error { return vs.key(key) }, func(from, to uint64, err error) error {
		vs.last, vs.lacks = layout.Version{}, true
		o.Lost(fmt.Sprintf("records of memories number %d to %d", from, to-1), err)
		return nil
	})
	return errors.Join(err, vs.end())
}

// placeAgain gives versions new documents.
func placeAgain(ctx context.Context, st *State, w *records.Writer, versions []layout.Version) error {
	w.LogInternal()
	for _, v := range versions {
		row := doctable.Row{Version: v}
		rec, err := st.Record(v)
		if err == nil && rec.Scope.Run != "" {
			row.Run, _, err = st.Number(layout.Name{Class: layout.NameRun, Text: rec.Scope.Run})
		}
		var pv *records.Pending
		if err == nil {
			pv, err = st.IndexAgain(ctx, &row)
		}
		if err != nil {
			return w.Break(err)
		}
		if pv.Doc, err = w.Doc(); err != nil {
			return err
		}
		pv.Inherits, pv.Expires = doctable.None, rec.Expires
		pv.Vectors = st.VectorsLeft(rec, v)
		if err := w.Encoded(st.Keys.Doc(layout.KindForward, pv.Doc), pv.AppendForward); err != nil {
			return err
		}
		w.Changes.BySeq[v.Seq] = pv
		w.Changes.Added = append(w.Changes.Added, pv)
	}
	return nil
}
