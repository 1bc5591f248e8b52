package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The calls of several goroutines on a few keys and texts are held to what one goroutine could have seen:
// a checker looks for an order of the calls, in which each takes effect at one moment between its beginning
// and its end, that gives all the answers which were given.

// linearCall is one call: on a key, or with a text that is stored once.
type linearCall struct {
	op    string // of a key: put, swap, delete, get, view; of a text: store, forget, find
	key   int
	value string
	old   uint64 // the version that a swap expects
}

// linearAnswer is what it returned.
type linearAnswer struct {
	value   string // empty: nothing is there
	version uint64
	refused bool // a swap found another version
	id      string
	stored  bool
}

// linearState is what is under a key, or which memory has a text.
type linearState struct {
	value   string
	version uint64 // of the value, 0: not known
	id      string
}

// linearModel says what one goroutine would be told. Versions rise with each put of a key; which they are
// the model learns from the answers.
var linearModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[int][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(linearCall).key
			by[key] = append(by[key], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range by {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return linearState{} },
	Step: func(state, input, output any) (bool, any) {
		return linearStep(state.(linearState), input.(linearCall), output.(linearAnswer))
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}

func linearStep(s linearState, c linearCall, a linearAnswer) (bool, linearState) {
	switch c.op {
	case "put":
		return a.version > s.version, linearState{value: c.value, version: a.version}
	case "swap":
		if a.refused {
			return s.value == "" && c.old != 0 || s.value != "" && s.version != c.old, s
		}
		holds := s.value == "" && c.old == 0 || s.value != "" && s.version == c.old
		return holds && a.version > s.version, linearState{value: c.value, version: a.version}
	case "delete":
		return true, linearState{version: s.version}
	case "get", "view":
		return a.value == s.value && (a.value == "" || a.version == s.version), s
	case "store":
		if s.id == "" {
			return a.stored, linearState{id: a.id}
		}
		return !a.stored && a.id == s.id, s
	case "forget": // refused: it was not there any more
		if a.refused {
			return s.id != c.value, s
		}
		return s.id == c.value, linearState{}
	}
	return a.id == s.id, s // find
}

// TestLinearizable: reads and writes of keys, with and without an expected version, and stores that look
// for duplicates, beside each other.
func TestLinearizable(t *testing.T) {
	const clients, calls, keys = 8, 120, 4
	seed := newSeed(t)
	w := newWorld()
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(client)))
			known := map[int]linearAnswer{}
			for i := range calls {
				c := linearChoice(rng, keys, known, client*calls+i)
				call := time.Since(began).Nanoseconds()
				a, err := linearDo(t, w.db, c)
				end := time.Since(began).Nanoseconds()
				if err != nil {
					t.Errorf("%+v: %v", c, err)
					return
				}
				known[c.key] = a
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: c, Call: call, Output: a, Return: end})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := w.db.Close(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		return
	}
	switch result, _ := porcupine.CheckOperationsVerbose(linearModel, history, time.Minute); result {
	case porcupine.Ok:
	case porcupine.Unknown:
		t.Errorf("no order was found for %d calls within a minute, nor that there is none", len(history))
	default:
		t.Errorf("the answers of %d calls fit no order", len(history))
	}
}

// linearChoice is the next call of a client that knows the last answers for keys. The first keys have
// values, the others texts.
func linearChoice(rng *rand.Rand, keys int, known map[int]linearAnswer, n int) linearCall {
	c := linearCall{key: rng.IntN(2 * keys), value: strconv.Itoa(n)}
	if c.key >= keys {
		c.op = [...]string{"store", "store", "forget", "find"}[rng.IntN(4)]
		if c.value = known[c.key].id; c.op == "forget" && c.value == "" {
			c.op = "find"
		}
		return c
	}
	c.op = [...]string{"put", "swap", "swap", "delete", "get", "view"}[rng.IntN(6)]
	c.old = known[c.key].version
	return c
}

var linearScope = memory.Scope{User: "linear"}

func linearDo(t *testing.T, db *engine.DB, c linearCall) (a linearAnswer, err error) {
	t.Helper()
	ctx, kv, m := t.Context(), db.KV(), db.Memories()
	owner, key, text := memory.Owner{User: "linear"}, fmt.Sprint("key ", c.key), fmt.Sprint("text ", c.key)
	switch c.op {
	case "put", "swap":
		o := &entries.PutOptions{}
		if c.op == "swap" {
			o.IfVersion = &c.old
		}
		e, err := kv.Put(ctx, owner, key, c.value, o)
		if errors.Is(err, memory.ErrConflict) {
			return linearAnswer{refused: true}, nil
		}
		return linearAnswer{version: e.Version}, err
	case "delete":
		err := kv.Delete(ctx, owner, key)
		if errors.Is(err, memory.ErrNotFound) {
			err = nil
		}
		return a, err
	case "get", "view":
		if c.op == "view" {
			err = db.View(ctx, func(tx *engine.Tx) error {
				a, err = linearGet(ctx, tx.KV(), owner, key)
				return err
			})
			return a, err
		}
		return linearGet(ctx, kv, owner, key)
	case "store":
		s, err := m.Store(ctx, memory.Memory{Scope: linearScope, Text: text}, nil)
		return linearAnswer{id: s.ID, stored: s.Stored}, err
	case "forget":
		err := m.Delete(ctx, linearScope, c.value)
		if errors.Is(err, memory.ErrNotFound) {
			return linearAnswer{refused: true}, nil
		}
		return a, err
	}
	for found, err := range m.All(ctx, memory.ListQuery{Scope: linearScope}) {
		if err != nil || found.Text == text {
			return linearAnswer{id: found.ID}, err
		}
	}
	return a, nil
}

func linearGet(ctx context.Context, kv entries.KV, owner memory.Owner, key string) (a linearAnswer, err error) {
	e, found, err := kv.Lookup(ctx, owner, key)
	if !found || err != nil {
		return a, err
	}
	value, err := strconv.Unquote(string(e.Value))
	return linearAnswer{value: value, version: e.Version}, err
}

// TestLinearModel: the checker finds answers that no order gives.
func TestLinearModel(t *testing.T) {
	put := func(from, to int64, value string, version uint64) porcupine.Operation {
		return porcupine.Operation{Input: linearCall{op: "put", value: value}, Call: from, Output: linearAnswer{version: version}, Return: to}
	}
	get := func(from, to int64, value string, version uint64) porcupine.Operation {
		return porcupine.Operation{ClientId: 1, Input: linearCall{op: "get"}, Call: from, Output: linearAnswer{value: value, version: version}, Return: to}
	}
	store := func(from, to int64, id string, stored bool) porcupine.Operation {
		return porcupine.Operation{ClientId: 2, Input: linearCall{op: "store", key: 1}, Call: from, Output: linearAnswer{id: id, stored: stored}, Return: to}
	}
	for _, c := range []struct {
		what    string
		history []porcupine.Operation
		fits    bool
	}{
		{"beside each other", []porcupine.Operation{put(0, 5, "a", 1), get(1, 4, "", 0)}, true},
		{"an old value", []porcupine.Operation{put(0, 1, "a", 1), put(2, 3, "b", 2), get(4, 5, "a", 1)}, false},
		{"nothing after a put", []porcupine.Operation{put(0, 1, "a", 1), get(2, 3, "", 0)}, false},
		{"stored twice", []porcupine.Operation{store(0, 3, "x", true), store(1, 4, "y", true)}, false},
		{"stored once", []porcupine.Operation{store(0, 3, "x", true), store(1, 4, "x", false)}, true},
	} {
		if got := porcupine.CheckOperations(linearModel, c.history); got != c.fits {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
