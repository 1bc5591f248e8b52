package engine

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Digest is what two copies of one log have in common when they have applied the same batches of it.
type Digest struct {
	// Number is that of the newest batch, Keys how many keys there are, Sum is the xxh3 of all keys and values.
	Number uint64 `json:"number"`
	Keys   int64  `json:"keys"`
	Sum    uint64 `json:"sum"`
}

// Digest reads everything that a database over a log has, as of now, and returns once its log has that, too.
func (db *DB) Digest(ctx context.Context) (d Digest, err error) {
	const doing = "read all of the database"
	release, err := db.enter(doing)
	if err != nil {
		return d, err
	}
	defer release()
	if db.logged == nil {
		return d, fault.Invalid(doing, "it has no log that it could be compared with", "use check")
	}
	snap, number := db.store.Numbering()
	defer func() { err = errors.Join(err, snap.Close()) }()
	if err := db.store.SyncLog(nil); err != nil {
		return d, err
	}
	return digest(ctx, snap, number)
}

// Digest reads everything that the standby has.
func (s *Standby) Digest(ctx context.Context) (d Digest, err error) {
	if s.of == nil {
		return d, nil
	}
	return digest(ctx, s.of.store, s.of.at.Number)
}

func digest(ctx context.Context, r kv.Reader, number uint64) (Digest, error) {
	d, sum := Digest{Number: number}, xxh3.New()
	var head [8]byte
	err := kv.Scan(r, nil, nil, func(key, value []byte) error {
		if d.Keys%cancelEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if string(key) == string(layout.PurgeKey) { // of what a copy does with its own files
			return nil
		}
		d.Keys++
		binary.BigEndian.PutUint32(head[:4], uint32(len(key)))
		binary.BigEndian.PutUint32(head[4:], uint32(len(value)))
		for _, b := range [][]byte{head[:], key, value} {
			if _, err := sum.Write(b); err != nil {
				return err
			}
		}
		return nil
	})
	d.Sum = sum.Sum64()
	return d, store.Error("read all of a database", err)
}

// cancelEvery is how many keys are read between looks at the context.
const cancelEvery = 4096
