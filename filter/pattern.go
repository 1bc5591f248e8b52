package filter

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// pattern refuses what is no regular expression, and one whose program would be too large. A
// repetition makes a program many times as large as its pattern, so the size is known from the
// tree of the pattern, before a program is built.
func (c *checker) pattern(name, pattern string) error {
	switch c.patterns--; {
	case c.patterns < 0:
		return fault.Invalid(doing, fmt.Sprintf("it has more than %d regular expressions", MaxPatterns), "join them by |, or use prefix and contains")
	case len(pattern) > MaxPattern:
		return fault.Invalid(doing, fmt.Sprintf("the pattern for %s is %d bytes long, the limit is %d", name, len(pattern), MaxPattern), "shorten it")
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err == nil {
		if c.program -= programSize(tree, c.program+1); c.program < 0 {
			return fault.Invalid(doing, fmt.Sprintf("its regular expressions are larger than %d steps together, with each repetition written out", MaxProgram), "repeat less, or use prefix and contains")
		}
		_, err = regexp.Compile(pattern)
	}
	if err != nil {
		return fault.Invalid(doing, fmt.Sprintf("the pattern for %s is wrong: %s", name, strings.TrimPrefix(err.Error(), "error parsing regexp: ")), "write it in the syntax of RE2")
	}
	return nil
}

// rangesPerStep is how many bounds of a class of letters take as much memory as a step.
const rangesPerStep = 8

// sizeOf is the programSize of a pattern that was checked.
func sizeOf(pattern string) int {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return MaxProgram
	}
	return programSize(tree, MaxProgram)
}

// programSize is about how many steps the program of a pattern has, or most if there are more.
func programSize(re *syntax.Regexp, most int) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / rangesPerStep
	}
	for _, sub := range re.Sub {
		if n += programSize(sub, most); n >= most {
			return most
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1) // x{2,} is x x x*
	}
	return min(n, most)
}
