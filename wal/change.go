package wal

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Op is what a change did.
type Op string

// The operations on memories. Before and After of a [Change] are *memory.Memory.
const (
	// OpAdd: the memory is new. OpUpdate: it has another version; also where its text was only
	// embedded, with the reason [ReasonEmbedded].
	OpAdd    Op = "add"
	OpUpdate Op = "update"
	// OpDelete: a call deleted it, by its ID or, with the reason scope, with all of a scope or all
	// that fitted a filter. OpEvict: a policy or the program let it go, and the reason says by which
	// rule. OpExpire: its time was over. OpMerge: it is merged into the memory of Into.
	OpDelete Op = "delete"
	OpEvict  Op = "evict"
	OpExpire Op = "expire"
	OpMerge  Op = "merge"
	// OpRestore: it is back, by an undo.
	OpRestore Op = "restore"
	// OpPast: an import brought a version that was superseded before (After), or the death of one
	// (Before). It changes nothing but the history of the memory.
	OpPast Op = "past"
	// OpAccess: recalls have touched it, or a consolidation has taken of its confidence. After is an
	// [Access].
	OpAccess Op = "access"
)

// The operations on the database. They have no owner, and neither Before nor After.
const (
	// OpReset: everything before it is gone.
	OpReset Op = "reset"
	// OpSpace: there is another vector space, or two have exchanged their names.
	OpSpace Op = "space"
	// OpErase: an erasure has begun: every trace of a memory, an agent or a user goes. OpErased: what
	// the log said here was of something that is erased.
	OpErase  Op = "erase"
	OpErased Op = "erased"
)

// The operations on entries. ID is the key. After of a put is an entries.Line.
const (
	OpEntryPut       Op = "entry_put"
	OpEntryDelete    Op = "entry_delete"
	OpEntryDeleteAll Op = "entry_delete_all" // all of the owner
)

// The operations on sessions. Run is the session.
const (
	// OpSessionPut: the session is new or changed in more than its messages. After is a
	// sessions.LoggedSession: with the content that it shows from then on, and which positions.
	OpSessionPut Op = "session_put"
	// OpSessionAppend: the session has a message more, or another one at a position. ID is that of
	// the message, and After a sessions.LoggedMessage.
	OpSessionAppend Op = "session_append"
	// OpSessionWrite: a message was written into a content. The session shows the content once an
	// OpSessionPut says so.
	OpSessionWrite Op = "session_write"
	// OpSessionMarker: a marker stands before a position, and says that the messages before it are
	// summarised. After is a sessions.LoggedMarker. Of a session that was saved whole its markers are
	// not told: it has them.
	OpSessionMarker    Op = "session_marker"
	OpSessionDelete    Op = "session_delete"
	OpSessionDeleteAll Op = "session_delete_all" // all of the owner
)

// The operations on the graph. ID is that of the entity or of the relation.
const (
	OpEntityPut Op = "entity_put" // After is a graph.EntityLine
	// OpEntityDelete also deletes the relations of the entity, and its links.
	OpEntityDelete Op = "entity_delete"
	// OpEntityMerge: the relations and links of the entity are those of Into from then on; what
	// else changed is told by changes of the same commit.
	OpEntityMerge   Op = "entity_merge"
	OpEntityUnmerge Op = "entity_unmerge"
	OpRelationPut   Op = "relation_put" // After is a graph.RelationLine
	// OpRelationEnd: the relation holds no longer, and stays as a past one. OpRelationDelete: it is
	// gone, since no text tells of it any more. Before is a graph.RelationLine with the ends.
	OpRelationEnd    Op = "relation_end"
	OpRelationDelete Op = "relation_delete"
	OpRelationPast   Op = "relation_past" // an import brought a superseded version: After
	// OpRelationSay: the text of the memory of Seq tells of the relation; OpRelationUnsay: no more.
	OpRelationSay   Op = "relation_say"
	OpRelationUnsay Op = "relation_unsay"
	// OpLink: the entity is linked to the memory of Seq; the reason is [ReasonMentioned] where its
	// text is what links them.
	OpLink           Op = "link"
	OpUnlink         Op = "unlink"
	OpGraphDeleteAll Op = "graph_delete_all" // all of the owner
)

// The operations on usage and agents.
const (
	OpUsageAdd       Op = "usage_add"        // After is a usage.Line
	OpUsageRollUp    Op = "usage_roll_up"    // After is a usage.Rolled: the records of which days became one a day
	OpUsageDeleteAll Op = "usage_delete_all" // all of the owner, with its budgets and its manifest
	OpBudgetPut      Op = "budget_put"       // After is a usage.BudgetLine
	OpBudgetDelete   Op = "budget_delete"    // Before is one with the period
	OpBudgetReserve  Op = "budget_reserve"   // After is a usage.Reserved
	OpBudgetRelease  Op = "budget_release"   // Before is a usage.Reserved
	OpAgentPut       Op = "agent_put"        // After is a usage.AgentLine
)

