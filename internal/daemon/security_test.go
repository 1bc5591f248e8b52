package daemon

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/native"
)

// TestSecurityPage compares the tables of docs/security.md with the table of commands and the routes.
func TestSecurityPage(t *testing.T) {
	golden.Table(t, filepath.Join("..", "..", "docs", "security.md"), "commands", commandsTable())
	golden.Table(t, filepath.Join("..", "..", "docs", "security.md"), "routes", routesTable())
}

// TestRoutesPage compares the table of docs/server/rest.md with the routes and the operations.
func TestRoutesPage(t *testing.T) {
	commands := map[string]string{}
	for _, of := range api.All() {
		op := of.Describe()
		name, of := op.Name, cli.Rights()
		for words := strings.Fields(name); of[name] == 0 && len(words) > 0 && !strings.Contains(name, " --"); words = words[:len(words)-1] {
			name = strings.Join(words, " ")
		}
		if of[name] != cli.Anyone { // a command above others runs nothing itself
			commands[op.Route] = "`" + name + "`"
		}
	}
	var b strings.Builder
	tag := ""
	for _, r := range native.New().Routes {
		if r.Doc.Tag != tag {
			tag = r.Doc.Tag
			fmt.Fprintf(&b, "| **%s** | | |\n", tag)
		}
		at := strings.Replace(r.Pattern, " /memdb/v1", " ", 1)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", at, r.Doc.Summary, commands[at])
	}
	golden.Table(t, filepath.Join("..", "..", "docs", "server", "rest.md"), "routes", "| route | | command |\n|---|---|---|\n"+b.String())
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
