package messages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
)

// kind is what a part of a message is.
type kind uint8

const (
	unknown  kind = iota
	words         // what somebody says
	thinking      // what a model thinks, and the signatures of it
	call          // of a tool
	result        // of a call
	media         // an image, a sound, a file: shown by its type and name
	value         // data, sources, citations: known, and shown as they are
	about         // says nothing: the begin of a step, a mark for a cache
)

// part is what is known of a part.
type part struct {
	kind kind
	// label names a part of media.
	label string
	// id identifies the call, other is a second ID that results may name, and name is the tool. A
	// result has the ID of its call.
	id, other, name string
	// text are the words, or those of a thought.
	text string
	// input is what a call asks, output what a result says.
	input, output json.RawMessage
	// answered: the call has its result in itself. optional: it may have none. odd: it is a call by
	// its place, and of no known form.
	answered, optional, odd bool
	raw                     json.RawMessage
}

// maxNesting bounds how deep parts are looked into.
const maxNesting = 12

// normal is a word without its case, "_", "-" and ".".
func normal(s string) string {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < 'a' || c > 'z' {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

func containsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}

func endsIn(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.HasSuffix(s, w) })
}

// kindOf is what a normal word says of the part that has it for a type.
func kindOf(word string) kind {
	switch word {
	case "text", "inputtext", "outputtext", "refusal":
		return words
	case "code", "commentary", "markdown":
		return words
	case "summarytext", "reasoningtext", "redactedcontent":
		return thinking
	case "stepstart", "cachepoint", "compaction", "itemreference", "containerupload", "guardcontent":
		return about
	}
	switch tools := containsAny(word, "tool", "function", "call", "execution", "approval", "computer", "shell", "patch"); {
	case containsAny(word, "thinking", "reasoning", "thought"):
		return thinking
	case tools && endsIn(word, "result", "results", "output", "response", "return", "error"):
		return result
	case endsIn(word, "tooluse", "toolcall", "functioncall", "call", "invocation", "executablecode", "approvalrequest", "dynamictool"):
		return call
	case tools && endsIn(word, "request"):
		return call
	case containsAny(word, "searchresult", "citation", "resource"), strings.HasPrefix(word, "source"), strings.HasPrefix(word, "data"):
		return value
	case containsAny(word, "image", "audio", "video", "document", "inlinedata", "filedata", "blob", "attachment"), endsIn(word, "file", "media"):
		return media
	}
	return unknown
}

// fields are the members of a part by their normal names.
type fields object

func (o fields) get(names ...string) json.RawMessage {
	for _, name := range names {
		for _, f := range o {
			if normal(f.key) == name && string(f.value) != "null" {
				return f.value
			}
		}
	}
	return nil
}

// text is a string, or a number as it is written.
func (o fields) text(names ...string) string {
	v := o.get(names...)
	if s, ok := rawjson.String(v); ok {
		return s
	}
	if len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') {
		return string(v)
	}
	return ""
}

// parsePart reads what is known of a part. A string is words.
func parsePart(raw json.RawMessage) part {
	p := part{raw: raw}
	if s, ok := rawjson.String(raw); ok {
		p.kind, p.text = words, s
		return p
	}
	o, ok := membersOf(raw)
	if !ok {
		return p
	}
	f := fields(o)
	typ, typed := rawjson.String(f.get("type"))
	word := normal(typ)
	if !typed {
		word = f.discriminator()
	}
	p.kind = kindOf(word)
	if name, ok := strings.CutPrefix(typ, "tool-"); ok && f.get("state") != nil && f.get("toolcallid") != nil {
		p.kind, p.name = call, name // any tool of the Vercel AI SDK
	}
	if inner, ok := membersOf(f.get(word)); ok && (p.kind == call || p.kind == result || p.kind == thinking) {
		f = slices.Concat(fields(inner), f) // the part is under the key that says its kind
	}
	p.read(f, word, typed)
	return p
}

// discriminator is the normal key that says what a part without a type is: that of a call or a
// result, else that of its text, else another one.
func (o fields) discriminator() string {
	tool, text, other := "", "", ""
	for _, f := range o {
		name := normal(f.key)
		switch of := kindOf(name); {
		case name == "text":
			if s, ok := rawjson.String(f.value); ok && (s != "" || text == "") {
				text = name
			}
		case len(f.value) == 0 || f.value[0] != '{':
		case of == call || of == result:
			tool = name
		case of != unknown:
			other = name
		}
	}
	return cmp.Or(tool, text, other)
}

