package messages

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
)

// known are the normal names of keys that come beside the content of a message and say nothing
// that it says: they are kept, and are neither shown nor counted as unknown.
var known = set(
	"type lc id example object model modelid provider stopreason stopsequence stopdetails finishreason finishdetails usage usagemetadata " +
		"responsemetadata providermetadata provideroptions metadata container diagnostics annotations logprobs index status phase weight " +
		"created createdat updatedat timestamp time date end endturn done donereason totalduration loadduration promptevalcount promptevalduration " +
		"evalcount evalduration systemfingerprint servicetier cachecontrol thoughtsignature version format " +
		"sender from author speaker recipient channel uuid parentuuid parentid parentmessageid sessionid conversationid threadid chatid runid userid agentid " +
		"requestid responseid traceid messageid turnid modelversion cwd gitbranch issidechain usertype toolname")

func set(list string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		all[w] = true
	}
	return all
}

// each calls visit for each part of a message, in the order in which it says them: the text, the
// parts, the calls, and what is content among the other keys. key is the key within Extra, or empty.
func (m *Message) each(visit func(key string, p *part)) {
	if m.Text != "" {
		visit("", &part{kind: words, text: m.Text})
	}
	for _, raw := range elements(m.Parts) {
		p := parsePart(raw)
		visit("", &p)
	}
	calls := func(key string, list json.RawMessage) {
		for _, raw := range elements(list) {
			p := part{kind: call, raw: raw}
			if o, ok := membersOf(raw); ok {
				p.readCall(fields(o), "", false)
			}
			p.odd = p.name == "" && p.id == ""
			visit(key, &p)
		}
	}
	calls("", m.ToolCalls)
	if len(m.Extra) == 0 {
		return
	}
	o, _ := membersOf(m.Extra)
	for _, f := range o {
		m.eachExtra(f, calls, visit)
	}
}

// eachExtra visits what one of the other keys says.
func (m *Message) eachExtra(f member, calls func(string, json.RawMessage), visit func(string, *part)) {
	name := normal(f.key)
	if known[name] || nothing(f.value) {
		return
	}
	switch name {
	case "functioncall":
		calls(f.key, f.value)
		return
	case "invalidtoolcalls", "toolcallchunks":
		if nothing(m.ToolCalls) {
			calls(f.key, f.value)
			return
		}
	case "additionalkwargs":
		inner, _ := membersOf(f.value)
		for _, one := range inner {
			switch {
			case one.key != "tool_calls":
				m.eachExtra(one, calls, visit)
			case nothing(m.ToolCalls):
				calls(f.key, one.value)
			}
		}
		return
	case "toolinvocations", "experimentalattachments", "attachments", "images", "files":
		for _, raw := range elements(f.value) {
			p := parsePart(raw)
			if name != "toolinvocations" {
				p = part{kind: media, label: f.key, raw: raw}
			} else if o, ok := membersOf(raw); ok {
				p = part{kind: call, raw: raw}
				p.readCall(fields(o), "toolinvocation", false)
			}
			visit(f.key, &p)
		}
		return
	}
	p := part{kind: kindOf(name), label: f.key, raw: f.value}
	switch p.kind {
	case words, thinking:
		if p.text, _ = rawjson.String(f.value); p.text == "" && p.kind == thinking {
			p.text = thoughtOf(fields{{"content", f.value}}, maxNesting)
		}
	case media:
		if inner, ok := membersOf(f.value); ok {
			p.text = fields(inner).text("transcript", "filename", "title")
		}
	case about, value:
	default:
		p.kind = unknown
	}
	visit(f.key, &p)
}

// Content returns all that the message says, as text, a line for each part: words and thoughts, the
// tools that it calls with what it asks of them, the results, media by their type, and what is
// unknown as it is.
func (m *Message) Content() string { return m.say(func(*part) bool { return true }) }

// Said returns Content without what a model thinks.
func (m *Message) Said() string { return m.say(func(p *part) bool { return p.kind != thinking }) }

// Words returns what the message says in words: its text, or the words among its parts. It has no
// thoughts, calls, results and media.
func (m *Message) Words() string {
	if m.Text != "" {
		return m.Text
	}
	var said []string
	for _, raw := range elements(m.Parts) {
		if p := parsePart(raw); p.kind == words && p.text != "" {
			said = append(said, p.text)
		}
	}
	return strings.Join(said, "\n")
}

func (m *Message) say(which func(*part) bool) string {
	var said []string
	m.each(func(key string, p *part) {
		if !which(p) {
			return
		}
		text := strings.TrimSpace(p.say(maxNesting))
		if text == "" || p.raw != nil && text == m.Text {
			return // the parts often say the text again
		}
		if key != "" && (p.kind == unknown || p.odd) {
			text = key + ": " + text
		}
		said = append(said, text)
	})
	return strings.Join(said, "\n")
}

// say is what a part says, as text.
func (p *part) say(depth int) string {
	switch p.kind {
	case words, thinking:
		return p.text
	case call:
		if p.name == "" {
			return string(p.raw)
		}
		said := strings.TrimSpace(p.name + " " + plain(p.input))
		if p.output != nil {
			said += "\n" + outputText(p.output, depth)
		}
		return said
	case result:
		if p.output == nil {
			return string(p.raw)
		}
		return outputText(p.output, depth)
	case media:
		return strings.TrimSpace("[" + p.label + "] " + p.text)
	case about:
		return ""
	}
	return plain(p.raw) // a value, and what is unknown, as they are
}

