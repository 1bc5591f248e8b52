package move

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// readClaude reads what Claude exports: conversations, projects or memories.
func readClaude(in *Input, w *writer) error {
	return eachUnder(in, w, "conversation", nil, func(at exchange.LineError, raw []byte) error {
		f, err := readFields(raw)
		if err != nil {
			return w.skip(at, err)
		}
		_, prompt := f["prompt_template"]
		_, docs := f["docs"]
		_, memories := f["conversations_memory"]
		_, ofProjects := f["project_memories"]
		switch {
		case f["chat_messages"] != nil:
			return w.claudeChat(at, f)
		case docs || prompt:
			return w.claudeProject(at, f)
		case memories || ofProjects:
			return w.claudeMemories(at, f)
		}
		return w.skip(at, errors.New(`it is no conversation with "chat_messages", no project with "docs", and no "conversations_memory"`))
	})
}

// claudeMessage is a message of a conversation.
type claudeMessage struct {
	id, parent string
	at         time.Time
	fields     fields
}

// claudeChat gives a conversation, and what was attached to it as fragments.
func (w *writer) claudeChat(at exchange.LineError, f fields) error {
	var list []json.RawMessage
	if err := json.Unmarshal(f["chat_messages"], &list); err != nil {
		return w.skip(at, errors.New(`"chat_messages" is no list`))
	}
	delete(f, "chat_messages")
	created := f["created_at"]
	at.ID = f.text("name")
	out := &conversation{at: at, created: w.when(valueOf(created)), metadata: map[string]any{}}
	for key, value := range map[string]string{"title": at.ID, "summary": f.text("summary")} {
		if value != "" {
			out.metadata[key] = value
		}
	}
	id, leaf := f.text("uuid"), f.text("current_leaf_message_uuid")
	w.unplaced("of conversations", f, "created_at")
	var all []*claudeMessage
	for i, raw := range list {
		m, err := readFields(raw)
		if err != nil {
			return w.skip(at, fmt.Errorf("message %d: %w", i+1, err))
		}
		all = append(all, &claudeMessage{
			id: cmp.Or(m.text("uuid"), fmt.Sprintf("message-%d", i+1)), parent: m.text("parent_message_uuid"), at: w.when(valueOf(m["created_at"])), fields: m,
		})
	}
	if id == "" {
		first := ""
		if len(list) > 0 {
			first = canonical(list[0])
		}
		id = w.contentID(at.ID, string(created), first)
	}
	out.id = idOf(w.format, id)
	branch, broken := claudeBranch(all, leaf)
	w.leave("messages of other branches", len(all)-len(branch))
	if broken != nil {
		if err := w.skip(at, broken); err != nil {
			return err
		}
	}
	var said []*message
	for _, m := range branch {
		told := w.claudeMessage(m)
		attached, err := w.attachments(at, out.id, m)
		if err != nil {
			return err
		}
		if empty, _ := told.Empty(); !empty || !attached {
			said = append(said, told)
		}
	}
	return w.conversation(out, said)
}

// claudeBranch is the way to a leaf, or, where none is named, to the newest one. Messages that name
// no parents are all taken.
func claudeBranch(all []*claudeMessage, leaf string) (branch []*claudeMessage, broken error) {
	by := make(map[string]*claudeMessage, len(all))
	parents := map[string]bool{}
	for _, m := range all {
		by[m.id] = m
		parents[m.parent] = true
	}
	at := by[leaf]
	if at == nil {
		linked := 0
		for _, m := range all {
			if by[m.parent] != nil {
				linked++
			}
			if !parents[m.id] && (at == nil || !m.at.Before(at.at)) {
				at = m
			}
		}
		if linked != len(all)-1 { // it is no tree
			return all, nil
		}
	}
	seen := map[*claudeMessage]bool{}
	for m := at; m != nil; m = by[m.parent] {
		if seen[m] {
			broken = fmt.Errorf("its messages have a cycle at %.80q; those up to there are taken", m.id)
			break
		}
		seen[m] = true
		branch = append(branch, m)
	}
	slices.Reverse(branch)
	return branch, broken
}

