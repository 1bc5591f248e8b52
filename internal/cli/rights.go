package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// A Right is what a key needs so that a server runs a command for it. The zero Right is none: a
// server runs no command that is neither an operation nor in the table of rights.
type Right uint8

const (
	_ Right = iota
	// OnClient is a command that memdbctl runs on the client's machine and a server never runs.
	OnClient
	// Anyone is a command that reads nothing of a database.
	Anyone
	// Read is a command that reads the data of one scope, and Write one that changes it.
	Read
	Write
	// AdminRead is a command that reads data of every scope, and AdminWrite one that changes it.
	AdminRead
	AdminWrite
)

// String says what a command with the right does.
func (r Right) String() string {
	return [...]string{"not in the table", "runs on the client", "reads no data", "reads a scope", "changes a scope", "reads everything", "changes everything"}[r]
}

// admin reports whether only an administrator has the right.
func (r Right) admin() bool { return r == AdminRead || r == AdminWrite }

// writes reports whether a read-only key lacks the right.
func (r Right) writes() bool { return r == Write || r == AdminWrite }

// rights has the commands that are no operation of package api, and those that need more than their operation says.
// A parent that takes no arguments of its own only names the commands below it.
var rights = map[string]Right{
	"memdbctl": Anyone, "help": Anyone,
	"kv": Anyone, "session": Anyone, "note": Anyone, "graph": Anyone, "usage": Anyone, "usage budget": Anyone, "fact": Anyone, "log": Anyone,
	"policy": Anyone, "agent": Anyone, "user": Anyone, "key": Anyone, "plot": Anyone,

	"graph extract": Write, "graph import": Write, "usage by": AdminRead, "usage rank": AdminRead,

	"fact add": Write, "fact search": Read, "fact list": Read, "fact get": Read, "fact update": Write,
	"fact delete": Write, "fact delete-all": Write, "fact history": Read, "fact reset": AdminWrite,

	"export": Read, "import": AdminWrite, "log tail": Read, "mcp": Write,
	"consolidate": Write, "evict": Write,

	"agent add": AdminWrite, "agent get": AdminRead, "agent list": AdminRead, "agent delete": AdminWrite,
	"user list": AdminRead, "user show": AdminRead, "user delete": AdminWrite, "erase": AdminWrite,

	"key add": AdminWrite, "key list": AdminRead, "key revoke": AdminWrite, "key rotate": AdminWrite, "key clear": AdminWrite,

	"check": AdminRead, "stats": AdminRead, "backup": AdminWrite, "rescue": AdminWrite, "rebuild": AdminWrite,
	"compact": AdminWrite, "archive": AdminWrite, "replica": AdminWrite, "replica promote": AdminWrite,
	"embed": AdminWrite, "reembed": AdminWrite, "reset": AdminWrite,
	"plot growth": AdminRead, "plot latency": AdminRead, "plot ageing": AdminRead, "plot graph": AdminRead, "plot session": AdminRead,

	"analyze": OnClient, "backup list": OnClient, "backup prune": OnClient, "backup verify": OnClient,
	"cluster": OnClient, "cluster status": OnClient, "cluster move": OnClient, "cluster drain": OnClient,
	"cluster verify": OnClient, "cluster import": OnClient, "cluster export": OnClient,
	"completion": OnClient, "completion bash": OnClient, "completion zsh": OnClient, "completion fish": OnClient, "completion powershell": OnClient,
	"convert": OnClient, "demo": OnClient, "restore": OnClient, "shell": OnClient,
	// The library adds these two when a shell completes a command line. It writes to the process's own
	// error output.
	"__complete": OnClient, "__completeNoDesc": OnClient,
}

// Rights returns the right that each command needs, by its name.
func Rights() map[string]Right {
	all := maps.Clone(rights)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		all[nameOf(cmd)] = rightTo(nameOf(cmd))
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk((&app{console: console{getenv: func(string) string { return "" }}}).root())
	return all
}

// rightTo is the right that a command needs.
func rightTo(name string) Right {
	if right, is := rights[name]; is {
		return right
	}
	return rightOf(name)
}

// rightOf is the right that the operation of a command asks for, none for a command that is no operation.
func rightOf(name string) Right {
	for _, d := range api.All() {
		switch op := d.Describe(); {
		case op.Name != name:
		case op.Access == api.Reads && op.Admin:
			return AdminRead
		case op.Access == api.Reads:
			return Read
		case op.Admin:
			return AdminWrite
		default:
			return Write
		}
	}
	return 0
}

var (
	// beyondScope are flags with which a command reads or changes more than one scope; those of
	// undoing only where they undo what was done to everyone.
	beyondScope = []string{"all-scopes", "scope", "queries"}
	undoes      = []string{"consolidate", "evict"}
	// beyondRun are flags with which a command reads or changes what belongs to a user and an agent
	// as a whole: IDs and names are unique among all their runs, and so is the graph.
	beyondRun = []string{"id", "name", "alias", "upsert", "extract"}
	// ofOwner are commands that do so without such a flag.
	ofOwner = []string{"graph extract"}
)

