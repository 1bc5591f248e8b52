package move

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// A headKey is a key at the begin of a document of JSON, and the first byte of its value.
type headKey struct {
	path  string
	first byte
}

// topKeys are the keys of the first object of a document, which may be in a list, as far as its
// begin tells, and of the objects right within it.
func topKeys(head []byte) []headKey {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))))
	var keys []headKey
	t, err := d.Token()
	if t == json.Delim('[') && err == nil {
		t, err = d.Token()
	}
	if t != json.Delim('{') || err != nil {
		return nil
	}
	keysOf(d, head, "", 0, &keys)
	return keys
}

// keysOf adds the keys of an object whose brace was read. false is the end of what there is.
func keysOf(d *json.Decoder, head []byte, path string, depth int, keys *[]headKey) bool {
	const deepest = 2
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return false
		}
		first := byte(0)
		if at := int(d.InputOffset()); at < len(head) {
			if rest := bytes.TrimLeft(head[at:], ": \t\r\n"); len(rest) > 0 {
				first = rest[0]
			}
		}
		*keys = append(*keys, headKey{path + key, first})
		if first == '{' && depth < deepest {
			if t, err := d.Token(); err != nil || t != json.Delim('{') || !keysOf(d, head, path+key+".", depth+1, keys) {
				return false
			}
			continue
		}
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			return false
		}
	}
	_, err := d.Token()
	return err == nil
}

// marks are keys that tell a format: of the first object of a list or of the document, all those
// of one line.
var marks = []struct {
	format Format
	keys   []string
}{
	{ChatGPT, []string{"mapping"}},
	{Claude, []string{"chat_messages"}},
	{Claude, []string{"conversations_memory"}},
	{Claude, []string{"prompt_template", "docs"}},
	{MCP, []string{"type", "entityType"}},
	{MCP, []string{"type", "relationType"}},
	{LangGraph, []string{"namespace", "key", "value"}},
	{Chroma, []string{"ids", "documents"}},
	{Chroma, []string{"ids", "embeddings"}},
	{Chroma, []string{"ids", "metadatas"}},
	{Qdrant, []string{"result.points"}},
	{Qdrant, []string{"points"}},
	{Qdrant, []string{"payload", "vector"}},
	{Qdrant, []string{"id", "payload"}},
	{Mem0, []string{"memory", "hash"}},
	{Mem0, []string{"id", "memory", "user_id", "created_at"}},
	{Mem0, []string{"id", "memory", "userId"}},
	{Mem0, []string{"id", "memory", "categories"}},
}

// recordsUnder are the keys of objects that wrap a list of records, by whose first one the
// format is told.
var recordsUnder = []string{"results", "items", "memories"}

// Recognise tells the format of an input by how it begins, and of rows and Markdown by the ending
// of the name. false is a form that only its name among Formats can tell, or memdb's own. It
// looks no further than what is there of a pipe.
func Recognise(in *Input) (Format, bool) {
	if in.Folder != nil {
		return Markdown, true
	}
	if _, err := in.Reader.Peek(1); err != nil {
		return "", false
	}
	head, _ := in.Reader.Peek(in.Reader.Buffered()) // they are there
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	switch c := bytes.TrimLeft(head, " \t\r\n"); {
	case in.IsSQLite():
		return recogniseSQLite(in)
	case len(c) > 0 && (c[0] == '{' || c[0] == '['):
		return recogniseJSON(c)
	}
	switch lower := strings.ToLower(in.Name); {
	case strings.HasSuffix(lower, ".csv"), strings.HasSuffix(lower, ".tsv"):
		return CSV, true
	case isPage(lower):
		return Markdown, true
	}
	return "", false
}

func recogniseJSON(head []byte) (Format, bool) {
	keys := topKeys(head)
	if f, ok := marked(keys); ok {
		return f, true
	}
	for _, k := range keys {
		if k.first != '[' || !slices.Contains(recordsUnder, k.path) {
			continue
		}
		if at := bytes.Index(head, []byte(`"`+k.path+`"`)); at >= 0 {
			if list := bytes.IndexByte(head[at:], '['); list >= 0 {
				if f, ok := marked(topKeys(head[at+list:])); ok {
					return f, true
				}
			}
		}
		if k.path == "results" {
			return Mem0, true
		}
		if k.path == "items" {
			return LangGraph, true
		}
	}
	rest := bytes.TrimLeft(head[1:], " \t\r\n")
	if head[0] == '[' && len(rest) > 0 && rest[0] == '"' {
		return JSON, true
	}
	return "", false
}

// marked is the format that keys tell.
func marked(keys []headKey) (Format, bool) {
	for _, m := range marks {
		all := true
		for _, want := range m.keys {
			all = all && slices.ContainsFunc(keys, func(k headKey) bool { return k.path == want })
		}
		if all {
			return m.format, true
		}
	}
	return "", false
}
