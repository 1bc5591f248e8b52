package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// A database opens without what it cannot read, and says what that is: in the log, in
// Stats.Lost, and check names each memory. What is derived is made again where a database is
// opened to be written: the place of a memory in the indexes follows from its record.

// losses are what Open could not read.
type losses struct {
	n int64
	// docs are the documents whose places in the indexes are among it. Their memories may
	// have records still.
	docs []lostDocs
}

// lostDocs are keys of documents that cannot be read, from one up to another.
type lostDocs struct{ from, to []byte }

// mostTold bounds what the log says of losses: a thousand of them have one cause.
const mostTold = 20

// lost notes something that cannot be read.
func (db *DB) lost(what string, err error) {
	db.damaged(what, err)
	if db.opening.losses.n++; db.opening.losses.n <= mostTold {
		db.logger.Error("something is lost, and the database opens without it; check names the memories", "what", what, "error", err)
	}
}

// without returns nil where Open goes on without what an error says cannot be read.
func (db *DB) without(what string, err error) error {
	if !store.Unreadable(err) {
		return err
	}
	db.lost(what, err)
	return nil
}

// scan is kv.Scan, which goes on behind what cannot be read where the transaction does.
// numbered are keys that end in a number, and lie in its order.
type numbered struct {
	key   func(n uint64) []byte
	parse func(key []byte) (n uint64, ok bool)
	start uint64 // the first number
	end   uint64 // one past the last
	docs  uint64 // that a number stands for
}

// within are those of the keys from a number up to, but not including, another.
func (k numbered) within(start, end uint64) *numbered {
	k.start, k.end = start, end
	return &k
}

// scanAround visits keys as kv.Scan does, and goes round what cannot be read: blocks of the
// store, and values for which visit says so. It calls lost with the range of numbers.
func (k *numbered) scanAround(r kv.Reader, visit func(n uint64, key, value []byte) error, lost func(from, to uint64, err error) error) error {
	for from := k.start; from < k.end; {
		next := from
		err := kv.Scan(r, k.key(from), layout.PrefixEnd(k.key(k.end-1)), func(key, value []byte) error {
			n, ok := k.parse(key)
			if !ok {
				return layout.BadKey("document", key)
			}
			next = n
			err := visit(n, key, value)
			if store.Unreadable(err) {
				err = lost(n, n+1, err)
			}
			next = n + 1
			return err
		})
		if err == nil || !pebble.IsCorruptionError(err) {
			return err
		}
		// From next on nothing can be read until the block ends: a range of numbers.
		// Where a key can be read, its value cannot.
		bad := sort.Search(int(k.end-next), func(i int) bool { return k.readable(r, next+uint64(i)) })
		from = next + max(1, uint64(bad))
		if err := lost(next, from, err); err != nil {
			return err
		}
	}
	return nil
}

// readable reports whether the store can look for a number.
func (k *numbered) readable(r kv.Reader, n uint64) bool {
	err := kv.Scan(r, k.key(n), layout.PrefixEnd(k.key(k.end-1)), func(_, _ []byte) error { return kv.ErrStop })
	return err == nil || errors.Is(err, kv.ErrStop)
}

// docKeys are the keys of documents of a kind, rowKeys those of the pages of rows.
func docKeys(ks *layout.Keys, kind byte) *numbered {
	return &numbered{
		key: func(n uint64) []byte { return ks.Doc(kind, uint32(n)) },
		parse: func(key []byte) (uint64, bool) {
			doc, ok := layout.ParseDocKey(key)
			return uint64(doc), ok
		},
		end: 1 << 32, docs: 1,
	}
}

func rowKeys(ks *layout.Keys) *numbered {
	return &numbered{
		key: func(n uint64) []byte { return ks.Rows(uint32(n * layout.RowsOfPage)) },
		parse: func(key []byte) (uint64, bool) {
			first, ok := layout.ParseRowsKey(key)
			return uint64(first) / layout.RowsOfPage, ok
		},
		end: 1 << 32 / layout.RowsOfPage, docs: layout.RowsOfPage,
	}
}