// nameOf is the name of a command in the table of rights.
func nameOf(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return cmd.Name()
	}
	return verbOf(cmd)
}

// runsAlone reports whether a command needs no program that serves a database: it needs no database,
// or opens one by itself. Words to complete a command line with come from a program on this machine.
func (a *app) runsAlone(cmd *cobra.Command) bool {
	name := nameOf(cmd)
	completes := strings.HasPrefix(name, "__complete") && !beside.IsURL(a.dir)
	return rightTo(name) == OnClient && !completes || name == "help" || name == "memdbctl"
}

// admit refuses a command that the key of a client has no right to, and binds the command to the
// scope of the key.
func (a *app) admit(cmd *cobra.Command) error {
	b, name := a.bounds, nameOf(cmd)
	right := rightTo(name)
	switch {
	case right == 0:
		return a.denied(cmd, "no key has a right to it")
	case right == OnClient:
		return usagef(cmd, "a server does not run it; run memdbctl without the address of one")
	case right == Anyone:
		return nil
	case b.ReadOnly && right.writes():
		return a.denied(cmd, "the key may only read")
	case b.Scopes == nil:
		return a.readsOnly(cmd)
	case right.admin():
		return a.denied(cmd, "it reads or changes more than a scope; it takes a key of an administrator")
	}
	wide := beyondScope
	if slices.Contains(undoes, name) {
		wide = append([]string{"undo"}, wide...)
	}
	if flag := given(cmd, wide); flag != "" {
		return a.denied(cmd, "--"+flag+" could name another scope; it takes a key of an administrator")
	}
	if err := a.narrow(cmd); err != nil {
		return err
	}
	return a.readsOnly(cmd)
}

// readsOnly has a command for a read-only key count no recall.
func (a *app) readsOnly(cmd *cobra.Command) error {
	if a.bounds.ReadOnly && cmd.Flags().Lookup("no-touch") != nil {
		return cmd.Flags().Set("no-touch", "true")
	}
	return nil
}

// given is the first of some flags that a command line has, empty for none.
func given(cmd *cobra.Command, names []string) string {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return name
		}
	}
	return ""
}

func (a *app) denied(cmd *cobra.Command, why string) error {
	return &exitError{exitFailed, fmt.Errorf("%s: the key %s is not for this: %s", verbOf(cmd), a.bounds.Key, why)}
}

// narrow sets the flags of the scope that the key has. The scope that the flags name must be within
// one scope of the key.
func (a *app) narrow(cmd *cobra.Command) error {
	var fit []memory.Scope
	for _, s := range a.bounds.Scopes {
		if fits(cmd, s) {
			fit = append(fit, s)
		}
	}
	switch len(fit) {
	case 0:
		return a.denied(cmd, "it is not one of this scope")
	case 1:
	default:
		return a.denied(cmd, fmt.Sprintf("it has %d scopes that fit; name the user, the agent or the run", len(fit)))
	}
	if fit[0].Run != "" {
		if err := a.withinRun(cmd); err != nil {
			return err
		}
	}
	for _, f := range scopeParts(fit[0]) {
		if f.value == "" {
			continue
		}
		flag := cmd.Flags().Lookup(f.name)
		if flag == nil {
			return a.denied(cmd, "the verb has no --"+f.name+", to which the key is bound")
		}
		if err := cmd.Flags().Set(f.name, f.value); err != nil {
			return err
		}
	}
	return nil
}

// withinRun refuses a command for the key of a run that would reach beyond that run.
func (a *app) withinRun(cmd *cobra.Command) error {
	const why = "the key is one of a run, and this belongs to a user and an agent"
	if slices.Contains(ofOwner, nameOf(cmd)) {
		return a.denied(cmd, why)
	}
	if flag := given(cmd, beyondRun); flag != "" {
		return a.denied(cmd, "--"+flag+": "+why)
	}
	if f := cmd.Flags().Lookup("graph"); f != nil && f.Value.Type() == "bool" {
		return cmd.Flags().Set("graph", "false")
	} else if f != nil && f.Changed {
		return a.denied(cmd, "--graph: "+why)
	}
	if f := cmd.Flags().Lookup("kind"); f != nil {
		if kind := memory.Kind(f.Value.String()); kind == memory.KindNote || kind == memory.KindArchive {
			return a.denied(cmd, "--kind "+string(kind)+": "+why)
		}
	}
	return nil
}

type scopePart struct{ name, value string }

func scopeParts(s memory.Scope) []scopePart {
	return []scopePart{{"user", s.User}, {"agent", s.Agent}, {"run", s.Run}}
}

// fits reports whether the flags leave room for a scope.
func fits(cmd *cobra.Command, s memory.Scope) bool {
	for _, f := range scopeParts(s) {
		flag := cmd.Flags().Lookup(f.name)
		if f.value != "" && flag != nil && flag.Changed && flag.Value.String() != f.value {
			return false
		}
	}
	return true
}
