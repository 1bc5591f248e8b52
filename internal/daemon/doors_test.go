package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/cli"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
)

// doorsTime is the time at which the examples of a verb begin. Each takes a second.
var doorsTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// doorsData has the seed, the input files and the golden files of TestDoors.
var doorsData = filepath.Join(packageDir, "testdata", "doors")

// followWait is how long a command that follows may take to print what is there already.
const followWait = time.Minute

// A door is one of the four ways in which memdbctl works on a database.
type door struct {
	name string
	// base holds the database and the folder in which the command runs.
	base   string
	db     string // what --db names
	normal *normal
	// stamps are the files and folders in which commands run, as they were when they were last looked at.
	stamps map[string]string
	end    func()
}

// doorNames are the ways: on a folder, on one file, beside a program, and on a server.
var doorNames = []string{"folder", "file", "beside", "server"}

// withoutExamples matches the commands that need no example.
var withoutExamples = regexp.MustCompile(`^(__.*|help|completion.*|memdbctl|usage budget .*)$`)

// pipes are what the left side of a pipe in an example prints.
var pipes = map[string]string{
	`echo "a longer text"`:        "a longer text\n",
	`echo "I moved to Ghent"`:     "I moved to Ghent\n",
	"fmt <notes.txt":              "The newer notes of Bob\n",
	"jq .report today.json":       `{"done":true}` + "\n",
	"jq .alice people.json":       `{"id":"alice","type":"person","name":"Alice J."}` + "\n",
	"tail -1 log.txt":             "It costs six euros.\n",
	"cat minutes.txt":             "The minutes of Monday.\n",
	"cat monday.jsonl":            `{"role":"user","content":"Hello from a pipe","at":"2026-11-20T08:00:00Z"}` + "\n",
	"zstd -dc memories.jsonl.zst": `{"id":"z1","user":"ada","text":"Ada reads a pipe","created_at":"2026-11-01T08:00:00Z"}` + "\n",
}

