package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

// reads are commands that read, with arguments that find something in one database or another.
var reads = commands(`
list --all-scopes --all
list --user ada --agent coach --all
list --user ada --agent coach --run r1
list --all-scopes --count
list --all-scopes --all --filter n>2
list --all-scopes --all --filter tag=elm
list --all-scopes --all --order-by n
list --all-scopes --all --order-by created_at
groups --all-scopes
groups --all-scopes --by run
stats --by user
get m3 --user ada
get m1002 --user ada
get h1 --user ada
get h1004 --user ada
get deleted --user ada
history m7 --user ada
history h1 --user ada
history h1004 --user ada
recall --no-touch --all-scopes oak pine
recall --no-touch --user ada --agent coach --profile text river stone
recall --no-touch --user ada --agent coach --filter n>2 garden
why m3 --user ada oak
kv list --user ada --agent coach
kv get k7 --user ada --agent coach
kv get k1003 --user ada --agent coach
note list --user ada --agent coach
note get note3 --user ada --agent coach
note search --user ada --agent coach oak
session list --user ada --agent coach
session show s1 --user ada --agent coach --all
session show s2 --user ada --agent coach
graph list --user ada --agent coach
graph get e3 --user ada --agent coach
graph query e1 --user ada --agent coach
graph find e1 --user ada --agent coach
graph match --from-type thing --user ada --agent coach
graph path e1 e2 --user ada --agent coach
graph rank e1 --user ada --agent coach
graph components --user ada --agent coach
graph stats --user ada --agent coach
graph counts --user ada --agent coach
graph degrees --user ada --agent coach
graph lookup birch --user ada --agent coach
graph export --user ada --agent coach
usage total
usage by agent
usage by model
usage rank
usage budget check --user ada
usage budget list --user ada
agent list
agent get agent0
user list
user show ada
policy show
fact list --user ada --agent coach
fact search --user ada --agent coach oak
export -
`)

func commands(text string) (all [][]string) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// said is what a command says.
type said struct {
	code     int
	out, err string
}

// exitDamaged is the exit code of a command whose answer may be incomplete, and exitNotFound that
// of one that says there is nothing.
const (
	exitNotFound = 3
	exitDamaged  = 5
)

// run runs a command on an open database, as the program that holds it does for memdbctl.
func (s *said) run(ctx context.Context, db *engine.DB, args []string) {
	var out, errs bytes.Buffer
	s.code = cli.RunOn(ctx, db, dir, &beside.Session{
		Request: &beside.Request{Args: args, JSON: true}, In: strings.NewReader(""), Out: &out, Err: &errs,
		Getenv: func(string) string { return "" },
	})
	s.out, s.err = out.String(), errs.String()
}

// short says in what an answer falls short of the one of the database without damage: empty where
// it is the same, an error, or marked as one that may be incomplete.
func (s *said) short(whole *said) string {
	switch {
	case s.code == whole.code && s.out == whole.out:
		return ""
	case s.code == exitDamaged && !strings.Contains(s.err, "read") && !strings.Contains(s.err, "damaged"):
		return "exit 5 without a word"
	case s.code == exitDamaged, s.code != 0 && s.code != exitNotFound:
		return ""
	case s.code == exitNotFound && whole.code == exitNotFound:
		return ""
	}
	return fmt.Sprintf("exit %d, %d lines of %d, without a word", s.code, strings.Count(s.out, "\n"), strings.Count(whole.out, "\n"))
}

// content is the output without the line that marks it.
func (s *said) content() string {
	if at := strings.LastIndex(s.out, `{"unreadable":`); at == 0 || at > 0 && s.out[at-1] == '\n' {
		return s.out[:at]
	}
	return s.out
}

// asked are the answers of all commands, in a database that is opened for it.
func asked(ctx context.Context, files vfs.FS, which func(i int) bool) (all []said, err error) {
	db, err := engine.Open(fsys.On(files, dir), options())
	if err != nil {
		return nil, err
	}
	all = make([]said, len(reads))
	for i, args := range reads {
		if which(i) {
			all[i].run(ctx, db, args)
		}
	}
	return all, db.Close()
}

// shortAnswers asks all commands of a damaged database, and returns those that answer less or
// something else than without the damage, and do not say so; differ reports whether any answers
// something else, marked or not. What a command notes is known to
// those after it, so each answer of other content is asked for once more, by itself. Then the database
// is opened again: what the first opening has changed must not hide what is lost.
func (b *base) shortAnswers(ctx context.Context, files folder) (short []string, differ bool) {
	every := func(int) bool { return true }
	disk := write(files)
	for opening := range 2 {
		all, err := asked(ctx, disk, every)
		if err != nil {
			return short, true
		}
		for i := range all {
			why := all[i].short(&b.said[i])
			other := all[i].code != b.said[i].code || all[i].out != b.said[i].out
			differ = differ || other
			if opening == 0 && why == "" && all[i].content() != b.said[i].out {
				if alone, err := asked(ctx, write(files), func(k int) bool { return k == i }); err == nil {
					why = alone[i].short(&b.said[i])
				}
			}
			if why != "" {
				short = append(short, fmt.Sprintf("opening %d: %s: %s", opening+1, strings.Join(reads[i], " "), why))
			}
		}
	}
	return short, differ
}
