package move

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/messages"
)

// Coding agents write a transcript while they work, a line for each event. A file may be of any
// length, so its messages are given one after another, behind their session.

// A transcript is a file of a coding agent.
type transcript struct {
	*writer
	name  string
	begun map[string]*conversation
}

// maxSessions bounds the sessions of one file.
const maxSessions = 10_000

func newTranscript(in *Input, w *writer) *transcript {
	name := path.Base(strings.ReplaceAll(in.Name, "\\", "/"))
	name, _, _ = strings.Cut(name, ".json")
	return &transcript{writer: w, name: name, begun: map[string]*conversation{}}
}

// of is the session of an ID, which begins here if it is new.
func (t *transcript) of(at exchange.LineError, id string, f fields, known ...string) (*conversation, error) {
	id = idOf(t.format, cmp.Or(id, t.name))
	if c := t.begun[id]; c != nil {
		c.at = at
		return c, nil
	}
	if len(t.begun) >= maxSessions {
		return nil, fmt.Errorf("the file has more than %d sessions", maxSessions)
	}
	c := &conversation{id: id, at: at, metadata: map[string]any{}}
	if f["timestamp"] != nil {
		c.created = t.when(valueOf(f["timestamp"]))
	}
	for _, key := range known {
		if raw := f[key]; !isNothing(raw) && len(raw) <= maxRemark {
			c.metadata[key] = valueOf(raw)
		}
	}
	t.begun[id] = c
	if len(t.sessions) < maxSessions {
		t.sessions[id] = true
	}
	return c, t.session(c)
}

// maxRemark bounds a value in the metadata of a session.
const maxRemark = 4 << 10

// isRemark reports whether the text of a user message was written by the program, which
// writes them between tags.
func isRemark(words string) bool {
	words = strings.TrimSpace(words)
	if strings.HasPrefix(words, "# AGENTS.md instructions") || strings.HasPrefix(words, "Caveat: The messages below") {
		return true
	}
	if !strings.HasPrefix(words, "<") {
		return false
	}
	tag, _, ok := strings.Cut(words[1:], ">")
	tag, _, _ = strings.Cut(tag, " ")
	return ok && slices.Contains(remarkTags, tag)
}

var remarkTags = []string{
	"command-name", "command-message", "command-args", "local-command-stdout", "local-command-stderr", "local-command-caveat", "system-reminder",
	"bash-input", "bash-stdout", "bash-stderr", "user-prompt-submit-hook", "task-notification", "environment_context", "user_instructions",
	"INSTRUCTIONS", "permissions", "collaboration_mode", "turn_aborted", "user_shell_command", "skill", "session_context", "user_action", "subagent_notification",
}

// readClaudeCode reads transcripts of Claude Code.
func readClaudeCode(in *Input, w *writer) error {
	t := newTranscript(in, w)
	return eachUnder(in, w, "line", nil, func(at exchange.LineError, raw []byte) error {
		f, err := readFields(raw)
		if err != nil {
			return w.skip(at, err)
		}
		return t.claudeCode(at, f)
	})
}

// claudeKeys are the keys of a line that its session says for all of them.
var claudeKeys = []string{"cwd", "gitBranch", "version"}

func (t *transcript) claudeCode(at exchange.LineError, f fields) error {
	typ := f.text("type")
	m := &message{at: t.when(valueOf(f["timestamp"]))}
	switch typ {
	case "user", "assistant":
		read, err := messages.Read(f["message"], nil)
		if err != nil {
			return t.skip(at, fmt.Errorf("its message: %w", err))
		}
		m.Message = *read
		m.Role = cmp.Or(m.Role, typ)
	case "system":
		m.Role, m.Text = "system", f.text("content")
	case "summary":
		m.Role, m.Parts = "system", list([]json.RawMessage{partOf("summary", "summary", f.text("summary"))})
		m.ID = "summary-" + f.text("leafUuid")
	default:
		t.leave("lines of type "+cut(cmp.Or(typ, "none")), 1)
		return nil
	}
	delete(f, "message")
	session, agent := f.text("sessionId"), f.text("agentId")
	side := string(f["isSidechain"]) == "true"
	if side { // the talk of an agent with its helper
		session = cmp.Or(session, t.name) + "/" + cmp.Or(agent, "sidechain")
	}
	m.ID = cmp.Or(f.text("uuid"), m.ID, fmt.Sprintf("line-%d", at.Line))
	m.aside = side || string(f["isMeta"]) == "true" || string(f["isCompactSummary"]) == "true" || m.Role == "user" && isRemark(m.Words())
	c, err := t.of(at, session, f, claudeKeys...)
	if err != nil {
		return err
	}
	for _, key := range claudeKeys {
		if c.metadata[key] == valueOf(f[key]) {
			delete(f, key)
		}
	}
	t.unplaced("of lines", f, "timestamp", "parentUuid", "isSidechain", "isMeta", "isCompactSummary")
	return t.message(c, m)
}

