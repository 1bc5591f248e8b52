package metrics

import (
	"bufio"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTimer: each duration is in the first bucket that has room for it, and in all after it.
func TestTimer(t *testing.T) {
	var m Timer
	var wg sync.WaitGroup
	for _, d := range []time.Duration{-time.Second, 0, 10 * time.Microsecond, 11 * time.Microsecond, time.Millisecond, 10 * time.Second, time.Hour} {
		wg.Go(func() { m.Observe(d) })
	}
	wg.Wait()
	d := m.Read()
	if d.Count != 7 || d.Seconds != (time.Hour+10*time.Second+time.Millisecond+21*time.Microsecond).Seconds() {
		t.Errorf("count %d, seconds %v", d.Count, d.Seconds)
	}
	for i, want := range map[int]uint64{0: 3, 1: 4, 5: 4, 6: 5, 17: 5, 18: 6} {
		if b := d.Buckets[i]; b.Count != want || b.Seconds != bounds[i].Seconds() {
			t.Errorf("bucket %d: %+v, want %d", i, b, want)
		}
	}
	if len(d.Buckets) != len(bounds) {
		t.Errorf("%d buckets", len(d.Buckets))
	}
}

// sampleLine is a line of the text exposition format: a name, labels, a number.
var sampleLine = regexp.MustCompile(`^([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? (\S+)$`)

// TestPrometheus: every line is one of the format, each sample stands under its HELP and TYPE, and
// the buckets of a histogram rise to its count.
func TestPrometheus(t *testing.T) {
	var timer Timer
	timer.Observe(time.Millisecond)
	timer.Observe(time.Minute)
	m := Metrics{
		LSN: 7, Commits: Commits{Count: 3, Sync: timer.Read()}, Evictions: map[string]uint64{"evicted:age": 2, "a\"b\\c\nd": 1},
		Archives: map[string]Archive{"a": {LSN: 5, LagSeconds: 1.5, Segments: 2}},
		Recall:   Recall{Stages: map[string]Durations{"second look": timer.Read(), "text": {}}},
	}
	var b strings.Builder
	if err := WritePrometheus(&b, m); err != nil {
		t.Fatal(err)
	}
	family, types := "", map[string]string{}
	last := 0.0
	for lines := bufio.NewScanner(strings.NewReader(b.String())); lines.Scan(); {
		line := lines.Text()
		if rest, help := strings.CutPrefix(line, "# HELP "); help {
			family, _, _ = strings.Cut(rest, " ")
			continue
		}
		if rest, typ := strings.CutPrefix(line, "# TYPE "); typ {
			name, kind, _ := strings.Cut(rest, " ")
			if name != family || types[name] != "" {
				t.Errorf("%q stands under %q", line, family)
			}
			types[name] = kind
			continue
		}
		s := sampleLine.FindStringSubmatch(line)
		if s == nil {
			t.Fatalf("no sample: %q", line)
		}
		v, err := strconv.ParseFloat(s[3], 64)
		name := s[1]
		if types[family] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
		}
		if err != nil || name != family {
			t.Errorf("%q stands under %q: %v", line, family, err)
		}
		if strings.HasSuffix(types[family], "counter") != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, types[family])
		}
		if strings.HasSuffix(s[1], "_bucket") {
			if v < last {
				t.Errorf("%q after %v", line, last)
			}
			last = v
		} else {
			if strings.HasSuffix(s[1], "_count") && v != last && last != 0 {
				t.Errorf("%q, and the last bucket is %v", line, last)
			}
			if !strings.HasSuffix(s[1], "_sum") {
				last = 0
			}
		}
	}
	for _, want := range []string{
		"memdb_lsn 7\n", "memdb_commits_total 3\n", "memdb_sync_seconds_bucket{le=\"0.001\"} 1\n", "memdb_sync_seconds_bucket{le=\"+Inf\"} 2\n",
		"memdb_sync_seconds_sum 60.001\n", `memdb_recall_stage_seconds_bucket{stage="second look",le="10"} 1` + "\n",
		`memdb_evictions_total{reason="evicted:age"} 2` + "\n", `memdb_evictions_total{reason="a\"b\\c\nd"} 1` + "\n", "# TYPE memdb_lsn gauge\n",
		`memdb_archive_lag_seconds{archive="a"} 1.5` + "\n", `memdb_archive_segments_total{archive="a"} 2` + "\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if err := WritePrometheus(failing{}, m); err == nil {
		t.Error("a writer that fails was not told of")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

// BenchmarkObserve: what counting costs a call, beside others that count.
func BenchmarkObserve(b *testing.B) {
	var m Timer
	b.RunParallel(func(pb *testing.PB) {
		for d := time.Duration(0); pb.Next(); d += time.Microsecond {
			m.Observe(d % time.Second)
		}
	})
}
