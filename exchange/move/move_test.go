package move

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

var update = flag.Bool("update", false, "write what is read of the samples to testdata")

// input is a file in memory.
func input(name string, b []byte) *Input {
	return &Input{Name: name, Reader: bufio.NewReaderSize(bytes.NewReader(b), 64<<10), File: bytes.NewReader(b), Size: int64(len(b))}
}

// sample is a file of testdata.
func sample(t testing.TB, name string) *Input {
	t.Helper()
	if info, err := os.Stat(filepath.Join("testdata", name)); err == nil && info.IsDir() {
		return &Input{Name: name, Folder: datedFolder(t, filepath.Join("testdata", name))}
	}
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return input(name, b)
}

// datedFolder is a folder whose files were changed at one time, whenever they were checked out.
func datedFolder(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = &fstest.MapFile{Data: b, ModTime: time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC)}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// samples are files that the programs made, or that their documented schemas give, and what
// Recognise says of them.
var samples = map[string]Format{
	"chatgpt.json": ChatGPT, "claude.json": Claude, "mcp.jsonl": MCP, "mem0.json": Mem0, "mem0v1.json": Mem0, "mem0.db": Mem0,
	"openfang.db": OpenFang, "openfang-v17.db": OpenFang, "langgraph.json": LangGraph, "store.db": LangGraph, "list.json": JSON,
	"table.csv": CSV, "table.tsv": CSV, "notes": Markdown, "chroma.json": Chroma, "qdrant.json": Qdrant,
}

// told are the items of an input as lines for people, and what was left out.
func told(t testing.TB, f Format, in *Input) string {
	t.Helper()
	zone := time.FixedZone("", 3600)
	items := Read(f, in, &Options{Zone: zone})
	var b strings.Builder
	show := func(kind string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", kind, text)
	}
	for item, err := range items.All(t.Context()) {
		switch {
		case err != nil:
			fmt.Fprintf(&b, "error %v\n", err)
			continue
		case item.At.Err != nil:
			fmt.Fprintf(&b, "skipped %v\n", item.At)
			continue
		}
		for _, e := range item.History {
			show("event", exchange.NewEvent(e))
		}
		if item.Line != nil {
			show(item.Kind(), item.Line)
		} else if item.Memory != nil {
			m := *item.Memory
			show("memory", brief(m))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(items.LeftOut())) {
		fmt.Fprintf(&b, "left out %d %s\n", items.LeftOut()[what], what)
	}
	return b.String()
}

// brief is a memory without the keys that have nothing.
func brief(m memory.Memory) map[string]any {
	text, _ := json.Marshal(exchange.NewRecord(m))
	var out map[string]any
	_ = json.Unmarshal(text, &out)
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil || v == "" || v == false || v == 0.0 })
	delete(out, "type")
	return out
}

// What is read of each sample is in testdata/*.txt: go test ./exchange/move -run TestSamples -update
func TestSamples(t *testing.T) {
	for name, format := range samples {
		t.Run(name, func(t *testing.T) {
			if f, ok, err := Recognise(t.Context(), sample(t, name)); f != format || !ok || err != nil {
				t.Errorf("it is taken for %q", f)
			}
			got := told(t, format, sample(t, name))
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			// A pipe can be read once, and not at any place.
			if format != Markdown && !strings.HasSuffix(name, ".db") {
				piped := sample(t, name)
				piped.File, piped.Size = nil, 0
				if f, _, _ := Recognise(t.Context(), piped); f != format {
					t.Errorf("of a pipe it is taken for %q", f)
				}
				if lines := told(t, format, piped); lines != got && name != "mcp.jsonl" {
					t.Errorf("of a pipe\n%s", lines)
				}
			}
		})
	}
}

// importSample imports into a database.
func importSample(ctx context.Context, db *engine.DB, f Format, in *Input) (exchange.Report, error) {
	return exchange.ImportItems(ctx, db, Read(f, in, nil).All(ctx), nil)
}

