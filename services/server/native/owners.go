package native

import (
	"encoding/json"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// confirmed is the parameter of what cannot be taken back.
var confirmed = param{name: "yes", kind: flag, summary: "confirm a call that cannot be undone; it must be true"}

func owners() []route {
	return []route{
		{at: "GET /agents", summary: "List the agents that have a manifest", reply: usage.AgentLine{}, lines: true, admin: true, merge: mergeLines(byAgent), handle: listAgents},
		{at: "GET /agents/{id}", summary: "Show the manifest of an agent", reply: usage.AgentLine{}, admin: true, handle: getAgent},
		{at: "PUT /agents/{id}", summary: "Store the manifest of an agent", body: manifest{}, reply: usage.AgentLine{}, admin: true, handle: putAgent},
		{at: "DELETE /agents/{id}", summary: "Delete an agent and all its data", reply: exchange.AgentDeleted{}, admin: true, whole: true, stream: true, handle: deleteAgent, params: []param{confirmed}},
		{at: "GET /users", summary: "List the users that have data", reply: exchange.User{}, lines: true, admin: true, merge: mergeLines(byUser), handle: listUsers},
		{at: "GET /users/{user}", summary: "Show how much a user has over all agents", reply: exchange.User{}, admin: true, handle: getUser},
		{at: "DELETE /users/{user}", summary: "Delete a user and all its data, over all agents", reply: exchange.UserDeleted{}, admin: true, stream: true, handle: deleteUser, params: []param{confirmed}},
		{at: "POST /erase", summary: "Erase a memory, an agent or a user from all files", reply: engine.EraseReport{}, admin: true, stream: true, handle: erase, params: []param{
			{name: "user", kind: text, summary: "the user"},
			{name: "agent", kind: text, summary: "the agent"},
			{name: "id", kind: text, summary: "only the memory with this ID"},
			{name: "dry_run", kind: flag, summary: "erase nothing, and report how much there is"},
			confirmed,
		}},
	}
}

// confirm refuses what cannot be taken back without yes=true.
func (a *ask) confirm(what string) error {
	if value[bool](a, "yes") {
		return nil
	}
	return invalid(what, "there is no way back", "say so with yes=true")
}

func listAgents(a *ask) error {
	if err := a.Reach([]memory.Scope{{}}, false); err != nil {
		return err
	}
	all, err := a.DB.Usage().Agents(a.Context())
	if err != nil {
		return err
	}
	return a.list(func(s *stream) error {
		for _, g := range all {
			if err := s.write(usage.NewAgentLine(g)); err != nil {
				return err
			}
		}
		return nil
	})
}

func getAgent(a *ask) error {
	if err := a.Reach([]memory.Scope{{Agent: a.id("id")}}, true); err != nil {
		return err
	}
	g, err := a.DB.Usage().Agent(a.Context(), a.id("id"))
	return a.ok(usage.NewAgentLine(g), err)
}

type manifest struct {
	Name     string          `json:"name"`
	Metadata exchange.Object `json:"metadata"`
}

func putAgent(a *ask) error {
	b, err := decoded[manifest](a)
	if err != nil {
		return err
	}
	g := usage.Agent{ID: a.id("id"), Name: b.Name}
	if b.Metadata != nil {
		if g.Metadata, err = json.Marshal(b.Metadata); err != nil {
			return err
		}
	}
	if err := a.Reach([]memory.Scope{{Agent: g.ID}}, true); err != nil {
		return err
	}
	added, err := a.DB.Usage().AddAgent(a.Context(), g)
	return a.ok(usage.NewAgentLine(added), err)
}

func deleteAgent(a *ask) error {
	if err := a.confirm("delete an agent with all it has"); err != nil {
		return err
	}
	if err := a.Reach([]memory.Scope{{Agent: a.id("id")}}, false); err != nil {
		return err
	}
	n, err := a.DB.DeleteAgent(a.Context(), a.id("id"))
	return a.ok(exchange.NewAgentDeleted(n), err)
}

func listUsers(a *ask) error {
	if err := a.Reach([]memory.Scope{{}}, false); err != nil {
		return err
	}
	all, err := a.DB.Users(a.Context())
	if err != nil {
		return err
	}
	return a.list(func(s *stream) error {
		for _, u := range all {
			if err := s.write(exchange.NewUser(u)); err != nil {
				return err
			}
		}
		return nil
	})
}

func getUser(a *ask) error {
	if err := a.Reach([]memory.Scope{{User: a.id("user")}}, false); err != nil {
		return err
	}
	u, err := a.DB.User(a.Context(), a.id("user"))
	return a.ok(exchange.NewUser(u), err)
}

func deleteUser(a *ask) error {
	if err := a.confirm("delete a user with all it has"); err != nil {
		return err
	}
	if err := a.Reach([]memory.Scope{{User: a.id("user")}}, false); err != nil {
		return err
	}
	d, err := a.DB.DeleteUser(a.Context(), a.id("user"))
	return a.ok(exchange.NewUserDeleted(d), err)
}

func erase(a *ask) error {
	q := engine.EraseQuery{User: value[string](a, "user"), Agent: value[string](a, "agent"), ID: value[string](a, "id"), DryRun: value[bool](a, "dry_run")}
	if q.User == "" && q.Agent == "" {
		return invalid("erase", "it names nobody", "name a user, an agent or both")
	}
	if a.given("id") && q.ID == "" {
		return invalid("erase", "the id is empty", "leave it out, or name a memory")
	}
	if !q.DryRun {
		if err := a.confirm("erase"); err != nil {
			return err
		}
	}
	if err := a.Reach([]memory.Scope{{User: q.User, Agent: q.Agent}}, false); err != nil {
		return err
	}
	r, err := a.DB.Erase(a.Context(), q)
	if err != nil {
		return err
	}
	return a.Reply(http.StatusOK, r)
}
