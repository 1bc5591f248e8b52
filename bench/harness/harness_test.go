package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The workload of the tests: memdb does its work in 2, a peer in 3 and more each
// round, one peer is not there, and one fails in its second round.
func testWorkload(trace *[]string) *Workload {
	contestant := func(name string, value func(round int) (float64, error)) Contestant {
		return Contestant{Name: name, Baseline: name == "memdb", Open: func(context.Context) (Runner, error) {
			return &fake{name: name, trace: trace, value: value}, nil
		}}
	}
	return &Workload{
		Name:    "toy",
		Summary: "a workload of the tests",
		WarmUp:  1,
		Metrics: []Metric{
			{Name: "cost", Head: "cost", Digits: 1, Timed: true},
			{Name: "found", Head: "found"},
			{Name: "extra", Head: "extra", Table: "more"},
		},
		Contestants: func(*Env) ([]Contestant, error) {
			return []Contestant{
				contestant("memdb", func(int) (float64, error) { return 2, nil }),
				contestant("peer", func(round int) (float64, error) { return 3 + float64(round), nil }),
				{Name: "absent", Missing: "it is not installed"},
				{Name: "no-data", Open: func(context.Context) (Runner, error) { return nil, Missing("its file is not there") }},
				{Name: "broken", Open: func(context.Context) (Runner, error) { return nil, errors.New("cannot open") }},
				contestant("frail", func(round int) (float64, error) {
					if round == 1 {
						return 0, errors.New("fell over")
					}
					return 5, nil
				}),
			}, nil
		},
	}
}

type fake struct {
	name   string
	trace  *[]string
	rounds int
	value  func(round int) (float64, error)
}

func (f *fake) Round(context.Context) (Sample, error) {
	*f.trace = append(*f.trace, f.name)
	v, err := f.value(f.rounds)
	f.rounds++
	return Sample{"cost": v, "found": 1234, "extra": 7}, err
}

func (f *fake) Close() error {
	*f.trace = append(*f.trace, f.name+" closed")
	return nil
}

