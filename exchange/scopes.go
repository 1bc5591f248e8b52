package exchange

import (
	"cmp"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Place is the scope in which a record is stored that names the scope s.
func (o *Options) Place(s memory.Scope) memory.Scope { return o.into(o.filled(s)) }

// filled is a scope with what it lacks, or under ForceScope the one that is forced.
func (o *Options) filled(s memory.Scope) memory.Scope {
	if o.ForceScope {
		if owner := o.Scope.Owner(); owner != (scope.Owner{}) {
			s.User, s.Agent = owner.User, owner.Agent
		}
		s.Run = cmp.Or(o.Scope.Run, s.Run)
	}
	return memory.Scope{User: cmp.Or(s.User, o.Scope.User), Agent: cmp.Or(s.Agent, o.Scope.Agent), Run: cmp.Or(s.Run, o.Scope.Run)}
}

// into is a scope with the user and the agent that everything is stored for.
func (o *Options) into(s memory.Scope) memory.Scope {
	s.User, s.Agent = cmp.Or(o.IntoUser, s.User), cmp.Or(o.IntoAgent, s.Agent)
	return s
}

// elsewhere counts a record that is stored in another scope than the options name. An empty name of
// a run is one of what has no run, such as an entity.
func (o *Options) elsewhere(counts Counts, s memory.Scope) {
	other := func(of, want string) bool { return want != "" && of != want }
	switch {
	case other(s.User, o.Scope.User), other(s.Agent, o.Scope.Agent):
		counts.Add(s.User+"/"+s.Agent, 1)
	case s.Run != "" && other(s.Run, o.Scope.Run):
		counts.Add(s.User+"/"+s.Agent+"/"+s.Run, 1)
	}
}
