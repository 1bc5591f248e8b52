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
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// OwnHead is what each file of an exported folder begins with.
const OwnHead = "---\n" + ownKey + ": " + pageVersion + "\n"

// AboutPages is the file that says what a folder is an export of; it is none of the memories.
const AboutPages = ".memdb-export.json"

// ExportMarkdown writes a file for each memory by way of write, which gets the name of a file, with
// slashes, and its text. A name follows from the owner, the month and the ID, or the name of a
// note, so that a change of one memory changes one file. The text stands below front matter that
// has the rest but vectors.
func ExportMarkdown(ctx context.Context, db *engine.DB, write func(name string, text []byte) error, o *exchange.ExportOptions) (Moved, error) {
	return export(ctx, db, o, &pageWriter{write: write, taken: map[string]struct{}{}})
}

type pageWriter struct {
	write func(name string, text []byte) error
	taken map[string]struct{} // names, in lower case: not every disk tells the cases apart
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
	text, err := pageOf(&r)
	if err != nil {
		return false, fmt.Errorf("memory %.80q: %w", r.ID, err)
	}
	name, err := p.name(&r)
	if err != nil {
		return false, err
	}
	return true, p.write(name, text)
}

// name is a name that no file before has.
func (p *pageWriter) name(r *exchange.Record) (string, error) {
	name := pageName(r)
	for range 2 {
		key := strings.ToLower(name)
		if _, taken := p.taken[key]; !taken {
			p.taken[key] = struct{}{}
			return name, nil
		}
		name = strings.TrimSuffix(name, ".md") + "~" + shortHash(r.User+"\x00"+r.Agent+"\x00"+r.ID) + ".md"
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
	if r.Name != "" && (r.Kind == memory.KindNote || r.Kind == memory.KindArchive) {
		parts := strings.Split(r.Name, "/")
		for i := range parts {
			parts[i] = safeName(cmp.Or(parts[i], "_"))
		}
		return folder + "/" + string(r.Kind) + "s/" + strings.Join(parts, "/") + ".md"
	}
	month := "undated"
	if !r.CreatedAt.IsZero() {
		month = r.CreatedAt.UTC().Format("2006-01")
	}
	return folder + "/" + month + "/" + safeName(r.ID) + ".md"
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

// pageOf is the file of a memory: front matter in the order of its keys, and the text.
func pageOf(r *exchange.Record) ([]byte, error) {
	b := bytes.NewBufferString(OwnHead)
	put := func(key string, v any, there bool) error {
		if !there {
			return nil
		}
		fmt.Fprintf(b, "%s: ", key)
		return yamlOf(b, v)
	}
	times := map[string]exchange.Time{
		"created_at": r.CreatedAt, "updated_at": r.UpdatedAt, "event_time": r.EventTime, "expires_at": r.ExpiresAt.Instant, "last_accessed": r.LastAccessed,
	}
	err := errors.Join(
		put("id", r.ID, true), put("user", r.User, r.User != ""), put("agent", r.Agent, r.Agent != ""), put("run", r.Run, r.Run != ""),
		put("role", r.Role, true), put("kind", r.Kind, true), put("source", r.Source, r.Source != ""),
		put("name", r.Name, r.Name != ""), put("aliases", r.Aliases, len(r.Aliases) > 0),
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
	if len(r.Metadata) > 0 {
		b.WriteString("metadata:\n")
		for _, key := range slices.Sorted(maps.Keys(r.Metadata)) {
			b.WriteString("  ")
			err = errors.Join(err, yamlKey(b, key), yamlOf(b, r.Metadata[key]))
		}
	}
	b.WriteString("---\n\n" + r.Text + "\n")
	return b.Bytes(), err
}

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
