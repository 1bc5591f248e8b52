package cli

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// What a shell completes from the database: users, agents and runs as values of flags, and IDs and
// names as arguments. A database that another program holds, or that takes long, gives none: a
// person who types waits for nothing.

const (
	// mostOffered bounds what is offered for a word.
	mostOffered = 50
	// completionTime is how long a completion looks for words.
	completionTime = 2 * time.Second
	// hintWidth is how much of a text stands beside an ID.
	hintWidth = 40
)

// a lister lists the words that begin so, with hints behind a tab, of the scope that the flags name.
type lister func(ctx context.Context, db *engine.DB, s memory.Scope, begun string) ([]string, error)

// listers are those of the arguments of verbs.
var listers = map[string]lister{
	"get": listMemories, "update": listMemories, "delete": listMemories, "history": listMemories,
	"fact get": listFacts, "fact update": listFacts, "fact delete": listFacts, "fact history": listFacts,
	"session show": listSessions, "session append": listSessions, "session save": listSessions, "session close": listSessions,
	"session archive": listSessions, "session delete": listSessions, "session compact": listSessions, "session repair": listSessions,
	"note get": listNotes, "note rename": listNotes, "note alias": listNotes, "note write": listNotes, "note remove": listNotes,
	"graph get": listEntities, "graph query": listEntities, "graph find": listEntities, "graph delete": listEntities,
	"graph path": listEntities, "graph rank": listEntities, "graph link": listEntities, "graph merge": listEntities, "graph show": listEntities,
	"kv get": listKeys, "kv put": listKeys, "kv delete": listKeys,
	"agent get": listGroups(memory.GroupAgent), "agent delete": listGroups(memory.GroupAgent),
	"user get": listGroups(memory.GroupUser), "user delete": listGroups(memory.GroupUser),
}

// completeWords has all verbs complete their arguments and their flags of a scope.
func (a *app) completeWords(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		a.completeWords(cmd)
	}
	if list, ok := listers[verbOf(root)]; ok {
		root.ValidArgsFunction = a.offered(list)
	}
	for name, by := range map[string]memory.Group{"user": memory.GroupUser, "agent": memory.GroupAgent, "run": memory.GroupRun} {
		if root.Flags().Lookup(name) != nil {
			// It fails only where a verb has its own words, which stay.
			_ = root.RegisterFlagCompletionFunc(name, a.offered(listGroups(by)))
		}
	}
}

// offered is what a shell is offered. What goes wrong offers nothing.
func (a *app) offered(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, stop := context.WithTimeout(cmd.Context(), completionTime)
		defer stop()
		var words []string
		err := a.peek(ctx, func(db *engine.DB) (err error) {
			words, err = list(ctx, db, flagScope(cmd), begun)
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words[:min(len(words), mostOffered)], cobra.ShellCompDirectiveNoFileComp
	}
}

// peek reads the database that the flags name, if there is one that nobody holds.
func (a *app) peek(ctx context.Context, fn func(*engine.DB) error) error {
	if a.shell != nil && a.shell.db != nil {
		return fn(a.shell.db)
	}
	dir := cmp.Or(a.dir, a.getenv("MEMDB_DIR"), defaultDir)
	if there, err := engine.Exists(dir); err != nil || !there || beside.IsURL(dir) {
		return err
	}
	db, err := engine.Open(dir, &engine.Options{ReadOnly: true, Clock: a.now})
	if err != nil {
		return err
	}
	return cmp.Or(fn(db), db.Close(), ctx.Err())
}

// flagScope is the scope that the flags of a verb name so far.
func flagScope(cmd *cobra.Command) memory.Scope {
	value := func(name string) string {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return memory.Scope{User: value("user"), Agent: value("agent"), Run: value("run")}
}

// hinted is a word with a text beside it.
func hinted(word, hint string) string {
	hint = strings.Join(strings.Fields(hint), " ")
	if hint == "" {
		return word
	}
	return word + "\t" + cut(escape(hint), hintWidth)
}

func listMemories(ctx context.Context, db *engine.DB, s memory.Scope, begun string) (words []string, err error) {
	return memoriesBy(ctx, db, s, begun, nil)
}

func listFacts(ctx context.Context, db *engine.DB, s memory.Scope, begun string) ([]string, error) {
	return memoriesBy(ctx, db, s, begun, filter.Eq("kind", string(memory.KindFact)))
}

func memoriesBy(ctx context.Context, db *engine.DB, s memory.Scope, begun string, f filter.Filter) (words []string, err error) {
	q := memory.ListQuery{Scope: s, AllScopes: s == memory.Scope{}, Filter: f, Limit: mostOffered}
	if begun != "" {
		if q.Filter = filter.Prefix("id", begun); f != nil {
			q.Filter = filter.And(f, q.Filter)
		}
	}
	page, err := db.Memories().List(ctx, q)
	for _, m := range page.Memories {
		words = append(words, hinted(m.ID, m.Text))
	}
	return words, err
}

func listGroups(by memory.Group) lister {
	return func(ctx context.Context, db *engine.DB, _ memory.Scope, begun string) (words []string, err error) {
		sizes, err := db.Memories().Groups(ctx, memory.GroupQuery{AllScopes: true, By: by})
		for _, g := range sizes {
			word := map[memory.Group]string{memory.GroupUser: g.User, memory.GroupAgent: g.Agent, memory.GroupRun: g.Run}[by]
			if word != "" && strings.HasPrefix(word, begun) {
				words = append(words, hinted(word, count(g.Memories, "memory", "memories")))
			}
		}
		return words, err
	}
}

func listSessions(ctx context.Context, db *engine.DB, s memory.Scope, begun string) (words []string, err error) {
	q := sessions.Query{Owner: s.Owner(), Limit: memory.MaxLimit}
	page, err := db.Sessions().List(ctx, q)
	for _, of := range page.Sessions {
		if strings.HasPrefix(of.Session, begun) {
			words = append(words, hinted(of.Session, count(of.Messages, "message", "messages")))
		}
	}
	return words, err
}

func listNotes(ctx context.Context, db *engine.DB, s memory.Scope, begun string) (words []string, err error) {
	err = db.Notes().List(ctx, s.Owner(), func(n notes.Note) error {
		if strings.HasPrefix(n.Name, begun) {
			words = append(words, hinted(n.Name, n.Content))
		}
		return nil
	})
	return words, err
}

func listEntities(ctx context.Context, db *engine.DB, s memory.Scope, begun string) (words []string, err error) {
	q := graph.ListQuery{Owner: s.Owner(), Limit: memory.MaxLimit}
	page, err := db.Graph().List(ctx, q)
	for _, e := range page.Entities {
		if strings.HasPrefix(e.ID, begun) {
			words = append(words, hinted(e.ID, e.Name))
		}
	}
	return words, err
}

func listKeys(ctx context.Context, db *engine.DB, s memory.Scope, begun string) (words []string, err error) {
	page, err := db.KV().List(ctx, entries.Query{Owner: s.Owner(), Prefix: begun, Limit: mostOffered})
	for _, e := range page.Entries {
		words = append(words, hinted(e.Key, string(e.Value)))
	}
	return words, err
}
