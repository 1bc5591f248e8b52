package move

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// newestOpenFang is the newest user_version of OpenFang's schema that is known: a newer one is
// read by the tables and columns that are known, and what is not is counted.
const newestOpenFang = 17

// readOpenFang reads the SQLite file of OpenFang, of its documented schema or that which it makes.
func readOpenFang(in *Input, w *writer) error {
	return w.database(in, func(f *sqliteFile) ([]string, error) {
		if !isOpenFang(f) {
			return nil, errors.New(`the SQLite file has neither "memory_fragments", "memories" nor "kv_store" with the columns of OpenFang; leave the format out, or name a table with --table`)
		}
		if f.version > newestOpenFang {
			w.leave(fmt.Sprintf("what is new in the schema %d", f.version), 1)
		}
		o := &openFang{writer: w}
		known := []string{"memory_fts_content", "memories_fts_content"} // texts of the memories again
		for _, t := range []struct {
			table string
			visit func(at exchange.LineError, c *cells) error
		}{
			{"agents", o.agent},
			{"memory_fragments", o.fragment},
			{"memories", o.fragment},
			{"sessions", o.session},
			{"canonical_sessions", o.session},
			{"kv_store", o.entry},
			{"entities", o.entity},
			{"relations", o.relation},
			{"usage_log", o.usage},
			{"usage_events", o.usage},
		} {
			known = append(known, t.table)
			if err := w.each(f, t.table, t.visit); err != nil {
				return nil, err
			}
		}
		return known, nil
	})
}

// isOpenFang reports whether a file has a table of OpenFang, with the columns that it has there.
func isOpenFang(f *sqliteFile) bool {
	return f.has("memory_fragments", "id", "agent_id", "content", "source", "created_at", "access_count") ||
		f.has("memories", "id", "agent_id", "content", "source", "confidence", "created_at", "access_count") ||
		f.has("kv_store", "agent_id", "key", "value", "updated_at")
}

type openFang struct{ *writer }

// owner is whose a row is.
func (o *openFang) owner(c *cells) scope.Owner {
	of := o.scope("", "", "").Owner()
	if agent := c.text("agent_id"); agent != "" {
		of.Agent = agent
	}
	return of
}

func (o *openFang) agent(at exchange.LineError, c *cells) error {
	l := usage.AgentLine{Type: usage.TypeAgent, ID: c.text("id"), Name: c.text("name"), CreatedAt: instant(o.when(c.any("created_at")))}
	state, manifest := strings.Trim(c.text("state"), `"`), c.value("manifest")
	about := c.rest()
	if state != "" {
		about["state"] = state
	}
	if manifest != nil {
		about["manifest"] = manifest
	}
	var err error
	if l.Metadata, err = marshal(about); err != nil {
		return o.skip(at, err)
	}
	return o.line(at, usage.TypeAgent, l, len(l.Metadata))
}

func (o *openFang) fragment(at exchange.LineError, c *cells) error {
	if deleted, _ := c.number("deleted"); deleted != 0 {
		o.leave("deleted memories", 1)
		return nil
	}
	owner := o.owner(c)
	m := memory.Memory{
		ID: idOf(o.format, c.text("id")), Scope: memory.Scope{User: owner.User, Agent: owner.Agent}, Kind: memory.KindFragment,
		Text: c.text("content"), Source: sourceName(c.text("source")), Importance: c.share("importance"), Confidence: c.share("confidence"),
		CreatedAt: o.when(c.any("created_at")), LastAccessed: o.when(c.any("last_accessed_at", "accessed_at")), AccessCount: uint64(c.integer("access_count")),
	}
	if vector := c.any("embedding"); vector != nil {
		blob, _ := vector.([]byte)
		if m.Embedding = floatsOf(blob); m.Embedding == nil && (blob == nil || len(blob) > 0) {
			o.leave("vectors that cannot be read", 1)
		}
	}
	inner := c.json("metadata")
	about := c.rest()
	var object exchange.Object
	if exchange.Decode(inner, &object) == nil {
		for key, v := range object {
			if had, twice := about[key]; twice { // nothing is written over
				about["column "+key] = had
			}
			about[key] = v
		}
	} else if len(inner) > 0 {
		about["metadata"] = inner
	}
	if len(about) > 0 {
		m.Metadata = about
	}
	return o.memory(at, m)
}

// floatsOf reads a vector of 32-bit floats, nil where it is none.
func floatsOf(b []byte) []float32 {
	if len(b) == 0 || len(b)%4 != 0 || len(b)/4 > memory.MaxDim {
		return nil
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if f := float64(v[i]); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil
		}
	}
	return v
}

