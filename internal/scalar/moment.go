package scalar

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// TimeForms says what to write for a time.
const TimeForms = "give RFC 3339 as 2026-01-02T15:04:05Z, a date as 2026-01-02, RFC 2822 as 2 Jan 2026 15:04:05 +0000, or seconds, milliseconds, microseconds or nanoseconds since 1970"

// ErrUnset is returned for values that mean "no time": the number 0; the zero time of Go and
// other languages, 0001-01-01T00:00:00; and the beginning of 1970, which is how the database
// stores that there is no time.
var ErrUnset = errors.New("stands for no time")

// Moment is a time as it was written, with every digit to the nanosecond.
type Moment struct {
	time.Time // in UTC
	// Naive: it was written without an offset. Time is then what was written, taken as UTC.
	Naive bool
	// Date: it was written without a time of day.
	Date bool
}

// zeroTime is year 1 as it was written, in any zone.
func (m Moment) zeroTime(zone *time.Location) bool {
	return m.In(zone).IsZero() || m.Naive && m.IsZero()
}

// In is the instant of the moment in UTC, where a moment without an offset is in a zone, nil
// for UTC. A time of day that a zone skips when its clocks go forward is read with the offset
// from before: 02:30 is 03:30. Of a time of day that comes twice the first is read.
func (m Moment) In(zone *time.Location) time.Time {
	if !m.Naive || zone == nil || zone == time.UTC {
		return m.Time
	}
	// Transitions are further apart than two days, so the offsets of a day before and after
	// are those on both sides of a transition nearby.
	at := func(t time.Time) time.Time {
		_, offset := t.In(zone).Zone()
		return m.Add(-time.Duration(offset) * time.Second)
	}
	before, after := at(m.AddDate(0, 0, -1)), at(m.AddDate(0, 0, 1))
	shows := func(t time.Time) bool {
		_, offset := t.In(zone).Zone()
		return t.Add(time.Duration(offset) * time.Second).Equal(m.Time)
	}
	if !shows(before) && shows(after) {
		return after
	}
	return before
}

// Reader reads times. It is the one place where a time that was written is read, whoever
// wrote it.
//
// The forms are a time.Time; a text in ISO 8601, RFC 3339, RFC 9557, RFC 2822 or as date(1),
// asctime and other programs write a date in English; and a number since 1970, also as a text.
// docs/cli.md lists them. A text is at most MaxTime bytes long.
//
// A number is of seconds where its magnitude is below 100,000,000,000 (the year 5138), and
// otherwise of the first of milliseconds, microseconds and nanoseconds that puts it within the
// years 1 to 9999. One of a magnitude below 100,000,000 is no time but a year, a month or a
// day that was written as a number: 2026, 202601, 20260131.
type Reader struct {
	// Zone is the zone of times without an offset, nil for UTC.
	Zone *time.Location
}

// Time reads a time that is to be kept or to be looked up, to the millisecond and in UTC: what
// is finer is cut off. The two instants that mean "no time" are ErrUnset.
func (r Reader) Time(v any) (time.Time, error) {
	m, err := Read(v)
	if err != nil {
		return time.Time{}, err
	}
	return r.finish(v, m)
}

// End is Time of what lasts until then: a date without a time of day is the last millisecond of
// that day.
func (r Reader) End(v any) (time.Time, error) {
	m, err := Read(v)
	if err != nil {
		return time.Time{}, err
	}
	return r.finish(v, m.End())
}

// End is the moment itself, or the last millisecond of a date.
func (m Moment) End() Moment {
	if m.Date {
		m.Time = m.AddDate(0, 0, 1).Add(-time.Millisecond)
	}
	return m
}

// Since is Time of a lower bound. A value that means "no time" is the zero time, and bounds nothing.
func (r Reader) Since(v any) (time.Time, error) {
	t, err := r.Time(v)
	if errors.Is(err, ErrUnset) {
		return time.Time{}, nil
	}
	return t, err
}

func (r Reader) finish(v any, m Moment) (time.Time, error) {
	t := m.In(r.Zone).Truncate(time.Millisecond)
	switch {
	case m.zeroTime(r.Zone), t.UnixMilli() == 0:
		return time.Time{}, unset(v)
	case !inYears(t):
		return time.Time{}, badYear(v)
	}
	return t, nil
}

// Time reads a time as a Reader of UTC does.
func Time(v any) (time.Time, error) { return Reader{}.Time(v) }

// End reads the end of a time as a Reader of UTC does.
func End(v any) (time.Time, error) { return Reader{}.End(v) }

