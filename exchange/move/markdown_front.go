package move

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// splitPage cuts a file into its front matter and its text.
func splitPage(text string) (fields, string, error) {
	front, body := fields{}, text
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		rest, ok = strings.CutPrefix(text, "---\r\n")
	}
	if !ok {
		return front, strings.TrimSuffix(body, "\n"), nil
	}
	end, after := endOfFront(rest)
	if end < 0 {
		return front, strings.TrimSuffix(body, "\n"), nil // a line across the page, perhaps
	}
	if end > maxFront {
		return nil, "", fmt.Errorf("its front matter is %d bytes long; the limit is %d", end, maxFront)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(rest[:end]), &doc); err != nil {
		return nil, "", fmt.Errorf("its front matter cannot be read: %w", plain(err))
	}
	body = strings.TrimPrefix(strings.TrimSuffix(rest[after:], "\n"), "\n")
	if len(doc.Content) == 0 {
		return front, body, nil
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, "", errors.New("its front matter is no list of keys and values")
	}
	v, err := ofYAML(doc.Content[0], 0)
	if err != nil {
		return nil, "", fmt.Errorf("its front matter: %w", err)
	}
	for key, value := range v.(map[string]any) {
		if front[key], err = json.Marshal(value); err != nil {
			return nil, "", err
		}
	}
	return front, body, nil
}

// plain is an error of the library without its name.
func plain(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "yaml: ")) }

// endOfFront is where the front matter ends, and where the text begins behind it; -1 where it
// has no end.
func endOfFront(rest string) (end, after int) {
	for at := 0; at < len(rest); {
		line, n := rest[at:], len(rest)-at
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line, n = line[:i], i+1
		}
		if line = strings.TrimSuffix(line, "\r"); line == "---" || line == "..." {
			return at, at + n
		}
		at += n
	}
	return -1, -1
}

// ofYAML is a value of the front matter. What a time or a number looks like is kept as it was
// written.
func ofYAML(n *yaml.Node, depth int) (any, error) {
	if depth > memory.MaxMetadataDepth {
		return nil, fmt.Errorf("it nests deeper than %d", memory.MaxMetadataDepth)
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: a key is no text", key.Line+1)
			}
			if _, ok := out[key.Value]; ok {
				return nil, fmt.Errorf("line %d: the key %.80q is given twice", key.Line+1, key.Value)
			}
			v, err := ofYAML(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			out[key.Value] = v
		}
		return out, nil
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := ofYAML(c, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.ScalarNode:
		return scalarOf(n), nil
	}
	return nil, fmt.Errorf("line %d: it refers to another place of it, which is not read", n.Line+1)
}

func scalarOf(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int", "!!float":
		if isNumber(n.Value) {
			return json.Number(n.Value)
		}
	}
	return n.Value
}

// takeAll removes keys, and returns their values.
func (f fields) takeAll(keys ...string) (map[string]any, error) {
	out := map[string]any{}
	for _, key := range keys {
		raw, ok := f[key]
		if !ok {
			continue
		}
		v, err := decodeAny(raw)
		if err != nil {
			return nil, err
		}
		delete(f, key)
		out[key] = v
	}
	return out, nil
}

// takeRest takes keys, and all that have no value, which are metadata, too.
func (f fields) takeRest(keys ...string) (map[string]any, error) {
	for key, raw := range f {
		if string(raw) == "null" {
			keys = append(keys, key)
		}
	}
	return f.takeAll(keys...)
}

// put sets a key to a text.
func (f fields) put(key, text string) error {
	raw, err := json.Marshal(text)
	f[key] = raw
	return err
}

// aliases takes the names beside that of the file: a list, or a text with commas.
func (f fields) aliases() (all []string) {
	for _, key := range aliasKeys {
		var list []any
		raw := f[key]
		if v, err := decodeAny(raw); err == nil {
			switch v := v.(type) {
			case []any:
				list = v
			case string:
				for s := range strings.SplitSeq(v, ",") {
					list = append(list, s)
				}
			}
		}
		var names []string
		for _, v := range list {
			s := fmt.Sprint(v)
			if _, text := v.(string); text {
				s = strings.TrimSpace(s)
			} else if _, number := v.(json.Number); !number {
				names = nil // they stay in the metadata
				break
			}
			if s != "" {
				names = append(names, s)
			}
		}
		if names != nil {
			delete(f, key)
			all = append(all, names...)
		}
	}
	return all
}

var aliasKeys = []string{"aliases", "alias"}

// The keys of the front matter of an exported file beside those of a memory.
const (
	ownKey       = "memdb" // says that memdb has written the file, and in which form
	pageVersion  = "1"
	metadataKey  = "metadata"
	linksKey     = "links"      // the links that the export has rewritten, and how they were
	fileAliasKey = "file_alias" // the last of the aliases, which is the name that no file can have
)

// ownPage is the memory that an export wrote to a file, with what was changed in it since.
func (p *pages) ownPage(name string, front fields, body string) (m memory.Memory, err error) {
	was := relinked(front[linksKey])
	delete(front, linksKey)
	added, called, aliases := front.text(fileAliasKey), front.text("name"), front.aliases()
	if i := slices.Index(aliases, added); added != "" && i >= 0 {
		aliases = slices.Delete(aliases, i, i+1)
	}
	inner, err := front.takeAll(metadataKey)
	if err != nil {
		return m, err
	}
	beside, err := front.takeRest(textKeys[0])
	if err == nil && front["id"] == nil {
		err = front.put("id", idOf(p.format, name))
	}
	if err = errors.Join(err, front.put(textKeys[0], noBody)); err != nil {
		return m, err
	}
	if m, err = p.memoryOf(front); err != nil {
		return m, err
	}
	m.Name, m.Text = called, was.Replace(cmp.Or(body, noText))
	if len(aliases) > 0 {
		m.Aliases = aliases
	}
	p.ownFields(&m)
	for _, more := range []any{beside, inner[metadataKey]} {
		of, _ := more.(map[string]any)
		for key, v := range of {
			if m.Metadata == nil {
				m.Metadata = map[string]any{}
			}
			if _, ok := m.Metadata[key]; !ok { // what is outside was added later
				m.Metadata[key] = v
			}
		}
	}
	if m.Metadata != nil {
		m.Metadata, _ = mapTexts(m.Metadata, was.Replace).(map[string]any)
	}
	return m, nil
}

// ownFields are the keys of an exported file that other files would not have.
func (w *writer) ownFields(m *memory.Memory) {
	take := func(key string, set func(s string)) {
		switch v := m.Metadata[key].(type) {
		case string:
			set(v)
		case json.Number:
			set(v.String())
		case bool:
			set(strconv.FormatBool(v))
		default:
			return
		}
		delete(m.Metadata, key)
	}
	take("source", func(s string) { m.Source = memory.Source(s) })
	take("pinned", func(s string) { m.Pinned = s == "true" })
	take("auto_importance", func(s string) { m.AutoImportance = s == "true" })
	take("access_count", func(s string) { m.AccessCount, _ = strconv.ParseUint(s, 10, 64) })
	take("last_accessed", func(s string) { m.LastAccessed = w.when(s) })
	if len(m.Metadata) == 0 {
		m.Metadata = nil
	}
}
