package mem0

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// An event is kept as an entry of the owner of what was added, so that it goes where the owner
// does. Its ID begins with 32 bits of the owner's hash: of those who keep entries, few are asked.

const (
	// eventKey begins the keys of events.
	eventKey = "mem0/event/"
	// eventLife is how long an event is kept: clients ask within seconds.
	eventLife = 7 * 24 * time.Hour
	// maxResults bounds the texts in an event, in bytes; beyond it the results are IDs alone.
	maxResults = 1 << 20
)

// event is what a client reads of an add.
type event struct {
	ID          string         `json:"id"`
	Type        string         `json:"event_type"`
	Status      string         `json:"status"`
	Payload     map[string]any `json:"payload"`
	Metadata    map[string]any `json:"metadata"`
	Results     []added        `json:"results"`
	Error       *string        `json:"error"`
	CreatedAt   time.Time      `json:"created_at"`
	UpdatedAt   time.Time      `json:"updated_at"`
	StartedAt   time.Time      `json:"started_at"`
	CompletedAt time.Time      `json:"completed_at"`
	Latency     float64        `json:"latency"` // milliseconds
}

// keptEvent is an event as it is kept.
type keptEvent struct {
	Scope memory.Scope `json:"scope"`
	Event event        `json:"event"`
}

// hashOf is the part of an ID that says whose it may be.
func hashOf(o scope.Owner) uint32 {
	sum := sha256.Sum256([]byte(scope.Key(o)))
	return binary.BigEndian.Uint32(sum[:])
}

// newID is a UUID of version 8 that begins with four bytes of the caller.
func newID(first uint32) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	binary.BigEndian.PutUint32(b[:], first)
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// putEvent keeps what an add did, and returns the ID under which a client finds it.
func (c *call) putEvent(done *outcome) (string, error) {
	now := c.Now().UTC()
	owner := done.scope.Owner()
	k := keptEvent{Scope: done.scope, Event: event{
		ID: newID(hashOf(owner)), Type: "ADD", Status: "SUCCEEDED", Results: orEmpty(done.results),
		Payload:   map[string]any{"user_id": orNull(done.scope.User), "agent_id": orNull(done.scope.Agent), "run_id": orNull(done.scope.Run)},
		CreatedAt: done.begun.UTC(), StartedAt: done.begun.UTC(), UpdatedAt: now, CompletedAt: now,
		Latency: float64(now.Sub(done.begun).Microseconds()) / 1000,
	}}
	if len(done.degraded) > 0 {
		k.Event.Metadata = map[string]any{"degraded": done.degraded}
	}
	size := 0
	for _, r := range done.results {
		size += len(r.Memory)
	}
	if size > maxResults {
		k.Event.Results = make([]added, len(done.results))
		for i, r := range done.results {
			k.Event.Results[i] = added{ID: r.ID, Event: r.Event}
		}
	}
	_, err := c.DB.KV().Put(c.Context(), owner, eventKey+k.Event.ID, k, &entries.PutOptions{TTL: eventLife})
	return k.Event.ID, err
}

// getEvent answers what became of an add.
func getEvent(c *call) error {
	id := c.R.PathValue("id")
	unknown := server.Fail(http.StatusNotFound, "not_found", "there is no event of this ID; events are kept for seven days")
	first, err := hex.DecodeString(id[:min(len(id), 8)])
	if err != nil || len(first) != 4 {
		return unknown
	}
	if err := c.Reach([]memory.Scope{{}}, false); err != nil {
		return err
	}
	owners, err := c.DB.KV().Owners(c.Context())
	if err != nil {
		return err
	}
	for _, o := range owners {
		if hashOf(o) != binary.BigEndian.Uint32(first) || !c.may(o) {
			continue
		}
		e, found, err := c.DB.KV().Lookup(c.Context(), o, eventKey+id)
		if err != nil {
			return err
		}
		var k keptEvent
		if !found || json.Unmarshal(e.Value, &k) != nil || !c.sees(k.Scope) {
			continue
		}
		return c.Reply(http.StatusOK, k.Event)
	}
	return unknown
}

// may reports whether the key of the request sees something of an owner.
func (c *call) may(o scope.Owner) bool {
	if c.Admin() {
		return true
	}
	for _, of := range c.Key.Scopes {
		if scope.Contains(of.Owner().Scope(), o.Scope()) {
			return true
		}
	}
	return false
}

// sees reports whether the key of the request sees all of a scope.
func (c *call) sees(s memory.Scope) bool {
	if c.Admin() {
		return true
	}
	for _, of := range c.Key.Scopes {
		if scope.Contains(of, s) {
			return true
		}
	}
	return false
}
