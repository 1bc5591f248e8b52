package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/query"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// textIndex is memdb's inverted index on a store of its own, as the engine uses
// it: a durable forward record for each document, pages for each sealed chunk. The
// texts lie beside, since phrases are verified in them.
type textIndex struct {
	db       *pebble.DB
	index    *invindex.Index
	analyzer *analysis.Analyzer
	next     uint32
	ids      []string        // by document
	scopes   []string        // by document
	alive    *roaring.Bitmap // nil: every document
	noTexts  bool            // the texts are not kept
	snapshot invindex.Snapshot

	doc analysis.Bag // of the document that is added
	buf []byte
}

// Prefixes of the keys.
const (
	prefixText    = 't' // document → text
	prefixForward = 'f' // document → forward record, until its chunk is sealed
	prefixChunks  = 'x' // pages of sealed chunks
)

// fieldScope is the field of filter values that scopes are in.
const fieldScope = 1

// Sizes of the store: about what the engine gives it of a budget of 2 GiB.
const (
	textCache    = 512 << 20
	textPages    = 512 << 20
	textMemtable = 64 << 20
	textBlock    = 16 << 10
)

func openTextIndex(dir string) (*textIndex, error) {
	cache := pebble.NewCache(textCache)
	defer cache.Unref()
	opts := &pebble.Options{
		Cache: cache, MemTableSize: textMemtable, FormatMajorVersion: pebble.FormatNewest, Logger: peer.Silent{},
	}
	opts.EnsureDefaults()
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].BlockSize = textBlock
	}
	db, err := pebble.Open(filepath.Join(dir, "store"), opts)
	if err != nil {
		return nil, err
	}
	return &textIndex{
		db:       db,
		analyzer: analysis.NewEnglish(),
		index: invindex.New(invindex.Config{
			Prefix: []byte{prefixChunks}, ScopeFields: []uint16{fieldScope}, CacheBytes: textPages,
		}),
	}, nil
}

// Add commits a batch: texts and forward records, and with the last document of a
// chunk its pages.
func (t *textIndex) Add(_ context.Context, docs []peer.Document) (err error) {
	batch := t.db.NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	prepared := make([]invindex.Doc, len(docs))
	for i := range docs {
		t.analyze(&prepared[i], &docs[i])
		t.buf = invindex.AppendDoc(t.buf[:0], &prepared[i])
		err := batch.Set(docKey(prefixForward, t.next+uint32(i)), t.buf, nil)
		if !t.noTexts {
			err = errors.Join(err, batch.Set(docKey(prefixText, t.next+uint32(i)), []byte(docs[i].Text), nil))
		}
		if err != nil {
			return err
		}
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		return err
	}
	for i := range prepared {
		if err := t.index.Add(t.next, &prepared[i]); err != nil {
			return err
		}
		t.ids = append(t.ids, docs[i].ID)
		t.scopes = append(t.scopes, docs[i].Scope)
		t.next++
	}
	return t.seal()
}

// analyze makes what the index takes. Its terms are valid until it is added.
func (t *textIndex) analyze(out *invindex.Doc, d *peer.Document) {
	t.doc.Reset()
	t.doc.Add(t.analyzer, d.Text, 1)
	out.Terms = make([]invindex.Term, 0, t.doc.Len())
	t.doc.Each(func(term string, freq uint32) {
		out.Terms = append(out.Terms, invindex.Term{Text: term, Freq: freq})
	})
	out.Length = t.doc.Length()
	out.Values = []invindex.Value{{Field: fieldScope, Key: d.Scope}}
}

func docKey(prefix byte, doc uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{prefix}, doc)
}

// pebbleWriter lets a batch take pages.
type pebbleWriter struct{ *pebble.Batch }

func (w pebbleWriter) Set(key, value []byte) error { return w.Batch.Set(key, value, nil) }

// seal seals the chunks that are full: their pages replace the forward records.
func (t *textIndex) seal() error {
	for _, chunk := range t.index.Sealable() {
		batch := t.db.NewBatch()
		first, last := uint64(chunk)<<16, (uint64(chunk)+1)<<16
		end := []byte{prefixForward + 1}
		if last <= invindex.MaxDoc {
			end = docKey(prefixForward, uint32(last))
		}
		err := errors.Join(
			t.index.Seal(pebbleWriter{batch}, chunk),
			batch.DeleteRange(docKey(prefixForward, uint32(first)), end, nil))
		if err == nil {
			err = batch.Commit(pebble.Sync)
		}
		if err = errors.Join(err, batch.Close()); err != nil {
			return err
		}
		if err := t.index.Sealed(t.db, chunk); err != nil {
			return err
		}
	}
	return nil
}

// Settle flushes and compacts the store, and pins what was added.
func (t *textIndex) Settle(ctx context.Context) error {
	t.pin()
	return errors.Join(t.db.Flush(), t.db.Compact(ctx, []byte{0}, []byte{0xff}, false))
}

func (t *textIndex) pin() {
	t.snapshot = t.index.Snapshot()
	t.snapshot.Reader = t.db
}

