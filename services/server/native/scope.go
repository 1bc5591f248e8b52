package native

import (
	"errors"
	"slices"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// The parameters that say whose something is.
var (
	ofUser  = param{name: "user", kind: text, summary: "the user; empty means no user, and absent means the user of the key"}
	ofAgent = param{name: "agent", kind: text, summary: "the agent; empty means no agent, and absent means the agent of the key"}
	ofRun   = param{name: "run", kind: text, summary: "the run"}
	ofAll   = param{name: "all_scopes", kind: flag, summary: "include all users and agents; for administrators, and not with user, agent or run"}
)

// inScope are parameters behind those of a scope.
func inScope(more ...param) []param { return append([]param{ofUser, ofAgent, ofRun}, more...) }

// inAll are parameters behind those of a scope, or of everyone.
func inAll(more ...param) []param { return append([]param{ofUser, ofAgent, ofRun, ofAll}, more...) }

// A choice is whose memories a call is about: those of any of its scopes, but for owners that have
// what is lacked.
type choice struct {
	scopes []memory.Scope
	lack   memory.Lack
}

// everyone reports whether all memories are meant.
func (c *choice) everyone() bool { return c.scopes[0] == memory.Scope{} }

// choose is whose memories the call is about. Where anybody is false, somebody has to be named.
func (a *ask) choose(doing string, anybody bool) (*choice, error) {
	asked, lack, err := a.asked(doing)
	if err != nil {
		return nil, err
	}
	fit, err := a.Fit(asked)
	if err != nil {
		return nil, err
	}
	c := &choice{scopes: fit, lack: lack}
	c.scopes = slices.DeleteFunc(c.scopes, func(s memory.Scope) bool { return lack.User && s.User != "" || lack.Agent && s.Agent != "" })
	switch {
	case len(c.scopes) == 0:
		return nil, server.Denied("the key is bound to a user or an agent, and the call asks for what has none")
	case c.everyone() && !anybody:
		return nil, &memory.Error{Kind: memory.ErrScope, What: doing, Why: "it names no user, agent or run", Do: "name one"}
	}
	return c, a.Reach(c.scopes, lack.User)
}

// chooseAll is choose where all_scopes=true says that all memories are meant.
func (a *ask) chooseAll(doing string) (*choice, error) {
	all := value[bool](a, "all_scopes")
	switch {
	case all && !a.Admin():
		return nil, server.Denied("all_scopes is for administrators")
	case all && (a.given("user") || a.given("agent") || a.given("run")):
		return nil, invalid(doing, "all_scopes stands alone: not with user, agent or run", "")
	}
	return a.choose(doing, all)
}

// asked is the scope that the parameters name.
func (a *ask) asked(doing string) (s memory.Scope, lack memory.Lack, err error) {
	s = memory.Scope{User: value[string](a, "user"), Agent: value[string](a, "agent"), Run: value[string](a, "run")}
	lack = memory.Lack{User: a.given("user") && s.User == "", Agent: a.given("agent") && s.Agent == ""}
	if a.given("run") && s.Run == "" {
		return s, lack, invalid(doing, "the run is empty", "leave it out")
	}
	return s, lack, checkLack(doing, s, lack)
}

// checkLack refuses what names nobody: a variable that is not set is to widen nothing.
func checkLack(doing string, s memory.Scope, lack memory.Lack) error {
	if (lack.User || lack.Agent) && s.User == "" && s.Agent == "" {
		return &memory.Error{Kind: memory.ErrScope, What: doing, Why: "a user or an agent is empty, and the other one names nobody", Do: "name one of the two"}
	}
	return nil
}

// find sets the scope in which the memory of an ID is looked for: the one that may be seen, or of
// several the one in which it is.
func (a *ask) find(doing string, q *api.Memory) error {
	c, err := a.choose(doing, true)
	if err != nil {
		return err
	}
	if len(c.scopes) == 1 {
		q.Scope = api.Scope{User: c.scopes[0].User, Agent: c.scopes[0].Agent, Run: c.scopes[0].Run, Lack: c.lack}
		return nil
	}
	m := a.DB.Memories().Lacking(c.lack)
	var found *memory.Memory
	for _, s := range c.scopes {
		got, err := m.Get(a.Context(), s, q.ID)
		switch {
		case errors.Is(err, memory.ErrNotFound):
		case err != nil:
			return err
		case found != nil && found.Seq != got.Seq:
			return &memory.Error{Kind: memory.ErrAmbiguous, What: doing + " " + q.ID, Do: "name the user, the agent or the run that is meant"}
		default:
			found = &got
		}
	}
	if found == nil {
		return server.Unknown(doing + " " + q.ID)
	}
	q.Scope = api.Scope{User: found.User, Agent: found.Agent, Run: found.Run, Lack: memory.Lack{User: found.User == "", Agent: found.Agent == ""}}
	return nil
}

// scoped is the scope of a call that is about one.
func (a *ask) scoped(doing string) (memory.Scope, error) {
	asked, lack, err := a.asked(doing)
	if err != nil {
		return asked, err
	}
	if lack.User || lack.Agent {
		return asked, invalid(doing, "the user or the agent is empty", "leave it out")
	}
	return a.Scope(asked)
}

// session is the owner of a session, which is a run: a key of that run is one of it, too.
func (a *ask) session(doing, run string) (scope.Owner, error) {
	asked := memory.Scope{User: value[string](a, "user"), Agent: value[string](a, "agent"), Run: run}
	lack := memory.Lack{User: a.given("user") && asked.User == "", Agent: a.given("agent") && asked.Agent == ""}
	s, err := a.Exact(asked)
	switch {
	case err != nil:
		return scope.Owner{}, err
	case lack.User && s.User != "", lack.Agent && s.Agent != "":
		return scope.Owner{}, server.Denied("the key is bound to a user or an agent, and the call asks for what has none")
	case s.User == "" && s.Agent == "":
		return scope.Owner{}, &memory.Error{Kind: memory.ErrScope, What: doing, Why: "it names no user and no agent", Do: "name one"}
	}
	return s.Owner(), nil
}

// owner is whose something is that belongs to a user and an agent. A key of a run is denied.
func (a *ask) owner(doing string) (scope.Owner, error) {
	s, err := a.Exact(memory.Scope{User: value[string](a, "user"), Agent: value[string](a, "agent")})
	if err == nil && s.Run != "" {
		err = server.Denied("the key is one of a run, and this belongs to a user and an agent")
	}
	if err != nil {
		return scope.Owner{}, err
	}
	return a.session(doing, "")
}

// sealed reports whether the key sees only runs of an owner: what it is told must not depend on the
// others.
func (a *ask) sealed(s memory.Scope) bool {
	if a.Admin() {
		return false
	}
	fit, err := a.Fit(memory.Scope{User: s.User, Agent: s.Agent})
	return err != nil || !slices.ContainsFunc(fit, func(of memory.Scope) bool { return of.Run == "" })
}
