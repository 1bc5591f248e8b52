package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const day = 24 * time.Hour

// TestEvicts: the first rule that holds says why, and the preset agentos goes by the age alone.
func TestEvicts(t *testing.T) {
	p := policy.Default()
	p.MaxAge, p.MinImportance, p.MinConfidence = policy.Span(30*day), .2, .1
	agent := p
	agent.Preset = policy.PresetAgentOS
	for _, c := range []struct {
		what            string
		facts           policy.Facts
		byDefault, byOS policy.Reason
	}{
		{"young", policy.Facts{Age: day, Idle: day, Importance: .1, Confidence: 1}, "", ""},
		{"old and of no importance", policy.Facts{Age: 31 * day, Idle: 31 * day, Importance: .1, Confidence: 1}, policy.Age, policy.Age},
		{"old and accessed", policy.Facts{Age: 31 * day, Idle: day, Importance: .1, Confidence: 1}, "", policy.Age},
		{"old and important", policy.Facts{Age: 31 * day, Idle: 31 * day, Importance: .2, Confidence: 1}, "", ""},
		{"doubted", policy.Facts{Importance: 1, Confidence: .05}, policy.LowConfidence, policy.LowConfidence},
		{"expired and doubted", policy.Facts{Confidence: .05, Expired: true}, policy.Expired, policy.Expired},
	} {
		if got, os := p.Evicts(&c.facts), agent.Evicts(&c.facts); got != c.byDefault || os != c.byOS {
			t.Errorf("%s: %q, in agentos %q; want %q and %q", c.what, got, os, c.byDefault, c.byOS)
		}
		if may := p.MayEvict(c.facts.Age, c.facts.Importance, c.facts.Confidence); c.byDefault != "" && !c.facts.Expired && !may {
			t.Errorf("%s: it goes, and MayEvict says that none may", c.what)
		}
	}
	f := policy.Facts{Importance: .5, Idle: 10 * day}
	if p.Prunes(&f) {
		t.Error("pruned though nothing is to be")
	}
	p.DailyRetention, p.PruneBelow = .8, .05
	if lower := policy.DecayedImportance(.5, .8, 10*day+time.Hour); lower != policy.DecayedImportance(.5, .8, 10*day) || p.Prunes(&f) {
		t.Errorf("an importance of .5 is %v after ten days", lower)
	}
	if f.Idle = 11 * day; !p.Prunes(&f) {
		t.Error("not pruned")
	}
}

// TestPlaces: who goes first where there are too many.
func TestPlaces(t *testing.T) {
	want := []policy.Place{{Importance: .1, Last: 9, Seq: 9}, {Importance: .2, Last: 1, Seq: 8}, {Importance: .2, Last: 2, Seq: 3}, {Importance: .2, Last: 2, Seq: 4}}
	got := []policy.Place{want[3], want[1], want[0], want[2]}
	slices.SortFunc(got, policy.Place.Compare)
	testdb.Equal(t, "places", got, want)
}

// TestVerdicts: an act that there is not is refused, and a reason is cut at its limit.
func TestVerdicts(t *testing.T) {
	v := policy.Verdict{Act: policy.Decay, Why: strings.Repeat("é", policy.MaxWhy)}
	if err := v.Check(); err != nil || len(v.Why) > policy.MaxWhy || len(v.Why) < policy.MaxWhy-2 {
		t.Errorf("%d bytes, %v", len(v.Why), err)
	}
	v.Act = policy.Evict + 1
	testdb.WantError(t, "no act", v.Check(), memory.ErrInvalid)
	p := policy.Default()
	p.Rate, p.Floor = .5, .3
	for _, c := range []struct {
		confidence, lower float64
		lowers            bool
	}{{1, .5, true}, {.5, .3, true}, {.3, .3, false}, {.1, .1, false}} {
		if lower, lowers := p.Decayed(c.confidence); lower < c.lower-1e-6 || lower > c.lower+1e-6 || lowers != c.lowers {
			t.Errorf("%v decays to %v, %v", c.confidence, lower, lowers)
		}
	}
}
