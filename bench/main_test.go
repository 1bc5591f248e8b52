package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
)

// TestMain lets this test's own binary be the child of the workloads that want a
// process for each round.
func TestMain(m *testing.M) {
	if spec := os.Getenv(harness.ChildVariable); spec != "" {
		if err := harness.Child(context.Background(), workloads(), spec, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if spec := os.Getenv(scaleVariable); spec != "" {
		if err := scaleChild(context.Background(), spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bench runs the program and returns what it printed.
func bench(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = run(t.Context(), args, &out, &problems)
	return code, out.String(), problems.String()
}

func TestCommandLine(t *testing.T) {
	var all []string
	for _, w := range workloads() {
		all = append(all, w.Name)
	}
	names := strings.Join(all, ", ")
	for _, c := range []struct {
		args   string
		code   int
		stdout string // a part of it
		stderr string
	}{
		{"-list", 0, "ingest", ""},
		{"-h", 0, "usage: go -C bench run .", ""},
		{"-h", 0, "locomo", ""},
		{"", 2, "", "name a workload: " + names},
		{"nothing", 2, "", `no workload "nothing"; there are: ` + names},
		{"locomo nothing", 2, "", `no workload "nothing"`},
		{"locomo -fast", 2, "", "-fast"},
		{"locomo -rounds 0", 2, "", "-rounds"},
		{"locomo -rounds many", 2, "", "many"},
		{"locomo -n -1", 2, "", "-n"},
		{"locomo -only [", 2, "", "-only"},
	} {
		code, stdout, stderr := bench(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("bench %s: exit %d\nstdout: %s\nstderr: %s\nwant exit %d, %q, %q", c.args, code, stdout, stderr, c.code, c.stdout, c.stderr)
		}
	}
}

func TestFlagsAnywhere(t *testing.T) {
	for _, args := range []string{
		"-data D -rounds 3 locomo ingest",
		"locomo ingest -rounds 3 -data D",
		"locomo -data D ingest -rounds=3",
	} {
		c, err := parse(strings.Fields(args), io.Discard)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if len(c.chosen) != 2 || c.chosen[0].Name != "locomo" || c.env.Data != "D" || c.env.Rounds != 3 {
			t.Errorf("%s: understood as %+v", args, c)
		}
	}
}

func TestDataFolder(t *testing.T) {
	t.Setenv("MEMDB_DATA", "from the environment")
	c, err := parse([]string{"locomo"}, io.Discard)
	if err != nil || c.env.Data != "from the environment" {
		t.Errorf("with MEMDB_DATA: %q, %v", c.env.Data, err)
	}
	t.Setenv("MEMDB_DATA", "")
	c, err = parse([]string{"locomo"}, io.Discard)
	if err != nil || c.env.Data != "" {
		t.Errorf("without: %q, %v", c.env.Data, err)
	}
}

// TestMadeUpData runs workloads whose data sets are not there: others stand in, and it is said above
// the tables and in the report, which the charts say, too.
func TestMadeUpData(t *testing.T) {
	t.Setenv("MEMDB_DATA", "")
	dir, report := t.TempDir(), filepath.Join(t.TempDir(), "report.json")
	code, stdout, stderr := bench(t, "locomo", "ir", "ingest", "graph", "-n", "60", "-rounds", "1", "-only", "^memdb text", "-dir", dir, "-report", report)
	if code != 0 || strings.Contains(stdout, "skipped: no") {
		t.Fatalf("exit %d: %s\n%s", code, stderr, stdout)
	}
	for _, want := range []string{"locomo/locomo5.json is not at hand", "ir/cisi/docs.tsv is not at hand", "text/corpus.tsv.zst is not at hand", "kg/fb15k237/entities.tsv is not at hand"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
	if want := "data: made up, so that quality means nothing: cisi, cranfield, fb15k237, locomo, text\n"; !strings.Contains(stdout, want) {
		t.Errorf("stdout lacks %q:\n%s", want, stdout)
	}
	r, err := readReport(report)
	if err != nil || strings.Join(r.MadeUp, " ") != "cisi cranfield fb15k237 locomo text" || r.Partial {
		t.Errorf("the report: %+v, %v", r, err)
	}
	if best := median(shown(r, "locomo", "memdb text"), "r@10"); !(best > .5) {
		t.Errorf("R@10 of %v: the questions that are made up have no answers", best)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "recall.svg"))
	if err != nil || !strings.Contains(string(svg), "Sets that are made up: cisi") {
		t.Errorf("the chart does not say what it is of: %v\n%s", err, svg)
	}
}

// TestDataOfAFolder prefers the set that the folder has, and only if it is whole.
func TestDataOfAFolder(t *testing.T) {
	folder := writeData(t)
	env := harness.Env{Data: folder, Made: t.TempDir(), N: 50}
	for _, c := range []struct {
		name string
		real bool
	}{{corpusFile, true}, {locomoFile, true}, {mnistBase, false}} {
		path, err := env.Path(c.name)
		if err != nil || strings.HasPrefix(path, folder) != c.real {
			t.Errorf("%s: %s, %v", c.name, path, err)
		}
	}
	if err := os.Remove(filepath.Join(folder, filepath.FromSlash(queriesFile))); err != nil {
		t.Fatal(err)
	}
	if path, err := env.Path(corpusFile); err != nil || strings.HasPrefix(path, folder) {
		t.Errorf("of a set that is not whole: %s, %v", path, err)
	}
	if got := strings.Join(env.MadeUp(), " "); got != "mnist text" {
		t.Errorf("made up: %s", got)
	}
	if _, err := env.Path("text/other"); !errors.Is(err, harness.ErrMissing) {
		t.Errorf("a file of no set: %v", err)
	}
}

// TestPartialReport reads what is written while a run goes on, and what an interrupted one leaves.
func TestPartialReport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.json")
	ctx, cancel := context.WithCancel(t.Context())
	watch := watcher(func(line string) {
		if !strings.Contains(line, "round 2 of 9, memdb text") {
			return
		}
		r, err := readReport(name)
		if err != nil || !r.Partial || len(shown(r, "locomo", "memdb text").Rounds) != 1 {
			t.Errorf("in the midst of a run: %+v, %v", r, err)
		}
		if !strings.Contains(line, "R@10 0.") && !strings.Contains(line, "R@10 1.") {
			t.Errorf("the figures of a round are not told: %s", line)
		}
		cancel()
	})
	code := run(ctx, []string{"locomo", "-rounds", "9", "-data", writeData(t), "-dir", t.TempDir(), "-report", name, "-only", "text$"}, io.Discard, watch)
	if code != 1 {
		t.Errorf("interrupted: exit %d", code)
	}
	r, err := readReport(name)
	if err != nil || !r.Partial || len(shown(r, "locomo", "memdb text").Rounds) != 2 || r.Command != "locomo -rounds 9 -only text$" {
		t.Errorf("left behind: %+v, %v", r, err)
	}
}

// watcher calls a function with each line that is logged.
type watcher func(line string)

func (w watcher) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

// A talk with four questions that count and two that do not.
const talk = `[{
  "sample_id": "talk-1",
  "conversation": {
    "speaker_a": "Ilse", "speaker_b": "Bram",
    "session_1_date_time": "1:56 pm on 8 May, 2023",
    "session_1": [
      {"speaker": "Ilse", "dia_id": "D1:1", "text": "My new kiln was delivered."},
      {"speaker": "Bram", "dia_id": "D1:2", "text": "Congratulations! I adopted a greyhound."},
      {"speaker": "Ilse", "dia_id": "D1:3", "text": "Look.", "blip_caption": "a watercolour of a lighthouse"}
    ],
    "session_2_date_time": "9:10 am on 13 September, 2023",
    "session_2": [
      {"speaker": "Bram", "dia_id": "D2:1", "text": "The greyhound won a ribbon."}
    ]
  },
  "qa": [
    {"question": "When did the kiln come?", "evidence": ["D1:1"], "category": 2},
    {"question": "What did the greyhound do?", "evidence": ["D1:2; D2:1"], "category": 1},
    {"question": "Who painted the lighthouse?", "evidence": ["D1:3"], "category": 4},
    {"question": "What won a ribbon?", "evidence": ["D2:01"], "category": 4},
    {"question": "What did the submarine do?", "evidence": ["D1:1"], "category": 5},
    {"question": "Where is the evidence?", "evidence": ["D9:9"], "category": 3}
  ]
}]`

// writeData makes a data folder with a conversation and a corpus.
func writeData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var corpus bytes.Buffer
	z, err := zstd.NewWriter(&corpus)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2_500 {
		fmt.Fprintf(z, "%d\ta%04d\tpassage number %d of the corpus, so it is said\n", i, i%10, i)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const queries = "x\tpassage number\nx\tcorpus 17\n"
	for name, content := range map[string][]byte{
		locomoFile: []byte(talk), corpusFile: corpus.Bytes(), queriesFile: []byte(queries),
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestWorkloads runs both workloads on small data, all contestants of this build.
func TestWorkloads(t *testing.T) {
	data, dir := writeData(t), t.TempDir()
	record := filepath.Join(t.TempDir(), "results.jsonl")
	code, stdout, stderr := bench(t, "locomo", "ingest", "-rounds", "1", "-n", "2200", "-data", data, "-dir", dir, "-json", record)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"memdb text", "memdb hybrid", "bleve text+fields", "fts5-modernc", "R@10 by category", "peak RSS MB"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, stdout)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "recall.svg" {
		t.Errorf("left behind: %v, %v", left, err)
	}
	f, err := os.Open(record)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var l struct {
			Workload, Contestant, Skipped, Error string
			Metrics                              map[string]harness.Summary
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if l.Error != "" || l.Skipped != "" {
			continue
		}
		if _, err := harness.CPUTime(); err == nil && l.Metrics["cpu_us"].Median <= 0 {
			t.Errorf("%s, %s: took no processor time", l.Workload, l.Contestant)
		}
		switch l.Workload {
		case "locomo":
			if r := l.Metrics["r@20"].Median; strings.HasSuffix(l.Contestant, "fields") && r != 1 {
				t.Errorf("%s: R@20 is %v on a talk of four turns", l.Contestant, r)
			}
		case "ingest":
			if l.Metrics["docs_per_second"].Median <= 0 || l.Metrics["disk_mb"].Median <= 0 {
				t.Errorf("%s: %+v", l.Contestant, l.Metrics)
			}
		}
	}
}

// TestText runs the workload of the text index, all contestants of this build.
func TestText(t *testing.T) {
	code, stdout, stderr := bench(t, "text", "-rounds", "1", "-n", "2200", "-data", writeData(t), "-dir", t.TempDir())
	if code != 0 || strings.Contains(stdout, "FAILED") {
		t.Fatalf("exit %d: %s\n%s", code, stderr, stdout)
	}
	for _, want := range []string{"memdb, 30% replaced", "bleve-positions", "fts5-modernc (1 of 10 queries)", "Lucene (another run)"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, stdout)
		}
	}
}

// TestTextModes asks every index the same: it must find the same.
func TestTextModes(t *testing.T) {
	docs := []peer.Document{
		{ID: "1", Scope: "a", Text: "engines weave patterns"},
		{ID: "2", Scope: "a", Text: "patterns of engines weave"},
		{ID: "3", Scope: "b", Text: "weave engines"},
	}
	openers := append(peer.Indexes(), peer.IndexOpener{Name: "memdb", Modes: memdbModes, Open: openFresh})
	for _, o := range openers {
		t.Run(o.Name, func(t *testing.T) {
			if o.Missing != "" {
				t.Skip(o.Missing)
			}
			x, err := o.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if err := errors.Join(x.Add(t.Context(), docs), x.Settle(t.Context())); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				ask  peer.Ask
				want string
			}{
				{peer.Ask{Mode: peer.Any, Text: "engines patterns"}, "1 2 3"},
				{peer.Ask{Mode: peer.Any, Text: "engine", Scope: "a"}, "1 2"},
				{peer.Ask{Mode: peer.All, Text: "patterns weave"}, "1 2"},
				{peer.Ask{Mode: peer.All, Text: "patterns weave", Scope: "b"}, ""},
				{peer.Ask{Mode: peer.Phrase, Text: "engines weave"}, "1 2"},
				{peer.Ask{Mode: peer.Phrase, Text: "weave engines"}, "3"},
			} {
				if !slices.Contains(o.Modes, c.ask.Mode) {
					continue
				}
				c.ask.K = 10
				ids, err := x.Find(t.Context(), c.ask)
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(ids)
				if got := strings.Join(ids, " "); got != c.want {
					t.Errorf("%+v: %q, want %q", c.ask, got, c.want)
				}
			}
		})
	}
}

// TestLocomoRound judges fixed answers, against figures worked out by hand.
func TestLocomoRound(t *testing.T) {
	talks, err := parseTalks([]byte(talk))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	r := &locomoRun{talks: talks, search: func(_ context.Context, _, question string, k int) ([]string, error) {
		asked++
		if k != locomoDepth {
			t.Errorf("asked for %d hits", k)
		}
		switch {
		case strings.Contains(question, "kiln"): // found first
			return []string{"talk-1/D1:1"}, nil
		case strings.Contains(question, "greyhound"): // one of two, second
			return []string{"x", "talk-1/D2:1"}, nil
		case strings.Contains(question, "lighthouse"): // seventh
			return []string{"1", "2", "3", "4", "5", "6", "talk-1/D1:3"}, nil
		}
		return nil, nil // not found
	}}
	got, err := r.Round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if asked != 4 {
		t.Errorf("%d questions were asked, want the 4 that count", asked)
	}
	for metric, want := range map[string]float64{
		"questions": 4,
		"r@5":       (1 + 0.5 + 0 + 0) / 4,
		"r@10":      (1 + 0.5 + 1 + 0) / 4,
		"r@20":      (1 + 0.5 + 1 + 0) / 4,
		// 1/log2(3) of 1 + 1/log2(3), and 1/log2(8).
		"ndcg@10":          (1 + 0.3868528 + 0.3333333 + 0) / 4,
		"r@10 multi-hop":   0.5,
		"r@10 temporal":    1,
		"r@10 single-hop":  0.5,
		"r@10 open-domain": 0, // its only question has no evidence
	} {
		if diff := got[metric] - want; diff > 1e-6 || diff < -1e-6 {
			t.Errorf("%s = %v, want %v", metric, got[metric], want)
		}
	}
}

func TestCorpus(t *testing.T) {
	c, err := openCorpus(filepath.Join(writeData(t), filepath.FromSlash(corpusFile)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.close() })
	docs, err := c.next(2)
	if err != nil || len(docs) != 2 || docs[1].ID != "1" || docs[1].Scope != "a0001" || docs[1].Text != "passage number 1 of the corpus, so it is said" {
		t.Fatalf("first passages: %+v, %v", docs, err)
	}
	n := len(docs)
	for {
		docs, err := c.next(1_000)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(docs)
	}
	if n != 2_500 {
		t.Errorf("%d passages, want 2500", n)
	}
}

func TestCorpusMalformed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.tsv.zst")
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(z, "p1\ta1\tfine\np2 without tabs\n")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := openCorpus(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.close() })
	if _, err := c.next(10); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a malformed line is reported as %v", err)
	}
}
