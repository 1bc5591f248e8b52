package clock

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Instant is a time: written as RFC 3339 in UTC with milliseconds, read as RFC
// 3339, as a bare date (midnight UTC) or as integer milliseconds since 1970. The
// zero time is no time; null and "" are read as such.
type Instant struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// The years that RFC 3339 can write. The first millisecond of year 1 is the zero
// time.
const minYear, maxYear = 1, 9999

// String is the instant as it is written.
func (t Instant) String() string { return t.UTC().Format(timeLayout) }

// MarshalJSON writes the instant as a string, and the zero time as null.
func (t Instant) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return strconv.AppendQuote(nil, t.String()), nil
}

// UnmarshalJSON reads what Parse reads, as a string or a number.
func (t *Instant) UnmarshalJSON(b []byte) error {
	s := string(b)
	if s == "null" || s == `""` {
		*t = Instant{}
		return nil
	}
	if b[0] == '"' {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	p, err := Parse(s)
	*t = Instant{p}
	return err
}

// Parse reads an instant: RFC 3339, a bare date (midnight UTC), or integer
// milliseconds since 1970.
func Parse(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t, err = time.Parse(time.DateOnly, s)
	}
	if err != nil {
		var ms int64
		ms, err = strconv.ParseInt(s, 10, 64)
		t = time.UnixMilli(ms)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no time: give RFC 3339 as 2026-01-02T15:04:05Z, a date as 2026-01-02, or integer milliseconds since 1970", s)
	}
	t = t.UTC().Truncate(time.Millisecond)
	if y := t.Year(); y < minYear || y > maxYear {
		return time.Time{}, fmt.Errorf("%q is no time: its year is not within %d and %d", s, minYear, maxYear)
	}
	return t, nil
}
