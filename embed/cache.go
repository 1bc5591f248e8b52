package embed

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
)

// DefaultCacheEntries is how many vectors a [Cache] keeps unless told otherwise.
const DefaultCacheEntries = 10_000

// Cache is an Embedder that remembers what another one returned: the vectors of the
// texts that were asked for last. It keeps no texts, only their SHA-256.
type Cache struct {
	inner   Embedder
	entries int // most vectors that are kept

	mu     sync.Mutex
	recent list.List // of *cached, the last one used first
	byText map[textKey]*list.Element
}

type textKey [sha256.Size]byte

type cached struct {
	key textKey
	vec []float32
}

// cachedOverhead is what an entry takes in memory beside its vector, about.
const cachedOverhead = 200

// NewCache wraps an Embedder. The cache keeps up to most vectors, and fewer where
// they would take more than limit bytes; 0 means DefaultCacheEntries and no such
// limit.
func NewCache(e Embedder, most int, limit int64) *Cache {
	if most <= 0 {
		most = DefaultCacheEntries
	}
	if limit > 0 {
		most = min(most, max(1, int(limit/(4*int64(e.Dim())+cachedOverhead))))
	}
	return &Cache{inner: e, entries: most, byText: map[textKey]*list.Element{}}
}

// Dim is that of the Embedder within.
func (c *Cache) Dim() int { return c.inner.Dim() }

// Model is that of the Embedder within.
func (c *Cache) Model() string { return c.inner.Model() }

// Base is that of the Embedder within.
func (c *Cache) Base() string { return Base(c.inner) }

// Bytes estimates the memory that the cache holds.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.recent.Len()) * (4*int64(c.inner.Dim()) + cachedOverhead)
}

// Limit is the most that Bytes can be.
func (c *Cache) Limit() int64 { return int64(c.entries) * (4*int64(c.inner.Dim()) + cachedOverhead) }

// Embed asks the Embedder within for the texts that are not known, each once. The
// vectors belong to the caller.
func (c *Cache) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	keys := make([]textKey, len(texts))
	places := map[textKey]int{} // of unknown texts, in the request
	var unknown []string
	c.mu.Lock()
	for i, text := range texts {
		keys[i] = sha256.Sum256([]byte(text))
		if vecs[i] = c.get(keys[i]); vecs[i] != nil {
			continue
		}
		if _, asked := places[keys[i]]; !asked {
			places[keys[i]] = len(unknown)
			unknown = append(unknown, text)
		}
	}
	c.mu.Unlock()
	if len(unknown) == 0 {
		return vecs, nil
	}
	made, err := c.inner.Embed(ctx, unknown)
	if err != nil {
		return nil, err
	}
	if len(made) != len(unknown) {
		return nil, fmt.Errorf("embed: %s returned %d vectors for %d texts", c.inner.Model(), len(made), len(unknown))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range vecs {
		if vecs[i] == nil {
			vec := made[places[keys[i]]]
			c.put(keys[i], vec)
			vecs[i] = slices.Clone(vec)
		}
	}
	return vecs, nil
}

// get returns a copy of a vector, nil if it is not known. mu is held.
func (c *Cache) get(key textKey) []float32 {
	e := c.byText[key]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return slices.Clone(e.Value.(*cached).vec)
}

// put keeps a vector, and forgets the one that was not used for longest where
// there is no room. mu is held.
func (c *Cache) put(key textKey, vec []float32) {
	if len(vec) != c.inner.Dim() || !usable(vec) || c.byText[key] != nil {
		return // whoever asked for it refuses it, and may ask again
	}
	if c.recent.Len() >= c.entries {
		last := c.recent.Back()
		delete(c.byText, c.recent.Remove(last).(*cached).key)
	}
	c.byText[key] = c.recent.PushFront(&cached{key, slices.Clone(vec)})
}

// usable reports whether a vector has a direction: only numbers, and not zeros alone.
func usable(vec []float32) bool {
	some := false
	for _, v := range vec {
		if v-v != 0 {
			return false // no number, or infinite
		}
		some = some || v != 0
	}
	return some
}
