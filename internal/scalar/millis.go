package scalar

import (
	"encoding/json"
	"strconv"
	"time"
)

// Millis is a time in Unix milliseconds: a time.Time, RFC 3339, a bare date at
// midnight UTC, or an integer of milliseconds. false for other values.
func Millis(v any) (int64, bool) {
	switch v := v.(type) {
	case time.Time:
		return v.UnixMilli(), true
	case string:
		for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
			if t, err := time.Parse(layout, v); err == nil {
				return t.UnixMilli(), true
			}
		}
		return 0, false
	case json.Number:
		i, err := strconv.ParseInt(string(v), 10, 64)
		return i, err == nil
	}
	n, ok := NumberOf(v)
	ms := int64(n.Magnitude)
	if n.Negative {
		ms = -ms
	}
	return ms, ok && n.Integer && (ms < 0) == n.Negative
}
