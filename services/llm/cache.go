package llm

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"math"
	"slices"
	"sync"
)

// maxCacheBytes bounds what replies take in memory, beside the number of entries.
const maxCacheBytes = 16 << 20

// cacheKey is the SHA-256 of a request, so that no conversation is kept.
type cacheKey [sha256.Size]byte

// cache keeps the replies that were used last.
type cache struct {
	entries int
	mu      struct {
		sync.Mutex
		recent list.List // of *cachedReply, the last one used first
		byKey  map[cacheKey]*list.Element
		bytes  int
	}
}

type cachedReply struct {
	key   cacheKey
	reply Reply
}

func newCache(entries int) *cache {
	c := &cache{entries: entries}
	c.mu.byKey = map[cacheKey]*list.Element{}
	return c
}

// keyOf hashes all that a reply depends on, and the owner, each part with its length.
func keyOf(r *Request) (key cacheKey) {
	h := sha256.New()
	addStrings(h, r.Owner.User, r.Owner.Agent)
	addNumbers(h, len(r.Messages), len(r.Tools), r.Tokens(), int(math.Float64bits(r.Temperature)))
	for _, m := range r.Messages {
		addStrings(h, string(m.Role), m.Text)
	}
	for _, t := range r.Tools {
		addStrings(h, t.Name, t.Description, string(t.Parameters))
	}
	if r.JSON {
		addStrings(h, "json")
	}
	h.Sum(key[:0])
	return key
}

func addStrings(h hash.Hash, parts ...string) {
	for _, p := range parts {
		addNumbers(h, len(p))
		h.Write([]byte(p))
	}
}

func addNumbers(h hash.Hash, numbers ...int) {
	for _, n := range numbers {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	}
}

// worthKeeping reports whether a reply is whole: a caller who asks again after one that was
// not gets another.
func worthKeeping(r *Request, reply *Reply) bool {
	if reply.Truncated || reply.Text == "" && len(reply.Calls) == 0 {
		return false
	}
	for _, c := range reply.Calls {
		if !json.Valid([]byte(c.Arguments)) {
			return false
		}
	}
	return !r.JSON || len(reply.Calls) > 0 || json.Valid([]byte(reply.Text))
}

func (r *cachedReply) size() int {
	n := len(r.key) + len(r.reply.Text) + len(r.reply.Model)
	for _, c := range r.reply.Calls {
		n += len(c.Name) + len(c.Arguments)
	}
	return n
}

func (c *cache) get(key cacheKey) (Reply, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.mu.byKey[key]
	if e == nil {
		return Reply{}, false
	}
	c.mu.recent.MoveToFront(e)
	reply := e.Value.(*cachedReply).reply
	reply.Calls, reply.Cached = slices.Clone(reply.Calls), true
	return reply, true
}

func (c *cache) put(key cacheKey, reply Reply) {
	reply.Calls = slices.Clone(reply.Calls)
	kept := &cachedReply{key, reply}
	if kept.size() > maxCacheBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.byKey[key] != nil {
		return // another call was quicker
	}
	c.mu.byKey[key] = c.mu.recent.PushFront(kept)
	c.mu.bytes += kept.size()
	for c.mu.recent.Len() > c.entries || c.mu.bytes > maxCacheBytes {
		old := c.mu.recent.Remove(c.mu.recent.Back()).(*cachedReply)
		delete(c.mu.byKey, old.key)
		c.mu.bytes -= old.size()
	}
}
