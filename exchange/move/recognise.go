package move

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

const (
	// maxLook bounds how much of an input is read to find its format, and maxLookPiped of a pipe,
	// where that is held.
	maxLook      = exchange.MaxLine
	maxLookPiped = 8 << 20
	// maxShapes is how many records of a list are looked at, and maxNested of a list within one.
	maxShapes, maxNested = 32, 4
	// maxDepth is how deep lists and objects are looked into, and maxKeys at how many of their keys.
	maxDepth, maxKeys = 3, 1000
	// maxWord bounds the texts that may be the name of a type.
	maxWord = 64
)

// A shape is the keys of an object, with the little of their values that tells a format.
type shape struct {
	first   map[string]byte     // the first byte of each value
	words   map[string]string   // texts that are short
	objects map[string]*shape   // objects within
	lists   map[string][]*shape // the first objects of lists within
}

// has reports whether the object has all of the keys. A key may be written as key=word, for its
// text, or key[ and key{, for its kind.
func (s *shape) has(keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		if name, word, ok := strings.Cut(key, "="); ok {
			return s.words[name] != word
		}
		if kind := key[len(key)-1]; kind == '[' || kind == '{' {
			return s.first[key[:len(key)-1]] != kind
		}
		_, ok := s.first[key]
		return !ok
	})
}

// marks are keys that tell the format of a record: all those of one line.
var marks = []struct {
	format Format
	keys   []string
}{
	{ChatGPT, []string{"mapping{"}},
	{Claude, []string{"chat_messages["}},
	{Claude, []string{"conversations_memory"}},
	{Claude, []string{"project_memories{"}},
	{Claude, []string{"prompt_template", "docs["}},
	{MCP, []string{"name", "entityType"}},
	{MCP, []string{"from", "to", "relationType"}},
	{LangGraph, []string{"namespace", "key", "value"}},
	{Chroma, []string{"ids[", "documents"}},
	{Chroma, []string{"ids[", "embeddings"}},
	{Chroma, []string{"ids[", "metadatas"}},
	{Qdrant, []string{"payload", "vector"}},
	{Qdrant, []string{"id", "payload"}},
	{Mem0, []string{"memory", "hash"}},
	{Mem0, []string{"id", "memory", "user_id", "created_at"}},
	{Mem0, []string{"id", "memory", "userId"}},
	{Mem0, []string{"id", "memory", "categories"}},
	{Mem0, []string{"source", "relationship", "target"}},
	{Mem0, []string{"source", "relationship", "destination"}},
	{ClaudeCode, []string{"parentUuid", "sessionId", "type"}},
	{ClaudeCode, []string{"type=summary", "leafUuid"}},
	{ClaudeCode, []string{"type=file-history-snapshot", "snapshot"}},
	{Codex, []string{"type=session_meta", "payload{"}},
	{Codex, []string{"type=response_item", "payload{"}},
	{Codex, []string{"type=event_msg", "payload{"}},
	{Codex, []string{"type=turn_context", "payload{"}},
	{Codex, []string{"record_type=state"}},
	{Codex, []string{"id", "timestamp", "instructions"}},
	{Codex, []string{"session{", "items["}},
	{GeminiCLI, []string{"sessionId", "projectHash"}},
	{GeminiCLI, []string{"sessionId", "messageId", "type", "message"}},
}

// marked is the format of the marks of a record.
func (s *shape) marked() (Format, bool) {
	for _, m := range marks {
		if s.has(m.keys) {
			return m.format, true
		}
	}
	return "", false
}

// A layout is how the records of a document are arranged.
type layout struct {
	format Format   // empty where nothing tells it
	under  []string // the keys of the lists that the records are in, where an object has them
	lists  []string // those of all lists of the first object, if that is no record
	first  byte     // of the document
	own    bool     // its first record may be one of memdb's own
	valid  bool     // a whole record of JSON was seen
	bare   bool     // the records are the messages of one conversation
}

// among are the keys of the lists that records are in, if any of some keys may have them.
func (l *layout) among(keys []string) []string {
	under := l.under
	for _, path := range l.lists {
		if slices.Contains(keys, path) && !slices.Contains(under, path) {
			under = append(under, path)
		}
	}
	return under
}