// scanDocs visits the keys of documents, and notes those that cannot be read.
func (db *DB) scanDocs(k *numbered, what string, visit func(n uint64, value []byte) error) error {
	return k.scanAround(db.store, func(n uint64, _, value []byte) error { return visit(n, value) }, func(from, to uint64, err error) error {
		db.lost(fmt.Sprintf("%s %d to %d", what, from, to-1), err)
		db.opening.losses.docs = append(db.opening.losses.docs, lostDocs{k.key(from), layout.PrefixEnd(k.key(to - 1))})
		// Their keys are deleted once their memories have other places: until then nobody
		// else gets these numbers.
		for chunk := from * k.docs >> 16; chunk <= min((to*k.docs-1)>>16, maxChunks-1); chunk++ {
			db.chunks.used[chunk] = true
		}
		return nil
	})
}

// recoverBatch bounds the memories of one commit of recovery.
const recoverBatch = 500

// recoverDocs gives the memories that have a record and no place in the indexes new ones,
// where Open has found that places are lost. Their versions stay what they were.
func (db *DB) recoverDocs(ctx context.Context) error {
	if len(db.opening.losses.docs) == 0 && !db.mends || db.readOnly {
		return nil
	}
	for _, d := range db.janitor.ranges {
		if d.Listed && !db.mends { // by places, of which some are lost: nobody knows which memories it means
			db.logger.Error("memories without a place in the indexes are not recovered: a delete by filter was not cleaned up; open the database again once it is")
			return nil
		}
	}
	tx := &Tx{db: db, state: db.stateOf(db.store, state.MaxLSN)}
	dying := map[uint64]bool{} // of deletes by filter, evictions and merges: by place alone
	for _, d := range db.janitor.ranges {
		for it := d.Docs.Iterator(); it.HasNext(); {
			dying[db.tables.Docs.Row(it.Next()).Seq] = true
		}
	}
	var found []layout.Version
	unknown := false // whether some memory lives that has no place
	all := versions{visit: func(v layout.Version) error {
		if dying[v.Seq] {
			return nil
		}
		lives, err := tx.placeless(v)
		if store.Unreadable(err) {
			unknown, err = true, nil
		}
		if lives && v.Born <= db.writer.applied {
			found = append(found, v)
		}
		return err
	}}
	if err := db.scanVersions(&all); store.Unreadable(err) {
		db.logger.Error("memories without a place in the indexes are not recovered: their records cannot be read", "error", err)
		return nil
	} else if err != nil {
		return err
	}
	recovered := len(found) > 0
	for len(found) > 0 {
		n := min(recoverBatch, len(found))
		if err := db.acknowledge(db.update(ctx, func(tx *Tx) error { return tx.place(ctx, found[:n]) })); err != nil {
			return err
		}
		found = found[n:]
	}
	if recovered { // they had no places when the statistics were read
		if err := db.loadStats(); err != nil {
			return err
		}
	}
	if unknown || all.lacks { // the next Open is to know what is lost, too
		return db.republish()
	}
	// At last, so that the next Open begins anew where this one does not end.
	err := db.applyBare(func(b *pebble.Batch) error {
		for _, d := range db.opening.losses.docs {
			if err := b.DeleteRange(d.from, d.to, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return db.republish() // nobody writes yet
}

// scanVersions gives all keys of records to vs, but for those that cannot be read. A memory
// of which some version cannot be read is left out: what is read may not be its newest.
func (db *DB) scanVersions(vs *versions) error {
	lower, upper := db.keys().Span(layout.KindRecord)
	if !db.keys().RecordsBySeq() {
		return errors.Join(kv.Scan(db.store, lower, upper, func(key, _ []byte) error { return vs.key(key) }), vs.end())
	}
	seqs := &numbered{
		key: func(n uint64) []byte { return binary.BigEndian.AppendUint64(db.keys().Header(layout.KindRecord, 8), n) },
		parse: func(key []byte) (uint64, bool) {
			v, ok := layout.ParseRecordKey(key)
			return v.Seq, ok
		},
		end: db.writer.next.Seq + 1,
	}
	err := seqs.scanAround(db.store, func(_ uint64, key, _ []byte) error { return vs.key(key) }, func(from, to uint64, err error) error {
		vs.last, vs.lacks = layout.Version{}, true
		db.lost(fmt.Sprintf("records of memories number %d to %d", from, to-1), err)
		return nil
	})
	return errors.Join(err, vs.end())
}

// versions calls visit with the newest version of each memory, of record keys in their
// order.
type versions struct {
	visit func(layout.Version) error
	last  layout.Version
	lacks bool // some keys cannot be read
}

func (vs *versions) key(key []byte) (err error) {
	v, ok := layout.ParseRecordKey(key)
	if !ok {
		return layout.BadKey("record", key)
	}
	if v.Seq != vs.last.Seq || v.Owner != vs.last.Owner {
		err = vs.end()
	}
	vs.last = v
	return err
}

func (vs *versions) end() error {
	if vs.last.Seq == 0 {
		return nil
	}
	return vs.visit(vs.last)
}

// placeless reports whether a memory lives by its newest version and has no document.
func (tx *Tx) placeless(v layout.Version) (bool, error) {
	if tx.db.tables.Docs.At(v.Seq, tx.state.LSN) != doctable.None {
		return false, nil
	}
	return tx.livesByRecord(v)
}

// livesByRecord reports whether a memory lives, going by what does not follow from its place
// in the indexes: it has no death, and no death range means it.
func (tx *Tx) livesByRecord(v layout.Version) (lives bool, err error) {
	prefix := tx.state.Keys.Histories(v.Owner, v.Seq)
	err = kv.Scan(tx.state.Reader, prefix, layout.PrefixEnd(prefix), func(_, _ []byte) error { return kv.ErrStop })
	if errors.Is(err, kv.ErrStop) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rec, err := tx.state.Record(v)
	if err != nil || rec.Flags&layout.FlagPast != 0 {
		return false, err
	}
	lower, upper := tx.state.Keys.Span(layout.KindRange)
	lives = true
	err = kv.Scan(tx.state.Reader, lower, upper, func(key, value []byte) error {
		d, err := layout.DecodeRange(tx.state.Keys, key, value)
		if store.Unreadable(err) {
			return nil // it was told of when the database was opened
		}
		if err == nil && (d.Listed && !tx.db.mends || !d.Listed && d.Covers(doctable.None, v, rec.Scope)) { // listed by its document
			lives = false
		}
		return err
	})
	return lives, err
}

// diedByRecord reports whether a version is dead by what its tombstone does not tell: its memory
// has a later version, or died later. What cannot be read does not tell that it is dead.
func (db *DB) diedByRecord(v layout.Version) bool {
	ks := db.keys()
	later := func(from, to []byte, of func(key []byte) bool) bool {
		found := false
		err := kv.Scan(db.store, append(from, 0), to, func(key, _ []byte) error {
			found = of(key)
			return kv.ErrStop
		})
		return found && errors.Is(err, kv.ErrStop)
	}
	_, end := ks.Span(layout.KindRecord)
	all := ks.Histories(v.Owner, v.Seq)
	after := binary.BigEndian.AppendUint64(ks.Histories(v.Owner, v.Seq), v.Born+1)
	return later(ks.Record(v), end, func(key []byte) bool {
		next, ok := layout.ParseRecordKey(key)
		return ok && next.Seq == v.Seq && next.Owner == v.Owner
	}) || later(after, layout.PrefixEnd(all), func([]byte) bool { return true })
}

// place gives versions new documents.
func (tx *Tx) place(ctx context.Context, versions []layout.Version) error {
	tx.logInternal()
	for _, v := range versions {
		row := doctable.Row{Version: v}
		rec, err := tx.state.Record(v)
		if err == nil && rec.Scope.Run != "" {
			row.Run, _, err = tx.knownNumber(layout.Name{Class: layout.NameRun, Text: rec.Scope.Run})
		}
		var pv *records.Pending
		if err == nil {
			pv, err = tx.indexAgain(ctx, &row)
		}
		if err != nil {
			return tx.breaks(err)
		}
		if pv.Doc, err = tx.giveDoc(); err != nil {
			return err
		}
		pv.Inherits, pv.Expires = doctable.None, rec.Expires
		pv.Vectors = tx.vectorsLeft(rec, v)
		if err := tx.setEncoded(tx.state.Keys.Doc(layout.KindForward, pv.Doc), pv.AppendForward); err != nil {
			return err
		}
		tx.versions.BySeq[v.Seq] = pv
		tx.versions.Added = append(tx.versions.Added, pv)
	}
	return nil
}

// vectorsLeft are the vectors of a version that can be read.
func (tx *Tx) vectorsLeft(rec *layout.Record, v layout.Version) map[string][]float32 {
	vectors := map[string][]float32{}
	for _, ref := range rec.Vectors {
		vec, err := tx.reader().Vector(v, ref)
		if s := tx.reader().SpaceNumbered(ref.Space); err == nil && s != nil {
			vectors[s.Name] = vec
		}
	}
	return vectors
}
