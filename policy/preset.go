package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Span is a length of time that JSON has in whole milliseconds.
type Span time.Duration

// MarshalJSON writes milliseconds.
func (s Span) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, s.Millis(), 10), nil }

// UnmarshalJSON reads milliseconds.
func (s *Span) UnmarshalJSON(b []byte) error {
	var ms int64
	if err := json.Unmarshal(b, &ms); err != nil {
		return err
	}
	if ms < 0 || ms > maxMillis {
		return fmt.Errorf("%d milliseconds are not within 0 and %d", ms, maxMillis)
	}
	*s = Span(ms) * Span(time.Millisecond)
	return nil
}

// Millis is the span in milliseconds.
func (s Span) Millis() int64 { return time.Duration(s).Milliseconds() }

// maxMillis is what a Span holds: 292 years.
const maxMillis = math.MaxInt64 / int64(time.Millisecond)

const day = 24 * time.Hour

// The presets.
const (
	PresetDefault = "default"
	// PresetAgentOS decays confidence and evicts, by the age since the creation alone and with one cap for all that an
	// agent has; it merges nothing.
	PresetAgentOS = "agentos"
	// PresetSubstrate stores with the importance 1, prunes by decayed importance, and merges what is nearly the same.
	PresetSubstrate = "substrate"
)

// Policy says how the memories of a database age. It is a value: stored whole, each change under the next version.
type Policy struct {
	// Preset is the name of the preset that the policy began as.
	Preset string `json:"preset"`
	// Version counts the changes of the policy: 0 is a preset that was never stored. LSN is the commit that stored it.
	Version uint32 `json:"version"`
	LSN     uint64 `json:"lsn"`

	// A memory is evicted for its age if it was created and, but in the preset agentos, accessed last longer than MaxAge
	// ago and its importance is below MinImportance (0 to 1); for its confidence if that is below MinConfidence (0 to 1).
	MaxAge        Span    `json:"max_age_ms"`
	MinImportance float64 `json:"min_importance"`
	MinConfidence float64 `json:"min_confidence"`
	// Cap is how many memories of Kinds an owner keeps, 1 to MaxCap. Those of the lowest importance go first, of
	// equal ones those that were accessed longest ago, then those that came first. CapPer says who an owner is to that:
	// PerOwner or PerAgent.
	Cap    int64  `json:"cap"`
	CapPer string `json:"cap_per"`
	// Kinds are the kinds of memories that any rule may evict, prune or merge.
	Kinds []string `json:"kinds"`

	// Rate is what a consolidation takes of the confidence of a memory that was not accessed for Idle, 0 to 1; Floor
	// is the confidence below which it takes nothing.
	Rate  float64 `json:"rate"`
	Idle  Span    `json:"idle_ms"`
	Floor float64 `json:"floor"`

	// Merge makes a consolidation merge memories whose texts say the same (see Saying); in the preset substrate those
	// that are nearly the same: vectors whose cosine is above MergeCosine (0 to 1), or texts whose edit distance is
	// below MergeEdit (0 to 1) of the length of the longer one.
	Merge       bool    `json:"merge"`
	MergeCosine float64 `json:"merge_cosine"`
	MergeEdit   float64 `json:"merge_edit"`
	// AverageEmbeddings gives what is merged into the mean of the vectors, in each space that it has one in.
	AverageEmbeddings bool `json:"average_embeddings"`

	// DailyRetention is what is left of an importance after a day without access, 0 to 1. A consolidation prunes
	// memories whose decayed importance is below PruneBelow; 0 prunes none.
	DailyRetention float64 `json:"daily_retention"`
	PruneBelow     float64 `json:"prune_below"`

	// ConsolidateCron and EvictCron are cron expressions of five fields, in UTC. An empty one never comes.
	ConsolidateCron string `json:"consolidate_cron"`
	EvictCron       string `json:"evict_cron"`

	// History is how long the versions that were superseded and the memories that died stay as histories, Log how long
	// the records of the commits stay, a minute at least; 0 is for ever.
	History Span `json:"history_ms"`
	Log     Span `json:"log_ms"`
	// Trash is how long what was evicted, pruned or merged away can be brought back; 0: not at all.
	Trash Span `json:"trash_ms"`
}

// minLog is the shortest Log: a snapshot of vectors names a record that is as old as its writing takes.
const minLog = time.Minute

// Whose memories a cap counts.
const (
	PerOwner = "owner" // each pair of user and agent
	PerAgent = "agent" // an agent with all its users; a user without an agent is by itself
)

// MaxCap is the largest Cap: as many memories as a database holds.
const MaxCap = 1 << 31

