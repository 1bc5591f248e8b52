package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// mem0Reader reads the memories that mem0 lists, with the relations of its graph.
type mem0Reader struct {
	graphWriter
	owner   scope.Owner   // of the memories, without the fields in which they differ
	begun   bool          // a memory was read
	waiting []mem0Waiting // relations that name nobody and came before any memory
}

type mem0Waiting struct {
	at exchange.LineError
	f  fields
}

// mostWaiting bounds the relations that wait for the first memory.
const mostWaiting = 10_000

func readMem0(in *Input, w *writer) error {
	if in.IsSQLite() {
		return readMem0History(in, w)
	}
	r := &mem0Reader{graphWriter: newGraphWriter(w)}
	err := eachUnder(in, w, "memory", []string{"results", "memories", "relations"}, func(at exchange.LineError, raw []byte) error {
		if raw[0] == '"' {
			raw = fmt.Appendf(nil, `{"memory":%s}`, raw)
		}
		f, err := readFields(raw)
		if err != nil {
			return w.skip(at, err)
		}
		f.rename(mem0Names)
		if f["relationship"] != nil {
			return r.relates(at, f)
		}
		m, err := w.mem0(f)
		if err != nil {
			return w.skip(at, err)
		}
		r.share(m.Owner())
		if err := r.flush(); err != nil {
			return err
		}
		return w.memory(at, m)
	})
	if err != nil {
		return err
	}
	return r.flush()
}

// share takes the owner of a memory into account.
func (r *mem0Reader) share(o scope.Owner) {
	if !r.begun {
		r.owner, r.begun = o, true
	}
	if o.User != r.owner.User {
		r.owner.User = ""
	}
	if o.Agent != r.owner.Agent {
		r.owner.Agent = ""
	}
}

// mem0Names are the keys of mem0 by the names that its TypeScript client has for them.
var mem0Names = map[string]string{
	"userId": "user_id", "agentId": "agent_id", "appId": products.Mem0App, "runId": "run_id", "sessionId": "session_id", "actorId": products.Mem0Actor,
	"createdAt": "created_at", "updatedAt": "updated_at", "expirationDate": products.Mem0Expiration, "feedbackReason": products.Mem0FeedbackReason,
}

// flag takes a truth value.
func (f fields) flag(key string) (is bool) {
	if raw, ok := f[key]; ok && json.Unmarshal(raw, &is) == nil {
		delete(f, key)
	}
	return is
}

// mem0 is the memory that an object of mem0 is.
func (w *writer) mem0(f fields) (memory.Memory, error) {
	p := products.Mem0{
		Text: f.text("memory", "text", "data", "content"), Role: f.text(products.Mem0Role), Actor: f.word(products.Mem0Actor),
		App: f.word(products.Mem0App), Immutable: f.flag(products.Mem0Immutable), Hash: f.text("hash"),
	}
	if p.Text == "" {
		return memory.Memory{}, errors.New(`it has no text under "memory"`)
	}
	if raw, ok := f[products.Mem0Expiration]; ok {
		v, err := decodeAny(raw)
		if text, isText := v.(string); err == nil && isText && text != "" {
			if p.Expiration, err = products.Mem0Day(text); err != nil {
				p.Expiration = ""
			}
		}
		if t, err := (scalar.Reader{Zone: w.opts.Zone}).Time(v); p.Expiration == "" && err == nil {
			p.Expiration = t.Format(products.Mem0DayForm)
		}
		if p.Expiration != "" {
			delete(f, products.Mem0Expiration)
		}
	}
	if raw, ok := f[products.Mem0Categories]; ok && json.Unmarshal(raw, &p.Categories) == nil {
		delete(f, products.Mem0Categories)
	}
	if raw, ok := f["metadata"]; ok {
		if v, err := decodeAny(raw); err == nil {
			if inner, ok := v.(map[string]any); ok || v == nil {
				p.Metadata = inner
				delete(f, "metadata")
			}
		}
	}
	of := memory.Memory{
		ID: f.word("id", "memory_id"), Scope: w.scope(f.word("user_id"), f.word("agent_id"), f.word("run_id", "session_id")),
		CreatedAt: f.time(scalar.Reader{Zone: w.opts.Zone}.Time, "created_at"), UpdatedAt: f.time(scalar.Reader{Zone: w.opts.Zone}.Time, "updated_at"),
	}
	if f.word("session_id") == of.Run { // of an answer that has the run under both names
		delete(f, "session_id")
	}
	w.restOfMem0(&p, f)
	m, err := p.Memory()
	m.Scope, m.CreatedAt, m.UpdatedAt = of.Scope, of.CreatedAt, of.UpdatedAt
	if m.UpdatedAt.Before(m.CreatedAt) && !m.UpdatedAt.IsZero() {
		w.leave("times of an update before the creation", 1)
		m.UpdatedAt = time.Time{}
	}
	if of.ID != "" { // without one it gets one of its content, when it is stored
		m.ID = idOf(w.format, of.ID)
	}
	return m, err
}

