package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// maxCachedNames bounds the cache of names: about 100 bytes each. A full cache
// is emptied; the names come back as they are asked for.
const maxCachedNames = 200_000

type nameKey struct {
	class nameClass
	name  string
}

// names gives numbers to scope values, owners, fields and spaces. A number is
// never reused, and is found by the full name, not by its hash alone.
type names struct {
	mu    sync.RWMutex
	cache map[nameKey]uint32
}

func newNames() *names { return &names{cache: map[nameKey]uint32{}} }

func (n *names) cached(k nameKey) (uint32, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	num, ok := n.cache[k]
	return num, ok
}

func (n *names) remember(k nameKey, num uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.cache) >= maxCachedNames {
		clear(n.cache)
	}
	n.cache[k] = num
}

// lookup is the number of a name, false if it has none.
func (n *names) lookup(r kv.Reader, ks *keyspace, k nameKey) (uint32, bool, error) {
	if num, ok := n.cached(k); ok {
		return num, true, nil
	}
	b, closer, err := r.Get(ks.name(k.class, k.name))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, storeError("look up a name", err)
	}
	num, name, _, err := decodeName(b)
	if cerr := closer.Close(); err == nil && cerr != nil {
		err = storeError("look up a name", cerr)
	}
	if err != nil {
		return 0, false, err
	}
	if name != k.name {
		return 0, false, &Error{
			Kind: ErrInvalid, What: fmt.Sprintf("look up %q", k.name),
			Why: fmt.Sprintf("its hash is that of %q", name), Do: "choose another name",
		}
	}
	n.remember(k, num)
	return num, true, nil
}

// encodeName is the value under a name's key. extra is what a space adds.
func encodeName(num uint32, name string, extra []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(num))
	b = codec.AppendBytes(b, name)
	return append(b, extra...)
}

func decodeName(b []byte) (num uint32, name string, extra []byte, err error) {
	r := codec.NewReader(b)
	num, name = r.Uint32(), r.String()
	if r.Err() != nil {
		return 0, "", nil, &Error{Kind: ErrCorrupt, What: "read a name", Cause: r.Err()}
	}
	return num, name, append([]byte(nil), r.Rest()...), nil
}

// ownerName is the name of an owner, in which no user and agent can be mistaken
// for another pair.
func ownerName(s Scope) string {
	b := codec.AppendBytes(nil, s.User)
	return string(append(b, s.Agent...))
}
