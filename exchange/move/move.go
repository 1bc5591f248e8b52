package move

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/ctxio"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Format is whose form an input has.
type Format string

// The formats.
const (
	ChatGPT   Format = "chatgpt"   // conversations.json of an export of ChatGPT
	Claude    Format = "claude"    // conversations.json, projects.json or memories.json of an export of Claude
	Anthropic Format = "anthropic" // a folder of files as Anthropic's memory tool keeps it, or lists of its memory stores' API
	// Transcripts of coding agents.
	ClaudeCode Format = "claude-code"
	Codex      Format = "codex"
	GeminiCLI  Format = "gemini-cli"

	Chats     Format = "chats"     // conversations of {"role", "content"} messages in any provider's form
	MCP       Format = "mcp"       // memory.jsonl of the reference server of the Model Context Protocol
	Mem0      Format = "mem0"      // what mem0 lists, or its SQLite history
	OpenFang  Format = "openfang"  // the SQLite file of OpenFang
	LangGraph Format = "langgraph" // items of LangGraph's store, or its SQLite file
	JSON      Format = "json"      // texts or objects in a list, or one after another; also memdb's own
	JSONL     Format = "jsonl"     // the same, one a line
	CSV       Format = "csv"       // rows with a header, with commas, semicolons or tabs between
	Markdown  Format = "markdown"  // a folder of Markdown files, or one such file
	Chroma    Format = "chroma"    // what Chroma gets of a collection, or its SQLite file
	Qdrant    Format = "qdrant"    // points that Qdrant scrolls through
	SQLite    Format = "sqlite"    // the file of ExportSQLite, or the rows of one table of any SQLite file
)

// readers are what translates each format.
var readers = map[Format]func(*Input, *writer) error{
	ChatGPT: readChatGPT, Anthropic: readAnthropic, Claude: readClaude, MCP: readMCP, Mem0: readMem0, LangGraph: readLangGraph,
	ClaudeCode: readClaudeCode, Codex: readCodex, GeminiCLI: readGeminiCLI, Chats: readChats,
	JSON: readJSON, JSONL: readLines, CSV: readCSV, Chroma: readChroma, Qdrant: readQdrant, OpenFang: readOpenFang, Markdown: readMarkdown,
	SQLite: readSQLite,
}

// Formats are all formats, by name.
func Formats() []Format { return slices.Sorted(maps.Keys(readers)) }

// Input is what is read.
type Input struct {
	// Name is that of the file or folder, for errors and for what an ending tells.
	Name string
	// Reader has all of a file, from its begin. nil for a folder.
	Reader *bufio.Reader
	// File reads the same at any place, Size bytes; nil for a pipe, which not every form
	// can be read from.
	File io.ReaderAt
	Size int64
	// Beside opens the file whose name is that of the input with an ending, nil where there is
	// none: a SQLite file has a log there. nil: there are none.
	Beside func(ending string) (io.ReaderAt, int64, error)
	// Folder is a folder of files, nil for a file.
	Folder fs.FS

	reopen opener    // opens a file that was packed again
	closer io.Closer // of Reader
	looked *layout   // what layout has found
	files  []*member // of the folder, or of the archive that it was
	sorted bool      // the files were recognised
	chosen Format    // that they are read as
}

// Options of reading. nil is the default.
type Options struct {
	// Into are the options of the import that takes the items, which say in which scope a record is
	// stored. One that names neither user nor agent, where Into has none either, is the Owner's of the
	// format.
	Into exchange.Options
	// Zone is that of times that name none. nil: UTC.
	Zone *time.Location
	// Map says of fields of a memory under which key of a record they are, before the usual ones. See
	// ParseMap.
	Map Map
	// Table is the table of a SQLite file whose rows are read. Empty: the one that has memories.
	Table string
}

// HasFolders reports whether a format may be a folder of files.
func (f Format) HasFolders() bool { return f == Markdown || f == Anthropic }

