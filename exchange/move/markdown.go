package move

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

const (
	// maxFiles bounds the Markdown files of a folder: their names are held, to find what links
	// mean.
	maxFiles = 1 << 20
	// maxFront bounds the front matter of a file, in bytes: metadata that are as long as they may
	// be, and what an export writes beside them.
	maxFront = 4 * memory.MaxMetadata
	// maxPage bounds a file: the longest text and its front matter.
	maxPage = memory.MaxText + maxFront + 64
)

// noteEntity is the type of the entity that a file with links is, and linksTo the relation to
// what it links to.
const (
	noteEntity = "note"
	linksTo    = "links_to"
)

// noText is the text of a note whose file has none: a memory has a text, and a link to the note
// stays alive.
const noText = "\n"

// noBody replaces the text of a page while its front matter is read: no key of that is the text.
const noBody = "\x00"

// pages are the Markdown files of a folder.
type pages struct {
	*writer
	folder fs.FS
	paths  []string          // in their order
	files  *vault            // by their paths
	others map[string]bool   // the last parts of the paths of other files
	names  map[string]string // which file has a name or an alias
	ids    map[string]bool   // of the memories so far
	kinds  map[string]int    // of what was left out by its name
	owners map[scope.Owner]*noteNames
	notes  []*note
}

// A note is a file that is a note, and what it links to.
type note struct {
	path, name, id string
	owner          scope.Owner
	links          []link
	linked         bool // it is an entity already
}

// noteNames are the notes of an owner by their names.
type noteNames struct {
	vault
	notes   map[string]*note
	byFile  map[string]*note
	aliases map[string]string // the name of the note, by the folded alias
}

func newNoteNames() *noteNames {
	return &noteNames{vault: *newVault(), notes: map[string]*note{}, byFile: map[string]*note{}, aliases: map[string]string{}}
}

// addNote adds a note by its name. The first one keeps an alias.
func (n *noteNames) addNote(of *note, aliases []string) {
	if n.notes[of.name] != nil {
		return
	}
	n.notes[of.name], n.byFile[of.path] = of, of
	n.add(of.name)
	for _, alias := range aliases {
		if key := fold(alias); n.aliases[key] == "" {
			n.aliases[key] = of.name
		}
	}
}

// meant returns the note that a link of another one means: by its name or path, else by an alias.
func (n *noteNames) meant(from string, l link) *note {
	if l.wiki {
		return n.notes[cmp.Or(n.find(from, l.target), n.aliases[fold(l.target)])]
	}
	return n.notes[cmp.Or(n.beside(from, l.target), n.find(from, l.target))]
}

func readMarkdown(in *Input, w *writer) error {
	p := &pages{writer: w, folder: in.Folder, files: newVault(), others: map[string]bool{}, names: map[string]string{}, ids: map[string]bool{}, kinds: map[string]int{}, owners: map[scope.Owner]*noteNames{}}
	if in.Folder == nil {
		text, err := io.ReadAll(io.LimitReader(in.Reader, maxPage+1))
		if err != nil {
			return err
		}
		var changed time.Time
		if f, ok := in.File.(fs.File); ok {
			if info, err := f.Stat(); err == nil {
				changed = fileTime(info)
			}
		}
		return p.page(path.Base(in.Name), text, changed)
	}
	if err := fs.WalkDir(in.Folder, ".", p.walk); err != nil {
		return err
	}
	p.claim()
	for _, name := range p.paths {
		text, changed, err := p.open(name)
		if err != nil {
			err = p.skip(exchange.LineError{Of: "file", ID: name}, err)
		} else {
			err = p.page(name, text, changed)
		}
		if err != nil {
			return err
		}
	}
	return p.relate()
}

// walk notes a file of the folder.
func (p *pages) walk(name string, d fs.DirEntry, err error) error {
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
			p.leaveFile("folder", name)
			return fs.SkipDir
		}
		return nil
	case d.Type()&fs.ModeSymlink != 0:
		p.leaveFile("link", name)
	case !d.Type().IsRegular():
		p.leaveFile("pipe, device or socket", name)
	case name == AboutPages:
	case strings.HasPrefix(base, "."):
		p.leaveFile("hidden file", name)
	case !isPage(base):
		p.leaveFile("file", name)
		if len(p.others) < maxFiles {
			p.others[fold(base)] = true
		}
	case len(p.paths) >= maxFiles:
		return fmt.Errorf("the folder has more than %d Markdown files; import its folders one by one", maxFiles)
	default:
		p.paths = append(p.paths, name)
		p.files.add(trimPage(name))
	}
	return nil
}

