package policy

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// The preset default as JSON: its keys are those that the command line has.
const defaultJSON = `{"preset":"default","version":0,"lsn":0,"max_age_ms":2592000000,"min_importance":0.2,"min_confidence":0.1,"cap":10000,"cap_per":"owner",` +
	`"kinds":["message","fragment","fact"],"rate":0.05,"idle_ms":604800000,"floor":0.1,"merge":true,"merge_cosine":0.9,"merge_edit":0.1,"average_embeddings":false,` +
	`"daily_retention":0.95,"prune_below":0,"consolidate_cron":"0 */6 * * *","evict_cron":"0 3 * * *","history_ms":0,"log_ms":0,"trash_ms":2592000000}`

func TestPolicyJSON(t *testing.T) {
	p := Default()
	b, err := json.Marshal(p)
	if err != nil || string(b) != defaultJSON {
		t.Errorf("%v\ngot  %s\nwant %s", err, b, defaultJSON)
	}
	var back Policy
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, p) {
		t.Errorf("read as %+v, %v", back, err)
	}
	for _, key := range Keys() {
		if !strings.Contains(defaultJSON, `"`+key+`":`) {
			t.Errorf("the key %s is set and not shown", key)
		}
	}
}

func TestPresets(t *testing.T) {
	for name, departs := range map[string]func(*Policy){
		PresetDefault:   func(*Policy) {},
		PresetAgentOS:   func(p *Policy) { p.Merge, p.CapPer = false, PerAgent },
		PresetSubstrate: func(p *Policy) { p.PruneBelow = .1 },
	} {
		want := Default()
		want.Preset = name
		departs(&want)
		got, err := Preset(name)
		if err != nil || !reflect.DeepEqual(got, want) || got.Check() != nil {
			t.Errorf("%s: %+v, %v, %v", name, got, err, got.Check())
		}
	}
	if _, err := Preset("best"); !errors.Is(err, fault.ErrInvalid) {
		t.Error(err)
	}
}

func TestSet(t *testing.T) {
	p := Default()
	for _, kv := range [][2]string{
		{"max_age_ms", "15d"},
		{"idle_ms", "12h"},
		{"trash_ms", "1500"},
		{"rate", "0.25"},
		{"cap", "5"},
		{"kinds", "fact, message"},
		{"merge", "false"},
		{"average_embeddings", "true"},
		{"evict_cron", "never"},
	} {
		if err := p.Set(kv[0], kv[1]); err != nil {
			t.Error(err)
		}
	}
	want := Default()
	want.MaxAge, want.Idle, want.Trash = Span(15*day), Span(12*time.Hour), Span(1500*time.Millisecond)
	want.Rate, want.Cap, want.Kinds, want.Merge, want.AverageEmbeddings, want.EvictCron = .25, 5, []string{"fact", "message"}, false, true, "never"
	if !reflect.DeepEqual(p, want) || p.Check() != nil {
		t.Errorf("%+v, want %+v; %v", p, want, p.Check())
	}
	for _, kv := range [][2]string{
		{"rates", "1"},
		{"version", "3"},
		{"rate", "much"},
		{"rate", "NaN"},
		{"rate", "1.01"},
		{"rate", "-0.1"},
		{"floor", "Inf"},
		{"cap", "0"},
		{"cap_per", "user"},
		{"cap", "-1"},
		{"cap", "1e3"},
		{"cap", "99999999999"},
		{"max_age_ms", "-1"},
		{"max_age_ms", "-1h"},
		{"max_age_ms", "9999999999999999999"},
		{"max_age_ms", "NaNd"},
		{"max_age_ms", "soon"},
		{"kinds", "note"},
		{"kinds", "fact,fact"},
		{"merge", "maybe"},
		{"average_embeddings", "2"},
		{"consolidate_cron", "0 0"},
		{"consolidate_cron", "TZ=UTC 0 0 * * *"},
		{"consolidate_cron", "0 0 31 2 * * *"},
		{"evict_cron", "61 * * * *"},
		{"evict_cron", strings.Repeat("1,", 500) + "1 * * * *"},
		{"log_ms", "59999"},
		{"history_ms", "-1"},
	} {
		p := Default()
		err := p.Set(kv[0], kv[1])
		if err == nil {
			err = p.Check()
		}
		if !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s=%s: %v", kv[0], kv[1], err)
		}
	}
	p = Default()
	p.MergeEdit = math.NaN()
	if !errors.Is(p.Check(), fault.ErrInvalid) {
		t.Error("NaN is taken")
	}
}

