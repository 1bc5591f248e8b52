package memory

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The spaces that have a name of their own.
const (
	DefaultSpace = "default"
	LexicalSpace = "lexical" // of the built-in embedder; nobody else writes to it
)

// What a role, a kind and a reason may be.
var (
	knownRoles   = []Role{RoleUser, RoleAssistant, RoleSystem, RoleTool}
	knownKinds   = []Kind{KindMessage, KindFragment, KindFact, KindNote, KindArchive, KindSummary}
	knownReasons = []Reason{ReasonScope, ReasonAge, ReasonConfidence, ReasonCap, ReasonExpired, ReasonPruned, ReasonMerged, ReasonCaller}
)

// CheckText refuses a text that is too long or no UTF-8.
func CheckText(doing, text string) error {
	if len(text) > MaxText {
		return fault.Invalid(doing, fmt.Sprintf("its text is %d bytes long, the limit is %d", len(text), MaxText), "split it into several memories")
	}
	if !utf8.ValidString(text) {
		return fault.Invalid(doing, "its text is no UTF-8 at byte "+fmt.Sprint(valid.InvalidAt(text)), "convert it to UTF-8")
	}
	return nil
}

// CheckScope checks the scope of a call that may be about all of them.
func CheckScope(doing string, s Scope, all bool) error {
	switch {
	case !all:
		return scope.Check(doing, s)
	case s != (Scope{}):
		return fault.Invalid(doing, "it has a scope and also AllScopes", "give one of the two")
	}
	return nil
}

func checkShare(doing, what string, v *float64) error {
	if v != nil && !(*v >= 0 && *v <= 1) {
		return fault.Invalid(doing, fmt.Sprintf("its %s is %v", what, *v), "give a number from 0 to 1")
	}
	return nil
}

// checkWords checks the fields of a memory that are words, numbers and times.
func (m *Memory) checkWords(doing string) error {
	for _, f := range []struct{ what, value string }{
		{"ID", m.ID}, {"name", m.Name}, {"source", string(m.Source)},
	} {
		if err := valid.Word(doing, f.what, f.value); err != nil {
			return err
		}
	}
	if len(m.Aliases) > MaxAliases {
		return fault.Invalid(doing, fmt.Sprintf("it has %d aliases, the limit is %d", len(m.Aliases), MaxAliases), "remove some")
	}
	for _, a := range m.Aliases {
		if err := valid.Word(doing, "alias", a); err != nil {
			return err
		}
	}
	if m.Role != "" && !slices.Contains(knownRoles, m.Role) {
		return fault.Invalid(doing, fmt.Sprintf("its role is %q", valid.Short(string(m.Role))), "give "+valid.OneOf(knownRoles))
	}
	if m.Kind != "" && !slices.Contains(knownKinds, m.Kind) {
		return fault.Invalid(doing, fmt.Sprintf("its kind is %q", valid.Short(string(m.Kind))), "give "+valid.OneOf(knownKinds))
	}
	if err := checkShare(doing, "importance", m.Importance); err != nil {
		return err
	}
	if err := checkShare(doing, "confidence", m.Confidence); err != nil {
		return err
	}
	return m.checkTimes(doing)
}

func (m *Memory) checkTimes(doing string) error {
	for _, f := range []struct {
		what string
		at   time.Time
	}{
		{"created_at", m.CreatedAt},
		{"updated_at", m.UpdatedAt},
		{"event_time", m.EventTime},
		{"expires_at", m.ExpiresAt},
		{"last_accessed", m.LastAccessed},
	} {
		if err := valid.Time(doing, f.what, f.at); err != nil {
			return err
		}
	}
	return nil
}

// Check reports whether a memory can be stored, as far as it tells by itself: a program
// may ask before it makes a database for it.
func (m *Memory) Check() error {
	_, err := m.Checked("store a memory")
	if err == nil {
		_, err = metadata.Encode(m.Metadata)
	}
	return err
}

// Checked returns the vectors of a memory whose other fields are valid, but for its
// metadata.
func (m *Memory) Checked(doing string) (map[string][]float32, error) {
	if err := scope.Check(doing, m.Scope); err != nil {
		return nil, err
	}
	if err := m.checkWords(doing); err != nil {
		return nil, err
	}
	if err := CheckText(doing, m.Text); err != nil {
		return nil, err
	}
	vectors, err := m.given(doing)
	if err == nil && m.Text == "" && len(vectors) == 0 {
		err = fault.Invalid(doing, "it has neither a text nor a vector", "give at least one of them")
	}
	return vectors, err
}

// given lists the vectors of a memory by space, the default one by its name.
func (m *Memory) given(doing string) (map[string][]float32, error) {
	return MergeVectors(doing, m.Embedding, m.Vectors)
}

// MergeVectors lists vectors by space, the default one by its name.
func MergeVectors(doing string, embedding []float32, vectors map[string][]float32) (map[string][]float32, error) {
	all := make(map[string][]float32, len(vectors)+1)
	for space, v := range vectors {
		if err := CheckSpace(doing, space); err != nil {
			return nil, err
		}
		all[space] = v
	}
	if embedding != nil {
		if _, twice := all[DefaultSpace]; twice {
			return nil, fault.Invalid(doing, "it has an embedding and also a vector in the space default", "give one of the two")
		}
		all[DefaultSpace] = embedding
	}
	return all, nil
}

// CheckSpace refuses the name of a space that nobody may write to.
func CheckSpace(doing, space string) error {
	if space == "" || space == LexicalSpace {
		return fault.Invalid(doing, fmt.Sprintf("the vector space %q cannot be written", space), "choose another name for it")
	}
	return valid.Word(doing, "vector space", space)
}