// A looker reads the beginning of a document.
type looker struct {
	*exchange.Splitter
	whole bool // a record was seen from its beginning to its end
	texts bool // a list of the document begins with a text
	lists int  // that are open
}

// errSeen ends the looking: the format was found.
var errSeen = errors.New("the format was found")

// look finds the layout of a document from its first records, whatever the order of their keys.
// What is wrong with the document is for its reader to report.
func (k *looker) look(in io.Reader) (l layout) {
	s, err := exchange.NewSplitter(in)
	if err != nil {
		return l
	}
	k.Splitter = s
	if l.first, err = s.Peek(); err != nil {
		return l
	}
	var records []*shape
	if l.first == '[' {
		records, _ = k.list(1)
	}
	for l.first == '{' && len(records) < maxShapes && err == nil {
		var c byte
		if c, err = s.Peek(); err == nil && c == '{' {
			var one *shape
			one, err = k.object(0, true)
			records = append(records, one)
		} else {
			break
		}
	}
	l.valid = k.whole
	switch {
	case l.first == '"' && k.lineOfText(), l.first == '[' && k.texts:
		l.format = JSON
		return l
	case len(records) == 0:
		return l
	}
	l.tell(records, k.texts)
	return l
}

// list looks at the objects of a list, the first of them, and at the objects of the lists that it
// has.
func (k *looker) list(depth int) (all []*shape, err error) {
	if err := k.Take('['); err != nil {
		return nil, err
	}
	k.lists++
	defer func() { k.lists-- }()
	for first := true; ; first = false {
		if more, err := k.More(']', first); err != nil || !more {
			return all, err
		}
		c, err := k.Inside()
		most := maxShapes
		if depth > 1 {
			most = maxNested
		}
		switch {
		case err != nil:
		case c == '{' && len(all) < most:
			var one *shape
			one, err = k.object(depth, k.lists == 1)
			all = append(all, one)
		case c == '[' && len(all) == 0 && depth < maxDepth:
			all, err = k.list(depth + 1)
		default:
			k.texts = k.texts || c == '"' && first && depth == 1
			err = k.pass()
		}
		if depth <= 1 {
			k.whole = true
		}
		if err == nil && len(all) == maxShapes && depth == 1 {
			err = errSeen
		}
		if err != nil {
			return all, err
		}
	}
}

// pass passes a value by, whatever its length.
func (k *looker) pass() error {
	if _, err := k.Value(); err != nil && !errors.Is(err, exchange.ErrLongLine) {
		return err
	}
	return nil
}

// object looks at the keys of an object. The shape is there also with an error, which is errSeen where
// the object may be a record, and has the marks of one.
func (k *looker) object(depth int, record bool) (s *shape, err error) {
	s = &shape{first: map[string]byte{}, words: map[string]string{}, objects: map[string]*shape{}, lists: map[string][]*shape{}}
	if err := k.Take('{'); err != nil {
		return s, err
	}
	for first := true; ; first = false {
		more, err := k.More('}', first)
		if err != nil {
			return s, err
		}
		if !more {
			k.whole = k.whole || depth <= 1
			return s, nil
		}
		key, err := k.key()
		if err == nil {
			err = k.member(s, key, depth, record)
		}
		if err != nil {
			return s, err
		}
	}
}

// key reads a key and the colon behind it.
func (k *looker) key() (key string, err error) {
	name, err := k.Value()
	if err == nil {
		err = json.Unmarshal(name, &key)
	}
	if err == nil {
		err = k.Take(':')
	}
	return key, err
}

// member looks at the value of a key.
func (k *looker) member(s *shape, key string, depth int, record bool) error {
	c, err := k.Inside()
	if err != nil || len(s.first) >= maxKeys {
		return cmp.Or(err, k.pass())
	}
	s.first[key] = c
	if _, ok := s.marked(); ok && record && c != '"' {
		return errSeen
	}
	switch {
	case c == '[' && depth < maxDepth:
		s.lists[key], err = k.list(depth + 1)
		return err
	case c == '{' && depth < maxDepth:
		s.objects[key], err = k.object(depth+1, false)
		return err
	case c == '"':
		text, err := k.Value()
		if err == nil && len(text) <= maxWord {
			var word string
			if json.Unmarshal(text, &word) == nil {
				s.words[key] = word
			}
		}
		if errors.Is(err, exchange.ErrLongLine) {
			err = nil
		}
		if _, ok := s.marked(); ok && record && err == nil {
			err = errSeen
		}
		return err
	}
	return k.pass()
}