// TestNewerPolicy: a policy that a newer program stored is not guessed at.
func TestNewerPolicy(t *testing.T) {
	p := Default()
	b, err := p.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodePolicy(b); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v", got, err)
	}
	b[0] = policyVersion + 1
	if _, err := decodePolicy(b); !errors.Is(err, fault.ErrNewerLayout) {
		t.Error(err)
	}
	for _, damaged := range [][]byte{nil, {0}, {policyVersion}, b[:0]} {
		if _, err := decodePolicy(damaged); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%x: %v", damaged, err)
		}
	}
}

var ownerScope = scope.Scope{User: "ada"}

func TestRunEncoding(t *testing.T) {
	for _, r := range []Run{
		{LSN: 7, At: 1767225600123, Rate: .05, Idle: 604800000, Floor: .1, Policy: 3},
		{LSN: 8, At: -5, Rate: 1, Owners: []uint32{1, 5, 300}, Scope: ownerScope},
		{LSN: 9, Owners: []uint32{}, Scope: ownerScope},
	} {
		b := r.encode()
		if got, err := decodeRun(r.LSN, b); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v, %v, want %+v", got, err, r)
		}
		for n := range b {
			if _, err := decodeRun(r.LSN, b[:n]); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v", n, len(b), err)
			}
		}
	}
}

func TestCron(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tc := range []struct{ expr, after, next string }{
		{"0 */6 * * *", "2026-03-01T12:00:00Z", "2026-03-01T18:00:00Z"},
		{"0 3 * * *", "2026-03-01T12:00:00Z", "2026-03-02T03:00:00Z"},
		{"0 3 * * *", "2026-03-01T12:00:00+11:00", "2026-03-01T03:00:00Z"},
		{"0 0 13 * 5", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z"}, // a Friday: either day fits
		{"@daily", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
	} {
		c, err := ParseCron(tc.expr)
		if got := c.Next(at(tc.after)); err != nil || !got.Equal(at(tc.next)) {
			t.Errorf("%s after %s: %v, %v, want %s", tc.expr, tc.after, got, err, tc.next)
		}
	}
	for _, expr := range []string{"", Never} {
		c, err := ParseCron(expr)
		if err != nil || !c.Next(at("2026-03-01T12:00:00Z")).IsZero() || c.Due(at("2020-01-01T00:00:00Z"), at("2026-03-01T12:00:00Z")) {
			t.Errorf("%q comes: %v", expr, err)
		}
	}
	impossible, err := ParseCron("0 0 30 2 *")
	if err == nil && impossible.Due(at("2020-01-01T00:00:00Z"), at("2026-03-01T12:00:00Z")) {
		t.Error("the 30th of February came")
	}
	c, _ := ParseCron("0 3 * * *")
	if c.Due(at("2026-03-01T03:00:00Z"), at("2026-03-02T02:59:59Z")) || !c.Due(at("2026-03-01T02:00:00Z"), at("2026-03-09T00:00:00Z")) {
		t.Error("what was missed is due once, and what has not come is not")
	}
}

func TestFromEnv(t *testing.T) {
	env := map[string]string{"MEMDB_CONSOLIDATE_CRON": "0 1 * * *"}
	look := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	s, err := FromEnv(look)
	p := Default()
	if want := (Schedule{"0 1 * * *", "0 3 * * *"}); err != nil || s.Of(&p) != want {
		t.Errorf("%+v, %v, want %+v", s.Of(&p), err, want)
	}
	env["MEMDB_EVICT_CRON"] = "at night"
	if _, err := FromEnv(look); !errors.Is(err, fault.ErrInvalid) {
		t.Error(err)
	}
}
