package move

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

// chat is a conversation as ChatGPT exports it: a tree of messages, as each edit of a question
// begins a branch.
type chat struct {
	id      string
	current string
	nodes   map[string]*chatNode
}

type chatNode struct {
	Parent   string          `json:"parent"`
	Message  json.RawMessage `json:"message"`
	Children []string        `json:"children"`

	time float64
}

// says reports whether the node has a message.
func (n *chatNode) says() bool { return len(n.Message) > 0 && n.Message[0] == '{' }

// readChatGPT reads conversations.
func readChatGPT(in *Input, w *writer) error {
	return eachUnder(in, w, "conversation", nil, func(at exchange.LineError, raw []byte) error {
		f, err := readFields(raw)
		if err != nil {
			return w.skip(at, err)
		}
		at.ID = f.text("title")
		c := &chat{current: f.text("current_node")}
		var mapping map[string]json.RawMessage
		if err := exchange.Decode(f["mapping"], &mapping); err != nil || mapping == nil {
			return w.skip(at, errors.New(`it has no "mapping", the tree of its messages`))
		}
		delete(f, "mapping")
		if c.nodes, err = w.nodes(mapping); err != nil {
			return w.skip(at, err)
		}
		return w.chat(at, f, c)
	})
}

// nodes reads the tree.
func (w *writer) nodes(mapping map[string]json.RawMessage) (map[string]*chatNode, error) {
	nodes := make(map[string]*chatNode, len(mapping))
	for id, raw := range mapping {
		n := &chatNode{}
		f, err := readFields(raw)
		if err == nil {
			err = json.Unmarshal(raw, n)
		}
		if err != nil {
			return nil, fmt.Errorf("node %.80q of its tree: %w", id, err)
		}
		w.unplaced("of nodes", f, "id", "parent", "message", "children")
		if n.says() {
			var m struct {
				Time any `json:"create_time"`
			}
			if json.Unmarshal(n.Message, &m) == nil {
				n.time, _ = m.Time.(float64)
			}
		}
		nodes[id] = n
	}
	return nodes, nil
}

// chat gives the current branch of a conversation.
func (w *writer) chat(at exchange.LineError, f fields, c *chat) error {
	created := f["create_time"]
	out := &conversation{at: at, created: w.when(valueOf(created)), metadata: map[string]any{}}
	if at.ID != "" {
		out.metadata["title"] = at.ID
	}
	for key, of := range map[string]string{"model": "default_model_slug", "gizmo_id": "gizmo_id"} {
		if value := f.text(of); value != "" {
			out.metadata[key] = value
		}
	}
	if string(f["is_archived"]) == "true" {
		out.metadata["archived"] = true
	}
	id, other := f.text("conversation_id"), f.text("id")
	c.id = cmp.Or(id, other)
	w.unplaced("of conversations", f, "create_time", "is_archived")
	branch, broken := c.branch()
	if c.id == "" {
		c.id = w.contentID(at.ID, string(created), c.beginning())
	}
	out.id = idOf(w.format, c.id)
	var all []*message
	on := map[string]bool{}
	for _, id := range branch {
		on[id] = true
		if n := c.nodes[id]; n.says() { // the root of a tree says nothing
			m, err := w.chatMessage(at, out.id, id, n.Message)
			if err != nil {
				return err
			}
			all = append(all, m)
		}
	}
	for id, n := range c.nodes {
		if !on[id] && n.says() {
			w.leave("messages of other branches", 1)
		}
	}
	if broken != nil {
		if err := w.skip(at, broken); err != nil {
			return err
		}
	}
	return w.conversation(out, all)
}

// valueOf is a value of JSON that was read already.
func valueOf(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	v, _ := decodeAny(raw) // it is part of valid JSON
	return v
}