// readCodex reads rollouts of Codex, of today's form and of the older ones.
func readCodex(in *Input, w *writer) error {
	t := newTranscript(in, w)
	current := ""
	return eachUnder(in, w, "line", nil, func(at exchange.LineError, raw []byte) error {
		f, err := readFields(raw)
		if err != nil {
			return w.skip(at, err)
		}
		return t.codex(at, f, raw, &current)
	})
}

// codexKeys are the keys of what a rollout begins with that describe its session.
var codexKeys = []string{"cwd", "originator", "cli_version", "source", "model_provider", "git"}

func (t *transcript) codex(at exchange.LineError, f fields, raw []byte, current *string) error {
	typ := f.text("type")
	payload := f["payload"]
	switch {
	case f["session"] != nil && f["items"] != nil:
		return t.codexWhole(at, f, current)
	case typ == "session_meta":
		meta, err := readFields(payload)
		if err != nil {
			return t.skip(at, err)
		}
		return t.codexMeta(at, meta, current)
	case typ == "" && f["record_type"] != nil:
		t.leave("lines of type "+cut(f.text("record_type")), 1)
		return nil
	case typ == "" && f["instructions"] != nil && f["id"] != nil:
		return t.codexMeta(at, f, current)
	case typ == "response_item":
		return t.codexItem(at, payload, f, *current)
	case typ == "compacted":
		c, err := t.of(at, *current, f)
		if err != nil {
			return err
		}
		m := &message{at: t.when(valueOf(f["timestamp"])), aside: true}
		m.ID, m.Role, m.Parts = fmt.Sprintf("line-%d", at.Line), "system", list([]json.RawMessage{payload})
		return t.message(c, m)
	case typ == "event_msg" || typ == "turn_context" || payload != nil:
		what := typ
		if inner, err := readFields(payload); err == nil {
			what = strings.TrimSuffix(typ+" "+inner.text("type"), " ")
		}
		t.leave("lines of type "+cut(what), 1)
		return nil
	}
	return t.codexItem(at, raw, f, *current)
}

// codexMeta begins a session.
func (t *transcript) codexMeta(at exchange.LineError, meta fields, current *string) error {
	id := meta.text("id")
	if *current != "" && *current != id {
		t.leave("lines of type session_meta", 1) // of the session that this one continues
		return nil
	}
	*current = id
	c, err := t.of(at, id, meta, codexKeys...)
	if err != nil {
		return err
	}
	given := meta.text("instructions")
	if inner, err := readFields(meta["base_instructions"]); err == nil && given == "" {
		given = inner.text("text")
		delete(meta, "base_instructions")
	}
	t.unplaced("of session_meta", meta, append(codexKeys, "timestamp")...)
	if given == "" {
		return nil
	}
	m := &message{aside: true}
	m.ID, m.Role, m.Text = "instructions", "system", given
	return t.message(c, m)
}

// codexItem gives an item of the conversation. around are the keys of its line.
func (t *transcript) codexItem(at exchange.LineError, item []byte, around fields, current string) error {
	m, err := t.anyMessage(item)
	if err != nil {
		return t.skip(at, err)
	}
	m.ID = cmp.Or(m.ID, fmt.Sprintf("line-%d", at.Line))
	if m.at.IsZero() {
		m.at = t.when(valueOf(around["timestamp"]))
	}
	m.aside = m.Role == "user" && isRemark(m.Words())
	c, err := t.of(at, current, around)
	if err != nil {
		return err
	}
	if around["payload"] != nil {
		t.unplaced("of lines", around, "payload", "timestamp")
	}
	return t.message(c, m)
}