// Default returns the preset default.
func Default() Policy {
	return Policy{
		Preset: PresetDefault,
		MaxAge: Span(30 * day), MinImportance: .2, MinConfidence: .1, Cap: 10_000, CapPer: PerOwner, Kinds: []string{"message", "fragment", "fact"},
		Rate: .05, Idle: Span(7 * day), Floor: .1,
		Merge: true, MergeCosine: .9, MergeEdit: .1, DailyRetention: DailyRetention,
		ConsolidateCron: "0 */6 * * *", EvictCron: "0 3 * * *", Trash: Span(30 * day),
	}
}

// Preset returns the preset of a name, ErrInvalid for an unknown one.
func Preset(name string) (Policy, error) {
	p := Default()
	p.Preset = name
	switch name {
	case PresetDefault:
	case PresetAgentOS:
		p.Merge, p.CapPer = false, PerAgent
	case PresetSubstrate:
		p.PruneBelow = .1
	default:
		return Policy{}, fault.Invalid(doingSet, fmt.Sprintf("there is no preset %q", valid.Short(name)), "use default, agentos or substrate")
	}
	return p, nil
}

// FullImportance reports whether a memory that is stored without an importance gets 1 instead of a computed one.
func (p *Policy) FullImportance() bool { return p.Preset == PresetSubstrate }

// MergesAlike reports whether what is nearly the same is merged, and not only what says the same.
func (p *Policy) MergesAlike() bool { return p.Preset == PresetSubstrate }

// Has reports whether the rules may take memories of a kind.
func (p *Policy) Has(kind string) bool { return slices.Contains(p.Kinds, kind) }

const doingSet = "set the policy"

// setting is a key of a policy that users change.
type setting struct {
	key string
	set func(p *Policy, value string) error
}

var settings = []setting{
	{"max_age_ms", span(func(p *Policy) *Span { return &p.MaxAge })},
	{"min_importance", number(func(p *Policy) *float64 { return &p.MinImportance })},
	{"min_confidence", number(func(p *Policy) *float64 { return &p.MinConfidence })},
	{"cap", func(p *Policy, s string) (err error) { p.Cap, err = strconv.ParseInt(s, 10, 64); return wrong(s, err) }},
	{"cap_per", text(func(p *Policy) *string { return &p.CapPer })},
	{"kinds", func(p *Policy, s string) error { p.Kinds = splitKinds(s); return nil }},
	{"rate", number(func(p *Policy) *float64 { return &p.Rate })},
	{"idle_ms", span(func(p *Policy) *Span { return &p.Idle })},
	{"floor", number(func(p *Policy) *float64 { return &p.Floor })},
	{"merge", flag(func(p *Policy) *bool { return &p.Merge })},
	{"average_embeddings", flag(func(p *Policy) *bool { return &p.AverageEmbeddings })},
	{"merge_cosine", number(func(p *Policy) *float64 { return &p.MergeCosine })},
	{"merge_edit", number(func(p *Policy) *float64 { return &p.MergeEdit })},
	{"daily_retention", number(func(p *Policy) *float64 { return &p.DailyRetention })},
	{"prune_below", number(func(p *Policy) *float64 { return &p.PruneBelow })},
	{"consolidate_cron", text(func(p *Policy) *string { return &p.ConsolidateCron })},
	{"evict_cron", text(func(p *Policy) *string { return &p.EvictCron })},
	{"history_ms", span(func(p *Policy) *Span { return &p.History })},
	{"log_ms", span(func(p *Policy) *Span { return &p.Log })},
	{"trash_ms", span(func(p *Policy) *Span { return &p.Trash })},
}

func flag(at func(p *Policy) *bool) func(p *Policy, s string) error {
	return func(p *Policy, s string) (err error) {
		*at(p), err = strconv.ParseBool(s)
		return wrong(s, err)
	}
}

func wrong(value string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q is not such a value", valid.Short(value))
}

func number(at func(*Policy) *float64) func(*Policy, string) error {
	return func(p *Policy, s string) (err error) {
		*at(p), err = strconv.ParseFloat(s, 64)
		return wrong(s, err)
	}
}

func text(at func(*Policy) *string) func(*Policy, string) error {
	return func(p *Policy, s string) error {
		*at(p) = s
		return nil
	}
}

func span(at func(*Policy) *Span) func(*Policy, string) error {
	return func(p *Policy, s string) (err error) {
		*at(p), err = parseMillis(s)
		return err
	}
}

