package functions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// DefaultLimit is how many memories a recall returns that does not say.
const DefaultLimit = 10

type storeIn struct {
	AgentID   string  `json:"agentId"`
	Content   string  `json:"content"`
	Role      *string `json:"role"`
	SessionID string  `json:"sessionId"`
}

// Created is the answer of a store that stored.
type Created struct {
	ID     string `json:"id"`
	Stored bool   `json:"stored"`
}

// Known is the answer of a store whose content the agent has already.
type Known struct {
	Deduplicated bool `json:"deduplicated"`
}

// store stores content once for an owner: its ID follows from its hash, so that two stores at once cannot
// both be new. A session that does not have the message yet gets it, also where the content is known.
func (f *Functions) store(ctx context.Context, c *server.Call, in *storeIn) (any, error) {
	if in.Content == "" {
		return nil, invalid("memory::store: content is missing; give a text")
	}
	role := memory.RoleUser
	if in.Role != nil {
		role = memory.Role(*in.Role)
	}
	s, err := place(c, in.AgentID, in.SessionID)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(in.Content))
	m := memory.Memory{Scope: s, Role: role, Text: in.Content}
	bound, err := boundToRun(c, s)
	if err != nil {
		return nil, err
	}
	if !bound { // else the database looks within the run, and nothing tells of the others
		m.ID = contentID(hash)
	}
	known, taken, err := there(ctx, c.DB, &m, hash)
	switch {
	case err != nil:
		return nil, err
	case known:
		return Known{true}, mention(ctx, c.DB, &m, hash)
	case taken: // by another text, which the memory got since
		m.ID = ""
	}
	st, err := add(ctx, c.DB, &m, hash)
	if m.ID != "" && errors.Is(err, memory.ErrExists) { // another store was faster
		if known, _, err := there(ctx, c.DB, &m, hash); err != nil || known {
			return Known{true}, errors.Join(err, mention(ctx, c.DB, &m, hash))
		}
	}
	switch {
	case err != nil:
		return nil, err
	case !st.Stored:
		return Known{true}, nil
	}
	return Created{st.ID, true}, nil
}

// boundToRun reports whether the caller sees single runs of an owner only.
func boundToRun(c *server.Call, s memory.Scope) (bool, error) {
	fit, err := c.Scopes(s.Owner().Scope())
	return slices.ContainsFunc(fit, func(of memory.Scope) bool { return of.Run != "" }), err
}

// contentID is the ID of a memory by the hash of its content, in the form of a UUID v4.
func contentID(hash [sha256.Size]byte) string {
	hash[6], hash[8] = hash[6]&0x0f|0x40, hash[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", hash[:4], hash[4:6], hash[6:8], hash[8:10], hash[10:16])
}

// there reports whether the owner has the content under the ID that follows from it, and whether it has
// another content there.
func there(ctx context.Context, db *engine.DB, m *memory.Memory, hash [sha256.Size]byte) (known, taken bool, err error) {
	if m.ID == "" {
		return false, false, nil
	}
	of := db.Memories().Lacking(memory.Lack{User: m.User == ""})
	got, err := of.Get(ctx, m.Owner().Scope(), m.ID)
	switch {
	case errors.Is(err, memory.ErrNotFound):
		return false, false, nil
	case err != nil:
		return false, false, err
	}
	known = got.Hash == hex.EncodeToString(hash[:])
	return known, !known, nil
}

// add stores a memory, with a message of its session if it has one.
func add(ctx context.Context, db *engine.DB, m *memory.Memory, hash [sha256.Size]byte) (memory.Stored, error) {
	if m.Run == "" {
		return db.Memories().Store(ctx, *m, nil)
	}
	st, _, err := db.Sessions().StoreMemory(ctx, *m, nil, sessions.Message{ID: messageID(m, hash)}, nil)
	return st, err
}

// mention appends a message that refers to a memory, unless the session has it.
func mention(ctx context.Context, db *engine.DB, m *memory.Memory, hash [sha256.Size]byte) error {
	if m.Run == "" {
		return nil
	}
	msg := sessions.Message{ID: messageID(m, hash), Role: string(m.Role), Text: m.Text, MemoryIDs: []string{m.ID}}
	_, err := db.Sessions().Append(ctx, m.Owner(), m.Run, []sessions.Message{msg}, nil)
	return err
}

// messageID is the ID of a message: one store that is made twice appends once.
func messageID(m *memory.Memory, hash [sha256.Size]byte) string {
	return hex.EncodeToString(hash[:]) + ":" + string(m.Role)
}

type recallIn struct {
	AgentID string `json:"agentId"`
	Query   string `json:"query"`
	Limit   *int   `json:"limit"`
}

// Recalled is a memory that a recall has found.
type Recalled struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Score   float64 `json:"score"`
	// Timestamp is when it was stored, in milliseconds since 1970.
	Timestamp int64  `json:"timestamp"`
	ID        string `json:"id"`
}

