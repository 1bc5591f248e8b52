package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Never is the cron expression of what is not to come by itself.
const Never = "never"

// maxCron bounds a cron expression, in bytes.
const maxCron = 256

// fields are those of a crontab. As there, a day fits by its month or by its week where both are given.
var fields = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// Cron is a parsed cron expression. The zero Cron never comes.
type Cron struct{ at cron.Schedule }

// ParseCron reads a cron expression of five fields (minute, hour, day of the month, month, day of the week), or a
// descriptor such as @daily. Its times are in UTC. An empty expression and Never never come.
func ParseCron(expr string) (Cron, error) {
	if expr == "" || expr == Never {
		return Cron{}, nil
	}
	if len(expr) > maxCron {
		return Cron{}, fmt.Errorf("a cron expression of %d bytes is too long", len(expr))
	}
	if strings.Contains(expr, "TZ=") {
		return Cron{}, fmt.Errorf("%q names a time zone; the times are in UTC", valid.Short(expr))
	}
	at, err := fields.Parse(expr)
	if err != nil {
		return Cron{}, fmt.Errorf("%q is no cron expression: %w", valid.Short(expr), err)
	}
	return Cron{at}, nil
}

// Next returns the first time after t, the zero time where none comes.
func (c Cron) Next(t time.Time) time.Time {
	if c.at == nil {
		return time.Time{}
	}
	return c.at.Next(t.UTC())
}

// Due reports whether a time of the expression lies after last and not after now: once, however many were missed.
func (c Cron) Due(last, now time.Time) bool {
	next := c.Next(last)
	return !next.IsZero() && !next.After(now)
}

// Schedule says when a database consolidates and evicts by itself: cron expressions, as ParseCron reads them. An empty
// one is that of the policy.
type Schedule struct {
	// Consolidate and Evict are cron expressions in UTC; "never" is never.
	Consolidate string
	Evict       string
}

// Check returns ErrInvalid for a malformed expression.
func (s Schedule) Check() error {
	for _, expr := range []string{s.Consolidate, s.Evict} {
		if _, err := ParseCron(expr); err != nil {
			return fault.Invalid("set the schedule", err.Error(), "give another expression, or "+Never)
		}
	}
	return nil
}

// Of returns the schedule with the expressions of a policy in the place of empty ones.
func (s Schedule) Of(p *Policy) Schedule {
	return Schedule{cmp.Or(s.Consolidate, p.ConsolidateCron, Never), cmp.Or(s.Evict, p.EvictCron, Never)}
}

// FromEnv reads a schedule from MEMDB_CONSOLIDATE_CRON and MEMDB_EVICT_CRON. lookup is os.LookupEnv, or what a program
// has in its place. It returns ErrInvalid for a malformed expression.
func FromEnv(lookup func(name string) (value string, set bool)) (Schedule, error) {
	var s Schedule
	s.Consolidate, _ = lookup("MEMDB_CONSOLIDATE_CRON")
	s.Evict, _ = lookup("MEMDB_EVICT_CRON")
	return s, s.Check()
}
