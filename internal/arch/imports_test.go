package arch

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A floor is a storey of the house. An import goes to a lower floor.
type floor int

const (
	base         floor = iota // internal: codecs, kernels, seams
	parts                     // one structure or one set of rules each
	model                     // what a memory is
	byName                    // a structure whose things are memories
	states                    // what one reader sees
	vectors                   // the vectors of a state
	selections                // which memories a reader means
	rankings                  // what a query finds
	works                     // one kind of work on an open database each
	middle                    // the engine
	testbeds                  // for tests: a database on the engine's public face
	upper                     // services on the engine's public face
	movers                    // the forms of other programs, on what stores items
	contracts                 // services: what the higher ones ask of providers
	makers                    // services: how every provider is made and called
	dialects                  // services: what several providers share, a form on the wire or a test of the contract
	adapters                  // services: one provider each
	services                  // services: what is built on them
	configured                // services: the memory that finds its models by itself
	operations                // every operation, once
	interprocess              // what passes between two processes
	serving                   // what every dialect of a server needs
	shared                    // what several dialects stand on
	spoken                    // one dialect of a server each
	verbs                     // what a program can be told to do
	doors                     // where others come in
	daemons                   // what a program that serves consists of
	topmost                   // programs and whole-database runs
)

// A row is the law for one package.
type row struct {
	floor floor
	// beside lists the packages of the same floor that it may import. Only base
	// has any: siblings on the other floors never know each other.
	beside []string
	// only, where set, lists all that it may import of this module.
	only []string
	// outside lists the modules of others that its product code may import, and
	// "*" stands for any.
	outside []string
	// vocabulary marks a package of the base that users see, too.
	vocabulary bool
	// hidden marks an internal package that does not belong to the base.
	hidden bool
	// forTests marks a package that product code may not import.
	forTests bool
}

// program reports whether the package is what a process consists of: the files, the signals and the
// outputs of the process are its own.
func (r row) program() bool { return r.floor >= interprocess }