// lineOfText reports whether the document is a text, with nothing or another text behind it.
func (k *looker) lineOfText() bool {
	if k.pass() != nil {
		return false
	}
	c, err := k.Peek()
	return c == '"' || errors.Is(err, io.EOF)
}

// chatKeys are the keys that a conversation has its messages under.
var chatKeys = []string{"messages", "conversations", "conversation", "history", "turns", "dialog", "dialogue", "contents", "chat"}

// messageKeys are the keys of messages of all providers, which a list of messages alone has. An owner,
// a session or a time beside them makes a record of another kind.
var messageKeys = []string{
	"role", "content", "parts", "name", "id", "type", "tool_calls", "tool_call_id", "function_call", "refusal", "annotations", "audio",
	"reasoning_content", "reasoning", "reasoning_details", "thinking", "images", "tool_name", "call_id", "arguments", "output", "status", "summary",
	"encrypted_content", "model", "stop_reason", "stop_sequence", "usage", "from", "value", "lc", "kwargs", "data", "additional_kwargs",
	"response_metadata", "usage_metadata", "invalid_tool_calls", "example", "toolInvocations", "experimental_attachments", "createdAt", "weight",
}

// isMessage reports whether an object is a message of a conversation.
func (s *shape) isMessage() bool {
	if role := s.words["role"]; role != "" {
		return true
	}
	if s.has([]string{"from", "value"}) || s.has([]string{"lc", "kwargs{"}) {
		return true
	}
	switch s.words["type"] {
	case "human", "ai", "system", "tool":
		return s.has([]string{"data{"}) || s.has([]string{"content"})
	case "message":
		return s.has([]string{"content"})
	case "function_call", "function_call_output", "reasoning", "custom_tool_call", "custom_tool_call_output":
		return true
	}
	return false
}

// isBare reports whether an object is a message and nothing else.
func (s *shape) isBare() bool {
	if !s.isMessage() || s.words["role"] != "" && !s.has([]string{"content"}) && !s.has([]string{"parts["}) && !s.has([]string{"tool_calls["}) {
		return false
	}
	for key := range s.first {
		if !slices.Contains(messageKeys, key) {
			return false
		}
	}
	return true
}

// isChat reports whether an object is a conversation with its messages.
func (s *shape) isChat() bool {
	return slices.ContainsFunc(chatKeys, func(key string) bool {
		list := s.lists[key]
		return len(list) > 0 && !slices.ContainsFunc(list, func(m *shape) bool {
			_, marked := m.marked()
			return marked || !m.isMessage()
		})
	})
}

// isOwn reports whether the object may be one of memdb's own records.
func (s *shape) isOwn() bool {
	keys := map[string]string{}
	for key := range s.first {
		keys[key] = s.words[key]
	}
	object, err := json.Marshal(keys)
	_, own := exchange.OwnType(object)
	return err == nil && own
}

// formatOf is the format of records; bare: they are the messages of one conversation.
func formatOf(records []*shape) (f Format, bare bool) {
	for _, r := range records {
		if f, ok := r.marked(); ok {
			return f, false
		}
	}
	every := func(is func(*shape) bool) bool {
		return len(records) > 0 && !slices.ContainsFunc(records, func(r *shape) bool { return !is(r) })
	}
	switch {
	case every((*shape).isChat):
		return Chats, false
	case every((*shape).isBare):
		return Chats, true
	}
	return "", false
}