// The operations on policies.
const (
	OpPolicyPut   Op = "policy_put"  // After is a policy.Policy
	OpConsolidate Op = "consolidate" // After is a policy.Ran
	// OpTrashPut: the trash keeps what the commit of an LSN took, or knows that it was undone; After
	// is a policy.Kept. OpTrashEmpty: it keeps that no more; Before is a policy.Kept.
	OpTrashPut   Op = "trash_put"
	OpTrashEmpty Op = "trash_empty"
)

// The reasons that no history has.
const (
	ReasonEmbedded  = "embedded"
	ReasonMentioned = "mentioned"
)

// Change is one change of a commit.
type Change struct {
	// LSN is that of the commit, and Number the place of the change within it, from 0 on: the same
	// whichever changes a reader asks for. A reader that keeps both knows where to go on.
	LSN    uint64
	Number uint32
	// Time is that of the commit.
	Time time.Time
	Op   Op
	// Scope is whose it is: empty where it is of the whole database. A run is there for memories and
	// sessions only.
	scope.Scope
	// ID is that of the memory, the message, the entity or the relation, or the key of the entry.
	ID string
	// Seq is that of the memory, 0 where the change is of none.
	Seq uint64
	// Reason is why a memory went: as its history says, such as "evicted:age", or empty.
	Reason string
	// Into is the ID of what this was merged into.
	Into string
	// Before and After are the thing before the change and after it, of the type that the operation
	// names, in the shape of an export; nil where there is none. Of what is not a memory only some
	// operations know what was before. In a Change that was read as JSON they are json.RawMessage.
	Before, After any
	// Unresolved: something of the change is not kept any longer, since the policy keeps histories
	// for a shorter time than the log, or since what it names was deleted later. What is known is
	// there.
	Unresolved bool
}

// Access is what was counted of a memory since the Access before.
type Access struct {
	// Accesses is how many recalls there were. It may be negative, where an undo took some back.
	Accesses int64 `json:"accesses"`
	// LastAccessed is when it was recalled last, nil where that is not known.
	LastAccessed *time.Time `json:"last_accessed"`
}

// ChangeLine is a change as one flat JSON object.
type ChangeLine struct {
	LSN        uint64        `json:"lsn"`
	Number     uint32        `json:"change"`
	Time       clock.Instant `json:"time"`
	Op         Op            `json:"op"`
	User       string        `json:"user"`
	Agent      string        `json:"agent"`
	Run        string        `json:"run"`
	ID         string        `json:"id"`
	Seq        uint64        `json:"seq"`
	Reason     string        `json:"reason"`
	Before     any           `json:"before"`
	After      any           `json:"after"`
	Into       string        `json:"into,omitempty"`
	Unresolved bool          `json:"unresolved,omitempty"`
}

// MarshalJSON writes the change as one flat object with the keys lsn, change, time (RFC 3339, UTC),
// op, user, agent, run, id, seq, reason, before and after; and into and unresolved where they are
// set.
func (c Change) MarshalJSON() ([]byte, error) {
	return json.Marshal(ChangeLine{
		c.LSN, c.Number,
		clock.Instant{Time: c.Time},
		c.Op, c.User, c.Agent, c.Run, c.ID, c.Seq, c.Reason, c.Before, c.After,
		c.Into, c.Unresolved,
	})
}

// UnmarshalJSON reads what MarshalJSON writes. Before and After become json.RawMessage, or nil.
func (c *Change) UnmarshalJSON(b []byte) error {
	var before, after json.RawMessage
	l := ChangeLine{Before: &before, After: &after}
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	*c = Change{
		LSN: l.LSN, Number: l.Number, Time: l.Time.Time, Op: l.Op, Scope: scope.Scope{User: l.User, Agent: l.Agent, Run: l.Run},
		ID: l.ID, Seq: l.Seq, Reason: l.Reason, Into: l.Into, Unresolved: l.Unresolved,
	}
	if before != nil && l.Before != nil {
		c.Before = before
	}
	if after != nil && l.After != nil {
		c.After = after
	}
	return nil
}

// BehindError says that the log does not go back to where a reader wanted to go on. It is the
// cause of an error of the kind memory.ErrFellBehind.
type BehindError struct {
	// From is the LSN that was asked for, and Floor that of the oldest commit which the log has. What
	// the database was like before Floor, an export says; from Floor on the log goes on.
	From, Floor uint64
}

// Error says both.
func (e *BehindError) Error() string {
	return fmt.Sprintf("the log begins at LSN %d, and LSN %d was asked for", e.Floor, e.From)
}
