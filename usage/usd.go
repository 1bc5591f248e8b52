package usage

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// USD is an amount of money in US dollars: an exact decimal that is never negative, with at
// most 18 digits behind the point. The zero value is 0. A USD never changes.
type USD struct{ units *big.Int } // nil: 0

const (
	usdPlaces = 18 // digits behind the point
	usdDigits = 12 // digits before the point that a parsed amount may have
	// maxUSDText bounds the text of an amount, exponent and needless zeros included.
	maxUSDText = 100
)

// ParseUSD reads an amount such as 12, 0.0123 or 1.5e-6. Up to 30 digits are kept, 12 before
// the point and 18 behind it; more are refused and never rounded.
func ParseUSD(s string) (USD, error) {
	bad := func(why string) (USD, error) {
		return USD{}, fmt.Errorf("%q is no amount in dollars: %s", valid.Short(s), why)
	}
	if len(s) > maxUSDText {
		return bad(fmt.Sprintf("it is longer than %d characters", maxUSDText))
	}
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(s), "e")
	shift := usdPlaces
	if scaled {
		e, err := strconv.Atoi(exponent)
		if err != nil || e < -maxUSDText || e > maxUSDText {
			return bad("its exponent is no number from -100 to 100")
		}
		shift += e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if strings.HasPrefix(s, "-") {
		return bad("it is negative")
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return bad("write digits, with a point before the cents")
	}
	shift -= len(fraction)
	if shift < 0 { // digits that must be zeros
		cut := max(len(digits)+shift, 0)
		if strings.Trim(digits[cut:], "0") != "" {
			return bad(fmt.Sprintf("it has more than %d digits behind the point", usdPlaces))
		}
		digits, shift = "0"+digits[:cut], 0
	}
	n, _ := new(big.Int).SetString(digits, 10)
	n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(shift)), nil))
	if n.Cmp(maxUSD) >= 0 {
		return bad(fmt.Sprintf("it has more than %d digits before the point", usdDigits))
	}
	return USD{n}, nil
}

var (
	usdOne = new(big.Int).Exp(big.NewInt(10), big.NewInt(usdPlaces), nil)
	maxUSD = new(big.Int).Exp(big.NewInt(10), big.NewInt(usdPlaces+usdDigits), nil)
)

func (u USD) int() *big.Int {
	if u.units == nil {
		return new(big.Int)
	}
	return u.units
}

// Add is the sum of two amounts. It has as many digits as it needs.
func (u USD) Add(v USD) USD { return USD{new(big.Int).Add(u.int(), v.int())} }

// Cmp is -1, 0 or 1 where u is less than, equal to or more than v.
func (u USD) Cmp(v USD) int { return u.int().Cmp(v.int()) }

// Float64 is the float that is nearest.
func (u USD) Float64() float64 {
	f, _ := new(big.Rat).SetFrac(u.int(), usdOne).Float64()
	return f
}

// String is the amount without needless zeros: 0.0123.
func (u USD) String() string {
	whole, rest := new(big.Int).QuoRem(u.int(), usdOne, new(big.Int))
	if rest.Sign() == 0 {
		return whole.String()
	}
	return strings.TrimRight(fmt.Sprintf("%s.%0*s", whole, usdPlaces, rest), "0")
}

// MarshalJSON writes a number with all digits.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalJSON reads a number, or a string with one, as ParseUSD does.
func (u *USD) UnmarshalJSON(b []byte) (err error) {
	if string(b) == "null" {
		return nil
	}
	*u, err = ParseUSD(strings.Trim(string(b), `"`))
	return err
}

// bytes is the amount as it is stored: units of 10^-18 dollars, big-endian.
func (u USD) bytes() []byte { return u.int().Bytes() }

func usdFrom(b []byte) USD { return USD{new(big.Int).SetBytes(b)} }
