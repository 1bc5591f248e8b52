package move

import (
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxLinks bounds the links that are read of one file.
	maxLinks = 10_000
	// maxNamesakes bounds the files of one name among which a link is looked up: of more, those
	// with the shortest paths.
	maxNamesakes = 1000
)

// A vault finds the file that a link means, by the rules of Obsidian: a path from the root; else,
// of the files whose path ends with the link, those below the folder of the linking file come
// first, and of these the one with the shortest path. Letters match in both cases.
type vault struct {
	byPath map[string]string
	byBase map[string][]string // by the last part of the path, the shortest path first
}

func newVault() *vault {
	return &vault{byPath: map[string]string{}, byBase: map[string][]string{}}
}

// fold returns what is equal of two paths that mean the same file.
func fold(name string) string { return strings.ToLower(norm.NFC.String(name)) }

// add adds a file by its path without the ending.
func (v *vault) add(name string) {
	key := fold(name)
	if v.byPath[key] == "" {
		v.byPath[key] = name
	}
	all := v.byBase[path.Base(key)]
	at, _ := slices.BinarySearchFunc(all, len(name)+1, func(s string, n int) int { return len(s) - n })
	v.byBase[path.Base(key)] = slices.Insert(all, at, name)
}

// find returns the path of the file that a link of another file means, empty if there is none.
func (v *vault) find(from, link string) string {
	key := fold(link)
	if at := v.lookUp(fold(from), trimPage(key)); at != "" {
		return at
	}
	return v.lookUp(fold(from), key) // a file x.md.md
}

func (v *vault) lookUp(from, key string) string {
	dir := path.Dir(from)
	switch {
	case strings.HasPrefix(key, "./"), strings.HasPrefix(key, "../"):
		return v.byPath[path.Join(dir, key)]
	case strings.HasPrefix(key, "/"):
		return v.byPath[path.Clean(key)[1:]]
	}
	if at := v.byPath[key]; at != "" {
		return at
	}
	all, first := v.byBase[path.Base(key)], ""
	for _, name := range all[:min(len(all), maxNamesakes)] {
		at := fold(name)
		if at != key && !strings.HasSuffix(at, "/"+key) {
			continue
		}
		if dir == "." || strings.HasPrefix(at, dir+"/") {
			return name
		}
		if first == "" {
			first = name
		}
	}
	return first
}

// beside returns the file at a path relative to the folder of another file, empty if there is
// none.
func (v *vault) beside(from, link string) string {
	return v.byPath[path.Join(path.Dir(fold(from)), trimPage(fold(link)))]
}

// A link is [[target#part|words]], or the end ](target#part "title") of [words](…).
type link struct {
	wiki   bool
	target string // unescaped, without the part of the file
	part   string // #heading or ^block
	words  string // behind the bar, or the title, with what is before them
}

var (
	wikiLink = regexp.MustCompile(`\[\[([^\[\]\n]+)\]\]`)
	mdLink   = regexp.MustCompile(`\]\([ \t]*(?:<([^<>\n]+)>|((?:[^()\s<>]|\([^()\s]*\))+))([ \t]+(?:"[^"\n]*"|'[^'\n]*'))?[ \t]*\)`)
	// otherPlace is the scheme of a URL.
	otherPlace = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
)

