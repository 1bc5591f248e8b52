package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// A Kind is how the values of a type are written in a query, a path or a flag.
type Kind struct {
	// Schema is the type in JSON schema.
	Schema string
	// Unit is what a value is called where its field says nothing else.
	Unit string
	// Zoned: a value depends on the time zone of who wrote it.
	Zoned bool
	// Once: a second value would widen what the first one has chosen, so it is refused.
	Once bool
	read func(ctx context.Context, r scalar.Reader, s string) (any, error)
}

// Read reads a value. Times without an offset are in the zone, UTC where it is nil.
func (k *Kind) Read(ctx context.Context, zone *time.Location, s string) (any, error) {
	return k.read(ctx, scalar.Reader{Zone: zone}, s)
}

func reads[T any](schema, unit string, read func(s string) (T, error)) *Kind {
	return &Kind{Schema: schema, Unit: unit, read: func(_ context.Context, _ scalar.Reader, s string) (any, error) { return read(s) }}
}

func times(read func(r scalar.Reader, v any) (time.Time, error)) *Kind {
	return &Kind{Schema: "string", Unit: "time", Zoned: true, read: func(_ context.Context, r scalar.Reader, s string) (any, error) { return read(r, s) }}
}

// The kinds of values.
var (
	Text   = reads("string", "text", func(s string) (string, error) { return s, nil })
	Flag   = reads("boolean", "", readFlag)
	Count  = reads("integer", "number", readCount)
	Size   = reads("integer", "number", readSize)
	Whole  = reads("integer", "number", readWhole)
	Number = reads("number", "number", readNumber)
	Span   = reads("string", "duration", policy.ParseSpan)
	Money  = reads("string", "USD", usage.ParseUSD)
	Value  = reads("", "JSON", readValue)
	Time   = times(scalar.Reader.Time)
	// Instant is a time in a body.
	Instant = &Kind{Schema: "string", Unit: "time", Zoned: true, read: func(_ context.Context, r scalar.Reader, s string) (any, error) {
		t, err := r.Time(s)
		return exchange.Time{Time: t}, err
	}}
	// Since is a time that bounds others from below: "no time" bounds nothing.
	Since = times(scalar.Reader.Since)
	// File is a part of a request that is read from a file, or as a body: nothing reads it from a text.
	File = reads("", "FILE", func(string) (any, error) { return nil, errors.New("it is read from a file") })
	// Until is a time at which something ends: a date is the end of that day.
	Until = &Kind{Schema: "string", Unit: "time", Zoned: true, read: func(_ context.Context, r scalar.Reader, s string) (any, error) {
		t, err := readEnd(r, s)
		return Expiry{&t}, err
	}}
	// Expires is Until in a record of a memory.
	Expires = &Kind{Schema: "string", Unit: "time", Zoned: true, read: func(_ context.Context, r scalar.Reader, s string) (any, error) {
		t, err := readEnd(r, s)
		return exchange.Expiry{Instant: exchange.Time{Time: t}}, err
	}}
	Object = reads("object", "JSON", exchange.ParseObject)
	Vector = reads("array", "JSON", readVector)
	Filter = &Kind{Schema: "string", Unit: "filter", Once: true, read: func(ctx context.Context, _ scalar.Reader, s string) (any, error) {
		return filter.Parse(ctx, []byte(s))
	}}
	// FilterText is a filter in a body.
	FilterText = &Kind{Schema: "string", Unit: "filter", Once: true, read: func(ctx context.Context, _ scalar.Reader, s string) (any, error) {
		if _, err := filter.Parse(ctx, []byte(s)); err != nil {
			return nil, err
		}
		b, err := json.Marshal(s)
		return FilterJSON(b), err
	}}
)

var kinds = map[reflect.Type]*Kind{
	reflect.TypeFor[bool]():            Flag,
	reflect.TypeFor[int]():             Count,
	reflect.TypeFor[int64]():           Size,
	reflect.TypeFor[uint64]():          Whole,
	reflect.TypeFor[float64]():         Number,
	reflect.TypeFor[policy.Span]():     Span,
	reflect.TypeFor[usage.USD]():       Money,
	reflect.TypeFor[time.Time]():       Time,
	reflect.TypeFor[exchange.Time]():   Instant,
	reflect.TypeFor[Expiry]():          Until,
	reflect.TypeFor[exchange.Expiry](): Expires,
	reflect.TypeFor[exchange.Object](): Object,
	reflect.TypeFor[exchange.Vector](): Vector,
	reflect.TypeFor[filter.Filter]():   Filter,
	reflect.TypeFor[FilterJSON]():      FilterText,
	reflect.TypeFor[json.RawMessage](): Value,
}

// objects is the kind of a struct, which is written as an object in JSON.
func objects(t reflect.Type) *Kind {
	return reads("object", "JSON", func(s string) (any, error) {
		v := reflect.New(t)
		if err := exchange.DecodeStrict([]byte(s), v.Interface()); err != nil {
			return nil, fmt.Errorf("is no JSON object as it should be: %w", err)
		}
		return v.Elem().Interface(), nil
	})
}

// kindOf is the kind of a type of fields, nil for one that cannot be written as a text.
func kindOf(t reflect.Type, bound string) *Kind {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	k, known := kinds[t]
	switch {
	case bound == "lower":
		return Since
	case known:
		return k
	case reflect.PointerTo(t).Implements(reflect.TypeFor[Lines]()):
		return File
	case t.Kind() == reflect.String, t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return Text
	case t.Kind() == reflect.Struct:
		return objects(t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return objects(t.Elem())
	}
	return nil
}

func readFlag(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%.40q is neither true nor false", s)
}

func readWhole(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a whole number of 0 or more", s)
	}
	return n, nil
}

func readCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a whole number from 0 to 2147483647", s)
	}
	return int(n), nil
}

func readSize(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a whole number of 0 or more", s)
	}
	return int64(n), nil
}

func readNumber(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != f || f > 1e300 || f < -1e300 {
		return 0, fmt.Errorf("%.40q is no number", s)
	}
	return f, nil
}

// readEnd reads when something ends: the zero time for never.
func readEnd(r scalar.Reader, s string) (time.Time, error) {
	if s == "never" {
		return time.Time{}, nil
	}
	return r.End(s)
}

func readVector(s string) (exchange.Vector, error) {
	var list exchange.Vector
	err := exchange.Decode([]byte(s), &list)
	if err == nil && len(list) == 0 {
		err = errors.New("it is no list of numbers")
	}
	return list, err
}

func readValue(s string) (json.RawMessage, error) {
	if !json.Valid([]byte(s)) {
		return nil, errors.New("is no JSON; a string needs quotes of its own")
	}
	return json.RawMessage(s), nil
}
