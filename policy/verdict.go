package policy

import (
	"fmt"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Act is what a program decides of a memory.
type Act uint8

// The acts.
const (
	AsRuled Act = iota // what the rules say
	Keep               // no rule takes it, this time
	Decay              // no rule takes it by itself, and it loses Rate of its confidence, down to Floor
	Evict              // it is evicted, for the reason Caller
	acts
)

// Verdict is what a program decides of a memory, and why. The zero Verdict leaves it to the rules.
type Verdict struct {
	// Act is what shall become of the memory.
	Act Act
	// Why is told to those who hear of the eviction, at most MaxWhy bytes; what is longer is cut.
	Why string
}

// MaxWhy bounds Verdict.Why, in bytes.
const MaxWhy = 512

// Check returns ErrInvalid for an act that there is not.
func (v *Verdict) Check() error {
	if v.Act >= acts {
		return fault.Invalid("judge a memory", fmt.Sprintf("there is no act %d", v.Act), "return one of the acts")
	}
	if len(v.Why) > MaxWhy {
		v.Why = strings.ToValidUTF8(v.Why[:MaxWhy], "")
	}
	return nil
}

// Decayed returns what a consolidation leaves of a confidence, and reports whether that is less than it was.
func (p *Policy) Decayed(confidence float64) (lower float64, lowers bool) {
	d := min(DebtOf(p.Rate), limit(confidence, p.Floor))
	lower = Confidence(confidence, d)
	return lower, lower < confidence
}