// plain is a string as it reads, and another value as it is.
func plain(b json.RawMessage) string {
	if s, ok := rawjson.String(b); ok {
		return s
	}
	return string(b)
}

// outputText is what a result says: a text, parts, or a value as it is.
func outputText(b json.RawMessage, depth int) string {
	if s, ok := rawjson.String(b); ok {
		return s
	}
	if depth == 0 || len(b) == 0 || b[0] != '[' && b[0] != '{' {
		return string(b)
	}
	var said []string
	for _, raw := range elements(b) {
		p := parsePart(raw)
		if p.kind == unknown {
			said = append(said, string(raw))
			continue
		}
		said = append(said, p.say(depth-1))
	}
	return strings.Join(said, "\n")
}

// Counted returns the pieces of the message that cost tokens: the text, and the parts, the calls and
// the other keys that are content, as they are stored.
func (m *Message) Counted() (pieces []string) {
	for _, s := range []string{m.Text, string(m.Parts), string(m.ToolCalls)} {
		if s != "" {
			pieces = append(pieces, s)
		}
	}
	if len(m.Extra) > 0 {
		only := Message{Extra: m.Extra, ToolCalls: m.ToolCalls}
		only.each(func(key string, p *part) {
			switch {
			case key == "":
			case p.text != "":
				pieces = append(pieces, p.text)
			default:
				pieces = append(pieces, string(p.raw))
			}
		})
	}
	return pieces
}

// Unknown returns a name for the role, each part and each key that no rule is for, in their order.
func (m *Message) Unknown() (names []string) {
	if _, ok := Speaker(m.Role); !ok && m.Role != "" {
		names = append(names, "role "+string(quote(short(m.Role))))
	}
	m.each(func(key string, p *part) {
		switch {
		case p.kind != unknown && !p.odd || nothing(p.raw):
		case key != "":
			names = append(names, "key "+string(quote(key)))
		default:
			names = append(names, "part "+nameOf(p.raw))
		}
	})
	return names
}

// nameOf names an unknown part by its type, or else by its keys.
func nameOf(raw json.RawMessage) string {
	o, ok := membersOf(raw)
	if !ok {
		return short(string(raw))
	}
	if typ := o.text("type"); typ != "" {
		return string(quote(short(typ)))
	}
	var keys []string
	for _, f := range o {
		keys = append(keys, f.key)
	}
	return "{" + short(strings.Join(keys, ",")) + "}"
}

func short(s string) string {
	const most = 40
	if r := []rune(s[:min(len(s), 4*most)]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// Thoughts counts the parts that are what a model thinks.
func (m *Message) Thoughts() (n int) {
	m.each(func(_ string, p *part) {
		if p.kind == thinking {
			n++
		}
	})
	return n
}

// Empty reports whether the message says nothing, in whatever spelling: no text, no content, empty
// lists, blank words. thinks is true if it holds nothing but what a model thinks. A message that
// answers a call is not empty.
func (m *Message) Empty() (empty, thinks bool) {
	if m.ToolCallID != "" {
		return false, false
	}
	empty = true
	m.each(func(_ string, p *part) {
		switch {
		case p.kind == thinking:
			thinks = true
		case !p.blank():
			empty = false
		}
	})
	return empty, empty && thinks
}

// Style is how the content of a message is written, for who puts two of them together.
type Style uint8

// The styles.
const (
	// Single: to be left alone. The message has to do with tools, thinks, or has other keys or parts
	// than words and media.
	Single Style = iota
	// Plain: a text, without parts.
	Plain
	// Typed: a list of words and media that have a type, as OpenAI and Anthropic write it.
	Typed
	// Bare: a list of words without a type, as Gemini and Bedrock write it.
	Bare
)

// Style returns how the content of the message is written.
func (m *Message) Style() Style {
	switch {
	case len(m.Extra)+len(m.ToolCalls) > 0 || m.ToolCallID != "":
		return Single
	case len(m.Parts) == 0:
		return Plain
	case m.Parts[0] != '[':
		return Single
	}
	style := Plain
	for _, raw := range elements(m.Parts) {
		p := parsePart(raw)
		o, ok := membersOf(raw)
		typ, of := o.text("type"), Bare
		if typ != "" {
			of = Typed
		}
		switch {
		case !ok, p.kind != words && (p.kind != media || of == Bare), typ == "output_text", of == Bare && len(o) > 1, style != Plain && style != of:
			return Single
		}
		style = of
	}
	return style
}

// OnlyText returns the text of a list of parts that have a type and a text and nothing else, and false
// for any other content.
func OnlyText(parts json.RawMessage) (string, bool) {
	var texts []string
	for _, raw := range elements(parts) {
		o, _ := membersOf(raw)
		text, ok := rawjson.String(o.get("text"))
		if !ok || len(o) != 2 || o.text("type") != "text" {
			return "", false
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n"), len(texts) > 0
}

// TextPart is a text as a part of the style Typed.
func TextPart(text string) json.RawMessage {
	return slices.Concat([]byte(`{"type":"text","text":`), quote(text), []byte{'}'})
}

// Elements returns the parts of a content: the elements of a list, or the value itself.
func Elements(content json.RawMessage) []json.RawMessage { return elements(content) }
