package memory

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// HistoryQuery selects the memories that Histories tells of.
type HistoryQuery struct {
	Scope
	// AllScopes tells of every owner's memories: for administration only.
	AllScopes bool
	// Lost is called with each error of a history that is damaged, which is left out. nil:
	// the first one ends the iteration.
	Lost func(error)
}

// Event is what happened to a memory.
type Event string

// The events of a history.
const (
	EventAdd    Event = "ADD"
	EventUpdate Event = "UPDATE"
	EventDelete Event = "DELETE"
)

// HistoryEntry is one change of a memory.
type HistoryEntry struct {
	// ID is the entry's own, the same at every reading.
	ID       string `json:"id"`
	MemoryID string `json:"memory_id"`
	Seq      uint64 `json:"seq"`
	Scope    Scope  `json:"scope"`
	// Kind is what the memory was; empty, in a Restore, is KindMessage.
	Kind  Kind  `json:"kind,omitempty"`
	Event Event `json:"event"`
	// OldText is nil for an add, NewText for a delete.
	OldText   *string   `json:"old_value"`
	NewText   *string   `json:"new_value"`
	Time      time.Time `json:"timestamp"`
	LSN       uint64    `json:"lsn"`
	IsDeleted bool      `json:"is_deleted"`
	// Reason is why it was deleted, where nobody named it: one of the reasons, such as
	// ReasonAge. Into is the ID of the memory that it was merged into, and Policy the
	// version of the policy that said so.
	Reason Reason `json:"reason,omitempty"`
	Into   string `json:"into,omitempty"`
	Policy uint32 `json:"policy,omitempty"`
}

// Reason is why a memory is gone.
type Reason string

// The reasons of a history.
const (
	ReasonScope      Reason = "scope"              // its scope was deleted, or a filter chose it
	ReasonAge        Reason = "evicted:age"        // too old and not important
	ReasonConfidence Reason = "evicted:confidence" // too low a confidence
	ReasonCap        Reason = "evicted:cap"        // its owner had too many
	ReasonExpired    Reason = "expired"            // its time was over
	ReasonPruned     Reason = "pruned"             // too low a decayed importance
	ReasonMerged     Reason = "merged"             // nearly the same as another
	ReasonCaller     Reason = "evicted:caller"     // a verdict of the program, see Hooks
)

// A Life is a memory with what happened to it, as an export holds it.
type Life struct {
	// Memory is what it is now, nil where it is gone.
	Memory *Memory
	// History is what happened to it, oldest first: an add, updates, and the delete
	// of one that is gone. The last entry is that of the memory's present text. A delete
	// that an update follows was undone.
	// Empty for a memory that was only added. The database gives the entries IDs,
	// Seqs and LSNs of its own, and takes an old text from the entry before.
	History []HistoryEntry
}

// RestoreOptions changes what Restore does. nil is the default.
type RestoreOptions struct {
	StoreOptions
	// Known is the LSN up to which a life that is gone can have come and be there
	// already: that of the state before an import, since two lives within one may
	// be the same to the millisecond.
	Known uint64
}

// Owner is whose life it is; the zero Owner where it has neither a history nor a memory.
func (l *Life) Owner() Owner {
	switch {
	case len(l.History) > 0:
		return l.History[0].Scope.Owner()
	case l.Memory != nil:
		return l.Memory.Scope.Owner()
	}
	return Owner{}
}

// Check refuses a history that no memory can have had.
func (l *Life) Check(doing string) error {
	if len(l.History) == 0 {
		return nil
	}
	first := &l.History[0]
	for i := range l.History {
		e := &l.History[i]
		entry := fmt.Sprintf("%s: entry %d of the history of %q", doing, i+1, valid.Short(first.MemoryID))
		if err := e.check(entry); err != nil {
			return err
		}
		if why := l.misplaced(i); why != "" {
			return fault.Invalid(entry, why, "give one memory's events, oldest first")
		}
	}
	if l.Memory == nil {
		return nil
	}
	last, at := &l.History[len(l.History)-1], l.Memory.UpdatedAt
	if last.Event == EventAdd {
		at = l.Memory.CreatedAt
	}
	if l.Memory.ID != first.MemoryID || l.Memory.Scope != last.Scope ||
		*last.NewText != l.Memory.Text || clock.ToMillis(at) != clock.ToMillis(last.Time) {
		return fault.Invalid(fmt.Sprintf("%s %q", doing, valid.Short(l.Memory.ID)),
			"its history does not end with its ID, scope, text and time", "leave the history out, or mend it")
	}
	return nil
}

// misplaced is why an entry of the history cannot stand where it does, empty if it can.
func (l *Life) misplaced(i int) string {
	e, first := &l.History[i], &l.History[0]
	switch {
	case e.MemoryID != first.MemoryID || e.Scope.User != first.Scope.User || e.Scope.Agent != first.Scope.Agent:
		return "it is of another memory than the first"
	case e.Event == EventAdd && i > 0:
		return "it is an add after another event"
	case e.Event == EventDelete && (i == 0 || l.History[i-1].Event == EventDelete):
		return "a delete comes after an add or an update"
	case e.Event == EventDelete && i+1 == len(l.History) && l.Memory != nil:
		return "a delete comes last, and the memory is there"
	}
	return ""
}

// check checks an entry by itself.
func (e *HistoryEntry) check(doing string) error {
	if err := scope.Check(doing, e.Scope); err != nil {
		return err
	}
	if err := valid.Word(doing, "memory ID", e.MemoryID); err != nil {
		return err
	}
	if why := e.wrong(); why != "" {
		return fault.Invalid(doing, why, "give ADD, UPDATE or DELETE with a memory, a time and, but for DELETE, a text")
	}
	if err := (&Memory{CreatedAt: e.Time}).checkTimes(doing); err != nil || e.NewText == nil {
		return err
	}
	return CheckText(doing, *e.NewText)
}

// wrong is what an entry lacks or has too much, empty if nothing.
func (e *HistoryEntry) wrong() string {
	deletes := e.Event == EventDelete
	switch {
	case e.MemoryID == "":
		return "it names no memory"
	case e.Event != EventAdd && e.Event != EventUpdate && !deletes:
		return fmt.Sprintf("its event is %q", valid.Short(string(e.Event)))
	case !deletes && e.NewText == nil:
		return "it has no new text"
	case clock.ToMillis(e.Time) == 0:
		return "it has no time"
	case e.Reason != "" && !slices.Contains(knownReasons, e.Reason):
		return fmt.Sprintf("its reason is %q", valid.Short(string(e.Reason)))
	case e.Kind != "" && !slices.Contains(knownKinds, e.Kind):
		return fmt.Sprintf("its kind is %q", valid.Short(string(e.Kind)))
	case !deletes && (e.Reason != "" || e.Into != "" || e.Policy != 0):
		return "it has a reason and is no delete"
	}
	return ""
}