// law is the import law. A package that is not in it fails the test, so that
// whoever adds one says on which floor it stands.
var law = map[string]row{
	"cmd/memdbctl": {floor: topmost, only: []string{"admin", "engine", "internal/cli"}},
	"bench":        {floor: topmost, outside: []string{"*"}},
	"fuzz":         {floor: topmost, outside: []string{pebble}},
	"fuzz/damage":  {floor: topmost, outside: []string{pebble, compress}},
	"tools/shape":  {floor: topmost},

	"examples/assistant": {floor: topmost, only: []string{"engine", "filter", "memory", "policy", "scope", "services/config", "services/facts", "services/llm", "sessions"}},

	"admin":           {floor: doors, only: []string{"engine", "internal/beside", "internal/cli", "internal/panics", "memory"}},
	"internal/cli":    {floor: verbs, hidden: true, outside: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys", "golang.org/x/term"}},
	"internal/beside": {floor: interprocess, hidden: true, only: []string{"internal/clock", "internal/fsys"}, outside: []string{"golang.org/x/sys"}},

	"api": {floor: operations, only: []string{"engine", "entries", "exchange", "filter", "graph", "internal/rawjson", "internal/scalar", "memory", "notes", "policy", "scope", "sessions", "usage"}},

	"tokens":   {floor: upper, only: []string{"engine", "internal/fault", "memory", "sessions"}, outside: []string{"github.com/tiktoken-go/tokenizer"}},
	"exchange": {floor: upper, only: []string{"apikeys", "engine", "entries", "filter", "graph", "internal/clock", "internal/ctxio", "internal/race", "internal/rawjson", "internal/realdata", "internal/scalar", "internal/testdb", "internal/valid", "memory", "notes", "scope", "sessions", "usage"}, outside: []string{compress}},

	"exchange/move":     {floor: movers, only: []string{"engine", "entries", "exchange", "exchange/products", "graph", "internal/clock", "internal/ctxio", "internal/messages", "internal/panics", "internal/race", "internal/scalar", "memory", "scope", "sessions", "usage"}, outside: []string{compress, "github.com/ncruces/go-sqlite3", "github.com/tinylib/msgp", "go.yaml.in/yaml/v3", "golang.org/x/text"}},
	"exchange/products": {floor: upper, only: []string{"graph", "internal/scalar", "memory", "scope"}, outside: []string{"golang.org/x/text"}},

	"memory": {floor: model, only: []string{"filter", "policy", "scope", "internal/clock", "internal/fault", "internal/metadata", "internal/valid"}},

	"internal/shipping": {floor: byName, hidden: true, only: []string{"internal/fault", "internal/kv", "internal/layout", "internal/store", "wal"}, outside: []string{pebble, xxh3}},

	"wal/folder": {floor: byName, only: []string{"internal/clock", "internal/fault", "internal/fsys", "internal/host", "internal/retry", "wal"}, outside: []string{pebble, xxh3}},

	"notes": {floor: byName, only: []string{"internal/clock", "internal/codec", "internal/fault", "internal/layout", "internal/part", "internal/valid", "memory", "scope"}},

	"internal/place":           {floor: byName, hidden: true, outside: []string{pebble, "github.com/google/uuid"}},
	"internal/state":           {floor: states, hidden: true, outside: []string{roaring}},
	"internal/state/statetest": {floor: vectors, hidden: true, forTests: true},
	"internal/spaces":          {floor: vectors, hidden: true, outside: []string{pebble, roaring, xxh3}},
	"internal/records":         {floor: selections, hidden: true, outside: []string{"github.com/google/uuid", xxh3}},
	"internal/selection":       {floor: selections, hidden: true, outside: []string{roaring}},
	"internal/erasure":         {floor: rankings, hidden: true, outside: []string{xxh3}},
	"internal/recall":          {floor: rankings, hidden: true, outside: []string{roaring}},

	"internal/backups":    {floor: works, hidden: true, outside: []string{pebble, "github.com/google/uuid"}},
	"internal/changefeed": {floor: works, hidden: true},

	"internal/ageing": {floor: works, hidden: true, outside: []string{roaring, xxh3}},

	"internal/recovery": {floor: works, hidden: true, outside: []string{pebble, "github.com/google/uuid"}},

	"internal/replication": {floor: works, hidden: true, outside: []string{pebble, "github.com/google/uuid"}},

	"engine": {floor: middle, outside: []string{pebble, roaring, "github.com/google/uuid", xxh3}},

	"internal/testdb": {floor: testbeds, only: []string{"apikeys", "engine", "internal/fsys", "internal/layout", "internal/place", "internal/store", "memory", "policy"}, outside: []string{pebble}, forTests: true, hidden: true},

	"services/httpjson": {floor: upper, only: []string{"internal/clock", "internal/fault", "internal/retry", "internal/wiretest"}},
	"services/meter":    {floor: upper, only: []string{"engine", "internal/fault", "internal/part", "scope", "usage"}},

	"services/llm":       {floor: contracts, only: []string{"engine", "internal/fault", "internal/retry", "scope", "services/meter", "usage"}},
	"services/embedders": {floor: contracts, only: []string{"embed", "engine", "internal/fault", "internal/panics", "internal/retry", "scope", "services/httpjson", "services/meter", "usage"}},

	"services/graphs": {floor: contracts, only: []string{"scope"}},

	"services/graphs/graphtest": {floor: dialects, only: []string{"internal/retry", "scope", "services/graphs"}, forTests: true},

	"services/graphs/own":   {floor: adapters, only: []string{"engine", "graph", "memory", "scope", "services/graphs", "services/graphs/graphtest"}},
	"services/graphs/neo4j": {floor: adapters, only: []string{"internal/fault", "internal/retry", "internal/wiretest", "scope", "services/graphs", "services/graphs/graphtest", "services/httpjson"}},

	"services/providers":              {floor: makers, only: []string{"internal/fault", "services/embedders", "services/httpjson", "services/llm"}},
	"services/providers/providertest": {floor: dialects, only: adapter, forTests: true},

	"services/providers/anthropic":   {floor: adapters, only: adapter},
	"services/providers/cohere":      {floor: adapters, only: adapter},
	"services/providers/gemini":      {floor: adapters, only: adapter},
	"services/providers/huggingface": {floor: adapters, only: adapter},
	"services/providers/ollama":      {floor: adapters, only: adapter},
	"services/providers/openai":      {floor: adapters, only: adapter},
	"services/providers/voyage":      {floor: adapters, only: adapter},

	"services/config":    {floor: services, outside: []string{"github.com/BurntSushi/toml"}},
	"services/extract":   {floor: services, only: []string{"internal/fault", "mention", "scope", "services/llm"}},
	"services/summarize": {floor: services, only: []string{"engine", "internal/fault", "memory", "scope", "services/llm", "sessions"}},
	"services/facts":     {floor: configured, only: []string{"embed", "engine", "entries", "filter", "graph", "internal/clock", "internal/fault", "internal/fsys", "internal/fsys/crashfs", "internal/messages", "internal/panics", "internal/retry", "internal/wiretest", "memory", "scope", "services/config", "services/graphs", "services/graphs/graphtest", "services/graphs/neo4j", "services/graphs/own", "services/llm", "usage"}},

	"services/embedders/local":              {floor: configured, only: []string{"embed", "engine", "internal/fault", "internal/fsys", "internal/simd", "memory", "scope", "services/config", "services/embedders", "services/providers"}, outside: []string{"golang.org/x/text"}},
	"services/embedders/local/cmd/memdbctl": {floor: topmost, only: []string{"admin", "engine", "internal/cli", "services/config", "services/embedders/local"}},
	"services/embedders/local/cmd/memdbd":   {floor: topmost, only: []string{"internal/daemon", "services/config", "services/embedders/local"}},

	"services/cluster":     {floor: services, only: []string{"engine", "internal/clock", "internal/fault", "internal/fsys", "internal/panics", "internal/race", "internal/retry", "memory", "scope", "wal"}, outside: []string{xxh3, "github.com/google/uuid"}},
	"services/cluster/ram": {floor: configured, only: []string{"engine", "internal/clock", "internal/retry", "memory", "scope", "services/cluster", "usage"}},

	"services/cluster/jetstream":       {floor: configured, only: []string{"engine", "internal/clock", "internal/fault", "internal/panics", "internal/retry", "memory", "scope", "services/cluster"}, outside: []string{"github.com/nats-io"}},
	"services/cluster/jetstream/bench": {floor: topmost, outside: []string{"*"}},

	"services/server":      {floor: serving, only: []string{"apikeys", "engine", "exchange", "filter", "internal/fault", "internal/fsys", "internal/fsys/crashfs", "internal/panics", "internal/testdb", "memory", "metrics", "scope", "services/facts", "usage"}, outside: []string{"golang.org/x/time"}},
	"services/server/tree": {floor: shared, only: []string{"engine", "entries", "exchange/products", "filter", "internal/realdata", "internal/testdb", "memory", "scope"}},

	"services/server/functions": {floor: shared, only: []string{"apikeys", "engine", "exchange", "graph", "internal/testdb", "memory", "scope", "services/server", "sessions"}},
	"services/server/iii":       {floor: spoken, only: []string{"apikeys", "engine", "internal/panics", "internal/realdata", "internal/retry", "internal/testdb", "memory", "scope", "services/server", "services/server/functions"}, outside: []string{"github.com/coder/websocket"}},
	"services/server/agents":    {floor: spoken, only: []string{"apikeys", "engine", "entries", "exchange", "filter", "graph", "internal/messages", "internal/testdb", "memory", "scope", "services/server", "sessions", "usage"}},

	"services/server/mem0":              {floor: spoken, only: []string{"apikeys", "engine", "entries", "exchange/products", "filter", "graph", "internal/messages", "internal/rawjson", "internal/realdata", "internal/scalar", "internal/testdb", "memory", "scope", "services/facts", "services/llm", "services/server"}},
	"services/server/mcp":               {floor: spoken, only: []string{"apikeys", "engine", "exchange/products", "filter", "graph", "internal/clock", "internal/panics", "internal/testdb", "memory", "notes", "scope", "services/facts", "services/server", "services/server/tree", "sessions"}, outside: []string{"github.com/modelcontextprotocol/go-sdk", "github.com/google/jsonschema-go", "golang.org/x/text"}},
	"services/server/anthropic":         {floor: spoken, only: []string{"apikeys", "engine", "entries", "exchange/products", "internal/clock", "internal/testdb", "memory", "scope", "services/server", "services/server/tree"}},
	"services/server/anthropic/sdktest": {floor: topmost, only: []string{"engine", "services/server", "services/server/anthropic"}, outside: []string{"github.com/anthropics/anthropic-sdk-go"}},
	"services/server/chat":              {floor: spoken, only: []string{"apikeys", "engine", "internal/messages", "internal/testdb", "memory", "services/server", "sessions"}},
	"services/server/langgraph":         {floor: spoken, only: []string{"apikeys", "engine", "exchange", "filter", "internal/realdata", "internal/testdb", "memory", "services/server"}},
	"services/server/native":            {floor: spoken, only: []string{"api", "apikeys", "engine", "entries", "exchange", "exchange/move", "filter", "graph", "internal/race", "internal/rawjson", "internal/realdata", "internal/testdb", "internal/wiretest", "memory", "mention", "notes", "policy", "scope", "services/facts", "services/server", "sessions", "usage", "wal"}},

	"services/server/dialecttest": {floor: verbs, forTests: true},

	"internal/daemon": {floor: daemons, hidden: true, outside: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"}},
	"cmd/memdbd":      {floor: topmost, only: []string{"internal/daemon"}},

	"services/cluster/jetstream/cmd/memdbd": {floor: topmost, only: []string{"internal/daemon", "services/cluster", "services/cluster/jetstream"}},

	"backup":            {floor: parts, only: []string{"internal/ctxio", "internal/fault", "internal/fsys", "internal/fsys/crashfs", "internal/host", "internal/panics"}, outside: []string{compress, pebble}},
	"apikeys":           {floor: parts},
	"entries":           {floor: parts},
	"hnsw":              {floor: parts, outside: []string{roaring, xxh3, "golang.org/x/sys"}},
	"invindex":          {floor: parts, outside: []string{roaring, xxh3}},
	"filter":            {floor: parts},
	"graph":             {floor: parts},
	"sessions":          {floor: parts, outside: []string{"github.com/google/uuid", xxh3}},
	"usage":             {floor: parts},
	"internal/requests": {floor: parts, hidden: true},
	"policy":            {floor: parts, outside: []string{"github.com/netresearch/go-cron", "golang.org/x/text"}},
	"embed":             {floor: parts, outside: []string{xxh3}},
	"mention":           {floor: parts},
	"metrics":           {floor: parts, only: []string{}},

	"wal": {floor: parts, only: []string{"internal/clock", "internal/fault", "scope"}, outside: []string{compress, xxh3}},

	"scope": {floor: base, vocabulary: true, beside: []string{"internal/codec", "internal/fault", "internal/valid"}},

	"internal/analysis":     {floor: base, beside: []string{"internal/ascii", "internal/race"}, outside: []string{"github.com/clipperhouse/uax29/v2", "github.com/blevesearch/snowballstem", "golang.org/x/text", xxh3}},
	"internal/arch":         {floor: base},
	"internal/ascii":        {floor: base},
	"internal/chart":        {floor: base},
	"internal/dates":        {floor: base},
	"internal/clock":        {floor: base, beside: []string{"internal/scalar"}},
	"internal/ctxlock":      {floor: base},
	"internal/codec":        {floor: base, outside: []string{xxh3}},
	"internal/ctxio":        {floor: base},
	"internal/doctable":     {floor: base, beside: []string{"internal/layout", "internal/simd"}},
	"internal/fault":        {floor: base},
	"internal/golden":       {floor: base, beside: []string{"internal/part"}, forTests: true},
	"internal/fsys":         {floor: base, beside: []string{"internal/turn"}, outside: []string{pebble}},
	"internal/fsys/crashfs": {floor: base, outside: []string{pebble}, forTests: true},
	"internal/host":         {floor: base, outside: []string{"golang.org/x/sys"}},
	"internal/kv":           {floor: base},
	"internal/languageset":  {floor: base, forTests: true},
	"internal/layout":       {floor: base, beside: []string{"internal/codec", "internal/fault", "scope"}, outside: []string{roaring, "github.com/google/uuid", xxh3}},
	"internal/lifecycle":    {floor: base, beside: []string{"internal/panics"}},
	"internal/panics":       {floor: base},
	"internal/part":         {floor: base, beside: []string{"internal/codec", "internal/kv", "scope"}},
	"internal/metadata":     {floor: base, beside: []string{"internal/fault", "internal/valid"}},
	"internal/messages":     {floor: base, beside: []string{"internal/rawjson", "internal/valid"}},
	"internal/near":         {floor: base},
	"internal/needles":      {floor: base},
	"internal/race":         {floor: base, forTests: true},
	"internal/query":        {floor: base, beside: []string{"internal/analysis"}},
	"internal/rawjson":      {floor: base, beside: []string{"internal/valid"}},
	"internal/realdata":     {floor: base, forTests: true},
	"internal/retry":        {floor: base, beside: []string{"internal/fault"}},
	"internal/scalar":       {floor: base},
	"internal/onefile":      {floor: base, beside: []string{"internal/golden"}, outside: []string{compress, xxh3}},
	"internal/store":        {floor: base, beside: []string{"internal/clock", "internal/fault", "internal/fsys", "internal/kv", "internal/onefile", "internal/panics"}, outside: []string{pebble}},
	"internal/simd":         {floor: base, outside: []string{"golang.org/x/sys"}},
	"internal/valid":        {floor: base, beside: []string{"internal/fault"}},
	"internal/topk":         {floor: base},
	"internal/wiretest":     {floor: base, beside: []string{"internal/fault", "internal/realdata", "internal/retry"}, forTests: true},
	"internal/turn":         {floor: base, beside: []string{"internal/clock"}},
}

// What the descriptions of providers stand on.
var adapter = []string{"internal/fault", "internal/wiretest", "services/embedders", "services/httpjson", "services/llm", "services/providers", "services/providers/providertest"}

const (
	pebble   = "github.com/cockroachdb/pebble/v2"
	roaring  = "github.com/RoaringBitmap/roaring/v2"
	compress = "github.com/klauspost/compress"
	xxh3     = "github.com/zeebo/xxh3"
)

// noStandard are the packages of the standard library that the engine and the
// floors below it do without: they hold no network protocol, start no process
// and print nothing; a library logs through the *slog.Logger that it was given.
var noStandard = []string{"net", "os/exec", "log", "plugin", "flag", "expvar", "testing"}

// checkImports holds every file against the law.
func checkImports(files []*goFile, law map[string]row) []finding {
	var found []finding
	unknown := map[string]bool{}
	for _, f := range files {
		from := rowKey(f.pkg)
		rule, ok := law[from]
		if !ok {
			if !unknown[f.pkg] {
				found = append(found, finding{f.pkg, "no row in the import law: say on which floor it stands"})
			}
			unknown[f.pkg] = true
			continue
		}
		for _, spec := range f.ast.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser has refused it already
			}
			if why := refuse(f, from, rule, target, law); why != "" {
				found = append(found, finding{f.at(spec.Pos()), why})
			}
		}
	}
	return found
}