// tell tells the layout from the first records of a list, or from objects one after another. texts:
// a list of the document begins with a text.
func (l *layout) tell(records []*shape, texts bool) {
	l.own = records[0].isOwn()
	if l.format, l.bare = formatOf(records); l.format != "" || l.first == '[' {
		return
	}
	top := records[0]
	lists := map[string][]*shape{}
	top.within("", lists)
	for _, path := range slices.Sorted(maps.Keys(lists)) {
		f, bare := formatOf(lists[path])
		if f == "" || l.format != "" && f != l.format {
			continue
		}
		l.format, l.bare = f, bare
		l.under = append(l.under, path)
	}
	if l.format != "" || l.own || top.isText() {
		return
	}
	l.lists = slices.Sorted(maps.Keys(lists))
	for path, list := range lists {
		if len(list) > 0 || texts {
			if slices.Contains(listKeys, path) {
				l.format, l.under = JSON, append(l.under, path)
			} else if len(lists) == 1 && len(list) > 0 {
				l.format, l.under = JSON, []string{path}
			}
		}
	}
	l.empty(top)
}

// empty tells the format of an answer that has no records.
func (l *layout) empty(top *shape) {
	for key, f := range map[string]Format{"results": Mem0, "items": LangGraph} {
		if list, ok := top.lists[key]; ok && len(list) == 0 && l.format == "" && len(top.first) == 1 {
			l.format, l.under = f, []string{key}
		}
	}
}

// within gathers the lists of an object and of the objects in it, by their paths.
func (s *shape) within(path string, lists map[string][]*shape) {
	for key, list := range s.lists {
		lists[path+key] = list
	}
	for key, o := range s.objects {
		o.within(path+key+".", lists)
	}
}

// isText reports whether an object is a record with a text of its own, and no wrapper of others.
func (s *shape) isText() bool {
	return slices.ContainsFunc([]string{"text", "content", "memory", "document", "page_content", "body", "fact", "chunk"}, func(key string) bool {
		return s.first[key] == '"'
	})
}

// layout finds how the records of the input are arranged, without taking anything of it.
func (in *Input) layout() layout {
	if in.looked != nil {
		return *in.looked
	}
	in.looked = &layout{}
	k := &looker{}
	if open := in.restart(); open != nil {
		r, err := open()
		if err != nil {
			return layout{} // the reading will say why
		}
		defer func() { _ = r.Close() }()
		*in.looked = k.look(io.LimitReader(r, maxLook))
		return *in.looked
	}
	p := &peeker{in: in.Reader, look: k}
	*in.looked = k.look(p)
	in.Reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(p.seen.Bytes()), in.Reader), splitBuffer)
	return *in.looked
}

// A peeker reads a pipe and keeps what it read. Once a record was seen it takes only what is there:
// the pipe may have no more for now.
type peeker struct {
	in   *bufio.Reader
	look *looker
	seen bytes.Buffer
}

func (p *peeker) Read(b []byte) (int, error) {
	if p.seen.Len() >= maxLookPiped || p.look.whole && p.in.Buffered() == 0 {
		return 0, errSeen
	}
	if _, err := p.in.Peek(1); err != nil {
		return 0, err
	}
	n, err := p.in.Read(b[:min(len(b), p.in.Buffered())])
	p.seen.Write(b[:n])
	return n, err
}

// Recognise tells the format of an input by its content, and of rows and Markdown by the ending of
// the name, and of a folder or an archive by its files. false is a form that only its name among
// Formats can tell, or memdb's own. It fails where the files of a folder have no one format.
func Recognise(ctx context.Context, in *Input) (Format, bool, error) {
	if in.Reader == nil {
		f, err := in.choose(ctx)
		return f, err == nil, err
	}
	f, ok := in.recognise()
	return f, ok, ctx.Err()
}

// recognise recognises a file.
func (in *Input) recognise() (Format, bool) {
	if _, err := in.Reader.Peek(1); err != nil {
		return "", false
	}
	if in.IsSQLite() {
		return recogniseSQLite(in)
	}
	head, _ := in.Reader.Peek(in.Reader.Buffered()) // they are there
	lower := strings.ToLower(in.Name)
	rows := strings.HasSuffix(lower, ".csv") || strings.HasSuffix(lower, ".tsv")
	if !rows && !isPage(lower) {
		f := in.layout().format
		return f, f != ""
	}
	if c := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"); len(c) > 0 && (c[0] == '{' || c[0] == '[') {
		if l := in.layout(); l.format != "" || l.valid {
			return l.format, l.format != ""
		}
	}
	if rows {
		return CSV, true
	}
	return Markdown, true
}
