package state

import (
	"errors"
	"fmt"
	"sync"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// maxCachedNames bounds the cache of names: about 100 bytes each. A full cache
// is emptied; the names come back as they are asked for.
const maxCachedNames = 200_000

// Names gives numbers to scope values, owners, fields and spaces. A number is
// never reused, and is found by the full name, not by its hash alone.
type Names struct {
	mu    sync.RWMutex
	cache map[layout.Name]uint32
}

// NewNames knows none yet.
func NewNames() *Names { return &Names{cache: map[layout.Name]uint32{}} }

// Cached is the number of a name that was looked up lately.
func (n *Names) Cached(k layout.Name) (uint32, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	num, ok := n.cache[k]
	return num, ok
}

// Remember notes the number of a name.
func (n *Names) Remember(k layout.Name, num uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.cache) >= maxCachedNames {
		clear(n.cache)
	}
	n.cache[k] = num
}

// Forget drops a name whose key is gone.
func (n *Names) Forget(k layout.Name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cache, k)
}

// Lookup is the number of a name, false if it has none.
func (n *Names) Lookup(r kv.Reader, ks *layout.Keys, k layout.Name) (uint32, bool, error) {
	if num, ok := n.Cached(k); ok {
		return num, true, nil
	}
	key := ks.Name(k.Class, k.Text)
	b, closer, err := r.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, store.Error("look up a name", err)
	}
	num, name, _, err := layout.DecodeName(key, b)
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
	n.Remember(k, num)
	return num, true, nil
}