// rowKey is the row that a folder belongs to: bench is one program in several
// packages of its own module.
func rowKey(pkg string) string {
	if strings.HasPrefix(pkg, "bench/") {
		return "bench"
	}
	return pkg
}

// refuse says why a file may not import a package, or nothing.
func refuse(f *goFile, from string, rule row, target string, law map[string]row) string {
	if inside, ok := strings.CutPrefix(target, module+"/"); ok {
		return refuseInside(f, from, rule, rowKey(inside), law)
	}
	first, _, _ := strings.Cut(target, "/")
	switch standard := !strings.Contains(first, "."); {
	case f.test:
		return "" // tests may use what they need to look at the product from outside
	case standard && rule.floor <= middle && !rule.forTests && under(target, noStandard) && target != "log/slog":
		return target + ": the engine and what is below it do without"
	case !standard && !slices.Contains(rule.outside, "*") && !under(target, rule.outside):
		return target + ": a library that " + from + " is not listed to use"
	}
	return ""
}

// refuseInside is refuse for a package of this project. It holds for tests too:
// what a test must import shows what its package stands on. The external tests of a part
// or of the engine (package graph_test) are programs on the engine's public face: they open a
// database and may import what a program does.
func refuseInside(f *goFile, from string, rule row, to string, law map[string]row) string {
	target, ok := law[to]
	if rule.floor >= parts && rule.floor <= middle && f.test && strings.HasSuffix(f.ast.Name.Name, "_test") {
		rule = row{floor: upper}
	}
	switch {
	case to == from:
		return "" // an external test of the package itself
	case !ok:
		return to + ": no row in the import law"
	case target.forTests && !f.test && !rule.forTests && rule.floor != topmost:
		return to + ": it is for tests"
	case rule.floor == base && slices.Contains(rule.beside, to):
		return ""
	case target.floor == rule.floor && (rule.floor != base || !f.test):
		return from + " and " + to + " stand on one floor: siblings do not know each other"
	case target.floor > rule.floor:
		return from + " imports upward: " + to
	case rule.only != nil && !slices.Contains(rule.only, to):
		return from + " stands on " + strings.Join(rule.only, ", ") + " alone, not on " + to
	}
	return ""
}