// An import that is repeated changes nothing.
func TestTwice(t *testing.T) {
	for name, format := range samples {
		t.Run(name, func(t *testing.T) {
			db, err := engine.OpenMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			first, err := importSample(t.Context(), db, format, sample(t, name))
			if err != nil || first.Skipped > 0 || first.Stored != first.Read {
				t.Fatalf("report %+v, error %v", first, err)
			}
			lsn := db.LSN()
			again, err := importSample(t.Context(), db, format, sample(t, name))
			if err != nil || again.Unchanged != again.Read || again.Read != first.Read {
				t.Errorf("again: report %+v, error %v", again, err)
			}
			if db.LSN() != lsn {
				t.Errorf("again: the database went from %d to %d", lsn, db.LSN())
			}
		})
	}
}

// TestTimes verifies that times are read in any form and in the zone that is given, and that
// invalid times and times that mean "not set" are counted and do not become now.
func TestTimes(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	for _, c := range []struct {
		in         any
		want, left string // RFC 3339, empty for none; what is counted
	}{
		{nil, "", ""},
		{"", "", ""},
		{1712345678.123, "2024-04-05T19:34:38.123Z", ""},
		{int64(1712345678), "2024-04-05T19:34:38Z", ""},
		{json.Number("1712345678123456"), "2024-04-05T19:34:38.123Z", ""},
		{"2024-04-05 19:34:38.5", "2024-04-05T17:34:38.5Z", ""},
		{"Fri, 05 Apr 2024 19:34:38 GMT", "2024-04-05T19:34:38Z", ""},
		{json.Number("0"), "", "times that stand for none"},
		{"0001-01-01T00:00:00Z", "", "times that stand for none"},
		{"0001-01-01 00:00:00", "", "times that stand for none"},
		{"1970-01-01T00:00:00+00:00", "", "times that stand for none"},
		{json.Number("20240405"), "", "times that cannot be read"},
		{"soon", "", "times that cannot be read"},
		{true, "", "times that cannot be read"},
	} {
		w := &writer{opts: Options{Zone: zone}, account: newAccount()}
		got := w.when(c.in)
		if c.want == "" != got.IsZero() || c.want != "" && got.Format(time.RFC3339Nano) != c.want {
			t.Errorf("%v: %s, want %q", c.in, got.Format(time.RFC3339Nano), c.want)
		}
		if len(w.left) != len(c.left[:min(1, len(c.left))]) || c.left != "" && w.left[c.left] != 1 {
			t.Errorf("%v: left out %v, want %q", c.in, w.left, c.left)
		}
	}
	m, err := (&writer{opts: Options{Zone: zone}, account: newAccount()}).memoryOf(fields{
		"text": []byte(`"x"`), "created_at": []byte(`"2024-04-05 10:00"`), "expires_at": []byte(`"2024-04-05"`), "updated_at": []byte(`"0001-01-01T00:00:00Z"`),
	})
	if err != nil || m.CreatedAt.Format(time.RFC3339) != "2024-04-05T08:00:00Z" || m.ExpiresAt.Format(time.RFC3339Nano) != "2024-04-05T21:59:59.999Z" || m.Metadata["updated_at"] != "0001-01-01T00:00:00Z" {
		t.Errorf("%+v, error %v", m, err)
	}
}

// A reader whose items nobody takes any more ends, and so does one whose context does.
func TestEnough(t *testing.T) {
	for name, format := range samples {
		for _, err := range Read(format, sample(t, name), nil).All(t.Context()) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var last error
		for _, err := range Read(format, sample(t, name), nil).All(ctx) {
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("%s: %v", name, last)
		}
	}
}

// brokenInput is an input that cannot be read to its end.
type brokenReader struct{ io.Reader }

var errBroken = errors.New("the disk is broken")

func (b brokenReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errBroken
	}
	return n, err
}

func TestBrokenDisk(t *testing.T) {
	for name, format := range samples {
		in := sample(t, name)
		if in.Folder != nil || strings.HasSuffix(name, ".db") {
			continue
		}
		in.Reader = bufio.NewReader(brokenReader{in.Reader})
		in.File = nil
		var last error
		for _, err := range Read(format, in, nil).All(t.Context()) {
			last = err
		}
		if !errors.Is(last, errBroken) {
			t.Errorf("%s: %v", name, last)
		}
	}
}
