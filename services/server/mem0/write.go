package mem0

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// maxBatch bounds the memories of a batch.
const maxBatch = 1000

// change is the body of an update.
type change struct {
	Text       *string         `json:"text"`
	Metadata   map[string]any  `json:"metadata"`
	Expiration json.RawMessage `json:"expiration_date"` // null: never
	Timestamp  json.RawMessage `json:"timestamp"`
}

const doingUpdate = "update a memory"

// check refuses what could not be done.
func (ch *change) check(c *call) error {
	switch {
	case ch.Text == nil && ch.Metadata == nil && ch.Expiration == nil && !isSet(ch.Timestamp):
		return c.lacks("text", "nothing is to be changed; give text, metadata or expiration_date")
	case ch.Text != nil && strings.TrimSpace(*ch.Text) == "":
		return invalid(doingUpdate, "the text is empty", "give a text, or delete the memory")
	case ch.Metadata[products.Mem0Field] != nil:
		return invalid(doingUpdate, fmt.Sprintf("the metadata has the key %q, which is the server's", products.Mem0Field), "name it differently")
	}
	_, err := ch.expiration()
	return err
}

// expiration is the day of expiry, nil for none.
func (ch *change) expiration() (any, error) {
	var date *string
	if ch.Expiration == nil || bytes.Equal(ch.Expiration, []byte("null")) {
		return nil, nil
	}
	if err := json.Unmarshal(ch.Expiration, &date); err != nil {
		return nil, invalid(doingUpdate, "expiration_date is no text", "write it as 2026-01-31, or null for never")
	}
	_, err := day("expiration_date", *date)
	return *date, err
}

// patch is what is to be changed of a memory.
func (ch *change) patch(m *memory.Memory) (memory.Patch, error) {
	p := memory.Patch{Text: ch.Text}
	date, err := ch.expiration()
	if err != nil {
		return p, err
	}
	if ch.Metadata == nil {
		if ch.Expiration != nil {
			p.MergeMetadata = map[string]any{products.Mem0Field: map[string]any{products.Mem0Expiration: date}}
		}
		return p, nil
	}
	more := map[string]any{}
	maps.Copy(more, products.Mem0More(m.Metadata))
	if ch.Expiration != nil {
		if more[products.Mem0Expiration] = date; date == nil {
			delete(more, products.Mem0Expiration)
		}
	}
	all := products.Mem0Metadata(ch.Metadata, more)
	p.Metadata = &all
	return p, nil
}

// change makes a change of a memory, in one commit unless a graph follows its text.
func (c *call) change(m *memory.Memory, ch *change) (*memory.Memory, error) {
	if products.Mem0Of(m).Immutable {
		return nil, invalid(doingUpdate, "it is immutable", "delete it, and add another one")
	}
	p, err := ch.patch(m)
	if err != nil {
		return nil, err
	}
	if ch.Text != nil && c.Facts != nil && c.Facts.Graph {
		if _, err := c.Facts.Update(c.Context(), m.Scope, m.ID, *ch.Text); err != nil {
			return nil, c.unknown(err)
		}
		p.Text = nil
	}
	if isSet(ch.Timestamp) {
		c.note("timestamp has no effect here")
	}
	if p.Text == nil && p.Metadata == nil && p.MergeMetadata == nil {
		return c.find(m.ID)
	}
	changed, err := c.DB.Memories().Update(c.Context(), m.Scope, m.ID, p)
	return &changed, c.unknown(err)
}

// update changes a memory and answers it; the open server says that it is done.
func update(c *call) error {
	var ch change
	if err := c.DecodeLoose(&ch); err != nil {
		return err
	}
	if err := ch.check(c); err != nil {
		return err
	}
	m, err := c.find(c.R.PathValue("id"))
	if err != nil {
		return err
	}
	changed, err := c.change(m, &ch)
	if err != nil {
		return err
	}
	if c.form == open {
		return c.Reply(http.StatusOK, message{"Memory updated successfully!"})
	}
	return c.Reply(http.StatusOK, newItem(changed))
}