// under reports whether a package is one of the listed or lies below one.
func under(target string, list []string) bool {
	return slices.ContainsFunc(list, func(root string) bool {
		return target == root || strings.HasPrefix(target, root+"/")
	})
}

func TestImportLaw(t *testing.T) {
	report(t, checkImports(goFiles(t), law))
}

// TestLawTable checks the table itself.
func TestLawTable(t *testing.T) {
	for name, rule := range law {
		if inside := strings.HasPrefix(name, "internal/"); (inside && !rule.hidden || rule.vocabulary) != (rule.floor == base) {
			t.Errorf("%s: internal packages that are not hidden and the vocabulary are the base, and only they", name)
		}
		if rule.floor != base && rule.beside != nil {
			t.Errorf("%s: only packages of the base may stand beside each other", name)
		}
		for _, other := range slices.Concat(rule.beside, rule.only) {
			if _, ok := law[other]; !ok {
				t.Errorf("%s: its row names %s, which has none", name, other)
			}
		}
		for seen, queue := map[string]bool{}, slices.Clone(rule.beside); len(queue) > 0; queue = queue[1:] {
			if queue[0] == name {
				t.Errorf("%s: the rows beside it lead back to it", name)
				break
			}
			if !seen[queue[0]] {
				seen[queue[0]] = true
				queue = append(queue, law[queue[0]].beside...)
			}
		}
	}
}

