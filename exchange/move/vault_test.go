package move

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// randomVault is a folder of notes that link to each other in every spelling, with front matter of
// every kind.
func randomVault(rng *rand.Rand) fstest.MapFS {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	folders := []string{"", "", "Daily/", "Projects/", "Projects/Kiln 2/", "a.md/", "Ünïcode/", "notes/"}
	bases := []string{"Home", "home", "Kiln", "Glaze (red)", "What now?", "a:b", "Q & A", "2026-01-05", "con", "trailing.", "Café", "x.y", "tea", "C", "It's \"so\"", "long " + strings.Repeat("n", 90)}
	files := fstest.MapFS{}
	var names []string
	for range 4 + rng.IntN(20) {
		name := pick(folders...) + pick(bases...)
		if files[name+".md"] == nil {
			files[name+".md"] = &fstest.MapFile{ModTime: time.UnixMilli(1.6e12 + rng.Int64N(1e11))}
			names = append(names, name)
		}
	}
	link := func() string {
		to := names[rng.IntN(len(names))]
		if rng.IntN(3) > 0 {
			to = path.Base(to)
		}
		escaped := strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "?", "%3F", "%", "%25").Replace(to)
		return pick("[["+to+"]]", "[["+to+"|the words]]", "[["+to+"#A heading]]", "[["+to+"#^block|x]]", "![["+to+"]]", "[["+strings.ToUpper(to)+"]]", "[["+to+".md]]",
			"[words]("+escaped+".md)", "[words](../"+escaped+".md#part)", "[words](<"+to+".md> \"title\")", "[[nowhere]]", "![[picture.png]]", "[out](https://example.org/a.md)", "| a [["+to+"\\|b]] | [["+to+"]] |")
	}
	for _, name := range names {
		var b strings.Builder
		switch rng.IntN(6) {
		case 0:
			b.WriteString("---\ntags: [one, two/three]\naliases: [" + pick("Tea", "Kiln", "other name", "\"x: y\"") + ", second]\ncreated: 2024-01-02\nup: \"[[" + pick(names...) + "]]\"\nempty:\n---\n")
		case 1:
			b.WriteString("---\nalias: one, two\ndate: 2024-01-02T03:04:05Z\nid: " + pick("7", "same", "Home") + "\nname: other\nrating: 4.50\nup: [[Home]]\nmetadata: {a: 1, b: [null, {c: d}]}\ntext: t\n---\n\n")
		case 2:
			b.WriteString("---\nbad: [front, matter\n" + link() + "\n---\n")
		}
		for range rng.IntN(5) {
			b.WriteString(pick("Words ", "\n", "\r\n", "> ", "`code` ") + link() + pick(" and more", "\n\n", ""))
		}
		files[name+".md"].Data = []byte(b.String())
	}
	for _, other := range []string{".obsidian/app.json", ".trash/old.md", "picture.png", "Daily/sound.mp3"} {
		files[other] = &fstest.MapFile{Data: []byte("{}")}
	}
	return files
}

// memoriesOf are all memories of a database as lines, without what each database gives out itself.
func memoriesOf(t *testing.T, db *engine.DB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for m, err := range db.Memories().All(t.Context(), memory.ListQuery{AllScopes: true}) {
		if err != nil {
			t.Fatal(err)
		}
		m.Seq, m.NoteID = 0, 0
		b, err := json.Marshal(exchange.NewRecord(m))
		if err != nil {
			t.Fatal(err)
		}
		out[m.User+"/"+m.Agent+"/"+m.ID] = string(b)
	}
	return out
}

// relationsOf are the links between notes, by their names.
func relationsOf(t *testing.T, f fs.FS) (relations []string) {
	t.Helper()
	for item, err := range Read(Markdown, &Input{Name: "v", Folder: f}, &Options{Into: exchange.Options{Scope: memory.Scope{User: "ada"}}}).All(t.Context()) {
		if err != nil || item.At.Err != nil {
			t.Fatalf("%v, %v", item.At, err)
		}
		if r, ok := item.Line.(graph.RelationLine); ok {
			relations = append(relations, r.User+": "+r.From+" → "+r.To)
		}
	}
	slices.Sort(relations)
	return relations
}