// sourceName is a source in the words that memdb has: UserMessage is user_message.
func sourceName(s string) memory.Source {
	var b strings.Builder
	for i, r := range strings.Trim(s, `"`) {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return memory.Source(b.String())
}

func (o *openFang) entry(at exchange.LineError, c *cells) error {
	owner := o.owner(c)
	value := c.json("value")
	if value == nil {
		value = json.RawMessage("null")
	}
	return o.line(at, entries.TypeLine, entries.Line{
		Type: entries.TypeLine, User: owner.User, Agent: owner.Agent, Key: c.text("key"), Value: value, UpdatedAt: instant(o.when(c.any("updated_at"))),
	}, len(value))
}

func (o *openFang) entity(at exchange.LineError, c *cells) error {
	owner := o.owner(c)
	return o.line(at, graph.TypeEntity, graph.EntityLine{
		Type: graph.TypeEntity, ID: c.text("id"), User: owner.User, Agent: owner.Agent, EntityType: strings.Trim(c.text("entity_type"), `"`), Name: c.text("name"),
		Properties: c.object("attributes", "properties"),
		CreatedAt:  instant(o.when(c.any("created_at"))), UpdatedAt: instant(o.when(c.any("updated_at"))),
	}, len(c.text("attributes", "properties")))
}

// object is a value that is an object of JSON, nil for any other one, which is counted.
func (c *cells) object(names ...string) json.RawMessage {
	raw := c.json(names...)
	if len(raw) > 0 && raw[0] != '{' {
		if string(raw) != "null" && string(raw) != `""` {
			c.lost(names[0], "object")
		}
		return nil
	}
	return raw
}

func (o *openFang) relation(at exchange.LineError, c *cells) error {
	owner := o.owner(c)
	properties := c.object("properties")
	if confidence, ok := c.number("confidence"); ok && confidence != 1 {
		var with map[string]any
		if err := json.Unmarshal(properties, &with); err != nil || with == nil {
			with = map[string]any{}
		}
		if _, taken := with["confidence"]; !taken {
			with["confidence"] = confidence
		}
		var err error
		if properties, err = marshal(with); err != nil {
			return o.skip(at, err)
		}
	}
	return o.line(at, graph.TypeRelation, graph.RelationLine{
		Type: graph.TypeRelation, ID: c.text("id"), User: owner.User, Agent: owner.Agent,
		From: c.text("from_entity_id", "source_entity"), Relation: strings.Trim(c.text("relation_type"), `"`), To: c.text("to_entity_id", "target_entity"),
		Properties: properties, CreatedAt: instant(o.when(c.any("created_at"))),
	}, len(properties))
}

func (o *openFang) usage(at exchange.LineError, c *cells) error {
	owner := o.owner(c)
	c.any("id") // the time and the place say which it is
	l := usage.Line{
		Type: usage.TypeUsage, User: owner.User, Agent: owner.Agent, Number: c.place(), Model: c.text("model"),
		PromptTokens: c.integer("prompt_tokens", "input_tokens"), CompletionTokens: c.integer("completion_tokens", "output_tokens"),
		Time: instant(o.when(c.any("timestamp"))),
	}
	l.TotalTokens = cmp.Or(c.integer("total_tokens"), l.PromptTokens+l.CompletionTokens)
	cost, _ := c.number("cost_usd")
	if err := json.Unmarshal(strconv.AppendFloat(nil, cost, 'f', -1, 64), &l.Cost); err != nil {
		return o.skip(at, fmt.Errorf("cost_usd: %w", err))
	}
	return o.line(at, usage.TypeUsage, l, 0)
}

// session gives a session and its messages.
func (o *openFang) session(at exchange.LineError, c *cells) error {
	owner := o.owner(c)
	id := cmp.Or(c.text("id"), "canonical-"+c.text("agent_id"))
	messages, ok := c.value("messages").([]any)
	if !ok && c.any("messages") != nil {
		return o.skip(at, errors.New(`its "messages" cannot be read`))
	}
	created, updated, summary := c.any("created_at"), c.any("updated_at"), c.text("compacted_summary")
	about := c.rest()
	if summary != "" {
		about["summary"] = summary
	}
	metadata, err := marshal(about)
	if err != nil {
		return o.skip(at, err)
	}
	err = o.line(at, sessions.TypeSession, sessions.SessionLine{
		Type: sessions.TypeSession, Session: id, User: owner.User, Agent: owner.Agent, Channel: string(o.format), Metadata: metadata,
		CreatedAt: instant(o.when(created)), UpdatedAt: instant(o.when(updated)),
	}, len(metadata))
	seen := map[string]int{}
	for _, m := range messages {
		if err != nil {
			return err
		}
		err = o.message(at, owner, id, m, seen)
	}
	return err
}

func (o *openFang) message(at exchange.LineError, owner scope.Owner, session string, v any, seen map[string]int) error {
	m, ok := v.(map[string]any)
	raw, err := json.Marshal(v)
	if !ok || err != nil {
		return o.skip(at, errors.New("a message cannot be read"))
	}
	role, _ := m["role"].(string)
	id := idOf(o.format, session, string(raw))
	if seen[id]++; seen[id] > 1 { // it was said before
		id = fmt.Sprintf("%s-%d", id, seen[id])
	}
	var said sessions.Message
	if err := said.UnmarshalJSON(raw); err != nil {
		return o.skip(at, fmt.Errorf("a message cannot be read: %w", err))
	}
	if said.Content() == "" {
		return o.skip(at, errors.New("a message has no content"))
	}
	l := sessions.NewMessageLine(&said)
	if text, ok := messages.OnlyText(l.Parts); ok && l.Text == "" {
		l.Text, l.Parts = text, nil // as all of its texts are written
	}
	l.Session, l.User, l.Agent, l.ID, l.Role = session, owner.User, owner.Agent, id, string(roleOf(strings.ToLower(role)))
	return o.line(at, sessions.TypeMessage, l, len(raw))
}

// value is what a column holds as JSON or as MessagePack, nil where it is neither.
func (c *cells) value(name string) any {
	b, _ := bytesOf(c.any(name))
	if len(b) == 0 {
		return nil
	}
	if exchange.Decode(b, new(any)) == nil {
		v, _ := decodeAny(b) // which it was already
		return v
	}
	v, rest, err := readPacked(b, 0)
	if err != nil || len(rest) > 0 {
		return nil
	}
	return v
}

// place is the number of a row, the same whenever the row is read: of a table without rowids it
// follows from the row's ID.
func (c *cells) place() uint64 {
	if !c.table.rowless {
		return uint64(max(c.row.number, 1))
	}
	const bits = 40 // so that numbers of records that follow have their place
	h := sha256.Sum256([]byte(c.text("id")))
	return binary.BigEndian.Uint64(h[:])>>(64-bits) | 1
}