// mostNamedFiles bounds the files of a kind that are counted by their names.
const mostNamedFiles = 20

// leaveFile counts a file that has no place here: by its name, and of many by the ending.
func (p *pages) leaveFile(kind, name string) {
	if p.kinds[kind] >= mostNamedFiles {
		p.leave("more: "+kind+" *"+path.Ext(name), 1)
		return
	}
	p.kinds[kind]++
	p.leave(kind+" "+name, 1)
}

// claim gives each file its path as a name, and then the last part of it, by which links name the
// file, to the one with the shortest path.
func (p *pages) claim() {
	for _, name := range p.paths {
		p.names[trimPage(name)] = trimPage(name)
	}
	for _, name := range p.paths {
		name = trimPage(name)
		if base := path.Base(name); p.names[base] == "" && p.files.byBase[fold(base)][0] == name {
			p.names[base] = name
		}
	}
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

// open reads a file, and when it was changed. It may have become another thing since it was found.
func (p *pages) open(name string) (text []byte, changed time.Time, err error) {
	f, err := p.folder.Open(name)
	if err != nil {
		return nil, changed, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, changed, err
	}
	text, err = io.ReadAll(io.LimitReader(f, maxPage+1))
	return text, fileTime(info), err
}

// fileTime returns when a file was changed; the zero time where an archive does not say it.
func fileTime(info fs.FileInfo) time.Time {
	t := info.ModTime().UTC().Truncate(time.Millisecond)
	if t.Year() < 1980 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// page gives the memory of a file.
func (p *pages) page(name string, text []byte, changed time.Time) error {
	at := exchange.LineError{Of: "file", ID: name}
	switch {
	case len(text) > maxPage:
		return p.skip(at, fmt.Errorf("it is longer than %d MiB", memory.MaxText>>20))
	case !utf8.Valid(text):
		return p.skip(at, errors.New("it is not UTF-8"))
	}
	whole := strings.TrimPrefix(string(text), "\ufeff")
	front, body, err := splitPage(whole)
	if err != nil {
		p.leave(fmt.Sprintf("front matter that is kept as text, of %s: %v", name, err), 1)
		front, body = fields{}, strings.TrimSuffix(whole, "\n")
	}
	m, err := p.memoryOfPage(trimPage(name), front, body, changed)
	if err != nil {
		return p.skip(at, err)
	}
	p.ids[m.ID] = true
	if isNote(m.Kind) && m.Name != "" && p.folder != nil {
		n := &note{path: trimPage(name), name: m.Name, id: m.ID, owner: m.Scope.Owner(), links: linksOf(m.Text, m.Metadata)}
		if p.owners[n.owner] == nil {
			p.owners[n.owner] = newNoteNames()
		}
		p.owners[n.owner].addNote(n, m.Aliases)
		p.notes = append(p.notes, n)
	}
	return p.memory(at, m)
}

// memoryOfPage is the memory of a file: one that an export wrote, or a note of the file's name.
func (p *pages) memoryOfPage(name string, front fields, body string, changed time.Time) (m memory.Memory, err error) {
	if string(front[ownKey]) == pageVersion {
		delete(front, ownKey)
		return p.ownPage(name, front, body)
	}
	aliases := front.aliases()
	id := front.word("id")
	if id != "" && (p.ids[idOf(p.format, id)] || p.names[id] != "" && p.names[id] != name) {
		err = front.put("id", id) // another file has it: it is metadata
		id = ""
	}
	beside, failed := front.takeRest(textKeys[0], "id")
	if err = errors.Join(err, failed, front.put("id", cmp.Or(id, idOf(p.format, name))), front.put(textKeys[0], noBody)); err != nil {
		return m, err
	}
	if m, err = p.memoryOf(front); err != nil {
		return m, err
	}
	m.Text = cmp.Or(body, noText)
	if m.CreatedAt.IsZero() {
		m.CreatedAt = changed
	}
	if m.UpdatedAt.IsZero() && changed.After(m.CreatedAt) {
		m.UpdatedAt = changed
	}
	m.Kind = cmp.Or(m.Kind, memory.KindNote)
	p.nameNote(&m, name, aliases, beside)
	if len(beside) > 0 && m.Metadata == nil {
		m.Metadata = map[string]any{}
	}
	maps.Copy(m.Metadata, beside)
	return m, nil
}

// nameNote names the memory of a page, with the aliases that are free. What cannot be a name stands beside it.
func (p *pages) nameNote(m *memory.Memory, name string, aliases []string, beside map[string]any) {
	if isNote(m.Kind) {
		switch {
		case m.Name != "": // of a mapping
		case len(name) <= memory.MaxID:
			m.Name = name
		default:
			beside["path"] = name
		}
		if base := path.Base(name); base != name && p.names[base] == name {
			aliases = append([]string{base}, aliases...)
		}
	}
	m.Aliases = p.free(name, aliases)
	var kept []any
	for _, alias := range aliases {
		if !slices.Contains(m.Aliases, alias) {
			kept = append(kept, alias)
		}
	}
	if kept != nil {
		beside[aliasKeys[0]] = kept
	}
}

func isNote(k memory.Kind) bool { return k == memory.KindNote || k == memory.KindArchive }

// free returns those of the aliases of a file that no other file has as a name or alias, each
// once.
func (p *pages) free(name string, aliases []string) (free []string) {
	for _, alias := range aliases {
		if holder := p.names[alias]; alias == name || holder != "" && holder != name || slices.Contains(free, alias) || len(free) == memory.MaxAliases || len(alias) > memory.MaxID {
			continue
		}
		p.names[alias] = name
		free = append(free, alias)
	}
	return free
}

// relate gives an entity for each note with links, or that others link to, and the relations.
func (p *pages) relate() error {
	for _, n := range p.notes {
		at := exchange.LineError{Of: "file", ID: n.path}
		seen := map[*note]bool{}
		for _, l := range n.links {
			to := p.target(n, l)
			if to == nil || seen[to] {
				continue
			}
			seen[to] = true
			for _, end := range []*note{n, to} {
				if err := p.entity(at, end); err != nil {
					return err
				}
			}
			err := p.line(at, graph.TypeRelation, graph.RelationLine{
				Type: graph.TypeRelation, User: n.owner.User, Agent: n.owner.Agent, From: n.entity(), Relation: linksTo, To: to.entity(),
			}, 0)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// target returns the note of the same owner that a link means, nil if there is none. The names of
// notes come before paths in the folder: an export has put the notes of each owner into a folder.
func (p *pages) target(n *note, l link) *note {
	names := p.owners[n.owner]
	if to := names.meant(n.name, l); to != nil {
		return to
	}
	for _, at := range []string{p.files.byPath[trimPage(fold(l.target))], p.files.beside(n.path, l.target)} {
		if to := names.byFile[at]; to != nil {
			return to
		}
	}
	switch ending := path.Ext(l.target); {
	case p.others[fold(path.Base(l.target))]:
		p.leave("links to other files", 1)
	case l.wiki, isPage(l.target):
		p.leave("links to files that are not there", 1)
	case ending == "":
		p.leave("links to places that are not there", 1)
	}
	return nil
}

// entity is the ID of the entity of a note.
func (n *note) entity() string { return idOf(Markdown, n.name) }

func (p *pages) entity(at exchange.LineError, n *note) error {
	if n.linked {
		return nil
	}
	n.linked = true
	err := p.line(at, graph.TypeEntity, graph.EntityLine{
		Type: graph.TypeEntity, ID: n.entity(), User: n.owner.User, Agent: n.owner.Agent, EntityType: noteEntity, Name: path.Base(n.name),
	}, 0)
	if err == nil {
		err = p.line(at, graph.TypeLink, graph.LinkLine{Type: graph.TypeLink, Entity: n.entity(), Memory: n.id, User: n.owner.User, Agent: n.owner.Agent}, 0)
	}
	return err
}
