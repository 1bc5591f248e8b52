package notes

import (
	"encoding/json"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The JSON of notes is that of what memdbctl prints: what one program marshals, another one
// imports.

// TypeNote is the type of lines that hold a note.
const TypeNote = "note"

// Line is a note as one flat JSON object, with the score where a search has found it. It has
// no owner: an import stores it for the one that it is given.
type Line struct {
	Type      string        `json:"type"`
	ID        uint64        `json:"id"`
	MemoryID  string        `json:"memory_id"`
	Name      string        `json:"name"`
	Aliases   []string      `json:"aliases"`
	Content   string        `json:"content"`
	Kind      memory.Kind   `json:"kind"`
	CreatedAt clock.Instant `json:"created_at"`
	UpdatedAt clock.Instant `json:"updated_at"`
	Score     *float64      `json:"score,omitempty"`
}

// NewLine is the line of a note.
func NewLine(n Note) Line {
	return Line{
		Type: TypeNote, ID: n.ID, MemoryID: n.MemoryID, Name: n.Name, Aliases: append([]string{}, n.Aliases...), Content: n.Content, Kind: n.Kind,
		CreatedAt: clock.Instant{Time: n.CreatedAt}, UpdatedAt: clock.Instant{Time: n.UpdatedAt},
	}
}

// Note is the note of the line.
func (l *Line) Note() Note {
	n := Note{
		ID: l.ID, MemoryID: l.MemoryID, Name: l.Name, Aliases: l.Aliases, Content: l.Content, Kind: l.Kind,
		CreatedAt: l.CreatedAt.Time, UpdatedAt: l.UpdatedAt.Time,
	}
	if len(n.Aliases) == 0 {
		n.Aliases = nil
	}
	return n
}

// Memory is the memory that the note of the line is, without a scope.
func (l *Line) Memory() memory.Memory {
	return memory.Memory{
		ID: l.MemoryID, Kind: l.Kind, Text: l.Content, NoteID: l.ID, Name: l.Name, Aliases: l.Aliases,
		CreatedAt: l.CreatedAt.Time, UpdatedAt: l.UpdatedAt.Time,
	}
}

// MarshalJSON writes the line of the note.
func (n Note) MarshalJSON() ([]byte, error) { return json.Marshal(NewLine(n)) }

// UnmarshalJSON reads a [Line]. Keys that it does not have are ignored.
func (n *Note) UnmarshalJSON(b []byte) error {
	var l Line
	err := json.Unmarshal(b, &l)
	if err == nil {
		*n = l.Note()
	}
	return err
}

// MarshalJSON writes the line of the note, with the score.
func (n Found) MarshalJSON() ([]byte, error) {
	l := NewLine(n.Note)
	l.Score = &n.Score
	return json.Marshal(l)
}

// UnmarshalJSON reads a [Line]. Keys that it does not have are ignored.
func (n *Found) UnmarshalJSON(b []byte) error {
	var l Line
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	*n = Found{Note: l.Note()}
	if l.Score != nil {
		n.Score = *l.Score
	}
	return nil
}
