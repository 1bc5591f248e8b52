package cluster

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

func sample() *message {
	return &message{
		kind: kindBatches, layout: engine.LayoutVersion, part: 1, parts: 3, cluster: uuid.UUID{1, 2, 3}, shard: 4, shards: 64,
		epoch: 5, before: 6, body: []byte("a part of a frame"),
	}
}

// TestMessage: a message is read as it was written, and no change of a byte goes unnoticed.
func TestMessage(t *testing.T) {
	m := sample()
	b := m.encode()
	got, err := decodeMessage(b)
	if err != nil {
		t.Fatal(err)
	}
	if got.part != m.part || got.parts != m.parts || got.cluster != m.cluster || got.shard != m.shard || got.shards != m.shards ||
		got.epoch != m.epoch || got.before != m.before || got.sum != m.sum || !bytes.Equal(got.body, m.body) {
		t.Errorf("%+v, want %+v", got, m)
	}
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x10
		if _, err := decodeMessage(damaged); !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrNewerLayout) {
			t.Errorf("byte %d: %v", i, err)
		}
		if _, err := decodeMessage(b[:i]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
	m.layout++
	if _, err := decodeMessage(m.encode()); !errors.Is(err, fault.ErrNewerLayout) {
		t.Errorf("a newer layout: %v", err)
	}
	m = sample()
	m.part = m.parts
	if _, err := decodeMessage(m.encode()); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a part too many: %v", err)
	}
}

// FuzzMessage: what a stream holds was perhaps written by somebody else.
func FuzzMessage(f *testing.F) {
	f.Add(sample().encode())
	f.Add([]byte(messageMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err == nil && !bytes.Equal(m.encode(), b) {
			t.Errorf("%x is read as %+v", b, m)
		}
	})
}
