package engine

import (
	"cmp"
	"encoding/json"
	"math/big"
	"strconv"
	"time"
)

// number is a JSON number: exactly, where it is an integer of 64 bits.
type number struct {
	i     int64
	f     float64
	exact bool // i holds it
}

func numberOf(v any) (number, bool) {
	key, ok := exactKey(v)
	if !ok || key[0] != 'n' {
		return number{}, false
	}
	return parseNumber(key[1:])
}

// parseNumber reads what numberKey wrote.
func parseNumber(s string) (number, bool) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return number{i: i, f: float64(i), exact: true}, true
	}
	f, err := strconv.ParseFloat(s, 64)
	return number{f: f}, err == nil
}

func (a number) compare(b number) int {
	switch {
	case a.exact && b.exact:
		return cmp.Compare(a.i, b.i)
	case a.f != b.f || !a.exact && !b.exact:
		return cmp.Compare(a.f, b.f)
	}
	// One is an integer that rounds to the other's float.
	return a.big().Cmp(b.big())
}

func (a number) big() *big.Float {
	const bits = 128 // holds an int64 and a float64 exactly
	if a.exact {
		return new(big.Float).SetPrec(bits).SetInt64(a.i)
	}
	return new(big.Float).SetPrec(bits).SetFloat64(a.f)
}

func compareNumbers(a, b int64) int { return cmp.Compare(a, b) }

// timeValue is a time in Unix milliseconds: a time.Time, RFC 3339, a bare date at
// midnight UTC, or an integer of milliseconds.
func timeValue(v any) (int64, bool) {
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
	n, ok := numberOf(v)
	return n.i, ok && n.exact
}