// restOfMem0 keeps what no name tells in mem0's object, and counts what has no place there: the score of
// a search, what a call did, and keys of an item whose values cannot be read.
func (w *writer) restOfMem0(p *products.Mem0, f fields) {
	for _, key := range slices.Sorted(maps.Keys(f)) {
		switch raw := f[key]; {
		case string(raw) == "null" || string(raw) == `""`:
		case key == "score" || key == "event" || key == "input":
			w.leave(key, 1)
		case slices.Contains(mem0Items, key):
			w.leave(key+" that cannot be read", 1)
		default:
			v, err := decodeAny(raw)
			if err != nil {
				w.leave(key+" that cannot be read", 1)
				continue
			}
			if p.More == nil {
				p.More = map[string]any{}
			}
			p.More[key] = v
		}
	}
}

// mem0Items are the keys of an item of mem0 that have a place of their own.
var mem0Items = []string{
	"id", "memory", "hash", "user_id", "agent_id", "run_id", "session_id", "metadata", "created_at", "updated_at", "hash_of",
	products.Mem0App, products.Mem0Actor, products.Mem0Role, products.Mem0Expiration, products.Mem0Immutable, products.Mem0Categories,
}

// relates gives a relation between two names. A relation without an owner belongs to the
// user and the agent that all memories beside it have.
func (r *mem0Reader) relates(at exchange.LineError, f fields) error {
	if f["user_id"] == nil && f["agent_id"] == nil && !r.begun && len(r.waiting) < mostWaiting {
		copied := fields{} // f is valid until the next read
		for key, raw := range f {
			copied[key] = slices.Clone(raw)
		}
		r.waiting = append(r.waiting, mem0Waiting{at, copied})
		return nil
	}
	return r.related(at, f)
}

// flush gives the relations that have waited.
func (r *mem0Reader) flush() error {
	all := r.waiting
	r.waiting = nil
	for _, w := range all {
		if err := r.related(w.at, w.f); err != nil {
			return err
		}
	}
	return nil
}

func (r *mem0Reader) related(at exchange.LineError, f fields) error {
	a := products.Arc{From: f.text("source"), To: f.text("destination", "target"), Type: f.text("relationship")}
	if a.From == "" || a.To == "" || a.Type == "" {
		return r.skip(at, errors.New(`a relation lacks "source", "target" or "relationship"`))
	}
	user, agent := f.word("user_id"), f.word("agent_id")
	owner := r.owner
	if user != "" || agent != "" || owner == (scope.Owner{}) {
		owner = r.scope(user, agent, "").Owner()
	}
	for _, end := range []struct{ name, typ string }{{a.From, f.text("source_type")}, {a.To, f.text("destination_type", "target_type")}} {
		typed := r.knows(owner, end.name, end.typ)
		if r.knows(owner, end.name) {
			if end.typ != "" && !typed {
				r.leave("types of entities that are there already", 1)
			}
			continue
		}
		n := products.Node{Name: end.name, Type: end.typ}
		e, err := n.Entity(0)
		if err == nil {
			err = r.entity(at, owner, e, 0)
		}
		if err != nil {
			return err
		}
	}
	created := f.time(scalar.Reader{Zone: r.opts.Zone}.Time, "created_at")
	a.More = map[string]json.RawMessage{}
	for key, raw := range f {
		switch {
		case string(raw) == "null":
		case key == "score" || products.Reserved(key):
			r.leave(key, 1)
		default:
			a.More[key] = raw
		}
	}
	if r.knows(owner, a.From, a.Type, a.To) {
		r.leave("relations that are there already", 1)
		return nil
	}
	return r.relation(at, owner, &a, func(to *graph.Relation) { to.CreatedAt = created }, len(a.From)+len(a.To))
}
