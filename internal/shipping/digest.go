package shipping

import (
	"context"
	"encoding/binary"

	"github.com/zeebo/xxh3"

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

// DigestOf reads everything that a state has, which is that behind the batch of a number.
func DigestOf(ctx context.Context, r kv.Reader, number uint64) (Digest, error) {
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
