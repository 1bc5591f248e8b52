package move

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// readClaude reads what Claude exports: conversations, projects or memories.
func readClaude(in *Input, w *writer) error {
	return eachRecord(in, w, "conversation", func(at exchange.LineError, raw []byte) error {
		var c claudeRecord
		if err := exchange.Decode(raw, &c); err != nil {
			return w.skip(at, err)
		}
		at.ID = c.Name
		switch {
		case c.Messages != nil:
			return w.claudeChat(at, &c)
		case c.Docs != nil || c.Prompt != "":
			return w.claudeProject(at, &c)
		case c.Memory != "" || len(c.ProjectMemories) > 0:
			return w.claudeMemories(at, &c)
		}
		return w.skip(at, errors.New(`it is no conversation with "chat_messages", no project with "docs", and no "conversations_memory"`))
	})
}

type claudeRecord struct {
	UUID      string          `json:"uuid"`
	Name      string          `json:"name"`
	Summary   string          `json:"summary"`
	CreatedAt any             `json:"created_at"`
	Messages  []claudeMessage `json:"chat_messages"`
	Leaf      string          `json:"current_leaf_message_uuid"`

	Description string `json:"description"`
	Prompt      string `json:"prompt_template"`
	Docs        []struct {
		UUID      string `json:"uuid"`
		Filename  string `json:"filename"`
		Content   string `json:"content"`
		CreatedAt any    `json:"created_at"`
	} `json:"docs"`

	Memory          string            `json:"conversations_memory"`
	ProjectMemories map[string]string `json:"project_memories"`
	AccountUUID     string            `json:"account_uuid"`
}

type claudeMessage struct {
	UUID      string `json:"uuid"`
	Text      string `json:"text"`
	Sender    string `json:"sender"`
	CreatedAt any    `json:"created_at"`
	Parent    string `json:"parent_message_uuid"`
	Content   []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Attachments []struct {
		Name    string `json:"file_name"`
		Content string `json:"extracted_content"`
	} `json:"attachments"`
	Files []json.RawMessage `json:"files"`
}

// claudeChat gives a conversation, and what was attached to it as fragments.
func (w *writer) claudeChat(at exchange.LineError, c *claudeRecord) error {
	if c.UUID == "" {
		return w.skip(at, errors.New(`it has no "uuid"`))
	}
	out := &conversation{id: idOf(w.format, c.UUID), at: at, created: w.when(c.CreatedAt), metadata: map[string]any{}}
	for key, value := range map[string]string{"title": c.Name, "summary": c.Summary} {
		if value != "" {
			out.metadata[key] = value
		}
	}
	branch, broken := c.branch()
	w.leave("messages of other branches", len(c.Messages)-len(branch))
	if broken != nil {
		if err := w.skip(at, broken); err != nil {
			return err
		}
	}
	for i, m := range branch {
		told := w.claudeMessage(m, i)
		if err := w.attachments(at, out.id, &told, m); err != nil {
			return err
		}
		if strings.TrimSpace(told.text) != "" {
			out.messages = append(out.messages, told)
		}
	}
	if len(out.messages) == 0 {
		w.leave("conversations without a message", 1)
		return nil
	}
	return w.conversation(out)
}

// branch is the way to the current leaf, where the conversation names one; otherwise all messages.
func (c *claudeRecord) branch() (branch []*claudeMessage, broken error) {
	by := make(map[string]*claudeMessage, len(c.Messages))
	for i := range c.Messages {
		by[c.Messages[i].UUID] = &c.Messages[i]
	}
	if by[c.Leaf] == nil {
		for i := range c.Messages {
			branch = append(branch, &c.Messages[i])
		}
		return branch, nil
	}
	seen := map[*claudeMessage]bool{}
	for m := by[c.Leaf]; m != nil; m = by[m.Parent] {
		if seen[m] {
			broken = fmt.Errorf("its messages have a cycle at %.80q; those up to there are taken", m.UUID)
			break
		}
		seen[m] = true
		branch = append(branch, m)
	}
	slices.Reverse(branch)
	return branch, broken
}

// claudeMessage is a message, of which only what is attached may have a text.
func (w *writer) claudeMessage(m *claudeMessage, place int) message {
	var texts []string
	for _, part := range m.Content {
		if part.Type == "text" && part.Text != "" {
			texts = append(texts, part.Text)
		} else if part.Type != "text" {
			w.leave("parts: "+cmp.Or(part.Type, "of no type"), 1)
		}
	}
	text := m.Text
	if len(texts) > 0 {
		text = strings.Join(texts, "\n")
	}
	w.leave("attached files", len(m.Files))
	if strings.TrimSpace(text) == "" && len(m.Attachments) == 0 {
		w.leave("messages without a text", 1)
	}
	return message{id: cmp.Or(m.UUID, fmt.Sprintf("message-%d", place+1)), role: roleOf(m.Sender), text: text, at: w.when(m.CreatedAt)}
}

// attachments gives the texts that were attached to a message.
func (w *writer) attachments(at exchange.LineError, run string, told *message, m *claudeMessage) error {
	for i, a := range m.Attachments {
		if strings.TrimSpace(a.Content) == "" {
			w.leave("attached files", 1)
			continue
		}
		err := w.memory(at, memory.Memory{
			ID: idOf(w.format, run, told.id, fmt.Sprint(i)), Scope: w.scope("", "", run), Kind: memory.KindFragment, Source: memory.SourceUserMessage,
			Text: a.Content, Metadata: map[string]any{"file_name": a.Name, "message": told.id}, CreatedAt: told.at,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// claudeProject gives the documents of a project, its description and its instructions.
func (w *writer) claudeProject(at exchange.LineError, c *claudeRecord) error {
	created := w.when(c.CreatedAt)
	give := func(id, what, text string, m map[string]any) error {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		m["project"], m["part"] = c.Name, what
		return w.memory(at, memory.Memory{
			ID: idOf(w.format, c.UUID, id), Scope: w.scope("", "", ""), Kind: memory.KindFragment, Text: text, Metadata: m, CreatedAt: created,
		})
	}
	err := give("description", "description", c.Description, map[string]any{})
	if err == nil {
		err = give("prompt_template", "instructions", c.Prompt, map[string]any{})
	}
	for _, d := range c.Docs {
		if err != nil {
			return err
		}
		created = w.when(d.CreatedAt)
		err = give(d.UUID, "document", d.Content, map[string]any{"file_name": d.Filename})
	}
	return err
}

// claudeMemories gives what Claude has noted of its conversations, in all and by project.
func (w *writer) claudeMemories(at exchange.LineError, c *claudeRecord) error {
	give := func(project, text string) error {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		m := memory.Memory{
			ID: idOf(w.format, c.AccountUUID, project), Scope: w.scope("", "", ""), Kind: memory.KindSummary, Text: text,
		}
		if project != "" {
			m.Metadata = map[string]any{"project": project}
		}
		return w.memory(at, m)
	}
	err := give("", c.Memory)
	for project, text := range c.ProjectMemories {
		if err == nil {
			err = give(project, text)
		}
	}
	return err
}