// message is an answer that says what was done.
type message struct {
	Message string `json:"message"`
}

// remove deletes a memory.
func remove(c *call) error {
	if c.R.URL.Query().Get("delete_linked") == "true" {
		return server.Fail(http.StatusNotImplemented, "not_implemented", "memdb links no memories to one another; leave delete_linked out")
	}
	m, err := c.find(c.R.PathValue("id"))
	if err != nil {
		return err
	}
	f, err := c.memories()
	if err == nil {
		err = f.Delete(c.Context(), m.Scope, m.ID)
	}
	if err != nil {
		return c.unknown(err)
	}
	return c.Reply(http.StatusOK, message{"Memory deleted successfully!"})
}

// deleteAll deletes the memories of those that the query names.
func deleteAll(c *call) error {
	l, err := c.listingIn()
	if err != nil {
		return err
	}
	w, err := l.wanted()
	if err != nil {
		return err
	}
	if !w.named {
		return &server.Failure{Status: http.StatusBadRequest, Code: "scope", Message: errNoEntity.Error(), Err: errNoEntity}
	}
	if err := c.deleteWanted(w); err != nil {
		return err
	}
	if c.form == open {
		return c.Reply(http.StatusOK, message{"All relevant memories deleted"})
	}
	return c.Reply(http.StatusOK, message{"Memories deleted successfully!"})
}

// deleteWanted deletes what is asked for, within what the key sees. Without a graph each scope is
// one commit; with one each memory is, which takes what the graph has of it along.
func (c *call) deleteWanted(w wanted) error {
	s, err := c.selected(w, true)
	if err != nil || s.none {
		return err
	}
	if c.Facts != nil && (c.Facts.Graph || c.Facts.GraphStore != nil) {
		return c.deleteEach(s)
	}
	scopes := s.scopes
	if s.everyone() {
		scopes = []memory.Scope{{}}
	}
	for _, of := range scopes {
		if _, err := c.DB.Memories().DeleteMatching(c.Context(), memory.DeleteQuery{Scope: of, AllScopes: s.everyone(), Filter: s.filter}); err != nil {
			return err
		}
	}
	return nil
}

// deleteEach deletes memories one by one.
func (c *call) deleteEach(s *selection) error {
	for {
		p, err := s.page(c.Context(), 0, maxBatch)
		if err != nil || len(p.memories) == 0 {
			return err
		}
		for i := range p.memories {
			m := &p.memories[i]
			if err := c.Facts.Delete(c.Context(), m.Scope, m.ID); err != nil && !errors.Is(err, memory.ErrNotFound) {
				return err
			}
		}
	}
}

// reset deletes all facts of everybody.
func reset(c *call) error {
	f, err := c.memories()
	if err != nil {
		return err
	}
	if _, err := f.Reset(c.Context()); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, message{"All memories reset"})
}

// batched is the body of a batch.
type batched struct {
	Memories []struct {
		ID string `json:"memory_id"`
		change
	} `json:"memories"`
}

// batch reads a batch, and finds all memories of it before any is changed.
func (c *call) batch(doing string) (*batched, []*memory.Memory, error) {
	var b batched
	if err := c.DecodeLoose(&b); err != nil {
		return nil, nil, err
	}
	switch n := len(b.Memories); {
	case n == 0:
		return nil, nil, c.lacks("memories", "there are none")
	case n > maxBatch:
		return nil, nil, invalid(doing, fmt.Sprintf("there are %d", n), fmt.Sprintf("%d are the most of one request", maxBatch))
	}
	found := make([]*memory.Memory, len(b.Memories))
	for i := range b.Memories {
		var err error
		if found[i], err = c.find(b.Memories[i].ID); err != nil {
			return nil, nil, err
		}
	}
	return &b, found, nil
}

