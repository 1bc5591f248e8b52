// Package scope defines to whom data belongs (Owner), and which data a call means (Scope).
package scope

import (
	"fmt"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Scope selects the memories of a user, an agent, a run, or any combination of them. At
// least one field is set. A call that finds memories means those that match in every set
// field, whatever they have in the others. A stored memory belongs to exactly the scope it
// was stored with; an empty field of that scope means none.
type Scope struct {
	// User, Agent and Run are the caller's words, up to 512 bytes each.
	User  string `json:"user,omitempty"`
	Agent string `json:"agent,omitempty"`
	Run   string `json:"run,omitempty"`
}

// Owner is the exact pair of user and agent to whom something belongs. At least one field
// is set. An empty field means none, never any.
type Owner struct {
	// User and Agent are the caller's words, up to 512 bytes each.
	User  string `json:"user,omitempty"`
	Agent string `json:"agent,omitempty"`
}

// Scope returns the scope of the owner's user and agent, with every run. An empty field of
// the owner matches any value in that scope, so the scope can hold other owners too.
func (o Owner) Scope() Scope { return Scope{User: o.User, Agent: o.Agent} }

// Owner returns the owner of what is stored with this scope. The scope of only a run has the
// empty Owner.
func (s Scope) Owner() Owner { return Owner{User: s.User, Agent: s.Agent} }

// Describe returns a scope for people, such as: user "ada", run "r1".
func Describe(s Scope) string {
	var all []string
	for _, f := range []struct{ what, value string }{{"user", s.User}, {"agent", s.Agent}, {"run", s.Run}} {
		if f.value != "" {
			all = append(all, fmt.Sprintf("%s %q", f.what, f.value))
		}
	}
	if len(all) == 0 {
		return "everyone"
	}
	return strings.Join(all, ", ")
}

// Contains reports whether scope s selects a memory that was stored with scope t.
func Contains(s, t Scope) bool {
	return (s.User == "" || s.User == t.User) && (s.Agent == "" || s.Agent == t.Agent) && (s.Run == "" || s.Run == t.Run)
}

// Key returns a string that differs for any two owners. It is the owner's name in the store
// (layout.NameOwner), so its form never changes: the length of User, User, Agent.
func Key(o Owner) string {
	b := codec.AppendBytes(nil, o.User)
	return string(append(b, o.Agent...))
}

// ParseKey returns the owner that a Key is of, false for a string that is none.
func ParseKey(key string) (Owner, bool) {
	r := codec.NewReader([]byte(key))
	o := Owner{User: r.String()}
	o.Agent = string(r.Rest())
	return o, r.Err() == nil && Key(o) == key
}

// Check returns ErrScope for an empty scope, and ErrInvalid for a scope with a value that
// valid.Word refuses. doing is for the error: what was being done.
func Check(doing string, s Scope) error {
	if s == (Scope{}) {
		return &fault.Error{Kind: fault.ErrScope, What: doing, Do: "name whose memories are meant"}
	}
	for _, f := range []struct{ what, value string }{{"user", s.User}, {"agent", s.Agent}, {"run", s.Run}} {
		if err := valid.Word(doing, f.what, f.value); err != nil {
			return err
		}
	}
	return nil
}
