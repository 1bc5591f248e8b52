package dialecttest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/services/server/mcp"
)

// A peer is a server of the Model Context Protocol on its input and output.
type peer struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

// ask sends a request and returns its result, or the error in its place.
func (p *peer) ask(method, params string) map[string]any {
	p.t.Helper()
	_, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, params)
	testdb.NoError(p.t, err)
	for {
		line, err := p.out.ReadBytes('\n')
		testdb.NoError(p.t, err)
		var answer struct {
			ID     *int
			Result map[string]any
			Error  any
		}
		testdb.NoError(p.t, json.Unmarshal(line, &answer))
		if answer.ID == nil {
			continue // a notification
		}
		if answer.Error != nil {
			return map[string]any{"error": answer.Error}
		}
		return answer.Result
	}
}

func (p *peer) begin() {
	p.t.Helper()
	p.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}`)
	_, err := io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	testdb.NoError(p.t, err)
}

// tool calls a tool with arguments as JSON.
func (p *peer) tool(name, arguments string) map[string]any {
	p.t.Helper()
	got := p.ask("tools/call", `{"name":"`+name+`","arguments":`+arguments+`}`)
	if got["isError"] == false {
		delete(got, "isError") // which is the same
	}
	return got
}

// referencePeer is the reference memory server.
func referencePeer(t *testing.T) *peer {
	modules := npmPackages(t)
	cmd := command(t, t.TempDir(), "node", filepath.Join(modules, "@modelcontextprotocol", "server-memory", "dist", "index.js"))
	cmd.Env = append(os.Environ(), "MEMORY_FILE_PATH="+filepath.Join(cmd.Dir, "memory.jsonl"))
	in, err := cmd.StdinPipe()
	testdb.NoError(t, err)
	out, err := cmd.StdoutPipe()
	testdb.NoError(t, err)
	testdb.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() }) // how it ends is nothing to the test
	return &peer{t, in, bufio.NewReader(out)}
}

// memdbPeer serves the reference tools of a database.
func memdbPeer(t *testing.T) *peer {
	db := testdb.New(t, engine.Options{})
	r, in := io.Pipe()
	out, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- mcp.Serve(t.Context(), db, mcp.Options{Scope: ada, Tools: mcp.Reference}, r, w) }()
	t.Cleanup(func() {
		_ = in.Close()
		testdb.NoError(t, <-done)
	})
	return &peer{t, in, bufio.NewReader(out)}
}

// A wide is any string of JavaScript, in the units of UTF-16: also one with half of a pair.
type wide []uint16

// MarshalJSON writes every unit as an escape, as it is.
func (s wide) MarshalJSON() ([]byte, error) {
	b := []byte{'"'}
	for _, unit := range s {
		b = fmt.Appendf(b, `\u%04x`, unit)
	}
	return append(b, '"'), nil
}

// stored is the string with U+FFFD in the place of each half of a pair, which UTF-8 has no form for.
func (s wide) stored() wide { return utf16.Encode(utf16.Decode(s)) }

type wideEntity struct {
	Name         wide   `json:"name"`
	EntityType   wide   `json:"entityType"`
	Observations []wide `json:"observations"`
}

type wideRelation struct {
	From         wide `json:"from"`
	To           wide `json:"to"`
	RelationType wide `json:"relationType"`
}

// draw draws calls of the reference tools with any strings.
type draw struct {
	*rand.Rand
	names, texts []wide // that were drawn before
}

// odd are strings that programs often treat in a way of their own.
var odd = []string{
	"", " ", "Ada", "ada", "ADA", "Ada ", "likes tea", "__proto__", "constructor", "toString", "null", "0", "../..", "a/b\\c", "%20", `"q"`, "<b>&amp;", "(a.*b", "inverse:knows",
	"mcp-name-", "mcp-type-x", "\x00", "\x00n", "\x01\x1f\x7f\u0085\u009f", "new\nline\r\n", "tab\t", "a\u2028b\u2029", "\ufeff", "\u200b\u200d", "\u202eabc", "\ufffd", "\ufffe\uffff", "\U0010ffff",
	"é", "e\u0301", "日本語", "🍵👩‍👩‍👧", "İ", "i̇", "ı", "ß", "ẞ", "ss", "ﬁ", "ſ", "K", "ΟΔΟΣ", "ΟΔΟΣ Σ", "Σ", "σ", "ς", "ǅ", "Ⅷ", "\U00010400",
}

func (d *draw) fresh() wide {
	switch n := d.IntN(100); {
	case n < 45:
		return utf16.Encode([]rune(odd[d.IntN(len(odd))]))
	case n < 47:
		return wide(slices.Repeat(utf16.Encode([]rune(odd[1+d.IntN(len(odd)-1)])), 1+d.IntN(300)))
	}
	var s wide
	for range d.IntN(8) {
		switch d.IntN(5) {
		case 0:
			s = append(s, uint16(d.IntN(0x80)))
		case 1:
			s = append(s, uint16(d.IntN(0x500)))
		case 2:
			s = append(s, uint16(0xd800+d.IntN(0x800))) // half of a pair
		case 3:
			s = append(s, utf16.AppendRune(nil, rune(0x10000+d.IntN(0x100000)))...)
		case 4:
			s = append(s, uint16(d.IntN(0x10000)))
		}
	}
	return s
}

// one draws a string, often one of those that were drawn before.
func (d *draw) one(before *[]wide) wide {
	if len(*before) > 0 && d.IntN(3) > 0 {
		return (*before)[d.IntN(len(*before))]
	}
	s := d.fresh()
	*before = append(*before, s)
	return s
}

func many[T any](d *draw, least, most int, one func() T) []T {
	all := []T{}
	for range least + d.IntN(most-least+1) {
		all = append(all, one())
	}
	return all
}

// stored are the arguments as memdb keeps them: see the list of differences in docs/server/mcp.md. Halves of pairs
// are U+FFFD, and of entities and relations that are named twice in a call the first one counts.
func stored(v any) any {
	switch v := v.(type) {
	case wide:
		return v.stored()
	case []wide:
		return each(v, wide.stored)
	case []wideEntity:
		return firsts(each(v, func(e wideEntity) wideEntity {
			return wideEntity{e.Name.stored(), e.EntityType.stored(), each(e.Observations, wide.stored)}
		}), func(a, b wideEntity) bool { return slices.Equal(a.Name, b.Name) })
	case []wideRelation:
		return firsts(each(v, func(r wideRelation) wideRelation {
			return wideRelation{r.From.stored(), r.To.stored(), r.RelationType.stored()}
		}), func(a, b wideRelation) bool { return reflect.DeepEqual(a, b) })
	case []map[string]any:
		return each(v, func(m map[string]any) map[string]any { return stored(m).(map[string]any) })
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			out[key] = stored(value)
		}
		return out
	}
	return v
}

func each[T any](all []T, fn func(T) T) []T {
	out := make([]T, len(all))
	for i := range all {
		out[i] = fn(all[i])
	}
	return out
}

func firsts[T any](all []T, same func(a, b T) bool) []T {
	out := []T{}
	for _, a := range all {
		if !slices.ContainsFunc(out, func(b T) bool { return same(a, b) }) {
			out = append(out, a)
		}
	}
	return out
}

// call draws a call.
func (d *draw) call() (tool string, arguments map[string]any) {
	name := func() wide { return d.one(&d.names) }
	text := func() wide { return d.one(&d.texts) }
	of := func(key string) func() map[string]any {
		return func() map[string]any { return map[string]any{"entityName": name(), key: many(d, 0, 3, text)} }
	}
	switch n := d.IntN(100); {
	case n < 24:
		return "create_entities", map[string]any{"entities": many(d, 1, 3, func() wideEntity { return wideEntity{name(), text(), many(d, 0, 3, text)} })}
	case n < 38:
		return "create_relations", map[string]any{"relations": many(d, 1, 3, func() wideRelation { return wideRelation{name(), name(), text()} })}
	case n < 48:
		return "add_observations", map[string]any{"observations": many(d, 1, 2, of("contents"))}
	case n < 53:
		return "delete_entities", map[string]any{"entityNames": many(d, 1, 3, name)}
	case n < 58:
		return "delete_observations", map[string]any{"deletions": many(d, 1, 3, of("observations"))}
	case n < 63:
		return "delete_relations", map[string]any{"relations": many(d, 1, 3, func() wideRelation { return wideRelation{name(), name(), text()} })}
	case n < 67:
		return "read_graph", map[string]any{}
	case n < 82:
		return "search_nodes", map[string]any{"query": d.part()}
	case n < 92:
		return "open_nodes", map[string]any{"names": many(d, 0, 3, name)}
	}
	tool = []string{"create_entities", "create_relations", "add_observations", "delete_entities", "search_nodes", "open_nodes", "read_graph", "none"}[d.IntN(8)]
	key := []string{"entities", "relations", "observations", "entityNames", "query", "names", "other"}[d.IntN(7)]
	return tool, map[string]any{key: []any{nil, 5, "str", true, []any{}, map[string]any{}, []any{1, nil}, []any{map[string]any{"name": 1}}}[d.IntN(8)]}
}

// part is a part of a string that was drawn before.
func (d *draw) part() wide {
	all := &d.texts
	if d.IntN(2) == 0 {
		all = &d.names
	}
	s := d.one(all)
	from := d.IntN(len(s) + 1)
	return s[from : from+d.IntN(len(s)-from+1)]
}

// TestReferenceServer verifies that a thousand calls by chance, with any strings, are answered by the tools of memdb as
// by the reference memory server, but for the differences that docs/server/mcp.md lists.
func TestReferenceServer(t *testing.T) {
	reference, memdb := referencePeer(t), memdbPeer(t)
	reference.begin()
	memdb.begin()
	d := &draw{Rand: random(t)}
	differ := 0
	for i := range 1000 {
		tool, arguments := d.call()
		got, want := memdb.tool(tool, toJSON(t, arguments)), reference.tool(tool, toJSON(t, stored(arguments)))
		if !reflect.DeepEqual(got, want) {
			if differ++; differ < 5 {
				t.Errorf("call %d, %s %.500s:\n got %.1000s\nwant %.1000s", i, tool, toJSON(t, arguments), toJSON(t, got), toJSON(t, want))
			}
		}
	}
	t.Logf("%d of 1000 answers differ", differ)
	if differ > 0 {
		t.Errorf("%d of 1000 answers differ", differ)
	}
	// The last listed difference: more than the graph keeps of an entity is refused, and nothing of the call is kept.
	before := memdb.tool("read_graph", `{}`)
	large := memdb.tool("create_entities", `{"entities":[{"name":"large","entityType":"t","observations":["`+strings.Repeat("x", 1<<20)+`"]}]}`)
	if large["isError"] != true || !reflect.DeepEqual(memdb.tool("read_graph", `{}`), before) {
		t.Errorf("observations of 1 MiB: %.300s", toJSON(t, large))
	}
}
