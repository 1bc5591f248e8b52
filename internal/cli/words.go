package cli

import "strings"

// cliWords has what errors advise in the words of Go, and what that is on the command line.
var cliWords = strings.NewReplacer(
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
	"give a later LSN, or open the database with a longer Retain", "give a later LSN",
	"give TTL or ExpiresAt", "give a positive --ttl",
	"add its manifest, or open the database without StrictAgents", "add its manifest: memdbctl agent add",
	"the limit is negative; give 0 for all", "--limit is negative; leave it out for all",
)

// inWords is an error in the words of the command line.
func inWords(err error) string { return cliWords.Replace(err.Error()) }