// typed are what a person or a program types into a command.
var typed = map[string]string{
	"shell": "kv get reports_count --agent researcher\nlist --user ada --count\nget none --user ada\n",
	"mcp":   `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n",
}

const (
	backupFirst  = "backup mnt/backups/memdb --archive memdb-monday.backup"
	archiveFirst = "archive backup/archive"
)

// preparations are command lines that come before the examples of a command, in every way.
var preparations = map[string][]string{
	"backup list": {backupFirst}, "backup verify": {backupFirst}, "backup prune": {backupFirst},
	"restore":         {backupFirst, archiveFirst, "archive mnt/backups/archive"},
	"replica":         {archiveFirst},
	"replica promote": {archiveFirst, "replica ./replica.data --from backup/archive"},
	"graph unmerge":   {"graph merge alice alice-johnson --agent a"},
}

// copies are the folders with the database that some commands read.
var copies = map[string]string{"rescue": "damaged.db", "convert": "memdb.data"}

// figures are commands whose output says how fast they were: only the exit code is compared.
var figures = []string{"plot latency"}

// different are the examples, and the commands whose databases are compared, that depend on the way, each with the
// reason.
var different = map[string]string{
	"memdbctl demo":                      "it opens the database itself",
	"memdbctl demo --db ./demo.data":     "it opens the database itself",
	"memdbctl embed --config memdb.toml": ownModels, "memdbctl embed --config memdb.toml --limit 1000 --json": ownModels,
	"memdbctl session compact monday --agent support --config memdb.toml": ownModels,
	`memdbctl store "Ada met Bob in Ghent" --user ada --extract`:          ownModels, "store": ownModels,
	"memdbctl reembed --config new.toml": newModel, "memdbctl reembed --config new.toml --limit 10000": newModel,
	"memdbctl reembed --config new.toml --keep --json": newModel, "reembed": newModel,
	"memdbctl export ./memories --format markdown --user ada": localFiles, "memdbctl export memories.db --format sqlite": localFiles,
	"memdbctl import ./notes --format markdown --user ada": localFiles, "memdbctl import app.db --table notes --user ada": localFiles,
	"import": localFiles,
	"memdbctl replica promote ./replica.data": "a program makes the name of the folder clean",
	"memdbctl stats": "it says whether the database is a folder or a file", "memdbctl stats --json": "it says whether the database is a folder or a file",
}

// The reasons that several examples have.
const (
	ownModels   = "a program that holds a database has its own models"
	newModel    = "a program has to open the database again before the vectors of before can be dropped"
	localFiles  = "a server is sent files of one stream alone"
	onlyCluster = "only a server can be a node of a cluster"
	newFolder   = "it makes a new folder, and works on no database that is there"
)

// doors has the databases from which the examples of each command begin.
type doors struct {
	t     *testing.T
	seed  string // a folder: db, db.memdb and work
	key   string // of an administrator
	spare string // the ID of another key
	model string // the address of a model
	text  string // the lines of the seed
	all   []*door
	ran   map[string]bool // the examples of a verb and of the verbs below it that have run
	ticks atomic.Int64    // seconds since doorsTime
	wrote bool            // since the beginning, a command has written files
	begun []string        // the lines of the export of the seed
}

// TestDoors runs each example of every command in four ways, and compares the output, the exit code,
// the files written and the data left in the database with golden files. The ways agree, but for the
// examples in different.
func TestDoors(t *testing.T) {
	t.Chdir(t.TempDir())
	stdin := os.Stdin
	t.Cleanup(func() { os.Stdin = stdin })
	h := newDoors(t)
	byVerb := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(cli.Rights())) {
		if !withoutExamples.MatchString(name) {
			verb, _, _ := strings.Cut(name, " ")
			byVerb[verb] = append(byVerb[verb], name)
		}
	}
	for _, verb := range slices.Sorted(maps.Keys(byVerb)) {
		t.Run(verb, func(t *testing.T) {
			h.t = t
			h.ticks.Store(0)
			h.begin()
			defer h.close()
			var b strings.Builder
			h.ran = map[string]bool{}
			for _, name := range byVerb[verb] {
				h.command(&b, name)
			}
			golden.Text(t, filepath.Join(doorsData, verb+".txt"), b.String())
		})
	}
}

// newDoors makes the database from which all begin: as a folder and as one file.
func newDoors(t *testing.T) *doors {
	t.Helper()
	h := &doors{t: t, seed: t.TempDir(), wrote: true}
	h.model = wiretest.Server(t, answerModel).URL
	if err := copyTree(filepath.Join(h.seed, "work"), filepath.Join(doorsData, "files")); err != nil {
		t.Fatal(err)
	}
	h.text = string(must(os.ReadFile(filepath.Join(doorsData, "seed.jsonl")))(t))
	for name, text := range map[string]string{
		"seed.jsonl":  h.text,
		"memdb.toml":  h.modelFile("llm", "m") + h.modelFile("embedder", "e-3"),
		"models.toml": h.modelFile("llm", "m"),
		"new.toml":    h.modelFile("embedder", "f-3"),
		"base.fbin":   vectorFile([]float32{1, 0, 0}, []float32{0, 1, 0}), "queries.fbin": vectorFile([]float32{1, 0, 0}),
	} {
		if err := os.WriteFile(filepath.Join(h.seed, "work", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &door{name: "seed", base: h.seed, db: filepath.Join(h.seed, "db"), normal: newNormal(h.text), stamps: map[string]string{}}
	var key keyJSON
	for _, args := range [][]string{{"import", "seed.jsonl"}, {"export", "app.db", "--format", "sqlite"}, {"key", "add", "--user", "ada", "--json"}, {"key", "add", "--admin", "--json"}, {"convert", d.db, d.db + ".memdb"}} {
		h.ticks.Add(1)
		r := h.run(d, args, "", nil, nil)
		if r.code != 0 {
			t.Fatal(args, r)
		}
		if args[0] == "key" {
			h.spare = key.ID
			if err := json.Unmarshal([]byte(r.out), &key); err != nil {
				t.Fatal(err, r.out)
			}
		}
	}
	h.key = key.Key
	if err := os.Remove(filepath.Join(h.seed, "work", "seed.jsonl")); err != nil {
		t.Fatal(err)
	}
	return h
}

// copyTree copies a file or a folder with its modes, which os.CopyFS would widen, and gives the files a
// time, which an import of a folder reads.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name := filepath.Join(to, strings.TrimPrefix(path, from))
		if e.IsDir() {
			return os.MkdirAll(name, info.Mode())
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(name, b, info.Mode()), os.Chtimes(name, doorsTime, doorsTime))
	})
}

// packageDir is the folder of this package. A test that cannot know it finds none of its files, and fails.
var packageDir, _ = os.Getwd()

func (h *doors) modelFile(part, model string) string {
	more := ""
	if part == "embedder" {
		more = "dimensions = 3\n"
	}
	return fmt.Sprintf("[%s]\nprovider = \"openai\"\n[%s.config]\nmodel = %q\napi_key = %q\nbase_url = %q\n%s", part, part, model, wiretest.Key, h.model, more)
}

// vectorFile is a file of vectors.
func vectorFile(rows ...[]float32) string {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, []uint32{uint32(len(rows)), uint32(len(rows[0]))})
	for _, row := range rows {
		_ = binary.Write(&b, binary.LittleEndian, row)
	}
	return b.String()
}

// answerModel is a model in the form of OpenAI, which knows that somebody lives in Ghent.
func answerModel(_ *http.Request, body []byte) (int, string) {
	var asked struct {
		Input    []string
		Messages []struct{ Content string }
		Tools    []struct{ Function struct{ Name string } }
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return 400, err.Error()
	}
	if asked.Messages == nil {
		var data []string
		for i, text := range asked.Input {
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[%d,1,1]}`, i, len(text)))
		}
		return 200, `{"data":[` + strings.Join(data, ",") + `],"usage":{"total_tokens":3}}`
	}
	message := map[string]any{"content": `{"facts":["Lives in Ghent"]}`}
	last := asked.Messages[len(asked.Messages)-1].Content
	switch {
	case len(asked.Tools) > 0 && asked.Tools[0].Function.Name == "extract_entities":
		message = calledTool("extract_entities", `{"entities":[{"name":"Ada","type":"person"},{"name":"Ghent","type":"location"}]}`)
	case len(asked.Tools) > 0:
		message = calledTool(asked.Tools[0].Function.Name, `{"relations":[{"source":"Ada","relation":"lives in","target":"Ghent"}]}`)
	case strings.HasPrefix(last, "New fact: "):
		message["content"] = `{"memory":[{"event":"ADD"}]}`
	}
	answer, err := json.Marshal(map[string]any{
		"choices": []any{map[string]any{"finish_reason": "stop", "message": message}},
		"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 10},
	})
	if err != nil {
		return 500, err.Error()
	}
	return 200, string(answer)
}