// replace deletes and updates documents at random, half of the share each. An
// update is a death and a new document at the end.
func (t *textIndex) replace(ctx context.Context, share float64, seed uint64) error {
	t.alive = roaring.New()
	t.alive.AddRange(0, uint64(t.next))
	rng := rand.New(rand.NewPCG(seed, 0))
	chosen := rng.Perm(int(t.next))[:int(share*float64(t.next))]
	var again []peer.Document
	for i, doc := range chosen {
		t.alive.Remove(uint32(doc))
		if i%2 == 0 {
			continue
		}
		text, err := t.text(uint32(doc))
		if err != nil {
			return err
		}
		again = append(again, peer.Document{ID: t.ids[doc], Scope: t.scopes[doc], Text: text})
		if len(again) == ingestBatch {
			t.alive.AddRange(uint64(t.next), uint64(t.next)+uint64(len(again)))
			if err := t.Add(ctx, again); err != nil {
				return err
			}
			again = again[:0]
		}
	}
	t.alive.AddRange(uint64(t.next), uint64(t.next)+uint64(len(again)))
	if err := t.Add(ctx, again); err != nil {
		return err
	}
	return t.compact(ctx)
}

// compact moves the documents of each full chunk of which a quarter is dead to a new
// one, as the engine does.
func (t *textIndex) compact(ctx context.Context) error {
	const chunkDocs = 1 << 16
	full := t.next / chunkDocs
	for chunk := range full {
		first := chunk * chunkDocs
		living := roaring.New()
		living.AddRange(uint64(first), uint64(first)+chunkDocs)
		living.And(t.alive)
		if living.GetCardinality() > chunkDocs*3/4 || living.IsEmpty() {
			continue
		}
		docs := living.ToArray()
		to := (t.next + chunkDocs - 1) / chunkDocs
		batch := t.db.NewBatch()
		t.pin()
		err := t.index.Move(ctx, t.snapshot, pebbleWriter{batch}, uint16(to), docs)
		for i, doc := range docs {
			if text, textErr := t.text(doc); textErr != nil {
				err = errors.Join(err, textErr)
			} else {
				err = errors.Join(err, batch.Set(docKey(prefixText, to*chunkDocs+uint32(i)), []byte(text), nil))
			}
		}
		start, end := t.index.Span(uint16(chunk))
		err = errors.Join(err, batch.DeleteRange(start, end, nil))
		if err == nil {
			err = batch.Commit(pebble.Sync)
		}
		if err = errors.Join(err, batch.Close()); err != nil {
			return err
		}
		if err := t.index.Moved(t.db, uint16(to), uint16(chunk)); err != nil {
			return err
		}
		t.alive.RemoveRange(uint64(first), uint64(first)+chunkDocs)
		t.alive.AddRange(uint64(to)*chunkDocs, uint64(to)*chunkDocs+uint64(len(docs)))
		for t.next = to * chunkDocs; len(t.ids) < int(t.next); {
			t.ids, t.scopes = append(t.ids, ""), append(t.scopes, "")
		}
		for _, doc := range docs {
			t.ids, t.scopes = append(t.ids, t.ids[doc]), append(t.scopes, t.scopes[doc])
		}
		t.next += uint32(len(docs))
	}
	return nil
}

// text reads a document's text.
func (t *textIndex) text(doc uint32) (string, error) {
	value, closer, err := t.db.Get(docKey(prefixText, doc))
	if err != nil {
		return "", err
	}
	text := string(value)
	return text, closer.Close()
}

// Find ranks as the engine does: statistics of the documents that are searched,
// then the best of them.
func (t *textIndex) Find(ctx context.Context, ask peer.Ask) ([]string, error) {
	in := invindex.Docs{Set: t.alive}
	if ask.Scope != "" {
		set, err := t.index.Find(t.snapshot, invindex.Value{Field: fieldScope, Key: ask.Scope})
		if err != nil {
			return nil, err
		}
		if t.alive != nil {
			set.And(t.alive)
		}
		in.Set = set
	}
	parsed := query.Parse(t.analyzer, typed(ask))
	matcher := parsed.Matcher()
	q, err := t.index.Bind(ctx, t.snapshot, parsed, in, func(ctx context.Context, doc uint32) (bool, error) {
		text, err := t.text(doc)
		if err != nil {
			return false, err
		}
		return matcher.Matches(ctx, text)
	})
	if err != nil {
		return nil, err
	}
	stats, err := t.index.Stats(ctx, t.snapshot, q.Terms(), in)
	if err != nil {
		return nil, err
	}
	hits, err := t.index.Query(ctx, t.snapshot, q, stats, in, ask.K)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(hits))
	for i, hit := range hits {
		ids[i] = t.ids[hit.Doc]
	}
	return ids, nil
}

// typed writes a question as a person would.
func typed(ask peer.Ask) string {
	switch ask.Mode {
	case peer.All:
		return strings.Join(strings.Fields(ask.Text), " AND ")
	case peer.Phrase:
		return `"` + ask.Text + `"`
	}
	return ask.Text
}

// Bytes is the size of all keys but the texts.
func (t *textIndex) Bytes() (int64, error) {
	var sum int64
	for _, prefix := range []byte{prefixForward, prefixChunks} {
		n, err := t.db.EstimateDiskUsage([]byte{prefix}, []byte{prefix + 1})
		if err != nil {
			return 0, err
		}
		sum += int64(n)
	}
	return sum, nil
}

// Close closes the store.
func (t *textIndex) Close() error { return t.db.Close() }