// updateBatch changes memories. All of them are there, or none is changed.
func updateBatch(c *call) error {
	b, found, err := c.batch("update memories")
	if err != nil {
		return err
	}
	for i := range b.Memories {
		if err := b.Memories[i].check(c); err != nil {
			return err
		}
	}
	for i, m := range found {
		if _, err := c.change(m, &b.Memories[i].change); err != nil {
			return partly(i, "updated", err)
		}
	}
	return c.Reply(http.StatusOK, message{fmt.Sprintf("Successfully updated %d memories", len(found))})
}

// partly says of an error in the midst of a batch what was done before it.
func partly(done int, what string, err error) error {
	f := server.Fault(err)
	f.Message = fmt.Sprintf("the first %d were %s, and then: %s", done, what, f.Message)
	f.Err = err
	return f
}

// deleteBatch deletes memories, in one commit where there is no graph. All of them are there, or
// none is deleted.
func deleteBatch(c *call) error {
	_, found, err := c.batch("delete memories")
	if err != nil {
		return err
	}
	var f *facts.Facts
	if f, err = c.memories(); err != nil {
		return err
	}
	if f.Graph || f.GraphStore != nil {
		for i, m := range found {
			if err := f.Delete(c.Context(), m.Scope, m.ID); err != nil && !errors.Is(err, memory.ErrNotFound) {
				return partly(i, "deleted", err)
			}
		}
	} else if err := c.DB.Update(c.Context(), func(tx *engine.Tx) error {
		for _, m := range found {
			if err := tx.Memories().Delete(c.Context(), m.Scope, m.ID); err != nil && !errors.Is(err, memory.ErrNotFound) {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, message{fmt.Sprintf("Successfully deleted %d memories", len(found))})
}

// rating is the body of a feedback.
type rating struct {
	ID       string  `json:"memory_id"`
	Feedback *string `json:"feedback"`
	Reason   *string `json:"feedback_reason"`
}

// feedback keeps what somebody thinks of a memory in its metadata, where filters find it.
func feedback(c *call) error {
	var r rating
	if err := c.DecodeLoose(&r); err != nil {
		return err
	}
	switch value(r.Feedback) {
	case "", "POSITIVE", "NEGATIVE", "VERY_NEGATIVE":
	default:
		return invalid("keep a feedback", fmt.Sprintf("it is %.40q", *r.Feedback), "give POSITIVE, NEGATIVE, VERY_NEGATIVE or null")
	}
	if r.ID == "" {
		return c.lacks("memory_id", "it is required")
	}
	m, err := c.find(r.ID)
	if err != nil {
		return err
	}
	orNone := func(s *string) any {
		if value(s) == "" {
			return nil
		}
		return *s
	}
	_, err = c.DB.Memories().Update(c.Context(), m.Scope, m.ID, memory.Patch{MergeMetadata: map[string]any{
		products.Mem0Field: map[string]any{products.Mem0Feedback: orNone(r.Feedback), products.Mem0FeedbackReason: orNone(r.Reason)},
	}})
	if err != nil {
		return c.unknown(err)
	}
	return c.Reply(http.StatusOK, map[string]any{"id": newID(hashOf(m.Owner())), "feedback": r.Feedback, "feedback_reason": r.Reason})
}

// ofEntity is what belongs to an entity of the address.
func (c *call) ofEntity() (wanted, error) {
	w := anything()
	kind, id := c.R.PathValue("type"), c.R.PathValue("entity")
	switch kind {
	case "user", "agent", "run", "app":
	default:
		return w, server.Fail(http.StatusBadRequest, "invalid", "Invalid entity type")
	}
	if id == wildcard {
		return w, invalid("find an entity", "* is none", "name one")
	}
	w, err := condition(kind+"_id", "eq", id)
	if err != nil {
		return w, err
	}
	return w, filter.Check(w.filter)
}
