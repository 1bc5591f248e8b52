package move

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// chat is a conversation as ChatGPT exports it: a tree of messages, as each edit of a question
// begins a branch.
type chat struct {
	ID             string              `json:"id"`
	ConversationID string              `json:"conversation_id"`
	Title          string              `json:"title"`
	CreateTime     any                 `json:"create_time"`
	CurrentNode    string              `json:"current_node"`
	Mapping        map[string]chatNode `json:"mapping"`
	Model          string              `json:"default_model_slug"`
	GizmoID        string              `json:"gizmo_id"`
	Archived       bool                `json:"is_archived"`
}

type chatNode struct {
	Message *chatMessage `json:"message"`
	Parent  string       `json:"parent"`
}

type chatMessage struct {
	ID     string `json:"id"`
	Author struct {
		Role string `json:"role"`
		Name string `json:"name"`
	} `json:"author"`
	CreateTime any `json:"create_time"`
	Content    struct {
		Type         string            `json:"content_type"`
		Parts        []json.RawMessage `json:"parts"`
		Text         string            `json:"text"`
		Result       string            `json:"result"`
		Content      string            `json:"content"`
		Profile      string            `json:"user_profile"`
		Instructions string            `json:"user_instructions"`
		Thoughts     []struct {
			Summary string `json:"summary"`
			Content string `json:"content"`
		} `json:"thoughts"`
	} `json:"content"`
	Metadata struct {
		Model       string            `json:"model_slug"`
		Hidden      bool              `json:"is_visually_hidden_from_conversation"`
		Attachments []json.RawMessage `json:"attachments"`
	} `json:"metadata"`
}

// readChatGPT reads a list of conversations, or one.
func readChatGPT(in *Input, w *writer) error {
	return eachRecord(in, w, "conversation", func(at exchange.LineError, raw []byte) error {
		var c chat
		if err := exchange.Decode(raw, &c); err != nil {
			return w.skip(at, err)
		}
		at.ID = c.Title
		if c.Mapping == nil {
			return w.skip(at, errors.New(`it has no "mapping", the tree of its messages`))
		}
		if c.ID = cmp.Or(c.ConversationID, c.ID); c.ID == "" {
			return w.skip(at, errors.New(`it has neither "conversation_id" nor "id"`))
		}
		return w.chat(at, &c)
	})
}

// eachRecord visits the records of a document that is a list of them, or one after another.
func eachRecord(in *Input, w *writer, of string, visit func(at exchange.LineError, raw []byte) error) error {
	s, err := exchange.NewSplitter(in.Reader)
	if err != nil {
		return err
	}
	n := 0
	walk := &walk{Splitter: s, enter: topList, visit: func(_ string, _ int, raw []byte, err error) error {
		n++
		w.read = s.Bytes()
		at := exchange.LineError{Line: n, Of: of}
		if err != nil {
			return w.skip(at, err)
		}
		return visit(at, raw)
	}}
	return walk.run()
}

// topList enters the list that a document is.
func topList(path string) bool { return path == "" }

// chat gives the current branch of a conversation.
func (w *writer) chat(at exchange.LineError, c *chat) error {
	branch, broken := c.branch()
	out := &conversation{id: idOf(w.format, c.ID), at: at, created: w.when(c.CreateTime), metadata: map[string]any{}}
	for key, value := range map[string]string{"title": c.Title, "model": c.Model, "gizmo_id": c.GizmoID} {
		if value != "" {
			out.metadata[key] = value
		}
	}
	if c.Archived {
		out.metadata["archived"] = true
	}
	on := map[string]bool{}
	for _, id := range branch {
		on[id] = true
		m := c.Mapping[id].Message
		if m == nil {
			continue // the root of a tree says nothing
		}
		if told := w.chatMessage(m, id); told != nil {
			out.messages = append(out.messages, *told)
		}
	}
	for id, n := range c.Mapping {
		if !on[id] && n.Message != nil {
			w.leave("messages of other branches", 1)
		}
	}
	if broken != nil {
		if err := w.skip(at, broken); err != nil {
			return err
		}
	}
	if len(out.messages) == 0 {
		w.leave("conversations without a message", 1)
		return nil
	}
	return w.conversation(out)
}

// branch is the way from the root to the current node. An error says where the way breaks off;
// what lies below that place is returned all the same.
func (c *chat) branch() (ids []string, broken error) {
	at := c.CurrentNode
	if _, ok := c.Mapping[at]; !ok {
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
		n, ok := c.Mapping[at]
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
	for _, n := range c.Mapping {
		parents[n.Parent] = true
	}
	best, when := "", 0.0
	for id, n := range c.Mapping {
		if parents[id] || n.Message == nil {
			continue
		}
		t, _ := n.Message.CreateTime.(float64)
		if best == "" || t > when || t == when && id < best {
			best, when = id, t
		}
	}
	return best
}

// chatMessage is a message of the branch, nil for one that says nothing.
func (w *writer) chatMessage(m *chatMessage, node string) *message {
	if m.Metadata.Hidden {
		w.leave("hidden messages", 1)
		return nil
	}
	w.leave("attached files", len(m.Metadata.Attachments))
	text := w.chatText(m)
	if strings.TrimSpace(text) == "" {
		w.leave("messages without a text", 1)
		return nil
	}
	told := &message{id: cmp.Or(m.ID, node), role: roleOf(m.Author.Role), name: m.Author.Name, text: text, at: w.when(m.CreateTime)}
	if m.Metadata.Model != "" {
		told.metadata = map[string]any{"model": m.Metadata.Model}
	}
	if kind := m.Content.Type; kind != "" && kind != "text" && kind != "multimodal_text" {
		if told.metadata == nil {
			told.metadata = map[string]any{}
		}
		told.metadata["content_type"] = kind
	}
	return told
}

// chatText is what of a content is text. What is not is counted by its type.
func (w *writer) chatText(m *chatMessage) string {
	c := &m.Content
	var texts []string
	add := func(s string) {
		if strings.TrimSpace(s) != "" {
			texts = append(texts, s)
		}
	}
	for _, raw := range c.Parts {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			add(s)
			continue
		}
		var part struct {
			Type string `json:"content_type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &part) != nil || part.Text == "" {
			w.leave("parts: "+cmp.Or(part.Type, "of no type"), 1)
			continue
		}
		add(part.Text)
	}
	for _, s := range []string{c.Text, c.Result, c.Content, c.Profile, c.Instructions} {
		add(s)
	}
	for _, t := range c.Thoughts {
		add(cmp.Or(t.Content, t.Summary))
	}
	return strings.Join(texts, "\n")
}
