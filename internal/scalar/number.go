package scalar

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Number is a JSON number: exactly, where it is an integer of 64 bits, signed or
// not; else the nearest float64, which is infinite for what is beyond all of them.
type Number struct {
	// Float is the nearest float64.
	Float float64
	// Integer: the number is an integer of 64 bits.
	Integer bool
	// Negative and Magnitude are the sign and the amount of an integer.
	Negative  bool
	Magnitude uint64
}

// Int is the Number of an integer.
func Int(i int64) Number {
	n := Number{Float: float64(i), Integer: true, Negative: i < 0, Magnitude: uint64(i)}
	if n.Negative {
		n.Magnitude = -n.Magnitude
	}
	return n
}

// NumberOf is the number that a value is, false for values of other types.
func NumberOf(v any) (Number, bool) {
	key, _ := Key(v)
	digits, ok := strings.CutPrefix(key, numberMark)
	if !ok {
		return Number{}, false
	}
	return parseNumber(digits)
}

// parseNumber reads what numberKey wrote.
func parseNumber(s string) (Number, bool) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Int(i), true
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return Number{Float: float64(u), Integer: true, Magnitude: u}, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(f) {
		return Number{}, false
	}
	return Number{Float: f}, true
}

// Compare orders two numbers exactly.
func (a Number) Compare(b Number) int {
	// Rounding keeps the order, so only what rounds to one float needs a closer look.
	if a.Float != b.Float || !a.Integer && !b.Integer || math.IsInf(a.Float, 0) {
		return cmp.Compare(a.Float, b.Float)
	}
	return a.big().Cmp(b.big())
}

func (a Number) big() *big.Float {
	const bits = 64 // holds an integer and a float64 exactly
	if !a.Integer {
		return new(big.Float).SetPrec(bits).SetFloat64(a.Float)
	}
	x := new(big.Float).SetPrec(bits).SetUint64(a.Magnitude)
	if a.Negative {
		x.Neg(x)
	}
	return x
}
