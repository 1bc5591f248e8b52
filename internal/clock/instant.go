package clock

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

// Instant is a time: written as RFC 3339 in UTC with milliseconds, read in any of the
// forms of [scalar.Time]. The zero time is no time; null and "" are read as such.
type Instant struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

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
func (t *Instant) UnmarshalJSON(b []byte) (err error) {
	t.Time, err = unmarshal(b, scalar.Time)
	return err
}

func unmarshal(b []byte, parse func(any) (time.Time, error)) (time.Time, error) {
	s := string(b)
	if s == "null" || s == `""` {
		return time.Time{}, nil
	}
	if b[0] != '"' {
		return parse(json.Number(s))
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return time.Time{}, err
	}
	return parse(s)
}

// Parse reads an instant in any of the forms of [scalar.Time].
func Parse(s string) (time.Time, error) { return scalar.Time(s) }

// Expiry is an Instant that something lasts until: read from a bare date, it is the end of
// that day.
type Expiry struct{ Instant }

// UnmarshalJSON reads what ParseExpiry reads, as a string or a number.
func (t *Expiry) UnmarshalJSON(b []byte) (err error) {
	t.Time, err = unmarshal(b, scalar.End)
	return err
}

// ParseExpiry is Parse, but for a bare date, which is the end of that day.
func ParseExpiry(s string) (time.Time, error) { return scalar.End(s) }