func exportVault(t *testing.T, db *engine.DB) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	_, err := ExportMarkdown(t.Context(), db, func(name string, text []byte, changed time.Time) error {
		if files[name] != nil || !fs.ValidPath(name) || strings.ContainsAny(name, "\\:*?\"<>|") {
			t.Errorf("a file is named %q", name)
		}
		files[name] = &fstest.MapFile{Data: bytes.Clone(text), ModTime: changed}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// obsidian finds the file of a [[link]] by the documented rules, written apart from the code that is
// tested: the path from the root, then a file whose path ends so, in the same folder first, then the
// shortest.
func obsidian(files fstest.MapFS, from, target string) string {
	target = strings.ToLower(strings.TrimSuffix(target, ".md")) + ".md"
	var ends []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		lower := strings.ToLower(name)
		if lower == strings.TrimPrefix(target, "/") {
			return name
		}
		if strings.HasSuffix(lower, "/"+target) {
			ends = append(ends, name)
		}
	}
	slices.SortFunc(ends, func(a, b string) int {
		near := func(s string) int {
			if strings.HasPrefix(strings.ToLower(s), strings.ToLower(path.Dir(from))+"/") {
				return 0
			}
			return 1
		}
		if near(a) != near(b) {
			return near(a) - near(b)
		}
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	if len(ends) == 0 {
		return ""
	}
	return ends[0]
}

// TestVaults verifies that a vault that is imported, exported and imported again is the same in the
// database, with the same links between the same notes, and that each link that leads to a note leads
// to its file in the exported folder.
func TestVaults(t *testing.T) {
	wiki := regexp.MustCompile(`\[\[([^\[\]\n|#\\]+)`)
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 47))
		vault := randomVault(rng)
		first := openMemory(t)
		items := Read(Markdown, &Input{Name: "v", Folder: vault}, &Options{Into: exchange.Options{Scope: memory.Scope{User: "ada"}}})
		report, err := exchange.ImportItems(t.Context(), first, items.All(t.Context()), nil)
		if err != nil || report.Skipped > 0 {
			t.Fatalf("seed %d: %+v, error %v", seed, report, err)
		}
		pages := 0
		for name := range vault {
			if strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, ".") {
				pages++
			}
		}
		all := memoriesOf(t, first)
		if len(all) != pages {
			t.Errorf("seed %d: %d memories of %d files", seed, len(all), pages)
		}
		for _, kind := range []string{"folder .obsidian", "folder .trash", "file picture.png", "file Daily/sound.mp3"} {
			if items.LeftOut()[kind] != 1 {
				t.Errorf("seed %d: left out %v, without %s", seed, items.LeftOut(), kind)
			}
		}
		// What is no note, and the notes of others, draw no link to themselves.
		for _, m := range []memory.Memory{
			{ID: "kiln", Scope: memory.Scope{User: "ada"}, Text: "no note, but [[What now?]] and [[Kiln]]"},
			{ID: "c", Scope: memory.Scope{User: "ada", Agent: "b"}, Kind: memory.KindNote, Name: "Kiln", Text: "[[C]]"},
			{ID: "d", Scope: memory.Scope{User: "a"}, Kind: memory.KindNote, Name: "C", Text: "of a"},
		} {
			if _, err := first.Memories().Store(t.Context(), m, nil); err != nil {
				t.Fatal(err)
			}
		}
		all = memoriesOf(t, first)
		folder := exportVault(t, first)
		if again := exportVault(t, first); !reflect.DeepEqual(again, folder) {
			t.Errorf("seed %d: a second export differs", seed)
		}
		back := openMemory(t)
		report, err = importSample(t.Context(), back, Markdown, &Input{Name: "v", Folder: folder})
		if err != nil || report.Skipped > 0 {
			t.Fatalf("seed %d: %+v, error %v", seed, report, err)
		}
		if got := memoriesOf(t, back); !maps.Equal(got, all) {
			for key, m := range all {
				if got[key] != m {
					t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, got[key], m)
				}
			}
		}
		want := relationsOf(t, vault)
		if got := slices.DeleteFunc(relationsOf(t, folder), func(s string) bool { return !strings.HasPrefix(s, "ada: ") }); !slices.Equal(got, want) {
			t.Errorf("seed %d: links\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		// The files of the notes of ada, by what their front matter names them.
		named := map[string]string{}
		front := func(file string) fields {
			f, _, err := splitPage(string(folder[file].Data))
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		for file := range folder {
			if f := front(file); f.text("user") == "ada" && f.text("agent") == "" && f["name"] != nil {
				named[f.text("name")] = file
			}
		}
		for name := range vault {
			if !isPage(name) || strings.HasPrefix(name, ".") {
				continue
			}
			file := named[trimPage(name)]
			if modified := vault[name].ModTime; !folder[file].ModTime.Equal(modified) && !bytes.Contains(vault[name].Data, []byte("-01-02")) {
				t.Errorf("seed %d: %s is of %v, and was of %v", seed, file, folder[file].ModTime, modified)
			}
			f := front(file)
			var aliases []string
			_ = json.Unmarshal(f["aliases"], &aliases)
			if base := path.Base(trimPage(name)); base != path.Base(trimPage(file)) && !slices.Contains(aliases, base) {
				t.Errorf("seed %d: %s has lost its name %q: aliases %q", seed, file, base, aliases)
			}
			_, was, _ := splitPage(string(vault[name].Data))
			_, now, _ := splitPage(string(folder[file].Data))
			before, after := wiki.FindAllStringSubmatch(was, -1), wiki.FindAllStringSubmatch(now, -1)
			if len(before) != len(after) {
				continue // bad front matter is text now
			}
			for i := range before {
				to := obsidian(vault, name, before[i][1])
				if to == "" {
					continue
				}
				if got := obsidian(folder, file, after[i][1]); got != named[trimPage(to)] {
					t.Errorf("seed %d: %s: [[%s]] led to %s; [[%s]] leads to %q, not to %q", seed, name, before[i][1], to, after[i][1], got, named[trimPage(to)])
				}
			}
		}
		if t.Failed() {
			break
		}
	}
}

// TestVaultTimes verifies where the times of a note come from.
func TestVaultTimes(t *testing.T) {
	changed := time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC)
	for _, c := range []struct{ front, created, updated string }{
		{"", "2026-02-03T04:05:06.789Z", ""},
		{"created: 2024-01-02\n", "2024-01-02T00:00:00Z", "2026-02-03T04:05:06.789Z"},
		{"date: 2024-01-02\nupdated: 2025-01-02\n", "2024-01-02T00:00:00Z", "2025-01-02T00:00:00Z"},
		{"created: 2026-05-05\n", "2026-05-05T00:00:00Z", ""},
		{"created: soon\n", "2026-02-03T04:05:06.789Z", ""},
	} {
		files := fstest.MapFS{"a.md": {Data: []byte("---\n" + c.front + "---\ntext\n"), ModTime: changed}}
		for item, err := range Read(Markdown, &Input{Folder: files}, nil).All(t.Context()) {
			if err != nil || item.Memory == nil {
				t.Fatalf("%v, %v", item, err)
			}
			show := func(at time.Time) string {
				if at.IsZero() {
					return ""
				}
				return at.Format(time.RFC3339Nano)
			}
			if got := show(item.Memory.CreatedAt); got != c.created || show(item.Memory.UpdatedAt) != c.updated {
				t.Errorf("%q: created %s, updated %s", c.front, got, show(item.Memory.UpdatedAt))
			}
		}
	}
}

