package requests

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

const (
	// Keep is how long a record counts after its request was done.
	Keep = 24 * time.Hour
	// MaxAnswer bounds the answer of a record, in bytes. A request with a longer one is recorded
	// without it.
	MaxAnswer = 1 << 20
)

// Sum is a hash of what a request asks.
type Sum [sha256.Size]byte

// Record is what is known of a request that was done.
type Record struct {
	At    int64  // when, in Unix milliseconds
	Owner uint32 // whose data it changed, 0: of several owners
	// Kept: the answer is kept, and so is the hash of what was asked. Otherwise an owner was deleted
	// since, or the answer was longer than MaxAnswer.
	Kept   bool
	Sum    Sum
	Answer []byte
}

// The first bytes of stored values.
const (
	doneVersion   = 1
	answerVersion = 1
)

func (r *Record) encodeDone() []byte {
	return binary.AppendUvarint(binary.AppendVarint([]byte{doneVersion}, r.At), uint64(r.Owner))
}

func decodeDone(b []byte) (r Record, err error) {
	c := codec.NewReader(b)
	v := c.Byte()
	r.At, r.Owner = c.Varint(), c.Uint32()
	if c.Err() != nil || c.Len() > 0 || v != doneVersion {
		return Record{}, damaged(c.Err())
	}
	return r, nil
}

func (r *Record) encodeAnswer() []byte {
	return append(append([]byte{answerVersion}, r.Sum[:]...), r.Answer...)
}

func (r *Record) decodeAnswer(b []byte) error {
	if len(b) < 1+len(r.Sum) || b[0] != answerVersion {
		return damaged(nil)
	}
	r.Kept, r.Sum, r.Answer = true, Sum(b[1:]), b[1+len(r.Sum):]
	return nil
}

func damaged(cause error) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: "read the record of a request", Cause: cause, Do: "run check"}
}

// expired reports whether a record that was made at a time counts no more. A clock that was set back
// makes no record older.
func expired(v part.View, at int64) bool { return v.Now()-at >= Keep.Milliseconds() }

// Find returns the record of a request, false where it was not done within Keep.
func Find(v part.View, k Key) (r Record, found bool, err error) {
	b, found, err := v.Get(doneKey(v, k))
	if err != nil || !found {
		return Record{}, false, err
	}
	if r, err = decodeDone(b); err != nil || expired(v, r.At) {
		return Record{}, false, err
	}
	b, kept, err := v.Get(answerKey(v, r.Owner, k))
	if err == nil && kept {
		err = r.decodeAnswer(b)
	}
	return r, err == nil, err
}

// Put records a request that the transaction has done. A record of the same key that has expired is
// replaced. What is written is not logged: the log says what the request did.
func Put(t part.Tx, k Key, r *Record) error {
	const doing = "record a request"
	if err := t.Need(doing, 256+len(r.Answer)); err != nil {
		return err
	}
	t.Log(part.OpInternal, nil)
	if err := remove(t, k); err != nil {
		return err
	}
	if err := t.Set(doneKey(t, k), r.encodeDone()); err != nil {
		return err
	}
	if err := t.Set(timeKey(t, r.At, k), nil); err != nil || !r.Kept {
		return err
	}
	return t.Set(answerKey(t, r.Owner, k), r.encodeAnswer())
}

// remove deletes the record of a key, if there is one.
func remove(t part.Tx, k Key) error {
	b, found, err := t.Get(doneKey(t, k))
	if err != nil || !found {
		return err
	}
	r, err := decodeDone(b)
	if err != nil {
		return err
	}
	for _, key := range [][]byte{doneKey(t, k), timeKey(t, r.At, k), answerKey(t, r.Owner, k)} {
		if err := t.Delete(key); err != nil {
			return err
		}
	}
	return nil
}
