package graph

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// TypeLink is the type of lines of an export that hold links of entities to memories.
const TypeLink = "link"

// LinkLine is a link of an entity to a memory of its owner as one flat JSON object.
type LinkLine struct {
	Type      string        `json:"type"`
	Entity    string        `json:"entity"`
	Memory    string        `json:"memory"`
	User      string        `json:"user"`
	Agent     string        `json:"agent"`
	CreatedAt clock.Instant `json:"created_at,omitzero"`
	// Mentioned: the text of the memory is the reason for the link.
	Mentioned bool `json:"mentioned,omitzero"`
}

// linkLines has a line for each link of an owner, by the age of the entities and of the
// memories. Links to memories that have expired have none.
func (r *reader) linkLines(o scope.Owner, yield func(part.Line) error) error {
	var from *node
	last := uint32(0)
	return each(r, section(r, kindGraph, r.owner, secLink, 0), func(key, value []byte) error {
		if num := be32At(key, body); num != last {
			var err error
			if from, err = r.current(num); err != nil {
				return err
			}
			last = num
		}
		if from.real() == nil { // it is deleted, and is to be cleaned up after
			return nil
		}
		m, found, err := r.MemoryAt(be64At(key, len(key)-seqSize))
		if err != nil || !found || m.Owner != r.owner {
			return err
		}
		at, n := binary.Varint(value)
		if n <= 0 {
			return layout.BadKey("link", key)
		}
		return yield(&linkLine{LinkLine: LinkLine{
			Type: TypeLink, Entity: from.id, Memory: m.ID, User: o.User, Agent: o.Agent,
			CreatedAt: clock.Instant{Time: clock.FromMillis(at)}, Mentioned: byMention(value),
		}})
	})
}

// linkLine is a LinkLine on its way in or out of a database.
type linkLine struct{ LinkLine }

// Type is TypeLink.
func (*linkLine) Type() string { return TypeLink }

// Check returns why the line cannot be stored.
func (l *linkLine) Check() error {
	if l.Entity == "" || l.Memory == "" {
		return fmt.Errorf("a link lacks entity or memory")
	}
	return cmp.Or(valid.Word("read a link", "entity ID", l.Entity), valid.Word("read a link", "memory ID", l.Memory))
}

// Owner is whose the link is.
func (l *linkLine) Owner() scope.Owner { return scope.Owner{User: l.User, Agent: l.Agent} }

// SetOwner gives the link to another owner.
func (l *linkLine) SetOwner(o scope.Owner) { l.User, l.Agent = o.User, o.Agent }

// Store makes the link, unless it is there: ErrNotFound where one of its ends is not.
func (l *linkLine) Store(t part.Tx, _ bool) (part.Outcome, error) {
	doing := fmt.Sprintf("link the entity %q to a memory", valid.Short(l.Entity))
	if err := scope.Check(doing, l.Owner().Scope()); err != nil {
		return part.Unchanged, err
	}
	r, num, seq, err := linked(t, doing, l.Owner(), l.Entity, l.Memory)
	if err != nil {
		return part.Unchanged, err
	}
	there, err := exists(t, linkKey(t, r.owner, num, seq))
	if err != nil || there {
		return part.Unchanged, err
	}
	how := linkGiven
	if l.Mentioned {
		how = linkMentioned
	}
	at := t.Now()
	if !l.CreatedAt.IsZero() {
		at = millis(l.CreatedAt.Time)
	}
	return part.Stored, setLink(t, doing, r.owner, num, seq, how, at)
}
