package cli

import (
	"strings"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// cliWords has what errors advise in the words of Go, and what that is on the command line.
var cliWords = strings.NewReplacer(
	memory.ErrScope.Error(), "it names no user, agent or run",
	"name whose memories are meant", "give --user, --agent or --run",
	"with Upsert", "with --upsert",
	"or make vectors anew with Reembed", "or make vectors anew: memdbctl reembed",
	"make them with Reembed", "make them: memdbctl reembed",
	"call Reembed again, or allow a part", "call reembed again, or allow a part with --partial",
	"open the database with the embedder, and call EmbedPending", "make the first ones: memdbctl embed --config FILE",
	"already; give another embedder", "already; name a configuration of another with --config",
	"leave IndexedText out, or import its export into a new database", "import its export into a new database",
	"ExtractEntities takes up what was left", "graph extract takes up what was left",
	"give Next of a page of this list", "give what the page before printed",
	"TrimRemoves is negative", "--trim is negative",
	"give the user and the agent", `give --user and --agent, "" for none`,
	"check the ID and the scope", "check the ID, --user, --agent and --run",
	"check the key and the owner", "check the key, --user and --agent",
	"check the session and the owner", "check its name, --user and --agent",
	"give a later LSN, or open the database with a longer Retain", "give a later LSN",
	"give TTL or ExpiresAt", "give a positive --ttl",
	"add its manifest, or open the database without StrictAgents", "add its manifest: memdbctl agent add",
	", and the database was opened with StrictAgents", ", and the database stores for agents with one alone",
	"leave Archive or ReadOnly out", "open it to be written, or without the archive",
	"set Options.Archive", "name the folder of an archive",
	"read a past state in a View", "read a past state by itself",
	"use a new View", "try again",
	"of this View", "that is read",
	"try again, or give a longer LockWait", "try again",
	"it is called within a View, an Update or a callback, for whose end it would wait", "it would wait for the end of what has called it",
	"a View is open that was begun before", "something still reads an older state",
	"a View is open that is older", "something still reads an older state",
	"leave Language out, or import its export into a new database", "import its export into a new database",
	"make room on the disk; to read meanwhile, open it with ReadOnly", "make room on the disk; verbs that only read work meanwhile",
	"open it without ReadOnly, which makes one", "store or import something, or try: memdbctl demo",
	"to read, open it with ReadOnly; to write, see", "verbs that only read work; to write, see",
	"to read, open it with ReadOnly; to write into it", "verbs that only read work; to write into it",
	"open it without ReadOnly", "run a verb that writes",
	"give one, or call DeleteScope to delete the whole scope, DeleteAll to delete every owner's memories", "give --filter, or --all for all of a scope",
	"look at the spaces of Stats", "memdbctl stats shows which there are",
	"NoMemory was given", "--no-memory was given",
	"a View only reads", "it only reads",
	"the View is older than the MaxViewAge of", "it has read for longer than",
	"read in several Views, or open the database with a longer MaxViewAge", "ask for less at a time",
	"the database was opened with ReadOnly", "the database was opened to be read only",
	"the prefix or After is longer than a key may be", "--prefix or --after is longer than a key may be",
	"After is no Next of a page", "--after is none that a page has printed",
	"give Next as it was returned", "give it as it was printed",
	"After is not the Next of a page", "--after is none that a page has printed",
	"Scopes was given beside Scope or AllScopes", "--scope was given beside a user, an agent, a run or --all-scopes",
	"it has a scope and also AllScopes", "it has a scope and also --all-scopes",
	"end Views that are open, and try again", "try again when what reads the database has ended",
	"expires_at is ", "--expires is ",
	"give a later time, null for never, or", "give a later time, never, or",
	"run and session differ", "--run and --session differ",
	"channel is for a session, and none is named; name it with session", "--channel is for --session",
	"scopes and all_scopes stand alone: not with user, agent, run or each other", "--scope and --all-scopes stand alone: not with --user, --agent, --run or each other",
	"min_score is not above", "--min-score is not above",
	"the limit is negative; give 0 for all", "--limit is negative; leave it out for all",
)

// inWords is an error in the words of the command line.
func inWords(err error) string { return cliWords.Replace(err.Error()) }