// claudeMessage is a message, of which only what is attached may have a text.
func (w *writer) claudeMessage(c *claudeMessage) *message {
	f := c.fields
	m := &message{at: c.at}
	m.ID, m.Role = c.id, string(roleOf(f.text("sender")))
	text := f.text("text")
	var content, parts []json.RawMessage
	if raw, ok := f["content"]; ok && json.Unmarshal(raw, &content) == nil {
		delete(f, "content")
	}
	var words []string
	for _, raw := range content {
		part, err := readFields(raw)
		if err != nil || part.text("type") != "text" {
			parts = append(parts, raw)
			continue
		}
		said := part.text("text")
		w.unplaced("of parts", part)
		if said != "" {
			parts, words = append(parts, textPart(said)), append(words, said)
		}
	}
	m.say(parts, words)
	switch {
	case text == "" || strings.Join(words, "\n") == text:
	case len(words) == 0 && len(parts) == 0:
		m.Text = text
	case len(words) == 0: // the text repeats the parts
		w.leave("texts beside parts", 1)
	case strings.TrimSpace(strings.Join(words, "\n")) != strings.TrimSpace(text):
		w.leave("texts beside parts", 1)
	}
	return m
}

// attachments gives the texts that were attached to a message.
func (w *writer) attachments(at exchange.LineError, run string, m *claudeMessage) (given bool, err error) {
	f := m.fields
	var files, attached []json.RawMessage
	for key, to := range map[string]*[]json.RawMessage{"files": &files, "attachments": &attached} {
		if raw, ok := f[key]; ok && json.Unmarshal(raw, to) == nil {
			delete(f, key)
		}
	}
	w.leave("attached files", len(files))
	w.unplaced("of messages", f, "created_at")
	for i, raw := range attached {
		a, err := readFields(raw)
		text := ""
		if err == nil {
			text = a.text("extracted_content")
		}
		if strings.TrimSpace(text) == "" {
			w.leave("attached files", 1)
			continue
		}
		given = true
		name := a.text("file_name")
		w.unplaced("of attachments", a)
		err = w.memory(at, memory.Memory{
			ID: idOf(w.format, run, m.id, fmt.Sprint(i)), Scope: w.scope("", "", run), Kind: memory.KindFragment, Source: memory.SourceUserMessage,
			Text: text, Metadata: map[string]any{"file_name": name, "message": m.id}, CreatedAt: m.at,
		})
		if err != nil {
			return given, err
		}
	}
	return given, nil
}

// claudeProject gives the documents of a project, its description and its instructions.
func (w *writer) claudeProject(at exchange.LineError, f fields) error {
	at.Of = "project"
	created := w.when(valueOf(f["created_at"]))
	project, name := f.text("uuid"), f.text("name")
	at.ID = name
	given := 0
	give := func(id, what, text string, m map[string]any) error {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		given++
		m["project"], m["part"] = name, what
		return w.memory(at, memory.Memory{
			ID: idOf(w.format, cmp.Or(project, name), id), Scope: w.scope("", "", ""), Kind: memory.KindFragment, Text: text, Metadata: m, CreatedAt: created,
		})
	}
	err := give("description", "description", f.text("description"), map[string]any{})
	if err == nil {
		err = give("prompt_template", "instructions", f.text("prompt_template"), map[string]any{})
	}
	var docs []json.RawMessage
	if raw, ok := f["docs"]; ok && json.Unmarshal(raw, &docs) == nil {
		delete(f, "docs")
	}
	for i, raw := range docs {
		if err != nil {
			return err
		}
		d, wrong := readFields(raw)
		if wrong != nil {
			err = w.skip(at, fmt.Errorf("document %d: %w", i+1, wrong))
			continue
		}
		created = w.when(valueOf(d["created_at"]))
		id, file, text := d.text("uuid"), d.text("filename"), d.text("content")
		w.unplaced("of documents", d, "created_at")
		err = give(cmp.Or(id, file, fmt.Sprint(i)), "document", text, map[string]any{"file_name": file})
	}
	w.unplaced("of projects", f, "created_at")
	if given == 0 {
		w.leave("projects without a text", 1)
	}
	return err
}

// claudeMemories gives what Claude has noted of its conversations, in all and by project: facts.
func (w *writer) claudeMemories(at exchange.LineError, f fields) error {
	account := f.text("account_uuid")
	err := w.fact(at, f.text("conversations_memory"), time.Time{}, nil, account, "")
	var projects map[string]string
	if raw, ok := f["project_memories"]; ok && json.Unmarshal(raw, &projects) == nil {
		delete(f, "project_memories")
	}
	for _, project := range slices.Sorted(maps.Keys(projects)) {
		if err == nil {
			err = w.fact(at, projects[project], time.Time{}, map[string]any{"project": project}, account, project)
		}
	}
	w.unplaced("of memories", f)
	return err
}
