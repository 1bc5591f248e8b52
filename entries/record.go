package entries

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The limits of an entry.
const (
	// MaxKey bounds a key, in bytes.
	MaxKey = 1024
	// MaxValue bounds a value, in bytes of JSON.
	MaxValue = 8 << 20
	// MaxValueDepth bounds how deep objects and lists nest in a value.
	MaxValueDepth = 1000
)

// Entry is a JSON value that an owner keeps under a key.
type Entry struct {
	scope.Owner
	// Key is unique within the owner.
	Key string
	// Value is compact JSON.
	Value json.RawMessage
	// Version is the LSN of the commit that put it last.
	Version uint64
	// UpdatedAt is when it was put last.
	UpdatedAt time.Time
	// ExpiresAt hides the entry from then on; zero: never.
	ExpiresAt time.Time
}

// recordVersion is the first byte of a stored entry.
const recordVersion = 1

func (e *Entry) encode() []byte {
	b := binary.AppendUvarint([]byte{recordVersion}, e.Version)
	b = binary.AppendVarint(b, clock.ToMillis(e.UpdatedAt))
	b = binary.AppendVarint(b, clock.ToMillis(e.ExpiresAt))
	b = codec.AppendBytes(b, e.User)
	b = codec.AppendBytes(b, e.Agent)
	return append(b, e.Value...)
}

func decodeEntry(key string, b []byte) (Entry, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	e := Entry{Key: key, Version: r.Uvarint(), UpdatedAt: clock.FromMillis(r.Varint()), ExpiresAt: clock.FromMillis(r.Varint())}
	e.Owner = scope.Owner{User: r.String(), Agent: r.String()}
	e.Value = bytes.Clone(r.Rest())
	if r.Err() != nil || v != recordVersion {
		return Entry{}, &fault.Error{Kind: fault.ErrCorrupt, What: fmt.Sprintf("read the entry %q", valid.Short(key)), Cause: r.Err()}
	}
	return e, nil
}

func (e *Entry) expired(now int64) bool {
	return !e.ExpiresAt.IsZero() && clock.ToMillis(e.ExpiresAt) <= now
}

func checkEntry(doing string, o scope.Owner, key string) error {
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