func (f *Functions) recall(ctx context.Context, c *server.Call, in *recallIn) (any, error) {
	if in.Query == "" {
		return nil, invalid("memory::recall: query is missing; give a text")
	}
	limit := DefaultLimit
	if in.Limit != nil {
		limit = *in.Limit
	}
	fit, err := scopes(c, in.AgentID, "")
	switch {
	case err != nil:
		return nil, err
	case limit < 0:
		return nil, invalid("memory::recall: limit is %d; give 0 or more", limit)
	case limit == 0:
		return []Recalled{}, nil
	}
	found, err := c.DB.Memories().Recall(ctx, memory.Query{Scopes: fit, Text: in.Query, Limit: limit, Profile: memory.ProfileHybrid})
	if err != nil {
		return nil, err
	}
	out := make([]Recalled, 0, len(found.Hits))
	for _, h := range found.Hits {
		out = append(out, Recalled{string(h.Role), h.Text, h.Score, h.CreatedAt.UnixMilli(), h.ID})
	}
	return out, nil
}

type evictIn struct {
	AgentID       string   `json:"agentId"`
	MaxAge        *int64   `json:"maxAge"`
	MinImportance *float64 `json:"minImportance"`
	Cap           *int64   `json:"cap"`
}

// EvictedReply is the answer of an eviction.
type EvictedReply struct {
	Evicted int `json:"evicted"`
}

func (f *Functions) evict(ctx context.Context, c *server.Call, in *evictIn) (any, error) {
	o := engine.EvictOptions{MinImportance: in.MinImportance, Cap: in.Cap}
	if in.MaxAge != nil {
		const most = int64(1<<63-1) / int64(time.Millisecond)
		if *in.MaxAge < 0 || *in.MaxAge > most {
			return nil, invalid("memory::evict: maxAge is %d; give milliseconds, from 0 to %d", *in.MaxAge, most)
		}
		age := time.Duration(*in.MaxAge) * time.Millisecond
		o.MaxAge = &age
	}
	var out EvictedReply
	err := eachAgeing(c, in.AgentID, func(s memory.Scope) error {
		o.Scope = s
		r, err := c.DB.Evict(ctx, &o)
		if err == nil && r.Skipped != "" {
			err = server.Fail(503, "skipped", "memory::evict: %s", r.Skipped)
		}
		out.Evicted += r.Evicted
		return err
	})
	return out, err
}

// eachAgeing calls do with each scope that the caller may have age: those of all agents if none is named.
func eachAgeing(c *server.Call, agent string, do func(memory.Scope) error) error {
	fit, err := c.Scopes(memory.Scope{Agent: agent})
	if err != nil {
		return err
	}
	for _, s := range fit {
		if s.Run != "" {
			return server.Denied(fmt.Sprintf("the key %s is one of a session, and memories age by user and agent", c.Key.ID))
		}
	}
	for _, s := range fit {
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}

type consolidateIn struct {
	AgentID   string   `json:"agentId"`
	DecayRate *float64 `json:"decayRate"`
}

// ConsolidatedReply is the answer of a consolidation.
type ConsolidatedReply struct {
	MemoriesDecayed int   `json:"memoriesDecayed"`
	MemoriesMerged  int   `json:"memoriesMerged"`
	DurationMs      int64 `json:"durationMs"`
}

func (f *Functions) consolidate(ctx context.Context, c *server.Call, in *consolidateIn) (any, error) {
	var out ConsolidatedReply
	err := eachAgeing(c, in.AgentID, func(s memory.Scope) error {
		r, err := c.DB.Consolidate(ctx, &engine.ConsolidateOptions{Scope: s, Rate: in.DecayRate})
		if err == nil && r.Skipped != "" {
			err = server.Fail(503, "skipped", "memory::consolidate: %s", r.Skipped)
		}
		out.MemoriesDecayed += r.Decayed
		out.MemoriesMerged += r.Merged
		out.DurationMs += r.Millis
		return err
	})
	return out, err
}
