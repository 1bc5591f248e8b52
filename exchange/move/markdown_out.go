package move

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// OwnHead is what each file of an exported folder begins with.
const OwnHead = "---\n" + ownKey + ": " + pageVersion + "\n"

// AboutPages is the file that says what a folder is an export of; it is none of the memories.
const AboutPages = ".memdb-export.json"

// ExportMarkdown writes a file for each memory by way of write, which gets the name of a file, with
// slashes, its text, and when the memory was changed. The file of a note has the note's name, less
// what a disk refuses, and stands below its owner's folder; that of another memory follows from the
// owner, the month and the ID. So a change of one memory changes one file, and those with a link to
// it. Links between notes of an owner lead to their files by the rules of Obsidian: a link that
// would not is written with the path of the file, and the front matter says how it was. The text
// stands below front matter that has the rest but vectors.
func ExportMarkdown(ctx context.Context, db *engine.DB, write func(name string, text []byte, changed time.Time) error, o *exchange.ExportOptions) (Moved, error) {
	var opts exchange.ExportOptions
	if o != nil {
		opts = *o
	}
	p := &pageWriter{write: write, files: newVault(), others: map[uint64]struct{}{}, owners: map[scope.Owner]*noteNames{}}
	opts.Ahead = func(ctx context.Context, tx *engine.Tx) error { return p.look(ctx, tx, &opts) }
	return export(ctx, db, &opts, p)
}

type pageWriter struct {
	write  func(name string, text []byte, changed time.Time) error
	taken  map[string]struct{} // names, folded: not every disk tells cases apart
	files  *vault              // of the notes
	others map[uint64]struct{} // hashes of the last parts of the names of other files
	owners map[scope.Owner]*noteNames
}

// look collects the names of the files that will be written, so that links can be resolved to them.
func (p *pageWriter) look(ctx context.Context, tx *engine.Tx, o *exchange.ExportOptions) error {
	p.taken = map[string]struct{}{}
	all := o.Scope == (memory.Scope{})
	q := memory.ListQuery{Scope: o.Scope, AllScopes: all, Filter: o.Filter, Limit: lookPage, Lost: func(error) {}} // the export tells
	for m, err := range tx.Memories().All(ctx, q) {
		if err != nil {
			return err
		}
		if m.Text == "" {
			continue
		}
		r := exchange.NewRecord(m)
		name, err := p.name(&r)
		if err != nil {
			return err
		}
		name = trimPage(name)
		if !isNote(r.Kind) || r.Name == "" {
			p.others[baseHash(name)] = struct{}{}
			continue
		}
		p.files.add(name)
		of := m.Scope.Owner()
		if p.owners[of] == nil {
			p.owners[of] = newNoteNames()
		}
		p.owners[of].addNote(&note{path: name, name: r.Name}, r.Aliases)
	}
	p.taken = map[string]struct{}{}
	return nil
}

// lookPage is how many memories are read at a time.
const lookPage = 5_000

// baseHash is a hash of what a link names a file by. Two that are equal by chance cost a longer link.
func baseHash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(fold(path.Base(name)))) // a hash never fails
	return h.Sum64()
}

func (p *pageWriter) end() error { return nil }

func (p *pageWriter) line(typ string, raw []byte) (bool, error) {
	if typ != exchange.TypeMemory {
		return false, nil
	}
	r, err := readRecord(raw)
	if err != nil || r.Text == "" { // a vector alone is nothing to read
		return false, err
	}
	name, err := p.name(&r)
	if err != nil {
		return false, err
	}
	text, err := pageOf(&r, name, p.relink(&r, trimPage(name)))
	if err != nil {
		return false, fmt.Errorf("memory %.80q: %w", r.ID, err)
	}
	return true, p.write(name, text, cmp.Or(r.UpdatedAt, r.CreatedAt).Time)
}

// relink rewrites the links of a memory to notes that would not lead to their files, and returns
// what it has written, with what stood there.
func (p *pageWriter) relink(r *exchange.Record, file string) map[string]string {
	names := p.owners[scope.Owner{User: r.User, Agent: r.Agent}]
	if names == nil {
		return nil
	}
	from := "" // what is no note stands nowhere among their names
	if isNote(r.Kind) {
		from = r.Name
	}
	now, was := map[string]string{}, map[string]string{}
	swap := func(whole string, table bool) string {
		if s, ok := now[whole]; ok {
			return s
		}
		l, ok := readLink(whole)
		if !ok {
			return whole
		}
		to := names.meant(from, l)
		if to == nil || p.leads(file, l, to.path) {
			return whole
		}
		for _, s := range l.spellings(file, to.path, table) {
			if _, used := was[s]; !used && !mentions(r, s) {
				now[whole], was[s] = s, whole
				return s
			}
		}
		return whole
	}
	text := withLinks(r.Text, swap)
	for key, v := range r.Metadata {
		r.Metadata[key] = mapTexts(v, func(s string) string { return withLinks(s, swap) })
	}
	r.Text = text
	return was
}

