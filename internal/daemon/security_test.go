package daemon

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// TestSecurityPage compares the tables of docs/security.md with the table of commands and the routes.
func TestSecurityPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "security.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for name, table := range map[string]string{"commands": commandsTable(), "routes": routesTable()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, found := strings.Cut(page, begin)
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s has no lines %q and %q", path, begin, end)
		}
		page = before + begin + table + end + after
	}
	golden.Text(t, path, page)
}

func commandsTable() string {
	by := map[cli.Right][]string{}
	for _, name := range slices.Sorted(maps.Keys(cli.Rights())) {
		if right := cli.Rights()[name]; !strings.HasPrefix(name, "__") {
			by[right] = append(by[right], "`"+name+"`")
		}
	}
	var b strings.Builder
	b.WriteString("| the command | a key of scopes | a key of an administrator | commands |\n|---|---|---|---|\n")
	for _, row := range []struct {
		right        cli.Right
		scope, admin string
	}{
		{cli.Anyone, "yes", "yes"},
		{cli.Read, "within one of its scopes", "yes"},
		{cli.Write, "within one of its scopes", "yes"},
		{cli.AdminRead, "no", "yes"},
		{cli.AdminWrite, "no", "yes"},
		{cli.OnClient, "no", "no"},
	} {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.right, row.scope, row.admin, strings.Join(by[row.right], ", "))
	}
	return b.String()
}

func routesTable() string {
	all := []*server.Dialect{{Name: "the server", Routes: server.New(nil, server.Options{}).Routes()}}
	all = append(append(all, dialects(&config.Server{Chat: &config.Chat{BaseURL: "http://localhost/v1"}}, nil)...), (&verbs{}).dialect())
	type row struct{ dialect, who string }
	by := map[row][]string{}
	var rows []row
	for _, d := range all {
		for _, route := range d.Routes {
			who := "a key, within its scopes"
			switch {
			case route.Public:
				who = "everyone"
			case route.Admin:
				who = "an administrator"
			}
			r := row{d.Name, who}
			if by[r] == nil {
				rows = append(rows, r)
			}
			by[r] = append(by[r], "`"+strings.TrimSuffix(route.Pattern, "{$}")+"`")
		}
	}
	var b strings.Builder
	b.WriteString("| dialect | who | routes |\n|---|---|---|\n")
	for _, r := range rows {
		list := by[r]
		slices.Sort(list)
		list = slices.Compact(list)
		text := strings.Join(list, ", ")
		if r.who == "a key, within its scopes" {
			text = "all others"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.dialect, r.who, text)
	}
	return b.String()
}