// TestVaultAliases verifies which notes get the last parts of their paths as aliases.
func TestVaultAliases(t *testing.T) {
	files := fstest.MapFS{}
	for name, front := range map[string]string{
		"Kiln.md": "", "deep/er/Glaze.md": "", "deep/Glaze.md": "", "shop/Kiln.md": "aliases: [oven, Glaze, Kiln]\n", "shop/Wheel.md": "alias: 'oven, turn'\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte("---\n" + front + "---\ntext\n")}
	}
	want := map[string]string{"Kiln": "[] <nil>", "deep/er/Glaze": "[] <nil>", "deep/Glaze": "[Glaze] <nil>", "shop/Kiln": "[oven] [Glaze Kiln]", "shop/Wheel": "[Wheel turn] [oven]"}
	for item, err := range Read(Markdown, &Input{Folder: files}, nil).All(t.Context()) {
		if err != nil || item.Memory == nil {
			t.Fatalf("%v, %v", item, err)
		}
		m := item.Memory
		if got := fmt.Sprint(m.Aliases, " ", m.Metadata["aliases"]); got != want[m.Name] {
			t.Errorf("%s: aliases and metadata %s, want %s", m.Name, got, want[m.Name])
		}
	}
}

// TestBadFrontMatter verifies that a file whose front matter cannot be read is kept whole, and
// reported.
func TestBadFrontMatter(t *testing.T) {
	files := fstest.MapFS{"ok.md": {Data: []byte("fine")}, "x/bad.md": {Data: []byte("---\na: [1\nlink: [[ok]]\n---\ntext\n")}}
	items := Read(Markdown, &Input{Folder: files}, nil)
	texts := map[string]string{}
	relations := 0
	for item, err := range items.All(t.Context()) {
		if err != nil || item.At.Err != nil {
			t.Fatalf("%v, %v", item.At, err)
		}
		if item.Memory != nil {
			texts[item.Memory.Name] = item.Memory.Text
		}
		if item.Type == graph.TypeRelation {
			relations++
		}
	}
	if texts["x/bad"] != "---\na: [1\nlink: [[ok]]\n---\ntext" || texts["ok"] != "fine" || relations != 1 {
		t.Errorf("%q, %d relations", texts, relations)
	}
	for what := range items.LeftOut() {
		if strings.HasPrefix(what, "front matter that is kept as text, of x/bad.md: ") {
			return
		}
	}
	t.Errorf("left out %v", items.LeftOut())
}