// leads reports whether a link of a file leads to another one.
func (p *pageWriter) leads(file string, l link, to string) bool {
	if !l.wiki && p.files.beside(file, l.target) != "" {
		return p.files.beside(file, l.target) == to
	}
	if !strings.HasPrefix(l.target, ".") && p.files.byPath[trimPage(fold(l.target))] == "" {
		if _, other := p.others[baseHash(trimPage(l.target))]; other {
			return false // there is another file of that name
		}
	}
	return p.files.find(file, l.target) == to
}

// mentions reports whether a memory contains a text.
func mentions(r *exchange.Record, s string) bool {
	if strings.Contains(r.Text, s) {
		return true
	}
	found := false
	mapTexts(r.Metadata, func(t string) string {
		found = found || strings.Contains(t, s)
		return t
	})
	return found
}

// name is a name that no file before has.
func (p *pageWriter) name(r *exchange.Record) (string, error) {
	name := pageName(r)
	for range 2 {
		key := fold(name)
		if _, taken := p.taken[key]; !taken {
			p.taken[key] = struct{}{}
			return name, nil
		}
		name = trimPage(name) + "~" + shortHash(r.User+"\x00"+r.Agent+"\x00"+r.ID) + ".md"
	}
	return "", errors.New("two files would have the name " + name)
}

// pageName is the name of the file of a memory.
func pageName(r *exchange.Record) string {
	var owner []string
	for _, part := range []struct{ kind, name string }{{"user", r.User}, {"agent", r.Agent}} {
		if part.name != "" {
			owner = append(owner, part.kind+"-"+safeName(part.name))
		}
	}
	folder := strings.Join(owner, "--")
	if folder == "" {
		folder = "run-" + safeName(r.Run)
	}
	if r.Name != "" && isNote(r.Kind) {
		parts := strings.Split(r.Name, "/")
		for i := range parts {
			if parts[i] = noteName(parts[i]); i < len(parts)-1 && isPage(parts[i]) {
				parts[i] = strings.ReplaceAll(parts[i], ".", "_") // a file may have that name
			}
		}
		return folder + "/" + string(r.Kind) + "s/" + strings.Join(parts, "/") + ".md"
	}
	month := "undated"
	if !r.CreatedAt.IsZero() {
		month = r.CreatedAt.UTC().Format("2006-01")
	}
	return folder + "/" + month + "/" + safeName(r.ID) + ".md"
}

// maxNoteName bounds a part of the name of a note's file, in bytes: a disk allows 255, and what
// follows it takes up to 29.
const maxNoteName = 220

// noteName is a part of a note's name as a part of the name of a file: as it is, but for what some
// disk refuses, and a dot that would hide the file.
func noteName(s string) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`<>:"\|?*`, r) {
			return '_'
		}
		return r
	}, s)
	if len(name) > maxNoteName {
		name = strings.ToValidUTF8(name[:maxNoteName], "") + "~" + shortHash(s)
	}
	if end := strings.TrimRight(name, ". "); len(end) < len(name) {
		name = end + strings.Repeat("_", len(name)-len(end))
	}
	if stem, _, _ := strings.Cut(name, "."); stem == "" || slices.Contains(reserved, strings.ToLower(strings.TrimRight(stem, " "))) {
		name = "_" + strings.TrimPrefix(name, ".")
	}
	return name
}

// maxName bounds a part of a name, in bytes: a disk allows 255.
const maxName = 120

// safeName is a part of a file's name that any disk takes. What cannot stand in it, or would be
// the same as another name there, is told apart by a hash.
func safeName(s string) string {
	var b strings.Builder
	plain := true
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_':
			b.WriteRune(r)
		case r == '.' && b.Len() > 0:
			b.WriteRune(r)
		case r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			plain = false
			b.WriteRune(r)
		case r == ' ':
			plain = false
			b.WriteByte('-')
		default:
			plain = false
			b.WriteByte('_')
		}
	}
	name := b.String()
	if len(name) > maxName {
		name, plain = strings.ToValidUTF8(name[:maxName], ""), false
	}
	if stem, _, _ := strings.Cut(name, "."); slices.Contains(reserved, strings.ToLower(stem)) || strings.HasSuffix(name, ".") {
		name, plain = "_"+strings.TrimRight(name, "."), false
	}
	if !plain || name == "" {
		name += "~" + shortHash(s)
	}
	return name
}

