package move

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// maxFiles bounds the Markdown files of a folder: their names are held, to find what links
	// mean.
	maxFiles = 1 << 20
	// maxFront bounds the front matter of a file, in bytes.
	maxFront = memory.MaxMetadata
	// maxPage bounds a file: the longest text and its front matter.
	maxPage = memory.MaxText + maxFront + 64
	// maxLinks bounds the links of one file.
	maxLinks = 10_000
)

// noteEntity is the type of the entity that a file with links is, and linksTo the relation to
// what it links to.
const (
	noteEntity = "note"
	linksTo    = "links_to"
)

// pages are the Markdown files of a folder.
type pages struct {
	*writer
	folder fs.FS
	paths  []string            // in their order
	byName map[string][]string // paths by the lower-case name without its ending
	byPath map[string]string   // and by the lower-case path without it
	linked map[string]bool     // those that are entities already
	ids    map[string]string   // of the memories, by path
}

func readMarkdown(in *Input, w *writer) error {
	if in.Folder == nil {
		text, err := io.ReadAll(io.LimitReader(in.Reader, maxPage+1))
		if err != nil {
			return err
		}
		p := &pages{writer: w}
		_, err = p.page(exchange.LineError{Of: "file", ID: path.Base(in.Name)}, path.Base(in.Name), text)
		return err
	}
	p := &pages{writer: w, folder: in.Folder, byName: map[string][]string{}, byPath: map[string]string{}, linked: map[string]bool{}, ids: map[string]string{}}
	if err := fs.WalkDir(in.Folder, ".", p.find); err != nil {
		return err
	}
	links := make(map[string][]string)
	for _, name := range p.paths {
		at := exchange.LineError{Of: "file", ID: name}
		text, err := p.open(name)
		if err != nil {
			if err := w.skip(at, err); err != nil {
				return err
			}
			continue
		}
		told, err := p.page(at, name, text)
		if err != nil {
			return err
		}
		if to := p.targets(text); told && len(to) > 0 {
			links[name] = to
		}
	}
	return p.relate(links)
}

// find notes a file of the folder.
func (p *pages) find(name string, d fs.DirEntry, err error) error {
	base := path.Base(name)
	switch {
	case err != nil && name == ".":
		return err
	case err != nil:
		return p.skip(exchange.LineError{Of: "file", ID: name}, err)
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case d.IsDir():
		if name != "." && strings.HasPrefix(base, ".") {
			p.leave("hidden folders", 1)
			return fs.SkipDir
		}
		return nil
	case d.Type()&fs.ModeSymlink != 0:
		p.leave("links in the folder", 1)
	case !d.Type().IsRegular():
		p.leave("pipes, devices and sockets", 1)
	case name == AboutPages:
	case strings.HasPrefix(base, "."):
		p.leave("hidden files", 1)
	case !isPage(base):
		p.leave("files that are no Markdown", 1)
	case len(p.paths) >= maxFiles:
		return fmt.Errorf("the folder has more than %d Markdown files; import its folders one by one", maxFiles)
	default:
		p.paths = append(p.paths, name)
		key := strings.ToLower(trimPage(name))
		p.byPath[key] = name
		p.byName[path.Base(key)] = append(p.byName[path.Base(key)], name)
	}
	return nil
}

func isPage(name string) bool { return trimPage(name) != name }

// trimPage is a name without the ending of a Markdown file.
func trimPage(name string) string {
	for _, ending := range []string{".md", ".markdown"} {
		if at := len(name) - len(ending); at > 0 && strings.EqualFold(name[at:], ending) {
			return name[:at]
		}
	}
	return name
}

// open reads a file. It may have become another thing since it was found.
func (p *pages) open(name string) ([]byte, error) {
	f, err := p.folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxPage+1))
}

// page gives the memory of a file, and reports whether there is one.
func (p *pages) page(at exchange.LineError, name string, text []byte) (told bool, err error) {
	switch {
	case len(text) > maxPage:
		return false, p.skip(at, fmt.Errorf("it is longer than %d MiB", memory.MaxText>>20))
	case !utf8.Valid(text):
		return false, p.skip(at, errors.New("it is not UTF-8"))
	}
	front, body, err := splitPage(strings.TrimPrefix(string(text), "\ufeff"))
	if err != nil {
		return false, p.skip(at, err)
	}
	if strings.TrimSpace(body) == "" {
		p.leave("files without a text", 1)
		return false, nil
	}
	m, err := p.memoryOfPage(trimPage(name), front, body)
	if err != nil {
		return false, p.skip(at, err)
	}
	if p.ids != nil && m.Scope.Owner() == p.scope("", "", "").Owner() {
		p.ids[name] = m.ID
	}
	return true, p.memory(at, m)
}