// codexWhole gives a rollout that is one object.
func (t *transcript) codexWhole(at exchange.LineError, f fields, current *string) error {
	meta, err := readFields(f["session"])
	if err != nil {
		return t.skip(at, err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(f["items"], &items); err != nil {
		return t.skip(at, errors.New(`"items" is no list`))
	}
	*current = ""
	id := meta.text("id")
	meta["id"] = json.RawMessage(jsonText(id))
	if err := t.codexMeta(at, meta, current); err != nil {
		return err
	}
	for i, item := range items {
		at.Line = i + 1
		if err := t.codexItem(at, item, fields{}, id); err != nil {
			return err
		}
	}
	t.unplaced("of rollouts", f, "session", "items")
	return nil
}

// jsonText is a text as JSON.
func jsonText(s string) []byte {
	raw, _ := json.Marshal(s) // a text
	return raw
}

// readGeminiCLI reads the sessions of Gemini CLI: one object, or lines, of which a later one replaces
// an earlier one of its ID; and the log of what users said.
func readGeminiCLI(in *Input, w *writer) error {
	t := newTranscript(in, w)
	g := &gemini{transcript: t, by: map[string]int{}}
	err := eachUnder(in, w, "session", nil, func(at exchange.LineError, raw []byte) error {
		f, err := readFields(raw)
		if err != nil {
			return w.skip(at, err)
		}
		return g.record(at, f)
	})
	if err != nil {
		return err
	}
	return g.end()
}

// gemini is a session that is read.
type gemini struct {
	*transcript
	at   exchange.LineError
	meta fields
	list []fields
	by   map[string]int // their places by ID
	size int
}

func (g *gemini) record(at exchange.LineError, f fields) error {
	switch {
	case f["messageId"] != nil && f["message"] != nil:
		return g.logged(at, f)
	case f["sessionId"] != nil:
		if err := g.end(); err != nil {
			return err
		}
		var list []json.RawMessage
		if raw, ok := f["messages"]; ok && json.Unmarshal(raw, &list) == nil {
			delete(f, "messages")
		}
		g.at, g.meta = at, f
		for i, raw := range list {
			m, err := readFields(raw)
			if err != nil {
				if err := g.skip(at, fmt.Errorf("message %d: %w", i+1, err)); err != nil {
					return err
				}
				continue
			}
			if err := g.add(m, len(raw)); err != nil {
				return err
			}
		}
		return nil
	case f["$rewindTo"] != nil:
		if at, ok := g.by[f.text("$rewindTo")]; ok {
			g.leave("messages of other branches", len(g.list)-at)
			for _, m := range g.list[at:] {
				delete(g.by, idIn(m))
			}
			g.list = g.list[:at]
		}
		return nil
	case f["$set"] != nil:
		g.leave("changes of what describes a session", 1)
		return nil
	case f["type"] != nil && g.meta != nil:
		return g.add(f, len(f)*overhead)
	}
	return g.skip(at, errors.New(`it is neither a session with "sessionId" nor a message of one`))
}

func idIn(m fields) string {
	var id string
	_ = json.Unmarshal(m["id"], &id) // one of another type is none
	return id
}

// add takes a message. One with the ID of another takes its place.
func (g *gemini) add(m fields, size int) error {
	if g.size += size; g.size > exchange.MaxLine {
		return errLongChat
	}
	id := idIn(m)
	if at, ok := g.by[id]; ok && id != "" {
		g.list[at] = m
		return nil
	}
	g.by[id] = len(g.list)
	g.list = append(g.list, m)
	return nil
}

// end gives the session.
func (g *gemini) end() error {
	meta := g.meta
	if meta == nil {
		return nil
	}
	if raw := meta["startTime"]; raw != nil {
		meta["timestamp"] = raw
	}
	list := g.list
	g.meta, g.list, g.by, g.size = nil, nil, map[string]int{}, 0
	if len(list) == 0 {
		g.leave("conversations without a message", 1)
		return nil
	}
	c, err := g.of(g.at, meta.text("sessionId"), meta, "projectHash", "kind", "directories")
	if err != nil {
		return err
	}
	g.unplaced("of sessions", meta, "timestamp", "startTime", "projectHash", "kind", "directories")
	for i, f := range list {
		if err := g.turn(c, i, f); err != nil {
			return err
		}
	}
	return nil
}

// turn gives a message, and behind it the results of the tools that it called.
func (g *gemini) turn(c *conversation, n int, f fields) error {
	m := &message{at: g.when(valueOf(f["timestamp"])), metadata: map[string]any{}}
	typ := f.text("type")
	m.ID = cmp.Or(f.text("id"), fmt.Sprintf("message-%d", n+1))
	m.Role = "system"
	switch typ {
	case "user":
		m.Role = "user"
	case "gemini":
		m.Role = "assistant"
	}
	if model := f.text("model"); model != "" {
		m.metadata["model"] = model
	}
	var parts, results []json.RawMessage
	var words []string
	for _, raw := range elements(f["thoughts"]) {
		t, err := readFields(raw)
		if err != nil {
			g.leave("thoughts that cannot be read", 1)
			continue
		}
		said := slices.DeleteFunc([]string{t.text("subject"), t.text("description")}, func(s string) bool { return s == "" })
		parts = append(parts, thought(said)...)
		g.unplaced("of thoughts", t)
	}
	for _, raw := range elements(f["content"]) {
		text := textOf(raw)
		if text != "" {
			parts, words = append(parts, textPart(text)), append(words, text)
		} else if !isNothing(raw) {
			parts = append(parts, raw)
		}
	}
	for _, raw := range elements(f["toolCalls"]) {
		call, err := readFields(raw)
		if err != nil {
			g.leave("calls that cannot be read", 1)
			continue
		}
		made := map[string]any{"id": call.text("id"), "name": call.text("name"), "args": valueOf(call["args"])}
		part, err := json.Marshal(map[string]any{"functionCall": made})
		if err != nil {
			return err
		}
		parts = append(parts, part)
		results = append(results, elements(call["result"])...)
		g.unplaced("of calls", call, "args", "result")
	}
	m.say(parts, words)
	m.aside = m.Role == "user" && isRemark(m.Words())
	g.unplaced("of messages", f, "timestamp", "thoughts", "content", "toolCalls")
	if err := g.message(c, m); err != nil || len(results) == 0 {
		return err
	}
	answer := &message{at: m.at}
	answer.ID, answer.Role, answer.Parts = m.ID+"/results", "tool", list(results)
	return g.message(c, answer)
}

// elements are the values of a list, or the value itself.
func elements(raw json.RawMessage) (all []json.RawMessage) {
	if isNothing(raw) {
		return nil
	}
	if raw[0] != '[' || json.Unmarshal(raw, &all) != nil {
		return []json.RawMessage{raw}
	}
	return all
}

// textOf is a text, or that of a part which has nothing else.
func textOf(raw json.RawMessage) (text string) {
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if f, err := readFields(raw); err == nil && len(f) == 1 {
		return f.text("text")
	}
	return ""
}

// logged gives an entry of the log. It has nothing that the transcript of its session lacks.
func (g *gemini) logged(at exchange.LineError, f fields) error {
	id := f.text("sessionId")
	if c := g.begun[idOf(g.format, id)]; c == nil && g.sessions[idOf(g.format, id)] {
		g.leave("entries of the log whose session was read", 1)
		return nil
	}
	c, err := g.of(at, id, f)
	if err != nil {
		return err
	}
	m := &message{at: g.when(valueOf(f["timestamp"]))}
	m.ID, m.Role, m.Text = "log-"+f.word("messageId"), cmp.Or(f.text("type"), "user"), f.text("message")
	m.aside = isRemark(m.Text) || strings.HasPrefix(m.Text, "/")
	g.unplaced("of entries", f, "timestamp")
	return g.message(c, m)
}
