// Package scope says whose something is: every call of the database names an owner or a
// scope.
package scope

import (
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Scope is whose memories a call means: those of a user, an agent, a run, or of any
// combination. At least one is given, and every given one must match. A memory that is
// stored belongs to exactly its scope.
type Scope struct {
	User  string `json:"user,omitempty"`
	Agent string `json:"agent,omitempty"`
	Run   string `json:"run,omitempty"`
}

// Owner is the exact pair of user and agent that something belongs to. At least
// one must be given; an empty one is a value of its own, not any.
type Owner struct {
	User  string `json:"user,omitempty"`
	Agent string `json:"agent,omitempty"`
}

// Scope is the scope that an owner's memories of every run are in.
func (o Owner) Scope() Scope { return Scope{User: o.User, Agent: o.Agent} }

// Owner is who owns what is stored in the scope.
func (s Scope) Owner() Owner { return Owner{User: s.User, Agent: s.Agent} }

// Contains reports whether what belongs to t is in s.
func Contains(s, t Scope) bool {
	return (s.User == "" || s.User == t.User) && (s.Agent == "" || s.Agent == t.Agent) && (s.Run == "" || s.Run == t.Run)
}

// Key is a text that no other owner has.
func Key(o Owner) string {
	b := codec.AppendBytes(nil, o.User)
	return string(append(b, o.Agent...))
}

// Check returns ErrScope for a scope that names nobody, and ErrInvalid for one with a
// value that is too long or cannot be printed. doing is what the error says was being
// done.
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