func calledTool(name, arguments string) map[string]any {
	return map[string]any{"tool_calls": []any{map[string]any{"id": "c", "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}}}
}

func (h *doors) now() time.Time { return doorsTime.Add(time.Duration(h.ticks.Load()) * time.Second) }

// begin opens the four ways on copies of the seed.
func (h *doors) begin() {
	h.t.Helper()
	h.close()
	for _, name := range doorNames {
		d := &door{name: name, base: filepath.Join(h.seed, name), normal: newNormal(h.text), stamps: map[string]string{}, end: func() {}}
		h.all = append(h.all, d)
		if err := os.MkdirAll(d.base, 0o700); err != nil {
			h.t.Fatal(err)
		}
		for _, of := range must(os.ReadDir(d.base))(h.t) {
			if of.Name() != "work" || h.wrote {
				if err := os.RemoveAll(filepath.Join(d.base, of.Name())); err != nil {
					h.t.Fatal(err)
				}
			}
		}
		if h.wrote {
			if err := copyTree(filepath.Join(d.base, "work"), filepath.Join(h.seed, "work")); err != nil {
				h.t.Fatal(err)
			}
		}
		d.db = filepath.Join(d.base, "db")
		if name == "file" {
			d.db += ".memdb"
			if err := copyTree(d.db, filepath.Join(h.seed, "db.memdb")); err != nil {
				h.t.Fatal(err)
			}
			continue
		}
		if err := copyTree(d.db, filepath.Join(h.seed, "db")); err != nil {
			h.t.Fatal(err)
		}
		if name != "folder" {
			p := startAt(h.t, h.now, d.db, "--files", filepath.Join(d.base, "work"))
			d.end = func() {
				if code, log := p.end(); code != 0 {
					h.t.Error(code, log)
				}
			}
			if name == "server" {
				d.db = p.address
			}
		}
	}
	for _, d := range h.all {
		h.written(d)
	}
	h.wrote = false
	if h.begun == nil {
		h.begun = h.left(h.all[0])
	}
}

func (h *doors) close() {
	for _, d := range h.all {
		d.end()
	}
	h.all = nil
}

// An outcome is what a command has done, as golden files show it.
type outcome struct {
	out, told string
	code      int
	files     string
}

func (o outcome) String() string {
	var b strings.Builder
	for _, part := range []struct{ mark, text string }{{"", o.out}, {"! ", o.told}, {"file ", o.files}} {
		for line := range strings.Lines(part.text) {
			fmt.Fprintf(&b, "%s%s\n", part.mark, strings.TrimRight(line, " \n"))
		}
	}
	if o.code != 0 {
		fmt.Fprintf(&b, "exit %d\n", o.code)
	}
	return b.String()
}

// run runs a command line in a way. Where follow is given, the input ends, or without one the command, once follow says
// that the output is enough.
func (h *doors) run(d *door, args []string, in string, env map[string]string, follow func(out []byte) bool) outcome {
	h.t.Helper()
	work := filepath.Join(d.base, "work")
	if err := os.Chdir(work); err != nil {
		h.t.Fatal(err)
	}
	stdin, w, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	defer stdin.Close()
	if _, err := w.WriteString(in); err != nil { // which is less than a pipe holds
		h.t.Fatal(err)
	}
	defer w.Close()
	if follow == nil {
		_ = w.Close()
	}
	os.Stdin = stdin
	ctx, cancel := context.WithTimeout(h.t.Context(), followWait)
	defer cancel()
	out := &followed{enough: follow, end: cancel}
	if in != "" {
		out.end = func() { _ = w.Close() }
	}
	var told bytes.Buffer
	code := cli.Run(ctx, append(args, "--db", d.db), out, &told, func(name string) (string, bool) {
		if name == "MEMDB_KEY" && d.name == "server" {
			return h.key, true
		}
		value, ok := env[name]
		return value, ok
	}, h.now)
	return outcome{out: out.all.String(), told: told.String(), code: code}
}

// followed is the output of a command that is ended once it has printed enough.
type followed struct {
	all    bytes.Buffer
	enough func([]byte) bool
	end    func()
}

func (f *followed) Write(b []byte) (int, error) {
	f.all.Write(b)
	if f.enough != nil && f.enough(f.all.Bytes()) {
		f.end()
	}
	return len(b), nil
}

// An example is a line of the help of a command.
type example struct {
	line string
	args []string
	in   string
	env  map[string]string
	own  bool // it makes a database
}

// examplesOf are the lines of the help of a command.
func (h *doors) examplesOf(name string) (all []example) {
	h.t.Helper()
	r := h.run(h.all[0], append([]string{"help"}, strings.Fields(name)...), "", nil, nil)
	_, text, _ := strings.Cut(r.out, "\nExamples:\n")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		before, command, found := strings.Cut(line, "memdbctl ")
		if !found {
			break
		}
		e := example{line: line, in: typed[name], args: shellSplit(command)}
		before = strings.TrimSpace(before)
		switch left, pipe := strings.CutSuffix(before, "|"); {
		case pipe:
			if e.in, found = pipes[strings.TrimSpace(left)]; !found {
				h.t.Errorf("%s: say in pipes what the left side prints", line)
			}
		case before != "": // a key of a model, which is asked under another name
			e.env = map[string]string{"OPENAI_API_KEY": wiretest.Key, "OPENAI_BASE_URL": h.model}
		}
		for i, arg := range e.args {
			if local, absolute := strings.CutPrefix(arg, "/"); absolute {
				e.args[i] = local
			}
			if arg == "key_0123456789ab" {
				e.args[i] = h.spare
			}
		}
		if i := slices.Index(e.args, "--db"); i >= 0 {
			e.args = slices.Delete(e.args, i, i+2)
		}
		e.own = name == "restore" || name == "demo"
		all = append(all, e)
	}
	if len(all) == 0 {
		h.t.Errorf("%s has no example", name)
	}
	return all
}

// command runs the examples of a command, and then looks at what is left in the databases.
func (h *doors) command(b *strings.Builder, name string) {
	h.t.Helper()
	h.wrote = h.wrote || len(preparations[name]) > 0 || copies[name] != "" || name == "export"
	if name == "export" { // which does not replace the files of imports
		for _, d := range h.all {
			for _, file := range []string{"memories.jsonl", "agent_memory.json"} {
				if err := os.Remove(filepath.Join(d.base, "work", file)); err != nil {
					h.t.Fatal(err)
				}
			}
		}
	}
	if of, ok := copies[name]; ok {
		for _, d := range h.all {
			if err := copyTree(filepath.Join(d.base, "work", of), filepath.Join(h.seed, "db")); err != nil {
				h.t.Fatal(err)
			}
			h.written(d)
		}
	}
	for _, line := range preparations[name] {
		for _, d := range h.all {
			if r := h.run(d, strings.Fields(line), "", nil, nil); r.code != 0 {
				h.t.Errorf("%s, %s: %+v", d.name, line, r)
			}
			h.written(d)
		}
	}
	fmt.Fprintf(b, "## %s\n", name)
	for _, e := range h.examplesOf(name) {
		if h.ran[e.line] {
			continue
		}
		h.ran[e.line] = true
		h.ticks.Add(1)
		fmt.Fprintf(b, "\n$ %s\n", e.line)
		h.agree(b, e.line, func(d *door) string { return h.example(d, name, e).String() })
	}
	// What is left is read at once where it takes no opening, and in the other two ways if it differs there.
	changed := false
	for _, d := range h.all[2:] {
		changed = changed || !slices.Equal(h.left(d), h.begun)
	}
	if changed {
		fmt.Fprintf(b, "\nleft in the database:\n")
		h.agree(b, name, func(d *door) string { return changes(h.begun, h.left(d)) })
	}
	if changed || h.wrote {
		h.begin()
	}
	fmt.Fprintln(b)
}

// agree writes what the ways have done: once, where they agree.
func (h *doors) agree(b *strings.Builder, what string, of func(d *door) string) {
	h.t.Helper()
	type group struct {
		names []string
		text  string
	}
	var groups []*group
	for _, d := range h.all {
		text := d.plain(of(d))
		i := slices.IndexFunc(groups, func(g *group) bool { return g.text == text })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{text: text})
		}
		groups[i].names = append(groups[i].names, d.name)
	}
	if len(groups) == 1 {
		if different[what] != "" {
			h.t.Errorf("the ways agree: remove %s from the list", what)
		}
		b.WriteString(groups[0].text)
		return
	}
	reason := different[what]
	switch verb := strings.TrimPrefix(what, "memdbctl "); {
	case strings.HasPrefix(verb, "cluster "):
		reason = onlyCluster
	case strings.HasPrefix(verb, "restore "):
		reason = newFolder
	}
	if reason == "" {
		h.t.Errorf("the ways differ: %s", what)
	}
	for _, g := range groups {
		fmt.Fprintf(b, "-- %s\n%s", strings.Join(g.names, ", "), g.text)
	}
}

