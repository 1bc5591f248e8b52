package arch

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// storeFree reports whether a package, with all that it stands on, imports no store: a program
// that asks a model, and nothing else, does not link one.
func storeFree(name string, rule row) bool {
	switch name {
	case "services/httpjson", "services/meter":
		return true
	case "backup": // their files come through the seam, whose interface is the store's
		return false
	}
	return slices.Contains([]floor{parts, model, contracts, makers, dialects, adapters}, rule.floor)
}

// checkLinks looks for ways from packages that are to be free of the store to the store.
func checkLinks(files []*goFile, law map[string]row) []finding {
	imports := map[string][]string{}
	for _, f := range files {
		for _, target := range imported(f) {
			if !f.test {
				imports[f.pkg] = append(imports[f.pkg], strings.TrimPrefix(target, module+"/"))
			}
		}
	}
	var found []finding
	for _, name := range slices.Sorted(maps.Keys(law)) {
		if !storeFree(name, law[name]) {
			continue
		}
		if way := wayTo(imports, name, pebble); way != nil {
			found = append(found, finding{name, "links the store: " + strings.Join(way, " imports ")})
		}
	}
	return found
}

// wayTo is a shortest way of imports from a package to a library, nil where there is none.
func wayTo(imports map[string][]string, from, library string) []string {
	seen := map[string]bool{from: true}
	for queue := [][]string{{from}}; len(queue) > 0; queue = queue[1:] {
		way := queue[0]
		for _, next := range slices.Sorted(slices.Values(imports[way[len(way)-1]])) {
			if seen[next] {
				continue
			}
			seen[next] = true
			further := append(slices.Clone(way), next)
			if under(next, []string{library}) {
				return further
			}
			queue = append(queue, further)
		}
	}
	return nil
}

func TestClientsLinkNoStore(t *testing.T) {
	report(t, checkLinks(goFiles(t), law))
}

// TestEngineLinksNoProtocol has the database, and what a program links with it, be free of the
// libraries of its faces.
func TestEngineLinksNoProtocol(t *testing.T) {
	imports := map[string][]string{}
	for _, f := range goFiles(t) {
		for _, target := range imported(f) {
			if !f.test {
				imports[f.pkg] = append(imports[f.pkg], strings.TrimPrefix(target, module+"/"))
			}
		}
	}
	for _, library := range []string{"github.com/modelcontextprotocol/go-sdk", "github.com/google/jsonschema-go", "github.com/spf13/cobra"} {
		for _, name := range []string{"engine", "exchange", "services/facts", "services/server"} {
			if way := wayTo(imports, name, library); way != nil {
				t.Errorf("%s links %s: %s", name, library, strings.Join(way, " imports "))
			}
		}
		if wayTo(imports, "cmd/memdbctl", library) == nil {
			t.Errorf("nothing of memdbctl links %s: the test looks for what is not there", library)
		}
	}
}

func TestCheckLinks(t *testing.T) {
	law := map[string]row{
		"engine":     {floor: middle},
		"part":       {floor: parts},
		"client":     {floor: adapters},
		"internal/a": {floor: base},
		"internal/b": {floor: base},
	}
	b := "internal/b/b.go imports " + pebble
	for _, c := range []struct {
		imports []string // "a file imports a package"
		want    string   // a part of the finding; empty: none
	}{
		{[]string{"engine/e.go imports " + pebble, "internal/a/a.go imports " + pebble}, ""},
		{[]string{"part/p.go imports " + pebble}, "part imports " + pebble},
		{[]string{"part/p_test.go imports " + pebble}, ""},
		{[]string{"client/c.go imports " + module + "/internal/a", "internal/a/a.go imports " + module + "/internal/b", b + "/vfs"}, "client imports internal/a imports internal/b imports " + pebble + "/vfs"},
		{[]string{"client/c.go imports " + module + "/internal/a", "internal/a/a_test.go imports " + module + "/internal/b", b}, ""},
		{[]string{"client/c.go imports " + module + "/internal/a", "internal/a/a.go imports " + module + "/internal/a", b + "x"}, ""},
	} {
		var files []*goFile
		for _, line := range c.imports {
			file, target, _ := strings.Cut(line, " imports ")
			f, err := parse(file, "package "+path.Base(path.Dir(file))+"\nimport "+strconv.Quote(target)+"\n")
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		expect(t, strings.Join(c.imports, ", "), checkLinks(files, law), c.want)
	}
}
