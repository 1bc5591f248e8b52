package harness

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// reportOf is one of rounds of memdb and of a peer, of some metrics.
func reportOf(rounds ...Sample) *Report {
	r := &Report{Machine: Machine{CPU: "a processor", Cores: 2, OS: "linux", Arch: "amd64"}}
	peer := slices.Clone(rounds)
	for i := range peer {
		peer[i] = maps.Clone(peer[i])
		for metric := range peer[i] {
			peer[i][metric] *= float64(100 + 100*len(rounds)) // no matter of ours
		}
	}
	r.Add([]*Result{{Workload: "toy", Contestant: "memdb", Rounds: rounds}, {Workload: "toy", Contestant: "peer", Rounds: peer}})
	return r
}

// three are three rounds in which each metric has one of its values.
func three(metrics map[string][3]float64) *Report {
	rounds := []Sample{{}, {}, {}}
	for name, values := range metrics {
		for i, v := range values {
			rounds[i][name] = v
		}
	}
	return reportOf(rounds...)
}

// TestCompare: what is slower by more than the noise is found, in times and in rates; noise is
// not, nor is what is no speed.
func TestCompare(t *testing.T) {
	old := three(map[string][3]float64{
		"p50_ms": {1, 1.02, 1.01}, "p99_ms": {2, 5, 3}, "cpu_us": {10, 10.01, 10.02}, "qps": {100, 101, 102},
		"of 64_us 8": {3, 3, 3}, "stores_per_second 64": {50, 52, 51}, "gone_s": {1, 1, 1}, "index_mb": {5, 5, 5}, "r@10": {.8, .8, .8}, "zero_s": {0, 0, 0},
	})
	now := three(map[string][3]float64{
		"p50_ms": {1.2, 1.21, 1.19}, "p99_ms": {3.5, 6, 4}, "cpu_us": {10.3, 10.3, 10.3}, "qps": {80, 81, 82},
		"of 64_us 8": {2, 2, 2}, "stores_per_second 64": {70, 71, 72}, "index_mb": {50, 50, 50}, "r@10": {.1, .1, .1}, "new_s": {9, 9, 9}, "zero_s": {1, 1, 1},
	})
	want := map[string]Verdict{
		"p50_ms": Slower, "p99_ms": Same, "cpu_us": Same, "qps": Slower,
		"of 64_us 8": Faster, "stores_per_second 64": Faster, "gone_s": Gone, "zero_s": Unknown,
	}
	rows := Compare(old, now)
	got := map[string]Verdict{}
	for _, r := range rows {
		got[strings.TrimPrefix(r.Name, "toy, memdb: ")] = r.Verdict
	}
	if !maps.Equal(got, want) {
		t.Errorf("verdicts %v\nwant %v", got, want)
	}
	for _, r := range rows {
		if r.Verdict == Slower && (r.Times < 1.1 || r.Times > 1.3) {
			t.Errorf("%s takes %v times as long", r.Name, r.Times)
		}
	}
	var out bytes.Buffer
	now.Machine.Cores = 4
	if err := WriteComparison(&out, old, now, rows); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"slower", "faster", "missing", "the machines differ", "1.01 [1–1.02]"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the table lacks %q:\n%s", part, &out)
		}
	}
}

// TestCompareFewRounds: two rounds do not show the noise.
func TestCompareFewRounds(t *testing.T) {
	two := func(ms float64) *Report { return reportOf(Sample{"p50_ms": ms}, Sample{"p50_ms": ms}) }
	if rows := Compare(two(1), two(9)); len(rows) != 1 || rows[0].Verdict != Unknown {
		t.Errorf("%+v", rows)
	}
}

// TestReport: a report is read as it was written, and rounds are added to those of before.
func TestReport(t *testing.T) {
	r := reportOf(Sample{"p50_ms": 1})
	r.Commit, r.Versions, r.Command = "abc", Versions(), "toy"
	r.Add([]*Result{{Workload: "toy", Contestant: "memdb", Rounds: []Sample{{"p50_ms": 2}}, Err: errors.New("the third failed")}})
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := ReadReport(&b)
	if err != nil {
		t.Fatal(err)
	}
	if memdb := again.Results[0]; len(again.Results) != 2 || len(memdb.Rounds) != 2 || memdb.Rounds[1]["p50_ms"] != 2 || memdb.Error == "" {
		t.Errorf("%+v", again.Results)
	}
	if !again.Continues(r) || again.Versions["go"] == "" {
		t.Errorf("%+v", again)
	}
	again.Commit = "def"
	if again.Continues(r) {
		t.Error("rounds of two commits are one report")
	}
	for _, text := range []string{"", "{}", "no JSON"} {
		if _, err := ReadReport(strings.NewReader(text)); !errors.Is(err, ErrReport) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
