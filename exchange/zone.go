package exchange

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

// inZone is a line of memdb's own whose times have an offset: those without one are of the zone. v is
// what the line is read into.
func inZone(line []byte, v any, zone *time.Location) []byte {
	if zone == nil || zone == time.UTC {
		return line
	}
	times, ends := timeKeys(reflect.TypeOf(v).Elem())
	read := scalar.Reader{Zone: zone}
	out := []byte{'{'}
	err := rawjson.Members(line, func(key string, value []byte) error {
		if s, ok := rawjson.String(value); ok && s != "" {
			var t time.Time
			var err error
			if slices.Contains(ends, key) {
				t, err = read.End(s)
			} else if slices.Contains(times, key) {
				t, err = read.Time(s)
			}
			if err == nil && !t.IsZero() {
				value = []byte(`"` + t.Format(time.RFC3339Nano) + `"`)
			}
		}
		name, err := json.Marshal(key)
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
		return err
	})
	if err != nil || !json.Valid(line) {
		return line // what is wrong with it is said when it is read
	}
	return append(out, '}')
}

// timeKeys are the keys of a struct that are times, and those that are times of an end.
func timeKeys(t reflect.Type) (times, ends []string) {
	for f := range t.Fields() {
		if f.Anonymous {
			more, further := timeKeys(f.Type)
			times, ends = append(times, more...), append(ends, further...)
			continue
		}
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch f.Type {
		case reflect.TypeFor[clock.Instant]():
			times = append(times, key)
		case reflect.TypeFor[clock.Expiry]():
			ends = append(ends, key)
		}
	}
	return times, ends
}