// memoryOfPage is the memory of a file: one that an export wrote, or a note of the file's name.
func (p *pages) memoryOfPage(name string, front fields, body string) (m memory.Memory, err error) {
	own := front.word(ownKey) == pageVersion
	aliases, called := front.list("aliases"), front.text("name")
	beside, hasText := front[textKeys[0]], front[textKeys[0]] != nil
	if front[textKeys[0]], err = json.Marshal(body); err != nil {
		return m, err
	}
	var metadata map[string]any
	if own {
		if raw := front["metadata"]; raw != nil {
			v, err := decodeAny(raw)
			if err != nil {
				return m, err
			}
			metadata, _ = v.(map[string]any)
			delete(front, "metadata")
		}
	}
	if front["id"] == nil {
		if front["id"], err = json.Marshal(idOf(p.format, name)); err != nil {
			return m, err
		}
	}
	if m, err = p.memoryOf(front); err != nil {
		return m, err
	}
	m.Name, m.Aliases = called, aliases
	switch {
	case own:
		p.ownFields(&m)
		if metadata != nil {
			m.Metadata = metadata
		}
	case m.Kind == "":
		if m.Kind = memory.KindNote; m.Name == "" && len(name) <= memory.MaxID {
			m.Name = name
		}
	}
	if hasText {
		if m.Metadata == nil {
			m.Metadata = map[string]any{}
		}
		m.Metadata[textKeys[0]], err = decodeAny(beside)
	}
	return m, err
}

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

// wikiLink and mdLink find links to other files: [[name|words]], ![[name]], [words](path).
var (
	wikiLink = regexp.MustCompile(`\[\[([^\[\]|#\n]+)(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]`)
	mdLink   = regexp.MustCompile(`\]\(<?([^()<>\s]+?)>?(?:\s+"[^"\n]*")?\)`)
)

// targets are what a text links to, each once, as it is written.
func (p *pages) targets(text []byte) (to []string) {
	if p.folder == nil || !bytes.Contains(text, []byte("](")) && !bytes.Contains(text, []byte("[[")) {
		return nil
	}
	for _, m := range wikiLink.FindAllSubmatch(text, maxLinks) {
		to = append(to, "[["+strings.TrimSpace(string(m[1])))
	}
	for _, m := range mdLink.FindAllSubmatch(text, maxLinks) {
		target, _, _ := strings.Cut(string(m[1]), "#")
		if u, err := url.Parse(target); err != nil || u.Scheme != "" || u.Host != "" || !isPage(u.Path) {
			continue // it leads out of the folder, or to a picture
		}
		to = append(to, target)
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// resolve is the file that a link means, empty where there is none.
func (p *pages) resolve(from, target string) string {
	if name, ok := strings.CutPrefix(target, "[["); ok {
		key := strings.ToLower(trimPage(name))
		if at := p.byPath[key]; at != "" {
			return at
		}
		if at := p.byPath[path.Join(path.Dir(strings.ToLower(from)), key)]; at != "" {
			return at
		}
		if all := p.byName[path.Base(key)]; len(all) > 0 && !strings.Contains(key, "/") {
			return all[0]
		}
		return ""
	}
	if unescaped, err := url.PathUnescape(target); err == nil {
		target = unescaped
	}
	key := strings.ToLower(trimPage(strings.TrimPrefix(target, "/")))
	if strings.HasPrefix(target, "/") {
		return p.byPath[path.Clean(key)]
	}
	return p.byPath[path.Join(path.Dir(strings.ToLower(from)), key)]
}

// relate gives an entity for each file with links, or that others link to, and the relations.
func (p *pages) relate(links map[string][]string) error {
	owner := p.scope("", "", "").Owner()
	for _, from := range p.paths {
		for _, target := range links[from] {
			to := p.resolve(from, target)
			if to == "" {
				p.leave("links to files that are not there", 1)
				continue
			}
			at := exchange.LineError{Of: "file", ID: from}
			for _, end := range []string{from, to} {
				if err := p.entity(at, end); err != nil {
					return err
				}
			}
			err := p.line(at, graph.TypeRelation, graph.RelationLine{
				Type: graph.TypeRelation, User: owner.User, Agent: owner.Agent, From: entityOf(from), Relation: linksTo, To: entityOf(to),
			}, 0)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// entityOf is the ID of the entity of a file.
func entityOf(name string) string { return idOf(Markdown, trimPage(name)) }

func (p *pages) entity(at exchange.LineError, name string) error {
	if p.linked[name] {
		return nil
	}
	p.linked[name] = true
	owner := p.scope("", "", "").Owner()
	err := p.line(at, graph.TypeEntity, graph.EntityLine{
		Type: graph.TypeEntity, ID: entityOf(name), User: owner.User, Agent: owner.Agent, EntityType: noteEntity, Name: path.Base(trimPage(name)),
	}, 0)
	if id, ok := p.ids[name]; ok && err == nil {
		err = p.line(at, graph.TypeLink, graph.LinkLine{Type: graph.TypeLink, Entity: entityOf(name), Memory: id, User: owner.User, Agent: owner.Agent}, 0)
	}
	return err
}

// list takes a list of texts, or one text.
func (f fields) list(key string) (texts []string) {
	raw, ok := f[key]
	if !ok {
		return nil
	}
	var one string
	if json.Unmarshal(raw, &texts) != nil {
		texts = nil
		if json.Unmarshal(raw, &one) != nil || one == "" {
			return nil
		}
		texts = []string{one}
	}
	if len(texts) > memory.MaxAliases || slices.ContainsFunc(texts, func(s string) bool { return s == "" || len(s) > memory.MaxID }) {
		return nil // they stay in the metadata
	}
	delete(f, key)
	return texts
}

// ownKey is a key of the front matter that says that memdb has written a file, and pageVersion
// in which form.
const (
	ownKey      = "memdb"
	pageVersion = "1"
)

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
