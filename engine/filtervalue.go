package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"time"
)

// number is a JSON number: exactly, where it is an integer of 64 bits, signed or
// not; else the nearest float64, which is infinite for what is beyond all of them.
type number struct {
	f         float64
	integer   bool
	negative  bool
	magnitude uint64 // of an integer
}

func integerOf(i int64) number {
	n := number{f: float64(i), integer: true, negative: i < 0, magnitude: uint64(i)}
	if n.negative {
		n.magnitude = -n.magnitude
	}
	return n
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
		return integerOf(i), true
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return number{f: float64(u), integer: true, magnitude: u}, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(f) {
		return number{}, false
	}
	return number{f: f}, true
}

func (a number) compare(b number) int {
	// Rounding keeps the order, so only what rounds to one float needs a closer look.
	if a.f != b.f || !a.integer && !b.integer || math.IsInf(a.f, 0) {
		return cmp.Compare(a.f, b.f)
	}
	return a.big().Cmp(b.big())
}

func (a number) big() *big.Float {
	const bits = 64 // holds an integer and a float64 exactly
	if !a.integer {
		return new(big.Float).SetPrec(bits).SetFloat64(a.f)
	}
	x := new(big.Float).SetPrec(bits).SetUint64(a.magnitude)
	if a.negative {
		x.Neg(x)
	}
	return x
}

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
	ms := int64(n.magnitude)
	if n.negative {
		ms = -ms
	}
	return ms, ok && n.integer && (ms < 0) == n.negative
}