func TestCheckImports(t *testing.T) {
	law := map[string]row{
		"cmd/tool":        {floor: topmost, outside: []string{"github.com/spf13/cobra"}},
		"bench":           {floor: topmost, outside: []string{"*"}},
		"service":         {floor: upper, only: []string{"engine"}},
		"engine":          {floor: middle, outside: []string{pebble}},
		"left":            {floor: parts},
		"right":           {floor: parts},
		"internal/a":      {floor: base, beside: []string{"internal/b"}},
		"internal/b":      {floor: base},
		"internal/crashy": {floor: base, forTests: true},
		"internal/stand":  {floor: base, beside: []string{"internal/crashy"}, forTests: true},
	}
	for _, c := range []struct {
		file, imports, want string // want is a part of the finding; empty: none
	}{
		{"cmd/tool/main.go", module + "/service", ""},
		{"cmd/tool/main.go", module + "/engine", ""},
		{"cmd/tool/main.go", "github.com/spf13/cobra", ""},
		{"cmd/tool/main.go", "github.com/spf13/viper", "not listed"},
		{"cmd/tool/main.go", "net/http", ""},
		{"cmd/tool/main.go", module + "/bench", "one floor"},
		{"bench/main.go", "example.com/any/thing", ""},
		{"bench/inner/x.go", module + "/bench/other", ""},
		{"bench/main.go", module + "/internal/crashy", ""},
		{"service/s.go", module + "/engine", ""},
		{"service/s.go", module + "/left", "alone"},
		{"service/s.go", module + "/cmd/tool", "upward"},
		{"engine/db.go", module + "/left", ""},
		{"engine/db.go", pebble + "/vfs", ""},
		{"engine/db.go", pebble + "x", "not listed"},
		{"engine/db.go", "net/http", "do without"},
		{"engine/db.go", "net", "do without"},
		{"engine/db.go", "log", "do without"},
		{"engine/db.go", "log/slog", ""},
		{"engine/db.go", "github.com/spf13/cobra", "not listed"},
		{"engine/db.go", module + "/service", "upward"},
		{"engine/db.go", module + "/unknown", "no row"},
		{"engine/db.go", module + "/internal/crashy", "for tests"},
		{"engine/db_test.go", module + "/internal/crashy", ""},
		{"internal/stand/s.go", module + "/internal/crashy", ""},
		{"engine/db_test.go", module + "/engine", ""},
		{"engine/db_test.go", module + "/service", "upward"},
		{"engine/db_test.go", "testing", ""},
		{"engine/db.go", "testing", "do without"},
		{"left/l.go", module + "/right", "one floor"},
		{"left/l_test.go", module + "/right", "one floor"},
		{"left/l.go", module + "/engine", "upward"},
		{"left/l_test.go", module + "/engine", "upward"},
		{"left/outside_test.go", module + "/engine", ""},
		{"left/outside_test.go", module + "/right", ""},
		{"left/outside_test.go", module + "/service", "one floor"},
		{"left/l.go", module + "/internal/a", ""},
		{"internal/a/a.go", module + "/internal/b", ""},
		{"internal/b/b.go", module + "/internal/a", "one floor"},
		{"internal/b/b.go", module + "/left", "upward"},
		{"newcomer/n.go", "strings", "no row"},
	} {
		pkg := path.Base(path.Dir(c.file))
		if path.Base(c.file) == "outside_test.go" {
			pkg += "_test"
		}
		f, err := parse(c.file, "package "+pkg+"\nimport _ "+strconv.Quote(c.imports)+"\n")
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.file+" imports "+c.imports, checkImports([]*goFile{f}, law), c.want)
	}
}

// expect compares findings with the part of the only one that is wanted.
func expect(t *testing.T, what string, got []finding, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("%s: refused: %v", what, got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0].String(), want)):
		t.Errorf("%s: found %v, want one finding with %q", what, got, want)
	}
}
