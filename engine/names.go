package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// maxCachedNames bounds the cache of names: about 100 bytes each. A full cache
// is emptied; the names come back as they are asked for.
const maxCachedNames = 200_000

// names gives numbers to scope values, owners, fields and spaces. A number is
// never reused, and is found by the full name, not by its hash alone.
type names struct {
	mu    sync.RWMutex
	cache map[layout.Name]uint32
}

func newNames() *names { return &names{cache: map[layout.Name]uint32{}} }

func (n *names) cached(k layout.Name) (uint32, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	num, ok := n.cache[k]
	return num, ok
}

func (n *names) remember(k layout.Name, num uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.cache) >= maxCachedNames {
		clear(n.cache)
	}
	n.cache[k] = num
}

// lookup is the number of a name, false if it has none.
func (n *names) lookup(r kv.Reader, ks *layout.Keys, k layout.Name) (uint32, bool, error) {
	if num, ok := n.cached(k); ok {
		return num, true, nil
	}
	b, closer, err := r.Get(ks.Name(k.Class, k.Text))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, store.Error("look up a name", err)
	}
	num, name, _, err := layout.DecodeName(b)
	if cerr := closer.Close(); err == nil && cerr != nil {
		err = store.Error("look up a name", cerr)
	}
	if err != nil {
		return 0, false, err
	}
	if name != k.Text {
		return 0, false, &fault.Error{
			Kind: fault.ErrInvalid, What: fmt.Sprintf("look up %q", k.Text),
			Why: fmt.Sprintf("its hash is that of %q", name), Do: "choose another name",
		}
	}
	n.remember(k, num)
	return num, true, nil
}