func splitKinds(s string) []string {
	s = strings.Trim(s, "[]")
	if strings.TrimSpace(s) == "" {
		return []string{}
	}
	kinds := strings.Split(s, ",")
	for i := range kinds {
		kinds[i] = strings.Trim(strings.TrimSpace(kinds[i]), `"`)
	}
	return kinds
}

// parseMillis reads the value of a key whose unit is milliseconds: a whole number of them, or what ParseSpan reads.
func parseMillis(s string) (Span, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms >= 0 && ms <= maxMillis {
		return Span(ms) * Span(time.Millisecond), nil
	}
	return ParseSpan(s)
}

// ParseSpan reads a length of time with its unit: days as 30d, or what time.ParseDuration reads. A bare number is an
// error, 0 too: nobody can tell its unit.
func ParseSpan(s string) (Span, error) {
	bad := fmt.Errorf("%q is no length of time with its unit, as 30d, 12h or 500ms", valid.Short(s))
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n >= 0 && n <= float64(maxMillis)/float64(day.Milliseconds())) {
			return 0, bad
		}
		return Span(n * float64(day)).whole(), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || strings.Trim(s, "+-.0123456789") == "" {
		return 0, bad
	}
	return Span(d).whole(), nil
}

// whole drops what is less than a millisecond.
func (s Span) whole() Span { return Span(time.Duration(s).Truncate(time.Millisecond)) }

// Set changes one key of the policy, named as in JSON. It returns ErrInvalid for an unknown key and for a value that
// cannot be read; Check says whether the values make a policy.
func (p *Policy) Set(key, value string) error {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key })
	if i < 0 {
		return fault.Invalid(doingSet, fmt.Sprintf("there is no key %q", valid.Short(key)), "use one of "+strings.Join(Keys(), ", "))
	}
	if err := settings[i].set(p, value); err != nil {
		return fault.Invalid(doingSet, key+": "+err.Error(), "give another value")
	}
	return nil
}

// Keys are the keys that Set takes.
func Keys() []string {
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i] = s.key
	}
	return keys
}

// evictable are the kinds that a policy may name. Notes, archives and summaries are kept for as long as nobody
// deletes them.
var evictable = []string{"message", "fragment", "fact"}

// Check returns ErrInvalid for values that make no policy.
func (p *Policy) Check() error {
	bad := func(key string, why string) error {
		return fault.Invalid(doingSet, key+": "+why, "give another value")
	}
	for _, s := range []struct {
		key   string
		value float64
	}{
		{"min_importance", p.MinImportance},
		{"min_confidence", p.MinConfidence},
		{"rate", p.Rate},
		{"floor", p.Floor},
		{"merge_cosine", p.MergeCosine},
		{"merge_edit", p.MergeEdit},
		{"daily_retention", p.DailyRetention},
		{"prune_below", p.PruneBelow},
	} {
		if !(s.value >= 0 && s.value <= 1) { // nor is NaN
			return bad(s.key, fmt.Sprintf("%v is not within 0 and 1", s.value))
		}
	}
	if p.Cap < 1 || p.Cap > MaxCap {
		return bad("cap", fmt.Sprintf("%d is not within 1 and %d", p.Cap, int64(MaxCap)))
	}
	if p.CapPer != PerOwner && p.CapPer != PerAgent {
		return bad("cap_per", fmt.Sprintf("%q is neither %s nor %s", valid.Short(p.CapPer), PerOwner, PerAgent))
	}
	if min(p.MaxAge, p.Idle, p.History, p.Log, p.Trash) < 0 {
		return fault.Invalid(doingSet, "a length of time is negative", "give another value")
	}
	if p.Log != 0 && time.Duration(p.Log) < minLog {
		return bad("log_ms", fmt.Sprintf("%d is less than a minute", p.Log.Millis()))
	}
	for i, k := range p.Kinds {
		if !slices.Contains(evictable, k) || slices.Contains(p.Kinds[:i], k) {
			return bad("kinds", fmt.Sprintf("%q is not one of %s, each once", valid.Short(k), strings.Join(evictable, ", ")))
		}
	}
	for _, c := range []struct{ key, expr string }{{"consolidate_cron", p.ConsolidateCron}, {"evict_cron", p.EvictCron}} {
		if _, err := ParseCron(c.expr); err != nil {
			return bad(c.key, err.Error())
		}
	}
	_, err := Preset(p.Preset)
	return err
}

// Same reports whether two policies say the same, whatever their versions.
func (p *Policy) Same(q *Policy) bool {
	a, b := *p, *q
	a.Version, a.LSN, b.Version, b.LSN = 0, 0, 0, 0
	return reflect.DeepEqual(a, b)
}