// Millis is a time to compare others with, in Unix milliseconds, false for what is no time. The
// instants that mean "no time" are bounds like all others.
func Millis(v any) (int64, bool) {
	m, err := Read(v)
	return m.UnixMilli(), err == nil
}

// Written reads a text that is a time by its form, and so is no number.
func Written(s string) (time.Time, bool) {
	if len(s) > MaxTime {
		return time.Time{}, false
	}
	if _, isNumber := numberIn(strings.TrimSpace(s)); isNumber {
		return time.Time{}, false
	}
	m, err := ofText(s)
	return m.Time, err == nil
}

// Read reads a time in any form, as it was written.
func Read(v any) (Moment, error) {
	switch v := v.(type) {
	case time.Time:
		m := Moment{Time: v.UTC()}
		if !inYears(m.Time) {
			return m, badYear(v)
		}
		return m, nil
	case string:
		if n, ok := numberIn(strings.TrimSpace(v)); ok {
			return ofNumber(v, n)
		}
		return ofText(v)
	}
	if n, ok := NumberOf(v); ok {
		return ofNumber(v, n)
	}
	return Moment{}, noTime(v, TimeForms)
}

// numberIn is the number that a text is in decimal digits, with an exponent or without.
func numberIn(s string) (Number, bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case isDigit(c), c == '.', i > 0 && c|0x20 == 'e':
		case (c == '-' || c == '+') && (i == 0 || s[i-1]|0x20 == 'e'):
		default:
			return Number{}, false
		}
	}
	return NumberOf(json.Number(strings.TrimPrefix(s, "+")))
}

// The magnitudes of numbers that are times.
const (
	leastSeconds = 100_000_000     // 3 March 1973, and before 1970 as far from it
	leastMillis  = 100_000_000_000 // likewise
)

// The years that RFC 3339 can write.
const minYear, maxYear = 1, 9999

// ofNumber reads a number since 1970. Of what is no integer a float64 keeps the microseconds.
func ofNumber(v any, n Number) (Moment, error) {
	size := math.Abs(n.Float)
	switch {
	case size == 0:
		return Moment{}, unset(v)
	case size < leastSeconds:
		if n.Integer && !n.Negative && 1000 <= n.Magnitude && n.Magnitude <= maxYear {
			return Moment{}, noTime(v, fmt.Sprintf("write %d-01-01 for the beginning of that year", n.Magnitude))
		}
		return Moment{}, noTime(v, "a number is of seconds, milliseconds, microseconds or nanoseconds since 1970, and of nine digits at least; "+TimeForms)
	case !n.Integer && size >= math.MaxInt64:
		return Moment{}, badYear(v)
	}
	unit := time.Second
	if size >= leastMillis {
		unit = time.Millisecond
	}
	for ; unit >= time.Nanosecond; unit /= 1000 {
		if m := (Moment{Time: n.since1970(unit)}); inYears(m.Time) {
			return m, nil
		}
		if unit == time.Second {
			break
		}
	}
	return Moment{}, badYear(v)
}

// since1970 is the time of so many units.
func (a Number) since1970(unit time.Duration) time.Time {
	ofSecond := uint64(time.Second / unit)
	if !a.Integer {
		whole, part := math.Modf(a.Float / float64(ofSecond))
		micros := math.Round(part * 1e6)
		return time.Unix(int64(whole), int64(micros)*1000).UTC()
	}
	seconds, part := int64(a.Magnitude/ofSecond), int64(a.Magnitude%ofSecond)*int64(unit)
	if a.Negative {
		seconds, part = -seconds, -part
	}
	return time.Unix(seconds, part).UTC()
}

func inYears(t time.Time) bool { return minYear <= t.Year() && t.Year() <= maxYear }

func badYear(v any) error {
	return noTime(v, fmt.Sprintf("its year is not within %d and %d; check its unit", minYear, maxYear))
}

func unset(v any) error {
	return fmt.Errorf("%s %w; leave it out, or give a time that is a millisecond away from it", quoted(v), ErrUnset)
}

func noTime(v any, why string) error { return fmt.Errorf("%s is no time: %s", quoted(v), why) }

// quoted is a value in a message.
func quoted(v any) string {
	const most = 60
	text, ok := v.(string)
	switch {
	case ok && len(text) > most:
		return fmt.Sprintf("%.*q…", most, text)
	case ok:
		return strconv.Quote(text)
	}
	return fmt.Sprint(v)
}

// dayOf is a date of the calendar.
func dayOf(year, month, day int) (time.Time, bool) {
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	y, m, d := t.Date()
	return t, cmp.Or(y-year, int(m)-month, d-day) == 0
}