// branch is the way from the root to the current node. An error says where the way breaks off;
// what lies below that place is returned all the same.
func (c *chat) branch() (ids []string, broken error) {
	at := c.current
	if _, ok := c.nodes[at]; !ok {
		if at != "" {
			broken = fmt.Errorf("its current node %.80q is not in the tree; its newest branch is taken", at)
		}
		at = c.newest()
	}
	seen := map[string]bool{}
	for at != "" {
		if seen[at] {
			broken = fmt.Errorf("its tree has a cycle at node %.80q; the messages up to there are taken", at)
			break
		}
		n, ok := c.nodes[at]
		if !ok {
			broken = fmt.Errorf("node %.80q of its tree is missing; the messages behind it are taken", at)
			break
		}
		seen[at] = true
		ids = append(ids, at)
		at = n.Parent
	}
	slices.Reverse(ids)
	return ids, broken
}

// newest is the leaf with the newest message, the first by name where there are several.
func (c *chat) newest() string {
	parents := map[string]bool{}
	for _, n := range c.nodes {
		parents[n.Parent] = true
	}
	best, when := "", 0.0
	for id, n := range c.nodes {
		if parents[id] || !n.says() {
			continue
		}
		if best == "" || n.time > when || n.time == when && id < best {
			best, when = id, n.time
		}
	}
	return best
}

// beginning identifies a conversation by its start, which stays the same when messages are added: its root, and the
// first node behind it.
func (c *chat) beginning() string {
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		if n := c.nodes[id]; n.Parent == "" {
			first := id
			if len(n.Children) > 0 {
				first += "/" + n.Children[0]
				if child := c.nodes[n.Children[0]]; child != nil {
					first += "/" + canonical(child.Message)
				}
			}
			return first + canonical(n.Message)
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(c.nodes)), "/")
}

// chatMessage is a message of a branch. What ChatGPT has kept of the user goes out as facts.
func (w *writer) chatMessage(at exchange.LineError, run, node string, raw []byte) (*message, error) {
	m := &message{metadata: map[string]any{}}
	f, err := readFields(raw)
	if err != nil {
		return m, w.skip(at, err)
	}
	author, meta, content := w.inner(f, "author"), w.inner(f, "metadata"), w.inner(f, "content")
	m.ID = cmp.Or(f.text("id"), node)
	m.Role, m.Name = string(roleOf(author.text("role"))), author.text("name")
	m.at = w.when(valueOf(f["create_time"]))
	if model := meta.text("model_slug"); model != "" {
		m.metadata["model"] = model
	}
	recipient, channel := f.text("recipient"), f.text("channel")
	m.aside = string(meta["is_visually_hidden_from_conversation"]) == "true"
	if !isNothing(meta["attachments"]) {
		var attached []json.RawMessage
		_ = json.Unmarshal(meta["attachments"], &attached)
		w.leave("attached files", max(len(attached), 1))
	}
	w.unplaced("of messages", f, "create_time")
	w.unplaced("of authors", author)
	w.unplaced("of metadata", meta, "is_visually_hidden_from_conversation", "attachments")
	typ := content.text("content_type")
	if !slices.Contains([]string{"", "text", "multimodal_text"}, typ) {
		m.metadata["content_type"] = typ
	}
	words := w.chatWords(content)
	switch {
	case typ == "thoughts" || typ == "reasoning_recap" || channel == "analysis":
		m.aside = true
		m.Parts = list(append(w.thoughts(content), thought(words)...))
	case typ == "user_editable_context":
		m.aside = true
		err = w.instructions(at, content, m)
	case typ == "model_editable_context":
		m.aside = true
		err = w.savedMemories(at, content, m)
	case m.Role == "assistant" && recipient != "" && recipient != "all":
		m.aside = true
		call := map[string]any{"type": "tool_use", "name": recipient, "input": map[string]string{"text": strings.Join(words, "\n")}}
		part, _ := json.Marshal(call) // texts
		m.Parts = list([]json.RawMessage{part})
		if recipient == "bio" {
			err = w.fact(at, strings.Join(words, "\n"), m.at, map[string]any{"conversation": run, "saved_by": "bio"}, run, m.ID)
		}
	default:
		m.Text = strings.Join(words, "\n")
	}
	w.unplaced("of contents", content)
	return m, err
}

