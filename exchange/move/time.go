package move

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The least magnitudes of numbers that are milliseconds, microseconds and nanoseconds since
// 1970; smaller ones are seconds, of which those below leastSeconds are taken for no time.
const (
	leastSeconds = 1e8
	leastMillis  = 1e11
	leastMicros  = 1e14
	leastNanos   = 1e17
)

// zoned and naive are the forms of a time with an offset, and without one.
var (
	zoned = []string{
		time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 MST", "2006-01-02T15:04:05Z0700",
		"2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05Z07", "2006-01-02 15:04:05Z07", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00",
		time.RFC1123Z, time.RFC1123,
	}
	naive = []string{
		"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly,
		"2006/01/02 15:04:05", "2006/01/02 15:04", "2006/01/02",
	}
)

// readTime reads a time as other programs write it: seconds, milliseconds, microseconds or
// nanoseconds since 1970, told apart by their magnitude, with a fraction or without; ISO 8601
// with any offset, with a T or a blank; and without an offset, which is then that of the zone.
// A missing time, the zero and an empty text are the zero time.
func readTime(v any, zone *time.Location) (time.Time, error) {
	switch v := v.(type) {
	case nil:
		return time.Time{}, nil
	case int64:
		return ofNumber(strconv.FormatInt(v, 10))
	case float64:
		return ofNumber(strconv.FormatFloat(v, 'f', -1, 64))
	case json.Number:
		return ofNumber(string(v))
	case string:
		return ofText(strings.TrimSpace(v), zone)
	}
	return time.Time{}, fmt.Errorf("a time is neither a text nor a number")
}

func ofText(s string, zone *time.Location) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return ofNumber(s)
	}
	for _, layout := range zoned {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if name, offset := t.Zone(); offset == 0 && name != "UTC" && name != "GMT" && name != "" && name != "Z" {
			break // an abbreviation that Go does not know
		}
		return within(s, t)
	}
	for _, layout := range naive {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return within(s, t)
		}
	}
	return time.Time{}, fmt.Errorf("%.60q is no time", s)
}

// ofNumber reads a number of seconds or of parts of them.
func ofNumber(s string) (time.Time, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return time.Time{}, fmt.Errorf("%.60q is no time", s)
	}
	unit, size := time.Second, math.Abs(f)
	switch {
	case f == 0:
		return time.Time{}, nil
	case size < leastSeconds:
		return time.Time{}, fmt.Errorf("%.60q is no time: it has fewer than nine digits", s)
	case size >= leastNanos:
		unit = time.Nanosecond
	case size >= leastMicros:
		unit = time.Microsecond
	case size >= leastMillis:
		unit = time.Millisecond
	}
	return within(s, time.UnixMilli(int64(math.Round(f*float64(unit)/float64(time.Millisecond)))))
}

func within(s string, t time.Time) (time.Time, error) {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return time.Time{}, fmt.Errorf("%.60q is no time: its year is not within 1 and 9999", s)
	}
	return t.UTC().Truncate(time.Millisecond), nil
}
