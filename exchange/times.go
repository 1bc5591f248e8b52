package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

// decodeKnown is DecodeKnown of a line of a type. Times that mean "not set", as the zero time of Go, are
// left out and counted; times without an offset are in the zone of the options.
func (b *batch) decodeKnown(kind string, line []byte, v any) (unknown []Member, err error) {
	unknown, err = DecodeKnown(line, v)
	if errors.Is(err, scalar.ErrUnset) {
		reflect.ValueOf(v).Elem().SetZero()
		unknown, err = DecodeKnown(b.withoutUnset(kind, line, timeKeys(reflect.TypeOf(v).Elem())), v)
	}
	clock.Place(v, b.opts.Zone)
	return unknown, err
}

// withoutUnset returns a line without the times that mean "not set", and counts them.
func (b *batch) withoutUnset(kind string, line []byte, times []string) []byte {
	out := []byte{'{'}
	err := rawjson.Members(line, func(key string, value []byte) error {
		if slices.Contains(times, key) && errors.Is(json.Unmarshal(value, new(clock.Instant)), scalar.ErrUnset) {
			b.report.LeftOut.Add(fmt.Sprintf("%q of lines of type %s that stands for no time", key, kind), 1)
			return nil
		}
		name, err := json.Marshal(key)
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
		return err
	})
	if err != nil {
		return line // what is wrong with it is said when it is read
	}
	return append(out, '}')
}

// timeKeys are the keys of a struct that are times.
func timeKeys(t reflect.Type) (times []string) {
	for f := range t.Fields() {
		switch f.Type {
		case reflect.TypeFor[clock.Instant](), reflect.TypeFor[clock.Expiry]():
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			times = append(times, key)
		default:
			if f.Anonymous && f.Type.Kind() == reflect.Struct {
				times = append(times, timeKeys(f.Type)...)
			}
		}
	}
	return times
}
