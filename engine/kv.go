package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/valid"

	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/scope"

	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Entry is a JSON value that an owner keeps under a key.
type Entry struct {
	Owner
	Key string `json:"key"`
	// Value is compact JSON.
	Value json.RawMessage `json:"value"`
	// Version is the LSN of the commit that put it last.
	Version   uint64    `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
	// ExpiresAt hides the entry from then on; zero: never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// PutOptions changes what Put does. nil is the default.
type PutOptions struct {
	// TTL hides the entry after this time. 0: never.
	TTL time.Duration
	// ExpiresAt is TTL as an instant; give one of the two. As in [Memory], the start of
	// 1970 is no time.
	ExpiresAt time.Time
	// UpdatedAt is when it was put, for an import. Zero: now.
	UpdatedAt time.Time
	// IfVersion puts only where the entry has this version, 0: only where there is
	// none. Otherwise Put returns ErrConflict.
	IfVersion *uint64
}

// KVQuery selects entries in the order of the bytes of their keys.
type KVQuery struct {
	Owner
	Prefix string
	// After is the last key of the page before.
	After string
	// Limit is the size of a page: 0 is 100, at most MaxLimit.
	Limit int
}

// KV is the key-value store of a database, seen through a transaction ([Tx.KV]),
// or each call as a transaction of its own ([DB.KV]).
type KV struct {
	db *DB
	tx *Tx // nil: one for each call
}

// KV is the key-value store: each call is its own transaction.
func (db *DB) KV() KV { return KV{db: db} }

// KV is the key-value store as this transaction sees it.
func (tx *Tx) KV() KV { return KV{db: tx.db, tx: tx} }

func (k KV) view(ctx context.Context, doing string, fn func(*Tx) error) error {
	return Memories(k).view(ctx, doing, fn)
}

func (k KV) update(ctx context.Context, doing string, fn func(*Tx) error) error {
	return Memories(k).update(ctx, doing, fn)
}

// kvVersion is the first byte of a stored entry.
const kvVersion = 1

func entryKey(ks *layout.Keys, owner uint32, key string) []byte {
	k := binary.BigEndian.AppendUint32(ks.Header(layout.KindKV, 4+len(key)), owner)
	return append(k, key...)
}

// expiryKey is a key of the index of entries by the time at which they expire, of which
// those before 1970 come first.
func expiryKey(ks *layout.Keys, expires int64, owner uint32, key string) []byte {
	k := binary.BigEndian.AppendUint64(ks.Header(layout.KindExpiry, 12+len(key)), uint64(max(expires, 0)))
	k = binary.BigEndian.AppendUint32(k, owner)
	return append(k, key...)
}

func (e *Entry) encode() []byte {
	b := binary.AppendUvarint([]byte{kvVersion}, e.Version)
	b = binary.AppendVarint(b, toMillis(e.UpdatedAt))
	b = binary.AppendVarint(b, toMillis(e.ExpiresAt))
	b = codec.AppendBytes(b, e.User)
	b = codec.AppendBytes(b, e.Agent)
	return append(b, e.Value...)
}

func decodeEntry(key string, b []byte) (Entry, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	e := Entry{Key: key, Version: r.Uvarint(), UpdatedAt: fromMillis(r.Varint()), ExpiresAt: fromMillis(r.Varint())}
	e.Owner = Owner{User: r.String(), Agent: r.String()}
	e.Value = bytes.Clone(r.Rest())
	if r.Err() != nil || v != kvVersion {
		return Entry{}, &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("read the entry %q", valid.Short(key)), Cause: r.Err()}
	}
	return e, nil
}

func (e *Entry) expired(now int64) bool {
	return !e.ExpiresAt.IsZero() && toMillis(e.ExpiresAt) <= now
}

func checkEntry(doing string, o Owner, key string) error {
	if err := scope.Check(doing, o.Scope()); err != nil {
		return err
	}
	switch {
	case key == "":
		return fault.Invalid(doing, "the key is empty", "name one")
	case len(key) > MaxKey:
		return fault.Invalid(doing, fmt.Sprintf("the key is %d bytes long, the limit is %d", len(key), MaxKey), "shorten it")
	}
	return valid.Printable(doing, "key", key)
}

// encodeValue is a value as compact JSON.
func encodeValue(doing string, value any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, fault.Invalid(doing, "its value is no JSON: "+err.Error(), "give a value that encoding/json can write")
	}
	b := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if err := valid.JSON(b); err != nil {
		return nil, fault.Invalid(doing, "its value is no text: "+err.Error(), "convert it to UTF-8")
	}
	if depth := valid.Depth(b); depth > MaxValueDepth {
		return nil, fault.Invalid(doing, fmt.Sprintf("its value nests %d deep, the limit is %d", depth, MaxValueDepth), "flatten it")
	}
	if len(b) > MaxValue {
		return nil, fault.Invalid(doing, fmt.Sprintf("its value is %d bytes of JSON, the limit is %d", len(b), MaxValue), "split it")
	}
	return b, nil
}

// Put keeps a value under a key: anything that encoding/json can write, a
// json.RawMessage as it is.
func (k KV) Put(ctx context.Context, o Owner, key string, value any, opts *PutOptions) (e Entry, err error) {
	doing := fmt.Sprintf("put the entry %q", valid.Short(key))
	if opts == nil {
		opts = &PutOptions{}
	}
	if err := checkEntry(doing, o, key); err != nil {
		return Entry{}, err
	}
	times := Memory{UpdatedAt: opts.UpdatedAt, ExpiresAt: opts.ExpiresAt}
	if err := times.checkTimes(doing); err != nil {
		return Entry{}, err
	}
	if opts.TTL < 0 || opts.TTL > 0 && !opts.ExpiresAt.IsZero() {
		return Entry{}, fault.Invalid(doing, "its time to live is negative or given twice", "give TTL or ExpiresAt")
	}
	b, err := encodeValue(doing, value)
	if err != nil {
		return Entry{}, err
	}
	err = k.update(ctx, doing, func(tx *Tx) error {
		e = Entry{Owner: o, Key: key, Value: b, Version: tx.lsn, UpdatedAt: fromMillis(tx.now), ExpiresAt: opts.ExpiresAt}
		if opts.TTL > 0 {
			e.ExpiresAt = fromMillis(tx.now + max(opts.TTL.Milliseconds(), 1))
		}
		if !opts.UpdatedAt.IsZero() {
			e.UpdatedAt = fromMillis(toMillis(opts.UpdatedAt))
		}
		e.ExpiresAt = fromMillis(toMillis(e.ExpiresAt)) // as it will be read
		return tx.putEntry(doing, &e, opts.IfVersion)
	})
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

func (tx *Tx) putEntry(doing string, e *Entry, ifVersion *uint64) error {
	if err := tx.room(doing, 2*(len(e.Value)+len(e.Key))+4*valid.MaxID); err != nil {
		return err
	}
	owner, err := tx.number(layout.Name{Class: layout.NameOwner, Text: scope.Key(e.Owner)})
	if err != nil {
		return err
	}
	old, found, err := tx.storedEntry(owner, e.Key)
	if err != nil {
		return err
	}
	if err := conflict(doing, old, found && !old.expired(tx.now), ifVersion); err != nil {
		return err
	}
	if found {
		if err := tx.dropExpiry(owner, &old); err != nil {
			return err
		}
	}
	ks := tx.keys
	if err := tx.set(entryKey(ks, owner, e.Key), e.encode()); err != nil {
		return err
	}
	if !e.ExpiresAt.IsZero() {
		if err := tx.set(expiryKey(ks, toMillis(e.ExpiresAt), owner, e.Key), nil); err != nil {
			return err
		}
	}
	tx.change()
	tx.log = append(tx.log, byte(layout.LogPut))
	tx.log = binary.AppendUvarint(tx.log, uint64(owner))
	tx.log = codec.AppendBytes(tx.log, e.Key)
	tx.log = codec.AppendBytes(tx.log, e.encode())
	return nil
}

// conflict checks the expectation of a compare-and-set.
func conflict(doing string, old Entry, found bool, want *uint64) error {
	have := uint64(0)
	if found {
		have = old.Version
	}
	if want == nil || *want == have {
		return nil
	}
	return &fault.Error{
		Kind: fault.ErrConflict, What: doing, Why: fmt.Sprintf("its version is %d, not %d", have, *want), Do: "read it again and decide",
	}
}

func (tx *Tx) dropExpiry(owner uint32, old *Entry) error {
	if old.ExpiresAt.IsZero() {
		return nil
	}
	return tx.del(expiryKey(tx.keys, toMillis(old.ExpiresAt), owner, old.Key))
}

// storedEntry is a stored entry, expired or not.
func (tx *Tx) storedEntry(owner uint32, key string) (e Entry, found bool, err error) {
	b, closer, err := tx.reader.Get(entryKey(tx.keys, owner, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, store.Error("read an entry", err)
	}
	e, err = decodeEntry(key, b)
	return e, err == nil, errors.Join(err, closer.Close())
}

// ownerNumber is the number of an owner, false if nothing was ever stored for it.
func (tx *Tx) ownerNumber(o Owner) (uint32, bool, error) {
	return tx.lookup(layout.Name{Class: layout.NameOwner, Text: scope.Key(o)})
}

// Get returns the entry under a key. That there is none is no error: found tells.
func (k KV) Get(ctx context.Context, o Owner, key string) (e Entry, found bool, err error) {
	doing := fmt.Sprintf("get the entry %q", valid.Short(key))
	if err := checkEntry(doing, o, key); err != nil {
		return Entry{}, false, err
	}
	err = k.view(ctx, doing, func(tx *Tx) error {
		owner, known, err := tx.ownerNumber(o)
		if err != nil || !known {
			return err
		}
		e, found, err = tx.storedEntry(owner, key)
		if found && e.expired(tx.now) {
			e, found = Entry{}, false
		}
		return err
	})
	return e, found, err
}

// Delete removes the entry under a key and tells whether there was one.
func (k KV) Delete(ctx context.Context, o Owner, key string) (found bool, err error) {
	doing := fmt.Sprintf("delete the entry %q", valid.Short(key))
	if err := checkEntry(doing, o, key); err != nil {
		return false, err
	}
	err = k.update(ctx, doing, func(tx *Tx) error {
		owner, known, err := tx.ownerNumber(o)
		if err != nil || !known {
			return err
		}
		old, stored, err := tx.storedEntry(owner, key)
		if err != nil || !stored {
			return err
		}
		found = !old.expired(tx.now)
		return tx.deleteEntry(doing, owner, &old)
	})
	return found && err == nil, err
}

func (tx *Tx) deleteEntry(doing string, owner uint32, old *Entry) error {
	if err := tx.roomToFree(doing, 2*len(old.Key)+valid.MaxID); err != nil {
		return err
	}
	if err := tx.dropExpiry(owner, old); err != nil {
		return err
	}
	if err := tx.del(entryKey(tx.keys, owner, old.Key)); err != nil {
		return err
	}
	tx.change()
	tx.log = append(tx.log, byte(layout.LogUnput))
	tx.log = binary.AppendUvarint(tx.log, uint64(owner))
	tx.log = codec.AppendBytes(tx.log, old.Key)
	return nil
}

// List returns a page of an owner's entries in the order of their keys, and
// whether more follow: go on with After set to the last key.
func (k KV) List(ctx context.Context, q KVQuery) (entries []Entry, more bool, err error) {
	const doing = "list entries"
	limit, err := valid.Limit(doing, q.Limit, defaultPage)
	if err != nil {
		return nil, false, err
	}
	if err := scope.Check(doing, q.Scope()); err != nil {
		return nil, false, err
	}
	if len(q.Prefix) > MaxKey || len(q.After) > MaxKey {
		return nil, false, fault.Invalid(doing, "the prefix or After is longer than a key may be", "shorten it")
	}
	err = k.view(ctx, doing, func(tx *Tx) error {
		owner, known, err := tx.ownerNumber(q.Owner)
		if err != nil || !known {
			return err
		}
		entries, more, err = tx.entries(owner, &q, limit)
		return err
	})
	return entries, more, err
}

func (tx *Tx) entries(owner uint32, q *KVQuery, limit int) (entries []Entry, more bool, err error) {
	lower := entryKey(tx.keys, owner, q.Prefix)
	upper := layout.PrefixEnd(lower)
	head := len(lower) - len(q.Prefix)
	if after := append(entryKey(tx.keys, owner, q.After), 0); q.After != "" && bytes.Compare(after, lower) > 0 {
		lower = after
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil, false, nil
	}
	err = kv.Scan(tx.reader, lower, upper, func(key, value []byte) error {
		e, err := decodeEntry(string(key[head:]), value)
		if err != nil || e.expired(tx.now) {
			return err
		}
		if len(entries) == limit {
			more = true
			return store.ErrStop
		}
		entries = append(entries, e)
		return nil
	})
	if errors.Is(err, store.ErrStop) {
		err = nil
	}
	return entries, more, store.Error("list entries", err)
}

// All iterates over an owner's entries, a page at a time.
func (k KV) All(ctx context.Context, q KVQuery) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			page, more, err := k.List(ctx, q)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if !more {
				return
			}
			q.After = page[len(page)-1].Key
		}
	}
}

// Owners lists those who keep entries, in the order of their first storing.
func (k KV) Owners(ctx context.Context) (owners []Owner, err error) {
	const doing = "list the owners of entries"
	err = k.view(ctx, doing, func(tx *Tx) error {
		lower, upper := tx.keys.Span(layout.KindKV)
		it, err := tx.reader.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			return store.Error(doing, err)
		}
		for ok := it.First(); ok && err == nil; {
			var e Entry
			if e, err = entryAt(it); err == nil {
				owners = append(owners, e.Owner)
				// On to the first key of the next owner.
				ok = it.SeekGE(layout.PrefixEnd(it.Key()[:layout.KeyHeader+4]))
			}
		}
		return store.Error(doing, errors.Join(err, it.Error(), it.Close()))
	})
	return owners, err
}

// entryAt is the entry that an iterator stands at.
func entryAt(it *pebble.Iterator) (Entry, error) {
	if len(it.Key()) <= layout.KeyHeader+4 {
		return Entry{}, layout.BadKey("entry", it.Key())
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return Entry{}, err
	}
	return decodeEntry(string(it.Key()[layout.KeyHeader+4:]), value)
}

const (
	// expireEvery is how often expired entries are removed; they are hidden from
	// the moment they expire.
	expireEvery = time.Minute
	// expireBatch bounds the entries that one commit removes.
	expireBatch = 1000
)

// expireEntries removes the entries that have expired.
func (db *DB) expireEntries(ctx context.Context) error {
	for {
		n := 0
		due, err := db.entriesDue(ctx)
		if err != nil || len(due) == 0 {
			return err
		}
		err = db.Update(ctx, func(tx *Tx) error {
			for _, d := range due {
				e, found, err := tx.storedEntry(d.owner, d.key)
				if err != nil {
					return err
				}
				if !found || !e.expired(tx.now) {
					continue // put again since
				}
				if err := tx.deleteEntry("remove expired entries", d.owner, &e); err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil || n < expireBatch {
			return err
		}
	}
}

// dueEntry is a key of the expiry index, read.
type dueEntry struct {
	owner uint32
	key   string
}

func (db *DB) entriesDue(ctx context.Context) (due []dueEntry, err error) {
	lower, _ := db.keys().Span(layout.KindExpiry)
	err = db.View(ctx, func(tx *Tx) error {
		upper := expiryKey(db.keys(), tx.now+1, 0, "")
		err := kv.Scan(tx.reader, lower, upper, func(key, _ []byte) error {
			if len(key) < layout.KeyHeader+12 {
				return layout.BadKey("expiry", key)
			}
			k := key[layout.KeyHeader+8:]
			due = append(due, dueEntry{binary.BigEndian.Uint32(k), string(k[4:])})
			if len(due) == expireBatch {
				return store.ErrStop
			}
			return nil
		})
		if errors.Is(err, store.ErrStop) {
			err = nil
		}
		return store.Error("look for expired entries", err)
	})
	return due, err
}