// reserved are names that Windows keeps for devices.
var reserved = []string{"con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9"}

func shortHash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:4])
}

// pageOf is the file of a memory: front matter in the order of its keys, and the text. was has the
// links that were rewritten in it.
func pageOf(r *exchange.Record, file string, was map[string]string) ([]byte, error) {
	b := bytes.NewBufferString(OwnHead)
	put := func(key string, v any, there bool) error {
		if !there {
			return nil
		}
		fmt.Fprintf(b, "%s: ", key)
		return yamlOf(b, v)
	}
	aliases, added := r.Aliases, ""
	if base := path.Base(r.Name); isNote(r.Kind) && r.Name != "" && base != path.Base(trimPage(file)) && !slices.Contains(aliases, base) {
		aliases, added = append(slices.Clone(aliases), base), base
	}
	times := map[string]exchange.Time{
		"created_at": r.CreatedAt, "updated_at": r.UpdatedAt, "event_time": r.EventTime, "expires_at": r.ExpiresAt.Instant, "last_accessed": r.LastAccessed,
	}
	err := errors.Join(
		put("id", r.ID, true), put("user", r.User, r.User != ""), put("agent", r.Agent, r.Agent != ""), put("run", r.Run, r.Run != ""),
		put("role", r.Role, true), put("kind", r.Kind, true), put("source", r.Source, r.Source != ""),
		put("name", r.Name, r.Name != ""), put(aliasKeys[0], aliases, len(aliases) > 0), put(fileAliasKey, added, added != ""), put(linksKey, was, len(was) > 0),
	)
	for _, key := range []string{"created_at", "updated_at", "event_time", "expires_at", "last_accessed"} {
		t := times[key]
		err = errors.Join(err, put(key, t.String(), !t.IsZero() && (key != "updated_at" || !t.Equal(r.CreatedAt.Time))))
	}
	err = errors.Join(err,
		put("access_count", r.AccessCount, r.AccessCount > 0),
		put("importance", r.Importance, r.Importance != nil), put("auto_importance", true, r.AutoImportance),
		put("confidence", r.Confidence, r.Confidence != nil && *r.Confidence != 1), put("pinned", true, r.Pinned),
	)
	inner := false
	for _, key := range slices.Sorted(maps.Keys(r.Metadata)) {
		if !slices.Contains(frontKeys, key) {
			err = errors.Join(err, yamlKey(b, key), yamlOf(b, r.Metadata[key]))
			continue
		}
		inner = true
	}
	if inner {
		b.WriteString(metadataKey + ":\n")
		for _, key := range frontKeys {
			if v, ok := r.Metadata[key]; ok {
				b.WriteString("  ")
				err = errors.Join(err, yamlKey(b, key), yamlOf(b, v))
			}
		}
	}
	b.WriteString("---\n\n" + r.Text + "\n")
	return b.Bytes(), err
}

// frontKeys are the keys that mean something in the front matter of an exported file, in their
// order. Metadata of these names stand below a key of their own.
var frontKeys = func() []string {
	keys := []string{ownKey, metadataKey, linksKey, fileAliasKey, "name", "role", "kind", "source", "importance", "auto_importance", "confidence", "pinned", "access_count", "last_accessed"}
	keys = slices.Concat(keys, aliasKeys, textKeys, idKeys, userKeys, agentKeys, runKeys, createdKeys, updatedKeys, eventKeys, expiryKeys, vectorKeys)
	slices.Sort(keys)
	return slices.Compact(keys)
}()

func yamlKey(b *bytes.Buffer, key string) error {
	if plainKey(key) {
		b.WriteString(key + ": ")
		return nil
	}
	if err := yamlOf(b, key); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the end of its line
	b.WriteString(": ")
	return nil
}

// plainKey reports whether a key needs no quotes.
func plainKey(key string) bool {
	for i, r := range key {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if inside := r >= '0' && r <= '9' || r == '-'; !letter && (i == 0 || !inside) {
			return false
		}
	}
	return key != "" && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(key))
}

// yamlOf writes a value as JSON, which is YAML, too, once the characters are escaped that YAML does
// not print. Those of HTML stay as they are.
func yamlOf(b *bytes.Buffer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	for _, r := range text.String() {
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r >= 0xfffe && r <= 0xffff {
			fmt.Fprintf(b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return nil
}
