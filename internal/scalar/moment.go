package scalar

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// The sizes of an integer that is a time. As many seconds as milliseconds begin at: the year
// 5138 in seconds, 3 March 1973 in milliseconds. Fewer than leastSeconds are no time but a
// year, a month or a day that was written as a number: 2026, 202601, 20260131.
const (
	leastMillis  = 100_000_000_000
	leastSeconds = 100_000_000
)

// The years that RFC 3339 can write. The first millisecond of year 1 is the zero time.
const minYear, maxYear = 1, 9999

// TimeForms is what to write for a time.
const TimeForms = "give RFC 3339 as 2026-01-02T15:04:05Z, a date as 2026-01-02, or integer seconds or milliseconds since 1970"

// Time reads a moment, to the millisecond. It is the one place where a time that was written
// is read, whoever wrote it. The forms are a time.Time, RFC 3339, a bare date (midnight UTC),
// and an integer since 1970, as a number or a string of digits: of 100,000,000,000 or more
// milliseconds, of less seconds, and likewise before 1970. An integer of less than 100,000,000
// and a year outside 1 to 9999 are an error.
func Time(v any) (time.Time, error) {
	switch v := v.(type) {
	case time.Time:
		return within(v, v.UTC().Truncate(time.Millisecond))
	case string:
		if t, ok := Written(v); ok {
			return within(v, t)
		}
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return fromInteger(n)
		}
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return fromInteger(n)
		}
	default:
		if n, ok := NumberOf(v); ok && n.Integer {
			if i := int64(n.Magnitude); i >= 0 {
				if n.Negative {
					i = -i
				}
				return fromInteger(i)
			}
		}
	}
	return time.Time{}, noTime(v, TimeForms)
}

// Millis is Time in Unix milliseconds, false for what is no time.
func Millis(v any) (int64, bool) {
	t, err := Time(v)
	return t.UnixMilli(), err == nil
}

// Written reads a string that is a time by its form: RFC 3339, or a bare date.
func Written(s string) (time.Time, bool) {
	const shortest = len(time.DateOnly)
	if len(s) < shortest || s[4] != '-' {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Truncate(time.Millisecond), true
		}
	}
	return time.Time{}, false
}

// End is Time of what lasts until then: a bare date is the last millisecond of that day.
func End(v any) (time.Time, error) {
	t, err := Time(v)
	if s, ok := v.(string); ok && err == nil && len(s) == len(time.DateOnly) && s[4] == '-' {
		t = t.Add(24*time.Hour - time.Millisecond)
	}
	return t, err
}

func fromInteger(n int64) (time.Time, error) {
	switch {
	case -leastSeconds < n && n < leastSeconds:
		if 1000 <= n && n <= maxYear {
			return time.Time{}, noTime(n, fmt.Sprintf("write %d-01-01 for the beginning of that year", n))
		}
		return time.Time{}, noTime(n, "an integer is seconds or milliseconds since 1970, and of nine digits at least; "+TimeForms)
	case -leastMillis < n && n < leastMillis:
		return within(n, time.Unix(n, 0))
	}
	return within(n, time.UnixMilli(n))
}

// within refuses years that RFC 3339 cannot write.
func within(v any, t time.Time) (time.Time, error) {
	if y := t.UTC().Year(); y < minYear || y > maxYear {
		return time.Time{}, noTime(v, fmt.Sprintf("its year is not within %d and %d; check its unit", minYear, maxYear))
	}
	return t.UTC(), nil
}

func noTime(v any, why string) error {
	s := fmt.Sprint(v)
	if text, ok := v.(string); ok {
		s = strconv.Quote(text)
	}
	return fmt.Errorf("%s is no time: %s", s, why)
}
