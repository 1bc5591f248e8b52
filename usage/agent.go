package usage

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// maxMetadata bounds the metadata of a manifest, in bytes of JSON.
const maxMetadata = 1 << 20

// Agent is the manifest of an agent. An agent needs none to store something.
type Agent struct {
	// ID names the agent in scopes, Name is for people.
	ID        string
	Name      string
	CreatedAt time.Time
	// Metadata is a JSON object; nil: none.
	Metadata json.RawMessage
}

func (a *Agent) owner() scope.Owner { return scope.Owner{Agent: a.ID} }

func (a *Agent) check(doing string) error {
	if a.ID == "" {
		return fault.Invalid(doing, "its ID is empty", "name the agent")
	}
	if err := valid.Word(doing, "id", a.ID); err != nil {
		return err
	}
	if err := valid.Word(doing, "name", a.Name); err != nil {
		return err
	}
	if err := valid.Time(doing, "created_at", a.CreatedAt); err != nil {
		return err
	}
	if len(a.Metadata) == 0 || string(a.Metadata) == "null" {
		a.Metadata = nil
		return nil
	}
	var object map[string]any
	if json.Unmarshal(a.Metadata, &object) != nil || valid.JSON(a.Metadata) != nil {
		return fault.Invalid(doing, "its metadata is no JSON object", `give one such as {"team":"search"}`)
	}
	if len(a.Metadata) > maxMetadata {
		return fault.Invalid(doing, fmt.Sprintf("its metadata is %d bytes of JSON, the limit is %d", len(a.Metadata), maxMetadata), "shorten it")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, a.Metadata); err != nil {
		return err
	}
	a.Metadata = compact.Bytes()
	return nil
}

func (a *Agent) encode() []byte {
	b := codec.AppendBytes(codec.AppendBytes([]byte{agentVersion}, a.ID), a.Name)
	b = binary.AppendVarint(b, clock.ToMillis(a.CreatedAt))
	return append(b, a.Metadata...)
}

func decodeAgent(b []byte) (Agent, error) {
	r := codec.NewReader(b)
	v := r.Byte()
	a := Agent{ID: r.String(), Name: r.String(), CreatedAt: clock.FromMillis(r.Varint())}
	if rest := r.Rest(); len(rest) > 0 {
		a.Metadata = bytes.Clone(rest)
	}
	if r.Err() != nil || v != agentVersion {
		return Agent{}, damaged("a manifest", r.Err())
	}
	return a, nil
}

// AddAgent stores the manifest of an agent, ErrExists where it has one already.
func (u Usage) AddAgent(ctx context.Context, a Agent) (Agent, error) {
	doing := fmt.Sprintf("add the agent %q", valid.Short(a.ID))
	if err := a.check(doing); err != nil {
		return Agent{}, err
	}
	err := u.run.Update(ctx, doing, func(t part.Tx) error {
		_, found, err := agentOf(t, a.ID)
		if err == nil && found {
			err = &fault.Error{Kind: fault.ErrExists, What: doing, Why: "it has a manifest", Do: "choose another ID, or delete it first"}
		}
		if err != nil {
			return err
		}
		if a.CreatedAt.IsZero() {
			a.CreatedAt = clock.FromMillis(t.Now())
		}
		a.CreatedAt = clock.FromMillis(clock.ToMillis(a.CreatedAt)) // as it will be read
		return putAgent(t, doing, &a)
	})
	if err != nil {
		return Agent{}, err
	}
	return a, nil
}

func putAgent(t part.Tx, doing string, a *Agent) error {
	value := a.encode()
	if err := t.Need(doing, 2*len(value)+4*valid.MaxID); err != nil {
		return err
	}
	owner, err := t.GiveAgent(a.ID)
	if err != nil {
		return err
	}
	t.Log(opAgent, logged(owner, value))
	if err := t.Set(agentKey(t, owner), value); err != nil {
		return err
	}
	return recount(t, kindAgent, owner, 1)
}

// Registered reports whether an agent has a manifest.
func Registered(v part.View, agent string) (bool, error) {
	owner, known, err := v.Owner(scope.Owner{Agent: agent})
	if err != nil || !known {
		return false, err
	}
	_, found, err := v.Get(agentKey(v, owner))
	return found, err
}

// Agent returns the manifest of an agent, ErrNotFound where it has none.
func (u Usage) Agent(ctx context.Context, id string) (a Agent, err error) {
	doing := fmt.Sprintf("get the agent %q", valid.Short(id))
	a.ID = id
	if err := a.check(doing); err != nil {
		return Agent{}, err
	}
	err = u.view(ctx, doing, func(v part.View) error {
		if err := current(v, doing); err != nil {
			return err
		}
		var found bool
		if a, found, err = agentOf(v, id); err == nil && !found {
			err = &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "it has no manifest", Do: "check the ID, or add it"}
		}
		return err
	})
	return a, err
}

func agentOf(v part.View, id string) (a Agent, found bool, err error) {
	owner, known, err := v.Owner(scope.Owner{Agent: id})
	if err != nil || !known {
		return Agent{}, false, err
	}
	b, found, err := v.Get(agentKey(v, owner))
	if err != nil || !found {
		return Agent{}, false, err
	}
	a, err = decodeAgent(b)
	return a, err == nil, err
}

// Agents lists the manifests, in the order in which their agents first stored something.
func (u Usage) Agents(ctx context.Context) (all []Agent, err error) {
	const doing = "list the agents"
	err = u.view(ctx, doing, func(v part.View) error {
		if err := current(v, doing); err != nil {
			return err
		}
		return eachAgent(v, func(_ uint32, a *Agent) error {
			all = append(all, *a)
			return nil
		})
	})
	return all, err
}

func eachAgent(v part.View, visit func(owner uint32, a *Agent) error) error {
	lower := v.Key(kindAgent, 0)
	return v.Scan(lower, layout.PrefixEnd(lower), func(key, value []byte) error {
		owner, ok := ownerOf(key)
		if !ok {
			return layout.BadKey("agent", key)
		}
		a, err := decodeAgent(value)
		if err != nil {
			return err
		}
		return visit(owner, &a)
	})
}
