package move

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/sqlitefile"
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
	return w.database(in, func(f *sqlitefile.File) error {
		if _, ok := recogniseTables(f); !ok {
			return errors.New(`the SQLite file has neither "memory_fragments", "memories" nor "kv_store", as that of OpenFang has`)
		}
		if f.Version() > newestOpenFang {
			w.leave(fmt.Sprintf("what is new in the schema %d", f.Version()), 1)
		}
		o := &openFang{writer: w}
		known := []string{}
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
				return err
			}
		}
		return w.leaveTables(f, known...)
	})
}

func recogniseTables(f *sqlitefile.File) (Format, bool) {
	return OpenFang, f.Table("memory_fragments").Has("agent_id", "content") ||
		f.Table("memories").Has("agent_id", "content") || f.Table("kv_store").Has("agent_id", "key", "value")
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

// rest are the columns of a row that are none of some, as metadata.
func (c *cells) rest(known ...string) map[string]any {
	out := map[string]any{}
	for i, column := range c.table.Columns {
		if containsFold(known, column.Name) {
			continue
		}
		switch v := c.row.Values[i].(type) {
		case string:
			if v != "" {
				out[column.Name] = v
			}
		case int64, float64:
			out[column.Name] = v
		}
	}
	return out
}

func (o *openFang) agent(at exchange.LineError, c *cells) error {
	about := map[string]any{}
	if state := c.text("state"); state != "" {
		about["state"] = strings.Trim(state, `"`)
	}
	if manifest := c.value("manifest"); manifest != nil {
		about["manifest"] = manifest
	}
	metadata, err := marshal(about)
	if err != nil {
		return o.skip(at, err)
	}
	return o.line(at, usage.TypeAgent, usage.AgentLine{
		Type: usage.TypeAgent, ID: c.text("id"), Name: c.text("name"), CreatedAt: instant(o.when(c.any("created_at"))), Metadata: metadata,
	}, len(metadata))
}

func (o *openFang) fragment(at exchange.LineError, c *cells) error {
	if deleted, _ := c.number("deleted"); deleted != 0 {
		o.leave("deleted memories", 1)
		return nil
	}
	owner := o.owner(c)
	m := memory.Memory{
		ID: idOf(o.format, c.text("id")), Scope: memory.Scope{User: owner.User, Agent: owner.Agent}, Kind: memory.KindFragment,
		Text: c.text("content"), Source: sourceName(c.text("source")),
		CreatedAt: o.when(c.any("created_at")), LastAccessed: o.when(c.any("last_accessed_at", "accessed_at")), AccessCount: uint64(c.integer("access_count")),
	}
	about := c.rest("id", "agent_id", "content", "source", "metadata", "created_at", "last_accessed_at", "accessed_at", "access_count", "deleted", "importance", "confidence", "embedding")
	share := func(name string) *float64 {
		n, ok := c.number(name)
		if ok && (n < 0 || n > 1) {
			about[name], ok = n, false
		}
		if !ok {
			return nil
		}
		return &n
	}
	m.Importance, m.Confidence = share("importance"), share("confidence")
	if raw := c.text("metadata"); raw != "" {
		var inner exchange.Object
		if exchange.Decode([]byte(raw), &inner) != nil {
			about["metadata"] = raw
		}
		maps.Copy(about, inner)
	}
	if len(about) > 0 {
		m.Metadata = about
	}
	if blob, ok := c.any("embedding").([]byte); ok && len(blob) > 0 {
		m.Embedding = floatsOf(blob)
		if m.Embedding == nil {
			o.leave("vectors that cannot be read", 1)
		}
	}
	return o.memory(at, m)
}

// floatsOf reads a vector of 32-bit floats, nil where it is none.
func floatsOf(b []byte) []float32 {
	if len(b)%4 != 0 || len(b)/4 > memory.MaxDim {
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
		Properties: objectOf(c.json("attributes", "properties")),
		CreatedAt:  instant(o.when(c.any("created_at"))), UpdatedAt: instant(o.when(c.any("updated_at"))),
	}, len(c.text("attributes", "properties")))
}

// objectOf is an object, nil for what is none.
func objectOf(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return raw
}

func (o *openFang) relation(at exchange.LineError, c *cells) error {
	owner := o.owner(c)
	properties := objectOf(c.json("properties"))
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
	l := usage.Line{
		Type: usage.TypeUsage, User: owner.User, Agent: owner.Agent, Number: uint64(max(c.row.ID, 1)), Model: c.text("model"),
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
	about := map[string]any{}
	if label := c.text("label"); label != "" {
		about["label"] = label
	}
	if summary := c.text("compacted_summary"); summary != "" {
		about["summary"] = summary
	}
	metadata, err := marshal(about)
	if err != nil {
		return o.skip(at, err)
	}
	err = o.line(at, sessions.TypeSession, sessions.SessionLine{
		Type: sessions.TypeSession, Session: id, User: owner.User, Agent: owner.Agent, Channel: string(o.format), Metadata: metadata,
		CreatedAt: instant(o.when(c.any("created_at"))),
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
	l := sessions.NewMessageLine(&said)
	l.Session, l.User, l.Agent, l.ID, l.Role = session, owner.User, owner.Agent, id, string(roleOf(strings.ToLower(role)))
	return o.line(at, sessions.TypeMessage, l, len(raw))
}

// value is what a column holds as JSON or as MessagePack, nil where it is neither.
func (c *cells) value(name string) any {
	s := c.text(name)
	if s == "" {
		return nil
	}
	var v any
	if exchange.Decode([]byte(s), &v) == nil {
		return v
	}
	v, rest, err := readPacked([]byte(s), 0)
	if err != nil || len(rest) > 0 {
		return nil
	}
	return v
}