// example runs an example in a way.
func (h *doors) example(d *door, of string, e example) outcome {
	h.t.Helper()
	if e.own && (d.name == "folder" || d.name == "file") {
		own := *d
		own.db = fmt.Sprintf("own-%d.data", h.ticks.Load()) // a short name, for outputs that cut long ones
		if of == "demo" && d.name == "file" {
			own.db += ".memdb"
		}
		d = &own
	}
	var follow func([]byte) bool
	args := slices.Clone(e.args)
	if e.own {
		args = append(args, "--wait=0s")
	}
	if of == "mcp" { // each request is answered before the input ends
		follow = func(out []byte) bool { return bytes.Count(out, []byte("\n")) >= strings.Count(e.in, "\n") }
	}
	if i := slices.Index(args, "--follow"); i >= 0 {
		once := h.run(d, slices.Delete(slices.Clone(args), i, i+1), "", nil, nil)
		follow = func(out []byte) bool { return bytes.Count(out, []byte("\n")) >= strings.Count(once.out, "\n") }
	}
	r := h.run(d, args, e.in, e.env, follow)
	if slices.Contains(figures, of) {
		r.out = "(figures of time)\n"
	}
	for _, name := range h.written(d) {
		h.wrote = true
		path := filepath.Join(d.base, "work", name)
		if strings.HasSuffix(name, "/") {
			r.files += name + "\n"
			continue
		}
		text := string(must(os.ReadFile(path))(h.t))
		lines := strings.Count(text, "\n")
		switch {
		case !utf8.ValidString(text), strings.Contains(text, "\x00"), slices.Contains(figures, of):
			r.files += name + "\n"
		case lines > 12:
			r.files += fmt.Sprintf("%s: %d lines\n", name, lines)
		default:
			r.files += name + ":\n"
			for line := range strings.Lines(text) {
				r.files += "  " + line
			}
		}
	}
	return r
}

