package functions

import (
	"context"
	"errors"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// maxSessions bounds the sessions of a list, the newest first.
const maxSessions = 10_000

type listSessionsIn struct {
	AgentID string `json:"agentId"`
}

// SessionEntry is a session in a list: its ID, and what is known of it.
type SessionEntry struct {
	Key   string      `json:"key"`
	Value SessionInfo `json:"value"`
}

// SessionInfo is what is known of a session. Times are in milliseconds since 1970.
type SessionInfo struct {
	SessionID    string `json:"sessionId"`
	AgentID      string `json:"agentId"`
	MessageCount int    `json:"messageCount"`
	Compactions  int    `json:"compactions"`
	Channel      string `json:"channel,omitempty"`
	CreatedAt    int64  `json:"createdAt"`
	UpdatedAt    int64  `json:"updatedAt"`
}

// listSessions lists the sessions of an agent. A caller who sees one session alone gets this one.
func (f *Functions) listSessions(ctx context.Context, c *server.Call, in *listSessionsIn) (any, error) {
	s, err := place(c, in.AgentID, "")
	if err != nil {
		return nil, err
	}
	out := []SessionEntry{}
	if s.Run != "" {
		one, err := c.DB.Sessions().Get(ctx, s.Owner(), s.Run)
		switch {
		case errors.Is(err, memory.ErrNotFound):
			return out, nil
		case err != nil:
			return nil, err
		}
		return append(out, sessionEntry(&one)), nil
	}
	for one, err := range c.DB.Sessions().All(ctx, sessions.Query{Owner: s.Owner(), Limit: 1000}) {
		if err != nil {
			return nil, err
		}
		if out = append(out, sessionEntry(&one)); len(out) == maxSessions {
			break
		}
	}
	return out, nil
}

func sessionEntry(s *sessions.Session) SessionEntry {
	return SessionEntry{s.Session, SessionInfo{
		SessionID: s.Session, AgentID: s.Agent, MessageCount: s.Messages, Compactions: s.Compactions, Channel: s.Channel,
		CreatedAt: s.CreatedAt.UnixMilli(), UpdatedAt: s.UpdatedAt.UnixMilli(),
	}}
}

type compactIn struct {
	AgentID    string `json:"agentId"`
	SessionID  string `json:"sessionId"`
	Threshold  *int   `json:"threshold"`
	KeepRecent *int   `json:"keepRecent"`
}

// Compacted is the answer of a compaction that was made.
type Compacted struct {
	Compacted  bool   `json:"compacted"`
	Summarized int    `json:"summarized"`
	Kept       int    `json:"kept"`
	SummaryID  string `json:"summaryId"`
}

// NotCompacted is the answer where there was nothing to do.
type NotCompacted struct {
	Compacted bool   `json:"compacted"`
	Reason    string `json:"reason"`
}

// belowThreshold is why a session is not compacted that has too few messages, or none.
const belowThreshold = "below_threshold"

func (f *Functions) compactSession(ctx context.Context, c *server.Call, in *compactIn) (any, error) {
	o := sessions.CompactOptions{Threshold: sessions.DefaultThreshold, KeepRecent: sessions.DefaultKeepRecent, Summarizer: f.Summarizer}
	if in.Threshold != nil {
		o.Threshold = *in.Threshold
	}
	if in.KeepRecent != nil {
		o.KeepRecent = *in.KeepRecent
	}
	if o.KeepRecent < 1 || o.Threshold <= o.KeepRecent {
		return nil, invalid("memory::session::compact: threshold is %d and keepRecent %d; keep 1 or more, and fewer than the threshold", o.Threshold, o.KeepRecent)
	}
	s, err := session(c, in.AgentID, in.SessionID)
	if err != nil {
		return nil, err
	}
	r, err := c.DB.Sessions().Compact(ctx, s.Owner(), s.Run, &o)
	switch {
	case errors.Is(err, memory.ErrNotFound), err == nil && !r.Compacted:
		return NotCompacted{Reason: belowThreshold}, nil
	case err != nil:
		return nil, err
	}
	return Compacted{true, r.Summarized, r.Kept, r.SummaryID}, nil
}

type repairIn struct {
	AgentID   string `json:"agentId"`
	SessionID string `json:"sessionId"`
}

// Repaired is the answer of a repair. TotalFixes counts what was changed; orphaned and oversized messages
// are only told of.
type Repaired struct {
	Repaired   bool        `json:"repaired"`
	TotalFixes int         `json:"totalFixes"`
	Stats      RepairStats `json:"stats"`
}

// RepairStats count what a repair has found.
type RepairStats struct {
	EmptyRemoved      int `json:"emptyRemoved"`
	DuplicatesRemoved int `json:"duplicatesRemoved"`
	ConsecutiveMerged int `json:"consecutiveMerged"`
	OrphanedRefs      int `json:"orphanedRefs"`
	Reordered         int `json:"reordered"`
	OversizedDetected int `json:"oversizedDetected"`
}

// repairSession repairs a session; one that is not there needs no repair.
func (f *Functions) repairSession(ctx context.Context, c *server.Call, in *repairIn) (any, error) {
	s, err := session(c, in.AgentID, in.SessionID)
	if err != nil {
		return nil, err
	}
	r, err := c.DB.Sessions().Repair(ctx, s.Owner(), s.Run, false)
	if err != nil && !errors.Is(err, memory.ErrNotFound) {
		return nil, err
	}
	return Repaired{r.Repaired, r.TotalFixes, RepairStats{
		EmptyRemoved: r.Stats.EmptyRemoved, DuplicatesRemoved: r.Stats.DuplicatesRemoved, ConsecutiveMerged: r.Stats.ConsecutiveMerged,
		OrphanedRefs: r.Stats.OrphanedRefs, Reordered: r.Stats.Reordered, OversizedDetected: r.Stats.OversizedDetected,
	}}, nil
}