// Owner is the scope that an input of a format gets that names nobody.
func (f Format) Owner() memory.Scope {
	switch f {
	case LangGraph, Anthropic:
		return memory.Scope{User: "default"} // where a server looks for the things of such a client
	case JSONL:
		f = JSON
	}
	return memory.Scope{Agent: string(f)}
}

// Items are what an input holds.
type Items struct {
	format Format
	in     *Input
	opts   Options
	said   *account
}

// account is what a reader has to say beside its items.
type account struct {
	left   exchange.Counts
	mapped exchange.Mapped
	// unread are values by their keys that are none of what the key says, and doubled the keys of which
	// a record has two for one field.
	unread, doubled exchange.Counts
	unused          Map  // of Options.Map: those that no record has
	nobodys         bool // something is the owner's of the format
}

func newAccount() *account {
	return &account{left: exchange.Counts{}, mapped: exchange.Mapped{}, unread: exchange.Counts{}, doubled: exchange.Counts{}}
}

// Read begins to read an input. Its format must be one of Formats.
func Read(f Format, in *Input, o *Options) *Items {
	i := &Items{format: f, in: in, said: newAccount()}
	if o != nil {
		i.opts = *o
	}
	i.said.unused = maps.Clone(i.opts.Map)
	i.opts.Zone = cmp.Or(i.opts.Zone, time.UTC)
	return i
}

// LeftOut counts what was not carried over, by what it is. It is complete once All has ended.
func (i *Items) LeftOut() exchange.Counts { return i.said.left }

// Nobodys reports whether something was read that names no owner, and is the one's of the format.
func (i *Items) Nobodys() bool { return i.said.nobodys }

// Tell adds what was read to a report: what was not carried over, which key became which field, and
// what is to be noted. It is complete once All has ended.
func (i *Items) Tell(r *exchange.Report) {
	t := i.said
	r.LeftOut.AddAll(t.left)
	for _, key := range slices.Sorted(maps.Keys(t.mapped)) {
		r.Mapped.Add(key, t.mapped[key])
	}
	for _, key := range slices.Sorted(maps.Keys(t.unread)) {
		r.Notes = append(r.Notes, fmt.Sprintf("%d values of %s cannot be read as such; they are in the metadata as they are", t.unread[key], key))
	}
	for _, keys := range slices.Sorted(maps.Keys(t.doubled)) {
		r.Notes = append(r.Notes, fmt.Sprintf("%d records have both %s, which differ; the second is in the metadata", t.doubled[keys], keys))
	}
	for _, field := range slices.Sorted(maps.Keys(t.unused)) {
		r.Notes = append(r.Notes, fmt.Sprintf("no record has the key %q, which is to be the %s", t.unused[field], field))
	}
}

// All reads the input to its end, once. The last error is one of the input itself.
func (i *Items) All(ctx context.Context) iter.Seq2[exchange.Item, error] {
	return func(yield func(exchange.Item, error) bool) {
		w := &writer{ctx: ctx, format: i.format, opts: i.opts, account: i.said, yield: yield, facts: map[string]bool{}, sessions: map[string]bool{}}
		err := w.input(i.in)
		if err != nil && !errors.Is(err, errEnough) {
			yield(exchange.Item{}, err)
		}
	}
}

// input reads a file, or a folder of them.
func (w *writer) input(in *Input) error {
	switch {
	case in.Reader == nil && !w.format.HasFolders():
		return w.folder(in)
	case in.Reader != nil:
		in.layout() // before it is read
		in.Reader = bufio.NewReaderSize(ctxio.Reader(w.ctx, in.Reader), splitBuffer)
	}
	return readers[w.format](in, w)
}

