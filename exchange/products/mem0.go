package products

import (
	"crypto/md5" // the hash of a documented interface, not a protection
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Mem0Field is the key in the metadata of a memory whose object has what mem0 knows of the memory
// and memdb does not.
const Mem0Field = "mem0"

// The keys of that object. Other keys of a memory of mem0 are kept in the object as they are.
const (
	Mem0App            = "app_id"
	Mem0Actor          = "actor_id"
	Mem0Role           = "role" // only a role that memdb does not have
	Mem0Expiration     = "expiration_date"
	Mem0Immutable      = "immutable"
	Mem0Categories     = "categories"
	Mem0Feedback       = "feedback"
	Mem0FeedbackReason = "feedback_reason"
	mem0Hash           = "hash" // with the hash of the text that it belongs to, see Mem0.Hash
	mem0HashOf         = "hash_of"
)

// Mem0DayForm is how mem0 writes a day.
const Mem0DayForm = time.DateOnly

// Mem0 is what a memory of mem0 has beside its ID, its user, agent and run, and its times.
type Mem0 struct {
	// Text is never empty.
	Text string
	// Role is the role of the message, Actor the speaker; either may be empty.
	Role, Actor string
	App         string
	// Expiration is the last day on which the memory is shown, empty for none.
	Expiration string
	Immutable  bool
	Categories []string
	// Hash is empty where it is Mem0Hash of the text.
	Hash     string
	Metadata map[string]any
	// More has other keys with their values.
	More map[string]any
}

// Mem0Hash is the hash that mem0 computes of a text.
func Mem0Hash(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Memory returns the memory that is kept. It has no scope, ID and times.
func (p *Mem0) Memory() (memory.Memory, error) {
	m := memory.Memory{Kind: memory.KindFact, Text: p.Text}
	if p.Metadata[Mem0Field] != nil {
		return m, &memory.Error{
			Kind: memory.ErrInvalid, What: "keep a memory of mem0", Why: fmt.Sprintf("its metadata has the key %q, which is the server's", Mem0Field),
			Do: "name it differently",
		}
	}
	more := map[string]any{}
	maps.Copy(more, p.More)
	for key, text := range map[string]string{Mem0App: p.App, Mem0Actor: p.Actor, Mem0Expiration: p.Expiration} {
		if text != "" {
			more[key] = text
		}
	}
	if p.Immutable {
		more[Mem0Immutable] = true
	}
	if len(p.Categories) > 0 {
		more[Mem0Categories] = p.Categories
	}
	if role := memory.Role(p.Role); slices.Contains([]memory.Role{"", memory.RoleUser, memory.RoleAssistant, memory.RoleSystem, memory.RoleTool}, role) {
		m.Role = role
	} else {
		more[Mem0Role] = p.Role
	}
	if of := Mem0Hash(p.Text); p.Hash != "" && p.Hash != of {
		more[mem0Hash], more[mem0HashOf] = p.Hash, of
	}
	m.Metadata = Mem0Metadata(p.Metadata, more)
	return m, nil
}

// Mem0Metadata is the metadata of a memory that has these of a client, and mem0's object; nil
// where both are empty.
func Mem0Metadata(client, more map[string]any) map[string]any {
	all := maps.Clone(client)
	delete(all, Mem0Field)
	if len(more) > 0 {
		if all == nil {
			all = map[string]any{}
		}
		all[Mem0Field] = more
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Mem0More is mem0's object in the metadata of a memory, nil where it has none.
func Mem0More(metadata map[string]any) map[string]any {
	more, _ := metadata[Mem0Field].(map[string]any)
	return more
}

// Mem0Of reads a memory that is kept, whoever has stored it. Categories of a memory that has none
// of mem0 are those of its metadata.
func Mem0Of(m *memory.Memory) Mem0 {
	more := maps.Clone(Mem0More(m.Metadata))
	text := func(key string) string {
		s, ok := more[key].(string)
		if ok {
			delete(more, key)
		}
		return s
	}
	p := Mem0{
		Text: m.Text, Role: text(Mem0Role), Actor: text(Mem0Actor), App: text(Mem0App), Expiration: text(Mem0Expiration),
		Hash: text(mem0Hash), Metadata: maps.Clone(m.Metadata), Categories: []string{},
	}
	delete(p.Metadata, Mem0Field)
	if p.Role == "" {
		p.Role = string(m.Role)
	}
	if text(mem0HashOf) != Mem0Hash(m.Text) { // the text has changed since
		p.Hash = ""
	}
	p.Immutable, _ = more[Mem0Immutable].(bool)
	categories, own := more[Mem0Categories].([]any)
	if !own {
		categories, _ = m.Metadata[Mem0Categories].([]any)
	}
	for _, c := range categories {
		if name, ok := c.(string); ok {
			p.Categories = append(p.Categories, name)
		}
	}
	delete(more, Mem0Immutable)
	delete(more, Mem0Categories)
	p.More = more
	return p
}

// Mem0Expired reports whether the day of expiry of a memory has passed. The memory is then hidden.
func Mem0Expired(m *memory.Memory, now time.Time) bool {
	day, ok := Mem0More(m.Metadata)[Mem0Expiration].(string)
	return ok && day < now.UTC().Format(Mem0DayForm)
}

// Mem0Day reads a day, alone or with the time that some clients write behind it.
func Mem0Day(text string) (string, error) {
	day := text
	if n := len(Mem0DayForm); len(text) > n && (text[n] == 'T' || text[n] == ' ') {
		day = text[:n]
	}
	if t, ok := scalar.Written(day); !ok || t.Format(Mem0DayForm) != day {
		return "", fmt.Errorf("%.40q is no day; write it as 2026-01-31", text)
	}
	return day, nil
}