func TestRunInTurns(t *testing.T) {
	var trace []string
	var log bytes.Buffer
	results, err := Run(t.Context(), testWorkload(&trace), &Env{Rounds: 3, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"memdb", "peer", "frail", // warm-up
		"memdb", "peer", "frail", // falls over
		"memdb", "peer",
		"memdb", "peer",
		"memdb closed", "peer closed", "frail closed",
	}
	if !slices.Equal(trace, want) {
		t.Errorf("order of rounds:\n%q\nwant\n%q", trace, want)
	}
	for _, line := range []string{
		"toy: absent skipped: it is not installed",
		"toy: no-data skipped: its file is not there",
		"toy: broken failed: cannot open",
		"toy: frail failed: fell over",
	} {
		if !strings.Contains(log.String(), line+"\n") {
			t.Errorf("the log lacks %q:\n%s", line, log.String())
		}
	}
	// The peer's rounds after the warm-up took 4, 5 and 6.
	s, ok := results[1].Summary("cost")
	if want := (Summary{Median: 5, Min: 4, Max: 6, Ratio: 2.5, RatioMin: 2, RatioMax: 3}); !ok || s != want {
		t.Errorf("summary of the peer %+v, want %+v", s, want)
	}
	if _, ok := results[1].Summary("unknown"); ok {
		t.Error("a metric that nobody measured has a summary")
	}
}

func TestRunOnly(t *testing.T) {
	var trace []string
	results, err := Run(t.Context(), testWorkload(&trace), &Env{Rounds: 1, Only: regexp.MustCompile("^absent$")})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range results {
		names = append(names, r.Contestant)
	}
	if want := []string{"memdb", "absent"}; !slices.Equal(names, want) {
		t.Errorf("took part: %q, want %q", names, want)
	}
}

func TestRunCancelled(t *testing.T) {
	var trace []string
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, testWorkload(&trace), &Env{Rounds: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run returned %v", err)
	}
	if want := []string{"memdb closed", "peer closed", "frail closed"}; !slices.Equal(trace, want) {
		t.Errorf("a cancelled run did %q, want %q", trace, want)
	}
}

func TestTable(t *testing.T) {
	var trace []string
	w := testWorkload(&trace)
	env := &Env{Rounds: 3}
	results, err := Run(t.Context(), w, env)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteTable(&out, w, env, results); err != nil {
		t.Fatal(err)
	}
	const want = `toy: a workload of the tests
rounds: 3, in turns, on all cores; median [min–max]; x: times memdb's value in the same round
  contestant  cost           x                 found
  memdb       2.0 [2.0–2.0]                    1,234
  peer        5.0 [4.0–6.0]  2.50 [2.00–3.00]  1,234

  more   extra
  memdb  7
  peer   7
skipped absent: it is not installed
skipped no-data: its file is not there
FAILED broken: cannot open
FAILED frail: fell over
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestJSON(t *testing.T) {
	var trace []string
	w := testWorkload(&trace)
	results, err := Run(t.Context(), w, &Env{Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteJSON(&out, w, results); err != nil {
		t.Fatal(err)
	}
	var lines []line
	for text := range strings.Lines(out.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 6 {
		t.Fatalf("%d lines, want one for each of 6 contestants", len(lines))
	}
	peer := lines[1]
	if want := (Summary{Median: 5, Min: 4, Max: 6, Ratio: 2.5, RatioMin: 2, RatioMax: 3}); peer.Metrics["cost"] != want || peer.Rounds != 3 {
		t.Errorf("the peer's line is %+v", peer)
	}
	if lines[2].Skipped == "" || lines[5].Error == "" {
		t.Errorf("what did not take part is not told: %+v, %+v", lines[2], lines[5])
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{4}, 4},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{8, 1, 4, 2}, 3},
	} {
		if got := Median(c.values); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestLatencies(t *testing.T) {
	var l Latencies
	if l.PerSecond() != 0 || l.Percentile(0.5) != 0 {
		t.Error("no operations have a rate or a percentile")
	}
	for i := range 100 {
		l.Add(time.Duration(100-i) * time.Microsecond)
	}
	for _, c := range []struct{ p, want float64 }{{0, 1}, {0.01, 1}, {0.5, 50}, {0.99, 99}, {0.999, 100}, {1, 100}} {
		if got := l.Percentile(c.p); got != c.want {
			t.Errorf("Percentile(%v) = %v, want %v", c.p, got, c.want)
		}
	}
	// 100 operations took 5,050 µs.
	if got := l.PerSecond(); got < 19801 || got > 19803 {
		t.Errorf("PerSecond() = %v, want 19802", got)
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		v      float64
		digits int
		want   string
	}{
		{0, 0, "0"},
		{999, 0, "999"},
		{1000, 0, "1,000"},
		{1234567.891, 2, "1,234,567.89"},
		{-1234.5, 1, "-1,234.5"},
		{0.613, 3, "0.613"},
	} {
		if got := Number(c.v, c.digits); got != c.want {
			t.Errorf("Number(%v, %d) = %q, want %q", c.v, c.digits, got, c.want)
		}
	}
}

func TestPath(t *testing.T) {
	env := &Env{Data: t.TempDir()}
	if _, err := env.Path("locomo/locomo5.json"); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "locomo5.json") {
		t.Errorf("a missing file is reported as %v", err)
	}
}

// childWorkload is run by this test's own binary as a child, see TestMain.
func childWorkload() *Workload {
	return &Workload{
		Name:       "child",
		OwnProcess: true,
		Metrics:    []Metric{{Name: "pid", Head: "pid", Timed: true}, {Name: MetricRSS, Head: "RSS"}},
		Contestants: func(env *Env) ([]Contestant, error) {
			return []Contestant{
				{Name: "memdb", Baseline: true, Open: func(context.Context) (Runner, error) { return pidRunner{env}, nil }},
				{Name: "absent", Open: func(context.Context) (Runner, error) { return nil, Missing("not in the child") }},
				{Name: "broken", Open: func(context.Context) (Runner, error) { return nil, errors.New("broke in the child") }},
			}, nil
		},
	}
}

type pidRunner struct{ env *Env }

func (r pidRunner) Round(context.Context) (Sample, error) {
	return Sample{"pid": float64(os.Getpid()), "n": float64(r.env.N)}, nil
}

func (pidRunner) Close() error { return nil }

func TestMain(m *testing.M) {
	if spec := os.Getenv(ChildVariable); spec != "" {
		if err := Child(context.Background(), []*Workload{childWorkload()}, spec, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOwnProcess(t *testing.T) {
	results, err := Run(t.Context(), childWorkload(), &Env{Rounds: 2, N: 42, Pin: true, Core: -1})
	if err != nil {
		t.Fatal(err)
	}
	memdb, absent, broken := results[0], results[1], results[2]
	if memdb.Err != nil || len(memdb.Rounds) != 2 {
		t.Fatalf("memdb: %v, %d rounds", memdb.Err, len(memdb.Rounds))
	}
	first, second := memdb.Rounds[0], memdb.Rounds[1]
	if first["pid"] == second["pid"] || first["pid"] == float64(os.Getpid()) {
		t.Errorf("rounds in processes %v and %v, in %d", first["pid"], second["pid"], os.Getpid())
	}
	if first["n"] != 42 {
		t.Errorf("the child was told %v documents", first["n"])
	}
	if _, err := PeakRSS(); err == nil && first[MetricRSS] < 1 {
		t.Errorf("a child held %v MB", first[MetricRSS])
	}
	if absent.Skipped != "not in the child" {
		t.Errorf("what is missing in the child: %q, %v", absent.Skipped, absent.Err)
	}
	if broken.Err == nil || !strings.Contains(broken.Err.Error(), "broke in the child") {
		t.Errorf("what broke in the child: %v", broken.Err)
	}
}
