package clock

import (
	"encoding/json"
	"reflect"
	"strconv"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

// Instant is a time: written as RFC 3339 in UTC with milliseconds, read in any of the
// forms of [scalar.Reader]. The zero time is no time; null and "" are read as such. A time
// without an offset is read as UTC, and [Place] puts it into another zone.
type Instant struct {
	time.Time

	naive bool // it was read without an offset
}

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
	*t, err = unmarshal(b, scalar.Time)
	return err
}

func unmarshal(b []byte, parse func(any) (time.Time, error)) (t Instant, err error) {
	s := string(b)
	if s == "null" || s == `""` {
		return Instant{}, nil
	}
	var v any = json.Number(s)
	if b[0] == '"' {
		if err = json.Unmarshal(b, &s); err != nil {
			return Instant{}, err
		}
		v = s
	}
	if t.Time, err = parse(v); err == nil {
		m, _ := scalar.Read(v) // parse has read it
		t.naive = m.Naive
	}
	return t, err
}

// Parse reads an instant in any of the forms of [scalar.Reader].
func Parse(s string) (time.Time, error) { return scalar.Time(s) }

// Expiry is an Instant that something lasts until: read from a bare date, it is the end of
// that day.
type Expiry struct{ Instant }

// UnmarshalJSON reads what ParseExpiry reads, as a string or a number.
func (t *Expiry) UnmarshalJSON(b []byte) (err error) {
	t.Instant, err = unmarshal(b, scalar.End)
	return err
}

// ParseExpiry is Parse, but for a bare date, which is the end of that day.
func ParseExpiry(s string) (time.Time, error) { return scalar.End(s) }

// Place puts the instants in a value that were read without an offset into a zone. v is a
// pointer to a value that was decoded from JSON, of structs, pointers and lists.
func Place(v any, zone *time.Location) {
	if zone != nil && zone != time.UTC {
		place(reflect.ValueOf(v), zone)
	}
}

func place(v reflect.Value, zone *time.Location) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			place(v.Elem(), zone)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() < reflect.Array { // of bytes or numbers
			return
		}
		for i := range v.Len() {
			place(v.Index(i), zone)
		}
	case reflect.Struct:
		if v.CanAddr() && v.CanInterface() {
			if t, ok := reflect.TypeAssert[*Instant](v.Addr()); ok {
				t.Time, t.naive = scalar.Moment{Time: t.Time, Naive: t.naive}.In(zone), false
				return
			}
		}
		for i := range v.NumField() {
			if of := v.Type().Field(i); of.IsExported() || of.Anonymous {
				place(v.Field(i), zone)
			}
		}
	}
}