// readLink reads what wikiLink or mdLink have matched, false for a link out of the folder or to a
// place in the same file.
func readLink(whole string) (l link, ok bool) {
	if m := wikiLink.FindStringSubmatch(whole); m != nil {
		l.wiki, l.target = true, m[1]
		if at := strings.IndexByte(m[1], '|'); at >= 0 {
			at -= len(m[1][:at]) - len(strings.TrimSuffix(m[1][:at], `\`)) // a bar in a table
			l.target, l.words = m[1][:at], m[1][at:]
		}
	} else if m := mdLink.FindStringSubmatch(whole); m != nil {
		l.target, l.words = m[1]+m[2], m[3]
		if otherPlace.MatchString(l.target) || strings.HasPrefix(l.target, "//") {
			return l, false
		}
	}
	if at := strings.IndexAny(l.target, "#^"); at >= 0 {
		l.target, l.part = l.target[:at], l.target[at:]
	}
	if !l.wiki {
		if s, err := url.PathUnescape(l.target); err == nil {
			l.target = s
		}
	}
	l.target = strings.TrimSpace(l.target)
	return l, l.target != ""
}

// linksOf returns the links of a text, and of the texts in a value of the front matter, where
// [[target]] without quotes is a list in a list. Each is there once.
func linksOf(text string, front map[string]any) (links []link) {
	seen := map[link]bool{}
	add := func(whole string) {
		if l, ok := readLink(whole); ok && !seen[link{wiki: l.wiki, target: l.target}] && len(links) < maxLinks {
			seen[link{wiki: l.wiki, target: l.target}] = true
			links = append(links, l)
		}
	}
	in := func(s string) {
		if !strings.Contains(s, "](") && !strings.Contains(s, "[[") {
			return
		}
		for _, re := range []*regexp.Regexp{wikiLink, mdLink} {
			for _, whole := range re.FindAllString(s, maxLinks) {
				add(whole)
			}
		}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			in(v)
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(v[key])
			}
		case []any:
			for _, one := range v {
				if inner, ok := one.([]any); ok && len(inner) == 1 {
					if s, ok := inner[0].(string); ok {
						add("[[" + s + "]]")
						continue
					}
				}
				walk(one)
			}
		}
	}
	walk(front)
	in(text)
	return links
}

// withLinks replaces links of a text by what swap returns for them. table reports that the line is
// a row of a table, in which a bar needs a backslash.
func withLinks(text string, swap func(whole string, table bool) string) string {
	for _, re := range []*regexp.Regexp{wikiLink, mdLink} {
		var b strings.Builder
		at, line := 0, ""
		for _, m := range re.FindAllStringIndex(text, -1) {
			between := text[at:m[0]]
			if end := strings.LastIndexByte(between, '\n'); end >= 0 {
				line = between[end+1:]
			} else if line == "" {
				line = between
			}
			b.WriteString(between)
			b.WriteString(swap(text[m[0]:m[1]], strings.HasPrefix(strings.TrimLeft(line, " \t>"), "|")))
			at = m[1]
		}
		if at > 0 {
			text = b.String() + text[at:]
		}
	}
	return text
}

// mapTexts returns a value with each text in it replaced.
func mapTexts(v any, swap func(string) string) any {
	switch v := v.(type) {
	case string:
		return swap(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, one := range v {
			out[key] = mapTexts(one, swap)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = mapTexts(one, swap)
		}
		return out
	}
	return v
}

// spellings returns how a link can be written so that it means a file by its path from the root.
// Each is another text with the same meaning.
func (l *link) spellings(from, file string, table bool) []string {
	if l.wiki {
		words := l.words
		if words == "" {
			words = "|" + l.target + l.part
			if table {
				words = `\` + words
			}
		}
		return []string{
			"[[" + file + l.part + words + "]]", "[[" + file + ".md" + l.part + words + "]]", "[[/" + file + l.part + words + "]]", "[[/" + file + ".md" + l.part + words + "]]",
		}
	}
	rel, err := filepath.Rel(filepath.FromSlash(path.Dir(from)), filepath.FromSlash(file+".md"))
	if err != nil {
		return nil
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for i := range parts {
		parts[i] = strings.NewReplacer("(", "%28", ")", "%29").Replace(url.PathEscape(parts[i]))
	}
	to := strings.Join(parts, "/") + l.part
	return []string{"](" + to + l.words + ")", "](" + to + l.words + " )", "](./" + to + l.words + ")"}
}

// relinked returns the original links of a page that an export wrote, by how they stand there.
func relinked(raw json.RawMessage) *strings.Replacer {
	var was map[string]string
	_ = json.Unmarshal(raw, &was) // an edit that breaks the list leaves the links as they stand
	pairs := make([]string, 0, 2*len(was))
	for _, now := range slices.Sorted(maps.Keys(was)) {
		if now != "" {
			pairs = append(pairs, now, was[now])
		}
	}
	return strings.NewReplacer(pairs...)
}
