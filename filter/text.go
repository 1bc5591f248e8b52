package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// signs are the operators of the short text that are not words.
var signs = map[string]string{"=": "eq", "==": "eq", "!=": "ne", "<>": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}

// textParser reads the short text by recursive descent: or, and, not, condition.
type textParser struct {
	tokens []token
	depth  int
}

func parseText(s string) (Filter, error) {
	tokens, err := tokens(s)
	if err != nil {
		return nil, err
	}
	p := &textParser{tokens: tokens}
	f, err := p.or()
	if err != nil {
		return nil, err
	}
	if len(p.tokens) > 0 {
		return nil, p.unexpected("and, or, or the end")
	}
	return f, nil
}

const textHint = `write it as role = user and priority >= 3`

// next reports whether the next token is this word.
func (p *textParser) next(w string) bool {
	return len(p.tokens) > 0 && !p.tokens[0].quoted && strings.EqualFold(p.tokens[0].text, w)
}

// word takes the next token where it is this word.
func (p *textParser) word(w string) bool {
	if !p.next(w) {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *textParser) unexpected(want string) error {
	at := "its end"
	if len(p.tokens) > 0 {
		at = fmt.Sprintf("%q", valid.Short(p.tokens[0].text))
	}
	return fault.Invalid(doing, fmt.Sprintf("at %s there should be %s", at, want), textHint)
}

func (p *textParser) or() (Filter, error) {
	// Parentheses around one condition are no depth to Check, which counts what joins
	// filters; what it allows is never refused here.
	if p.depth++; p.depth > MaxDepth+2 {
		return nil, tooDeep()
	}
	defer func() { p.depth-- }()
	f, err := p.and()
	if err != nil {
		return nil, err
	}
	parts := Any{f}
	for p.word("or") {
		if f, err = p.and(); err != nil {
			return nil, err
		}
		parts = append(parts, f)
	}
	if len(parts) == 1 {
		return f, nil
	}
	return parts, nil
}

func (p *textParser) and() (Filter, error) {
	f, err := p.not()
	if err != nil {
		return nil, err
	}
	parts := All{f}
	for p.word("and") {
		if f, err = p.not(); err != nil {
			return nil, err
		}
		parts = append(parts, f)
	}
	if len(parts) == 1 {
		return f, nil
	}
	return parts, nil
}

func (p *textParser) not() (Filter, error) {
	negate := false
	for p.word("not") {
		negate = !negate
	}
	f, err := p.primary()
	if err != nil || !negate {
		return f, err
	}
	return Negation{f}, nil
}

func (p *textParser) primary() (Filter, error) {
	isList := len(p.tokens) > 1 && p.tokens[1] == token{text: "("}
	switch {
	case isList && p.word("and"):
		parts, err := p.filters()
		return All(parts), err
	case isList && p.word("or"):
		parts, err := p.filters()
		return Any(parts), err
	case !p.word("("):
		return p.condition()
	}
	f, err := p.or()
	if err != nil {
		return nil, err
	}
	if !p.word(")") {
		return nil, p.unexpected("a closing parenthesis")
	}
	return f, nil
}

// filters reads a list of filters in parentheses.
func (p *textParser) filters() ([]Filter, error) {
	parts := []Filter{}
	p.word("(")
	for !p.word(")") {
		f, err := p.or()
		if err != nil {
			return nil, err
		}
		parts = append(parts, f)
		if !p.word(",") && !p.next(")") {
			return nil, p.unexpected("a comma or a closing parenthesis")
		}
	}
	return parts, nil
}

func (p *textParser) condition() (Filter, error) {
	name, err := p.take("a field")
	if err != nil {
		return nil, err
	}
	negated := p.word("not") // as in: a not in (1, 2)
	o, err := p.take("an operator")
	if err != nil {
		return nil, err
	}
	operator := strings.ToLower(o.text)
	if negated && operator != "in" {
		return nil, fault.Invalid(doing, fmt.Sprintf("at %q there should be in", valid.Short(o.text)), "write not before the field")
	}
	if sign, ok := signs[operator]; ok {
		operator = sign
	}
	switch {
	case !slices.Contains(opNames, operator):
		return newCondition(name.text, operator, nil)
	case operator == "exists":
		return Exists(name.text), nil
	case operator == "in" || operator == "nin":
		values, err := p.values()
		if err != nil {
			return nil, err
		}
		if negated {
			operator = "nin"
		}
		return newCondition(name.text, operator, values)
	}
	v, err := p.take("a value")
	if err != nil {
		return nil, err
	}
	switch operator {
	case "icontains", "prefix", "regex":
		return newCondition(name.text, operator, v.text)
	}
	return newCondition(name.text, operator, v.value())
}

// take is the next token, which must not be punctuation.
func (p *textParser) take(want string) (token, error) {
	if len(p.tokens) == 0 || !p.tokens[0].quoted && strings.Contains("(),", p.tokens[0].text) {
		return token{}, p.unexpected(want)
	}
	t := p.tokens[0]
	p.tokens = p.tokens[1:]
	return t, nil
}

// values reads a list of values in parentheses.
func (p *textParser) values() ([]any, error) {
	if !p.word("(") {
		return nil, p.unexpected("a list in parentheses")
	}
	values := []any{}
	for !p.word(")") {
		v, err := p.take("a value")
		if err != nil {
			return nil, err
		}
		values = append(values, v.value())
		if !p.word(",") && !p.next(")") {
			return nil, p.unexpected("a comma or a closing parenthesis")
		}
	}
	return values, nil
}