// read fills in what the fields say.
func (p *part) read(f fields, word string, typed bool) {
	switch p.kind {
	case words:
		p.text = f.text("text", word, "value", "content")
		if inner, ok := membersOf(f.get("text")); ok {
			p.text = fields(inner).text("value", "text", "content")
		}
		signed := p.text == "" && f.get("thoughtsignature") != nil
		if signed || string(f.get("thought")) == "true" {
			p.kind = thinking
		} else if p.text == "" && f.holdsMore() {
			p.kind = unknown
		}
	case thinking:
		p.text = thoughtOf(f, maxNesting)
	case call:
		p.readCall(f, word, typed)
	case result:
		p.id = cmp.Or(f.callID(word), f.text("id"))
		p.name = f.text("name", "toolname")
		p.output = f.get("output", "result", "response", "content", "error", "errortext", "outcome", "tools", "approve")
		if word == "codeexecutionresult" {
			p.output = f.get("output")
		}
	case media:
		p.label = f.spelled(word)
		p.text = mediaText(f, word)
	}
}

// holdsMore reports whether a part that should be words has something else.
func (o fields) holdsMore() bool {
	return slices.ContainsFunc(o, func(f member) bool {
		name := normal(f.key)
		return name != "text" && name != "value" && name != "content" && name != "refusal" && !known[name] && !nothing(f.value)
	})
}

// spelled is the type of a part, or the key that replaces it, as it is written.
func (o fields) spelled(word string) string {
	for _, f := range o {
		if typ, ok := rawjson.String(f.value); ok && normal(f.key) == "type" && normal(typ) == word {
			return typ
		}
		if normal(f.key) == word {
			return f.key
		}
	}
	return word
}

// callID is the ID of the call that a part makes or answers, empty where it has only its own.
func (o fields) callID(word string) string {
	if strings.Contains(word, "approval") {
		return o.text("approvalid", "approvalrequestid")
	}
	return o.text("toolcallid", "tooluseid", "callid", "functioncallid", "approvalrequestid", "invocationid")
}

// mediaText is the name of an image, a file or a document, and its text where it has one.
func mediaText(f fields, word string) string {
	said := []string{f.text("text", "title", "filename", "transcript", "name"), f.text("context")}
	if inner, ok := membersOf(f.get("source", word)); ok {
		source := fields(inner)
		if t := source.text("type", "mediatype"); t == "text" || strings.HasPrefix(t, "text/") {
			said = append(said, source.text("data"))
		}
		said = append(said, source.text("text", "transcript", "filename", "name"))
		if content := source.get("content"); content != nil {
			said = append(said, outputText(content, maxNesting))
		}
	}
	return strings.Join(slices.DeleteFunc(said, func(s string) bool { return s == "" }), " ")
}

// readCall fills in a call, which may be in the forms of OpenAI below "function" or "custom".
func (p *part) readCall(f fields, word string, typed bool) {
	for _, below := range []string{"function", "custom"} {
		if inner, ok := membersOf(f.get(below)); ok {
			f = slices.Concat(fields(inner), f)
		}
	}
	own := f.callID(word)
	p.id, p.other = cmp.Or(own, f.text("id")), f.text("id")
	if p.name == "" {
		p.name = f.text("toolname", "name")
	}
	p.input = f.get("input", "rawinput", "args", "arguments", "parameters", "action", "code", "queries", "command", "operation")
	p.output = f.get("output", "result", "results", "outputs", "errortext", "error")
	switch state := normal(f.text("state")); {
	case p.output != nil || state == "outputerror" || state == "outputdenied" || state == "result":
		p.answered = true
	case word == "executablecode":
		p.optional = true
	case typed && own == "" && endsIn(word, "call") && !endsIn(word, "toolcall", "functioncall"):
		p.optional = true // a tool of the provider, which says in the item what it did
	}
}

// thoughtOf are the words of a thought.
func thoughtOf(f fields, depth int) string {
	if s := f.text("thinking", "text", "reasoning", "content", "summary"); s != "" || depth == 0 {
		return s
	}
	var all []string
	for _, name := range []string{"reasoningtext", "summary", "content"} {
		v := f.get(name)
		if inner, ok := membersOf(v); ok {
			all = append(all, thoughtOf(fields(inner), depth-1))
		}
		_ = rawjson.Elements(v, func(one []byte) error { // of another value there are none
			if inner, ok := membersOf(one); ok {
				all = append(all, thoughtOf(fields(inner), depth-1))
			}
			return nil
		})
	}
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), "\n")
}

// blank reports whether a part that says something by its kind says nothing: words without words.
func (p *part) blank() bool {
	switch p.kind {
	case words:
		return strings.TrimSpace(p.text) == ""
	case about:
		return true
	case unknown:
		return nothing(p.raw)
	}
	return false
}

// nothing reports whether a value is null, or an empty list, object or text.
func nothing(b []byte) bool {
	if s, ok := rawjson.String(b); ok {
		return strings.TrimSpace(s) == ""
	}
	b = bytes.TrimSpace(b)
	return len(b) == 0 || string(b) == "null" || string(b) == "[]" || string(b) == "{}"
}

// elements are the parts of a content: the elements of a list, or the value itself.
func elements(content json.RawMessage) (all []json.RawMessage) {
	if nothing(content) {
		return nil
	}
	if content[0] != '[' || rawjson.Elements(content, func(v []byte) error {
		all = append(all, v)
		return nil
	}) != nil {
		return []json.RawMessage{content}
	}
	return all
}