// written are the names of the files and folders in the folder in which commands run that are new or changed since the
// last call. What is within databases and backups is passed over.
func (h *doors) written(d *door) (names []string) {
	h.t.Helper()
	root := filepath.Join(d.base, "work")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, stamp := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))), "a folder"
		if e.IsDir() {
			name += "/"
		} else {
			info, err := e.Info()
			if err != nil {
				return err
			}
			stamp = fmt.Sprint(info.Size(), info.ModTime())
		}
		if d.stamps[name] != stamp {
			d.stamps[name] = stamp
			names = append(names, name)
		}
		if e.IsDir() && (slices.Contains([]string{"mnt/", "backup/"}, name) || slices.Contains([]string{".data", ".db"}, filepath.Ext(path))) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return names
}

// left are the lines of an export of everything.
func (h *doors) left(d *door) []string {
	h.t.Helper()
	r := h.run(d, []string{"export", "-"}, "", nil, nil)
	if r.code != 0 {
		h.t.Errorf("%s: export: %+v", d.name, r)
	}
	return strings.SplitAfter(r.out, "\n")
}

// changes are the lines that are gone and those that are new.
func changes(before, after []string) string {
	var b strings.Builder
	for _, part := range []struct {
		mark     string
		all, not []string
	}{{"-", before, after}, {"+", after, before}} {
		for _, line := range part.all {
			if !slices.Contains(part.not, line) {
				b.WriteString(part.mark + line)
			}
		}
	}
	return b.String()
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// servedName is what a server calls its database in messages: a client does not learn the folder.
	servedName = regexp.MustCompile(`((?:open|memdbctl:) )the database:`)
	random     = regexp.MustCompile(uuids.String() + `|key_[0-9a-f]{12}|memdb_[0-9A-Za-z_-]{20,}`)
	// measured are times and sizes, which depend on the machine and on the layout of the database.
	measured = []struct {
		re *regexp.Regexp
		to string
	}{
		{regexp.MustCompile(`("(?:[a-z_]*(?:bytes|files|seconds)[a-z_]*|segments)":)[0-9.e-]+`), "${1}N"},
		{regexp.MustCompile(`\b[0-9.,]+ ?(B|KB|MB|GB|kB|KiB|MiB|GiB|bytes)\b`), "N ${1}"},
		{regexp.MustCompile(`\b[0-9]+ files?\b`), "N files"},
		{regexp.MustCompile(`\bbefore [0-9,]+`), "before N"},
		{regexp.MustCompile(`\bin [0-9.]+ ?(ns|µs|ms|s)\b`), "in N ${1}"},
		{regexp.MustCompile(`(?m)^((?:files|structures|memory|disk)[._]\S+|spaces\.\S+bytes)\t[0-9]+`), "${1}\tN"},
		{regexp.MustCompile(`"metrics":\{.*?"changes":\{[^}]*\}\}`), `"metrics":{}`},
		{regexp.MustCompile(`"(files|structures|memory)":\{[^{}]*(\{[^{}]*\})?\}`), `"${1}":{}`},
		{regexp.MustCompile(`by \S+ \(pid [0-9]+ on \S+, since`), "by PROGRAM (pid N on HOST, since"},
		{regexp.MustCompile(`"(request_id|next)":"[^"]+"`), `"${1}":"RANDOM"`},
		{regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`), "http://MODEL"},
	}
)

// A normal replaces what is random or depends on the machine in texts.
type normal struct {
	known map[string]bool   // the IDs of the seed, which stay
	ids   map[string]string // the random IDs so far, which are numbered
}

// newNormal keeps the IDs of a seed.
func newNormal(seed string) *normal {
	n := &normal{known: map[string]bool{}, ids: map[string]string{}}
	for _, id := range uuids.FindAllString(seed, -1) {
		n.known[id] = true
	}
	return n
}

func (n *normal) plain(text string) string {
	text = random.ReplaceAllStringFunc(text, func(id string) string {
		if n.known[id] {
			return id
		}
		kind, _, found := strings.Cut(id, "_")
		if !found {
			kind = "id"
		}
		if n.ids[id] == "" {
			n.ids[id] = fmt.Sprintf("<%s %d>", kind, len(n.ids)+1)
		}
		return n.ids[id]
	})
	for _, m := range measured {
		text = m.re.ReplaceAllString(text, m.to)
	}
	return text
}

// plain is an outcome in words that do not depend on the way or on the machine.
func (d *door) plain(text string) string {
	text = strings.NewReplacer(d.db, "DB", filepath.Join(d.base, "db"), "DB", filepath.Join(d.base, "work")+string(filepath.Separator), "").Replace(text)
	if d.name == "server" {
		text = servedName.ReplaceAllString(text, "${1}DB:")
	}
	return d.normal.plain(text)
}

// shellSplit cuts a command line as a shell does, as far as the examples go.
func shellSplit(s string) []string {
	var args []string
	var arg strings.Builder
	begun, quote := false, rune(0)
	for _, r := range strings.TrimSpace(s) + " " {
		switch {
		case r == quote:
			quote = 0
		case quote != 0:
			arg.WriteRune(r)
		case r == '"' || r == '\'':
			quote, begun = r, true
		case r == '>':
			return args
		case r != ' ':
			arg.WriteRune(r)
			begun = true
		case begun:
			args = append(args, arg.String())
			arg.Reset()
			begun = false
		}
	}
	return args
}
