package engine

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// model is what a database should hold, kept in maps and evaluated naively. It
// knows the rules of the interface and nothing of how they are implemented.
type model struct {
	live    map[uint64]modelMemory           // by Seq, expired ones included
	life    map[uint64][]memory.HistoryEntry // by Seq, without IDs and LSNs
	highest uint64                           // Seq
	broken  bool                             // a transaction that cannot commit
}

// modelMemory is a memory as Get returns it, but for the recalls of it.
type modelMemory struct {
	memory.Memory
	pending bool // its text is still to be embedded
}

func newModel() *model {
	return &model{live: map[uint64]modelMemory{}, life: map[uint64][]memory.HistoryEntry{}}
}

// clone is a state of its own for a transaction. Memories and entries are never
// changed in place.
func (s *model) clone() *model {
	return &model{live: maps.Clone(s.live), life: maps.Clone(s.life), highest: s.highest}
}

func ownerOf(s memory.Scope) memory.Scope { return memory.Scope{User: s.User, Agent: s.Agent} }

func (m *modelMemory) expired(now time.Time) bool {
	return !m.ExpiresAt.IsZero() && !m.ExpiresAt.After(now)
}

// visible lists the memories of a scope that have not expired, by Seq.
func (s *model) visible(in memory.Scope, now time.Time) []modelMemory {
	return s.matching(now, func(m *modelMemory) bool { return scope.Contains(in, m.Scope) })
}

func (s *model) matching(now time.Time, test func(*modelMemory) bool) []modelMemory {
	var all []modelMemory
	for _, m := range s.live {
		if test(&m) && !m.expired(now) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b modelMemory) int { return int(a.Seq) - int(b.Seq) })
	return all
}

// find lists the memories with an ID in a scope: one for each owner.
func (s *model) find(in memory.Scope, id string, now time.Time) []modelMemory {
	return s.matching(now, func(m *modelMemory) bool { return m.ID == id && scope.Contains(in, m.Scope) })
}

func (s *model) happened(m *memory.Memory, e memory.Event, oldText, newText *string, at time.Time) {
	s.life[m.Seq] = append(slices.Clip(s.life[m.Seq]), memory.HistoryEntry{
		MemoryID: m.ID, Seq: m.Seq, Scope: m.Scope, Kind: m.Kind, Event: e,
		OldText: oldText, NewText: newText, Time: at, IsDeleted: e == memory.EventDelete,
	})
}

func (s *model) remove(m modelMemory, now time.Time) {
	delete(s.live, m.Seq)
	s.happened(&m.Memory, memory.EventDelete, &m.Text, nil, now)
	if events := s.life[m.Seq]; m.expired(now) {
		events[len(events)-1].Reason = memory.ReasonExpired
	}
}

// removeOf is remove for a memory that its scope, or a filter, chose.
func (s *model) removeOf(m modelMemory, now time.Time) {
	s.remove(m, now)
	events := s.life[m.Seq]
	events[len(events)-1].Reason = memory.ReasonScope
}

// removeScope deletes what is in a scope, expired or not, and counts what had
// not expired.
func (s *model) removeScope(in memory.Scope, now time.Time) int {
	n := len(s.visible(in, now))
	for _, m := range s.live {
		if scope.Contains(in, m.Scope) {
			s.removeOf(m, now)
		}
	}
	return n
}

// canonical is metadata as it is read back.
func canonical(m map[string]any) map[string]any {
	if len(m) == 0 {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		panic(err)
	}
	return out
}

func inMillis(t time.Time) time.Time { return clock.FromMillis(clock.ToMillis(t)) }