// inner takes an object within another. What is no object is counted.
func (w *writer) inner(f fields, key string) fields {
	raw := f[key]
	inner, err := readFields(raw)
	if err != nil {
		if !isNothing(raw) {
			w.leave(key+" of messages that cannot be read", 1)
		}
		inner = fields{}
	}
	delete(f, key)
	return inner
}

// chatWords takes what of a content is text. Parts that have none are counted by their type.
func (w *writer) chatWords(content fields) (words []string) {
	add := func(s string) {
		if strings.TrimSpace(s) != "" {
			words = append(words, s)
		}
	}
	var parts []json.RawMessage
	if raw, ok := content["parts"]; ok && json.Unmarshal(raw, &parts) == nil {
		delete(content, "parts")
	}
	for _, raw := range parts {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			add(s)
			continue
		}
		part, err := readFields(raw)
		if err != nil {
			w.leave("parts: of no type", 1)
			continue
		}
		typ, text := part.text("content_type"), part.text("text")
		if text == "" {
			w.leave("parts: "+cut(cmp.Or(typ, "of no type")), 1)
			continue
		}
		add(text)
		w.unplaced("of parts", part)
	}
	for _, key := range []string{"text", "result", "content"} {
		add(content.text(key))
	}
	return words
}

// thoughts takes what a model has thought, a part for each.
func (w *writer) thoughts(content fields) (parts []json.RawMessage) {
	var all []json.RawMessage
	if json.Unmarshal(content["thoughts"], &all) == nil {
		delete(content, "thoughts")
	}
	for _, raw := range all {
		f, err := readFields(raw)
		if err != nil {
			w.leave("thoughts that cannot be read", 1)
			continue
		}
		said := []string{f.text("summary"), f.text("content")}
		parts = append(parts, thought(slices.DeleteFunc(said, func(s string) bool { return s == "" }))...)
		w.unplaced("of thoughts", f, "chunks")
	}
	return parts
}

// thought is a part that a model thinks.
func thought(words []string) []json.RawMessage {
	if len(words) == 0 {
		return nil
	}
	return []json.RawMessage{partOf("thinking", "thinking", strings.Join(words, "\n"))}
}

// instructions are those that a user has given for all conversations: each is a fact.
func (w *writer) instructions(at exchange.LineError, content fields, m *message) error {
	var all []string
	for _, of := range [][2]string{{"user_profile", "about the user"}, {"user_instructions", "how to answer"}} {
		key, name := of[0], of[1]
		text := content.text(key)
		if strings.TrimSpace(text) == "" {
			continue
		}
		all = append(all, text)
		if err := w.fact(at, text, time.Time{}, map[string]any{"custom_instructions": name}, key, text); err != nil {
			return err
		}
	}
	m.Role, m.Text = "system", strings.Join(all, "\n")
	return nil
}

// savedLine is a memory that ChatGPT has saved, in the list of all: "1. [2024-05-01]. Has a dog."
var savedLine = regexp.MustCompile(`^\s*\d+\.\s+\[(\d{4}-\d\d-\d\d)\]\.?\s*(.+)$`)

// savedMemories gives a fact for each line of the list of saved memories that the model was shown.
func (w *writer) savedMemories(at exchange.LineError, content fields, m *message) error {
	m.Role, m.Text = "system", content.text("model_set_context")
	for line := range strings.Lines(m.Text) {
		found := savedLine.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue
		}
		saved, ok := scalar.Written(found[1])
		if !ok {
			continue // the line is in the message
		}
		if err := w.fact(at, found[2], saved, map[string]any{"saved_by": "bio"}, found[1], found[2]); err != nil {
			return err
		}
	}
	return nil
}
