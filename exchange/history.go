package exchange

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// TypeHistory is the type of a line that holds an event of a memory's history.
const TypeHistory = "history"

// Event is an event of a history as one flat JSON object. The events of a memory
// stand together, oldest first, right before the line of the memory if it is still
// there; the last of those is of its present text. When read, id, seq, lsn,
// old_value and is_deleted are ignored: they follow from the others, or are the
// database's own.
type Event struct {
	// Type is TypeHistory; the others are as in memory.HistoryEntry.
	Type      string       `json:"type"`
	ID        string       `json:"id,omitempty"`
	MemoryID  string       `json:"memory_id"`
	Seq       uint64       `json:"seq,omitzero"`
	User      string       `json:"user"`
	Agent     string       `json:"agent"`
	Run       string       `json:"run"`
	Kind      memory.Kind  `json:"kind,omitempty"`
	Event     memory.Event `json:"event"`
	OldText   *string      `json:"old_value,omitempty"`
	NewText   *string      `json:"new_value,omitempty"`
	Time      Time         `json:"timestamp"`
	LSN       uint64       `json:"lsn,omitzero"`
	IsDeleted bool         `json:"is_deleted,omitempty"`
	// Reason, Into and Policy tell of a delete why it was.
	Reason memory.Reason `json:"reason,omitempty"`
	Into   string        `json:"into,omitempty"`
	Policy uint32        `json:"policy,omitempty"`
}

// NewEvent is the line of an entry of a history, without what another database
// makes by itself.
func NewEvent(e memory.HistoryEntry) Event {
	return Event{
		Type: TypeHistory, MemoryID: e.MemoryID, User: e.Scope.User, Agent: e.Scope.Agent, Run: e.Scope.Run,
		Kind: e.Kind, Event: e.Event, NewText: e.NewText, Time: Time{Time: e.Time},
		Reason: e.Reason, Into: e.Into, Policy: e.Policy,
	}
}

func (e *Event) entry() memory.HistoryEntry {
	return memory.HistoryEntry{
		MemoryID: e.MemoryID, Scope: memory.Scope{User: e.User, Agent: e.Agent, Run: e.Run},
		Kind: e.Kind, Event: e.Event, NewText: e.NewText, Time: e.Time.Time,
		Reason: e.Reason, Into: e.Into, Policy: e.Policy,
	}
}

const (
	// maxPastEvents and maxPastBytes bound the history that is restored with one
	// memory: it is one part of one commit. Older events are skipped.
	maxPastEvents = 20_000
	maxPastBytes  = 32 << 20
)

// past is the history of a memory whose lines are being read.
type past struct {
	entries []memory.HistoryEntry
	at      []LineError
	bytes   int
}

// of reports whether the history is that of a memory of this ID and owner.
func (p *past) of(id string, s memory.Scope) bool {
	if len(p.entries) == 0 {
		return false
	}
	last := &p.entries[len(p.entries)-1]
	return last.MemoryID == id && last.Scope.User == s.User && last.Scope.Agent == s.Agent
}

// open reports whether the history may end with a memory of this ID and owner.
func (p *past) open(id string, s memory.Scope) bool {
	return p.of(id, s) && p.entries[len(p.entries)-1].Event != memory.EventDelete
}

// continues reports whether an event is the next one of the history. After a delete that is an
// update, by which a memory was brought back.
func (p *past) continues(e *memory.HistoryEntry) bool {
	if e.Event == memory.EventUpdate {
		return p.of(e.MemoryID, e.Scope)
	}
	return e.Event != memory.EventAdd && p.open(e.MemoryID, e.Scope)
}

// happened takes an event.
func (b *batch) happened(ctx context.Context, at LineError, e memory.HistoryEntry) error {
	e.Scope = b.opts.Place(e.Scope)
	b.kind(TypeHistory, e.Scope.Owner(), func() any { return NewEvent(e) })
	if !b.past.continues(&e) {
		if err := b.gone(ctx); err != nil {
			return err
		}
	}
	p := &b.past
	p.entries, p.at, p.bytes = append(p.entries, e), append(p.at, at), p.bytes+textSize(&e)
	for len(p.entries) > maxPastEvents || p.bytes > maxPastBytes && len(p.entries) > 1 {
		oldest := p.at[0]
		oldest.Err = errLongHistory
		p.bytes -= textSize(&p.entries[0])
		p.entries, p.at = p.entries[1:], p.at[1:]
		if err := b.refuse(ctx, oldest); err != nil {
			return err
		}
	}
	return nil
}

func textSize(e *memory.HistoryEntry) int {
	if e.NewText == nil {
		return 0
	}
	return len(*e.NewText)
}

// gone stores the history that has been read as that of a memory which is gone.
func (b *batch) gone(ctx context.Context) error {
	if len(b.past.entries) == 0 {
		return nil
	}
	p := b.past
	b.past = past{}
	return b.life(ctx, p.at[0], memory.Life{History: p.entries}, p.bytes)
}