// asRead is what Get returns of a memory that was given to Store.
func asRead(m memory.Memory, now time.Time) memory.Memory {
	if m.Role == "" {
		m.Role = memory.RoleUser
	}
	if m.Kind == "" {
		m.Kind = memory.KindMessage
	}
	m.Metadata = canonical(m.Metadata)
	if len(m.Aliases) == 0 {
		m.Aliases = nil
	}
	m.CreatedAt, m.UpdatedAt = inMillis(m.CreatedAt), inMillis(m.UpdatedAt)
	if m.CreatedAt.IsZero() {
		m.CreatedAt = now
	}
	if m.UpdatedAt.IsZero() {
		m.UpdatedAt = m.CreatedAt
	}
	m.EventTime, m.ExpiresAt, m.LastAccessed = inMillis(m.EventTime), inMillis(m.ExpiresAt), inMillis(m.LastAccessed)
	setModelImportance(&m, m.Importance)
	if m.Confidence == nil {
		m.Confidence = new(1.0)
	}
	m.Hash = records.TextHash(m.Text)
	return m
}

func setModelImportance(m *memory.Memory, v *float64) {
	m.Importance, m.AutoImportance = v, v == nil
	if v == nil {
		m.Importance = new(policy.Importance(m.Text, string(m.Role)))
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// outcome is what a store should come to.
type outcome struct {
	memory.Stored       // ID and Seq only of what was there before
	fails         error // its kind
}

// store decides what becomes of a memory. given is what the caller passed, m how
// it would be read if it were stored, an embedder's vector included. A new memory
// takes its ID and Seq from got, the database's answer.
func (s *model) store(given *memory.Memory, m modelMemory, o memory.StoreOptions, now time.Time, got memory.Stored) outcome {
	if given.ID != "" {
		if old := s.find(memory.Scope{}, given.ID, now); len(old) > 0 {
			for _, old := range old {
				if ownerOf(old.Scope) == ownerOf(m.Scope) {
					return s.storeOver(given, m, old, o, now)
				}
			}
		}
		if !o.NoDedup && s.nameTaken(&m.Memory, 0, now) {
			return outcome{fails: fault.ErrExists}
		}
		s.removeExpired(&m.Memory, now)
	} else if expired := !m.ExpiresAt.IsZero() && !m.ExpiresAt.After(now); !o.NoDedup && !expired {
		if dup, ok := s.duplicate(&m.Memory, now); ok {
			if m.Kind == memory.KindNote && dup.Text != m.Text {
				return outcome{fails: fault.ErrExists}
			}
			s.dropOver(&m.Memory, now, dup.Seq)
			return outcome{Stored: memory.Stored{ID: dup.ID, Seq: dup.Seq, Deduplicated: true, Updated: s.takeOver(&m.Memory, dup, now)}}
		}
		s.dropOver(&m.Memory, now, s.highest+1)
	}
	m.ID, m.Seq = got.ID, got.Seq
	if given.ID != "" {
		m.ID = given.ID
	}
	s.live[m.Seq] = m
	s.happened(&m.Memory, memory.EventAdd, nil, &m.Text, m.CreatedAt)
	return outcome{Stored: memory.Stored{ID: m.ID, Seq: m.Seq, Stored: true, Pending: m.pending}}
}

// nameTaken reports whether another note of its owner has the name of a note.
func (s *model) nameTaken(m *memory.Memory, self uint64, now time.Time) bool {
	if m.Kind != memory.KindNote {
		return false
	}
	return len(s.matching(now, func(old *modelMemory) bool {
		return old.Seq != self && ownerOf(old.Scope) == ownerOf(m.Scope) && duplicates(m, &old.Memory)
	})) > 0
}

func renamedNote(m, old *memory.Memory) bool { return m.Name != old.Name || m.Kind != old.Kind }

// removeExpired frees the ID of a memory that has expired.
func (s *model) removeExpired(m *memory.Memory, now time.Time) {
	for _, old := range s.live {
		if old.ID == m.ID && ownerOf(old.Scope) == ownerOf(m.Scope) {
			s.remove(old, now)
		}
	}
}

// expire deletes what has expired.
func (s *model) expire(now time.Time) {
	for _, m := range s.live {
		if m.expired(now) {
			s.remove(m, now)
		}
	}
}

// dropOver deletes the first of those that would be the original of a memory if they had
// not expired.
func (s *model) dropOver(m *memory.Memory, now time.Time, before uint64) {
	var over []modelMemory
	for seq, old := range s.live {
		if seq < before && old.expired(now) && ownerOf(old.Scope) == ownerOf(m.Scope) && duplicates(m, &old.Memory) {
			over = append(over, old)
		}
	}
	slices.SortFunc(over, func(a, b modelMemory) int { return int(a.Seq) - int(b.Seq) })
	for _, old := range over[:min(len(over), records.MostOver)] {
		s.remove(old, now)
	}
}

// storeOver decides about a store under an ID that its owner has.
func (s *model) storeOver(given *memory.Memory, m, old modelMemory, o memory.StoreOptions, now time.Time) outcome {
	m.ID, m.Seq = old.ID, old.Seq
	result := memory.Stored{ID: old.ID, Seq: old.Seq}
	switch {
	case sameMemory(given, &m.Memory, &old.Memory):
		return outcome{Stored: result}
	case !o.Upsert, renamedNote(&m.Memory, &old.Memory) && s.nameTaken(&m.Memory, old.Seq, now):
		return outcome{fails: fault.ErrExists}
	}
	m.CreatedAt, m.UpdatedAt = old.CreatedAt, later(old.UpdatedAt, now)
	m.AccessCount, m.LastAccessed = old.AccessCount, old.LastAccessed
	if given.Confidence == nil {
		m.Confidence = old.Confidence
	}
	if given.Importance == nil && !old.AutoImportance {
		setModelImportance(&m.Memory, old.Importance) // somebody fixed it
	}
	if m.Text == old.Text {
		keepVectors(&m.Memory, &old.Memory)
		m.pending = m.pending && m.Embedding == nil
	}
	s.live[m.Seq] = m
	s.happened(&m.Memory, memory.EventUpdate, &old.Text, &m.Text, m.UpdatedAt)
	result.Updated, result.Pending = true, m.pending
	return outcome{Stored: result}
}

// keepVectors takes over the vectors of the spaces that the memory brings none
// for.
func keepVectors(m, old *memory.Memory) {
	if m.Embedding == nil {
		m.Embedding = old.Embedding
	}
	all := maps.Clone(old.Vectors)
	if all == nil {
		all = map[string][]float32{}
	}
	maps.Copy(all, m.Vectors)
	if m.Vectors = all; len(all) == 0 {
		m.Vectors = nil
	}
}

// sameMemory reports whether storing m, which was given so, would change nothing.
func sameMemory(given, m, old *memory.Memory) bool {
	for space, v := range given.Vectors {
		if !slices.Equal(old.Vectors[space], v) {
			return false
		}
	}
	return m.Text == old.Text && m.Role == old.Role && m.Kind == old.Kind && m.Source == old.Source &&
		m.Scope == old.Scope && m.Name == old.Name && slices.Equal(m.Aliases, old.Aliases) &&
		sameJSON(m.Metadata, old.Metadata) && m.EventTime.Equal(old.EventTime) &&
		m.ExpiresAt.Equal(old.ExpiresAt) && m.Pinned == old.Pinned &&
		(given.Importance == nil || *given.Importance == *old.Importance) &&
		(given.Confidence == nil || *given.Confidence == *old.Confidence) &&
		(given.Embedding == nil || slices.Equal(given.Embedding, old.Embedding))
}

func sameJSON(a, b map[string]any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// duplicate is the original of a memory: the lowest Seq that counts as the same.
func (s *model) duplicate(m *memory.Memory, now time.Time) (modelMemory, bool) {
	same := s.matching(now, func(old *modelMemory) bool {
		return ownerOf(old.Scope) == ownerOf(m.Scope) && duplicates(m, &old.Memory)
	})
	if len(same) == 0 {
		return modelMemory{}, false
	}
	return same[0], true
}

// takeOver gives a memory the later expiry, the pin and the higher importance of a
// duplicate, and reports whether that changes it.
func (s *model) takeOver(m *memory.Memory, old modelMemory, now time.Time) bool {
	p, differs := memory.Patch{}, false
	if !old.ExpiresAt.IsZero() && (m.ExpiresAt.IsZero() || m.ExpiresAt.After(old.ExpiresAt)) {
		p.ExpiresAt, differs = &m.ExpiresAt, true
	}
	if m.Pinned && !old.Pinned {
		p.Pinned, differs = &m.Pinned, true
	}
	if *m.Importance > *old.Importance {
		p.Importance, differs = m.Importance, true
	}
	if differs {
		if err := s.update(old, &p, false, nil, now); err != nil {
			panic(err)
		}
	}
	return differs
}

func duplicates(m, old *memory.Memory) bool {
	content := func(k memory.Kind) bool { return k == memory.KindMessage || k == memory.KindFragment }
	sameText := m.Text != "" && m.Text == old.Text
	switch {
	case content(m.Kind):
		return content(old.Kind) && sameText && m.Run == old.Run
	case m.Kind == memory.KindFact:
		return old.Kind == memory.KindFact && sameText && m.Run == old.Run
	case m.Kind == memory.KindNote:
		return old.Kind == memory.KindNote && m.Name != "" && m.Name == old.Name
	}
	return false
}

// update changes a memory. learned is the vector of a new text, where one was
// made.
func (s *model) update(old modelMemory, p *memory.Patch, embeds bool, learned []float32, now time.Time) error {
	m := old
	m.apply(p)
	m.Embedding, m.Vectors = p.Embedding, nonEmpty(p.Vectors)
	m.pending = false
	if m.Text == old.Text {
		keepVectors(&m.Memory, &old.Memory)
		m.pending = old.pending && p.Embedding == nil
	} else if embeds && m.Text != "" && p.Embedding == nil {
		m.Embedding, m.pending = learned, learned == nil
	}
	if m.Text == "" && m.Embedding == nil && m.Vectors == nil {
		return fault.ErrInvalid
	}
	if renamedNote(&m.Memory, &old.Memory) && s.nameTaken(&m.Memory, old.Seq, now) {
		return fault.ErrExists
	}
	m.Hash, m.UpdatedAt = records.TextHash(m.Text), later(old.UpdatedAt, now)
	switch {
	case p.Importance != nil:
		setModelImportance(&m.Memory, p.Importance)
	case p.AutoImportance || m.AutoImportance:
		setModelImportance(&m.Memory, nil)
	}
	s.live[m.Seq] = m
	s.happened(&m.Memory, memory.EventUpdate, &old.Text, &m.Text, m.UpdatedAt)
	return nil
}

func nonEmpty(vectors map[string][]float32) map[string][]float32 {
	if len(vectors) == 0 {
		return nil
	}
	return vectors
}

// apply sets the plain fields that a patch names.
func (m *modelMemory) apply(p *memory.Patch) {
	set(&m.Text, p.Text)
	set(&m.Role, p.Role)
	set(&m.Source, p.Source)
	set(&m.Name, p.Name)
	set(&m.Pinned, p.Pinned)
	if p.Metadata != nil {
		m.Metadata = canonical(*p.Metadata)
	}
	if p.Aliases != nil {
		if m.Aliases = *p.Aliases; len(m.Aliases) == 0 {
			m.Aliases = nil
		}
	}
	if p.EventTime != nil {
		m.EventTime = inMillis(*p.EventTime)
	}
	if p.ExpiresAt != nil {
		m.ExpiresAt = inMillis(*p.ExpiresAt)
	}
	if p.Confidence != nil {
		m.Confidence = p.Confidence
	}
	if m.Role == "" {
		m.Role = memory.RoleUser
	}
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// embedPending gives every waiting memory its vector, without an event.
func (s *model) embedPending(now time.Time, vector func(text string) []float32) int {
	n := 0
	for seq, m := range s.live {
		if !m.pending || !m.ExpiresAt.IsZero() && !m.ExpiresAt.After(now) {
			continue
		}
		m.pending, m.Embedding = false, vector(m.Text)
		s.live[seq] = m
		n++
	}
	return n
}