// folder reads the files of a folder or an archive that have the format, all of them; others are
// counted by their names. A file that cannot be read is skipped.
func (w *writer) folder(in *Input) error {
	if err := in.sort(w.ctx); err != nil {
		return err
	}
	of := in.of(w.format)
	read, named := 0, 0
	for _, f := range in.files {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if !of(f) && (f.err == nil || f.format != "" || f.other) {
			if named++; named > mostNamed {
				w.leave("other files", 1)
			} else {
				w.leave("file "+f.name, 1)
			}
			continue
		}
		read++
		w.file = f.name
		err := w.one(in, f)
		w.file, w.before = "", w.before+f.size
		if errors.Is(err, errEnough) || w.ctx.Err() != nil {
			return err
		}
		if err != nil {
			if err := w.skip(exchange.LineError{Of: "file", ID: f.name}, err); err != nil {
				return err
			}
		}
	}
	if read == 0 {
		return fmt.Errorf("%w: nothing is of the format %s: %s", errNothing, w.format, in.firstNames())
	}
	return nil
}

// one reads a file of a folder.
func (w *writer) one(in *Input, f *member) (err error) {
	one, err := in.enter(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.closer.Close()) }()
	return w.input(one)
}

// errEnough ends a reader whose items nobody takes any more.
var errEnough = errors.New("no more items are taken")

// writer is what a reader gives its items to. Its methods return an error only where nothing
// more is to be read.
type writer struct {
	ctx    context.Context
	format Format
	opts   Options
	*account
	yield           func(exchange.Item, error) bool
	read            int64           // bytes of the input
	own             bool            // it is a whole export of memdb's own
	file            string          // that is read of several
	before          int64           // bytes of the files before it
	facts, sessions map[string]bool // that were read
}

func (w *writer) item(i exchange.Item) error {
	i.Read = w.before + w.read
	if w.file != "" && i.At.Err != nil && i.At.ID != w.file {
		i.At.Of = w.file + ": " + cmp.Or(i.At.Of, "line")
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if !w.yield(i, nil) {
		return errEnough
	}
	return nil
}

// memory gives a memory.
func (w *writer) memory(at exchange.LineError, m memory.Memory) error {
	return w.item(exchange.Item{At: at, Memory: &m, Size: len(m.Text) + 4*len(m.Embedding) + overhead})
}

// overhead is about what an item takes beside its text, in bytes.
const overhead = 512

// line gives a line of an export.
func (w *writer) line(at exchange.LineError, typ string, line any, size int) error {
	return w.item(exchange.Item{At: at, Type: typ, Line: line, Size: size + overhead})
}

// skip tells of a record that cannot be read.
func (w *writer) skip(at exchange.LineError, err error) error {
	at.Err = err
	return w.item(exchange.Item{At: at})
}

// leave counts something that has no place here.
func (w *writer) leave(what string, n int) { w.left.Add(what, n) }

// scope is where a record is stored that names a user, an agent and a run, all of which may be missing.
func (w *writer) scope(user, agent, run string) memory.Scope {
	s := w.opts.Into.Place(memory.Scope{User: user, Agent: agent, Run: run})
	if s.User == "" && s.Agent == "" {
		owner := w.format.Owner()
		s.User, s.Agent = owner.User, owner.Agent
		w.nobodys = true
	}
	return s
}

// when reads a time in any form. It returns the zero time for a missing time, and counts a time
// that cannot be read or that means "not set": the record itself is kept.
func (w *writer) when(v any) time.Time {
	if v == nil || v == "" {
		return time.Time{}
	}
	t, err := scalar.Reader{Zone: w.opts.Zone}.Time(v)
	switch {
	case errors.Is(err, scalar.ErrUnset):
		w.leave("times that stand for none", 1)
	case err != nil:
		w.leave("times that cannot be read", 1)
	}
	return t
}

// instant is a time of a line.
func instant(t time.Time) clock.Instant { return clock.Instant{Time: t} }

// idOf is an ID that the parts give, the same whenever they are the same: the last part as it
// is, where it can be one.
func idOf(f Format, parts ...string) string {
	if last := parts[len(parts)-1]; len(parts) == 1 && isID(last) {
		return last
	}
	return exchange.ContentID(string(f), parts...)
}

// isID reports whether a text can be an ID.
func isID(s string) bool {
	return s != "" && len(s) <= memory.MaxID && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
