package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// ParseFilter reads a filter from JSON or from its short text.
//
// JSON is {"field": …, "operator": …, "value": …} (or "op"), {"AND": [ … ]},
// {"OR": [ … ]} and {"NOT": … }. The operators are eq, ne, gt, gte, lt, lte, in,
// nin, contains and icontains.
//
// The short text is a condition such as role = user, or several with and, or, not
// and parentheses:
//
//	priority >= 3 and (tag in (work, home) or not text icontains "draft")
//
// Its operators are those of JSON, and = != > >= < <=. A value without quotes is
// a number, true, false or null where it reads as one, else a string.
func ParseFilter(b []byte) (Filter, error) {
	switch t := bytes.TrimSpace(b); {
	case len(t) == 0:
		return nil, fault.Invalid(doingFilter, "it is empty", "leave it out, or write it as role = user")
	case t[0] != '{':
		return parseText(string(t))
	}
	var raw json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		if strings.Contains(err.Error(), "exceeded max depth") { // the decoder's own, far beyond ours
			return nil, tooDeep()
		}
		return nil, fault.Invalid(doingFilter, fmt.Sprintf("it is no JSON: %s in %s", err, valid.Short(string(b))), `write it as {"field":"role","operator":"eq","value":"user"}`)
	}
	f, err := parseNode(b, 0)
	if err != nil {
		return nil, err
	}
	return f, checkFilter(f)
}

// plainJSON is an error of the JSON decoder without the words of Go.
func plainJSON(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		is := "a " + wrong.Value
		if wrong.Value == "array" {
			is = "a list"
		}
		if wrong.Field == "" {
			return "a condition is " + is + ", not an object"
		}
		return wrong.Field + " is " + is
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

type filterNode struct {
	Field    *string           `json:"field"`
	Operator string            `json:"operator"`
	Op       string            `json:"op"`
	Value    json.RawMessage   `json:"value"`
	And      []json.RawMessage `json:"AND"`
	Or       []json.RawMessage `json:"OR"`
	Not      json.RawMessage   `json:"NOT"`
}

func parseNode(b []byte, depth int) (Filter, error) {
	if depth > MaxFilterDepth {
		return nil, tooDeep()
	}
	var n filterNode
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&n); err != nil {
		return nil, fault.Invalid(doingFilter, plainJSON(err), "use field, operator and value, or AND, OR or NOT")
	}
	if key := repeatedKey(b); key != "" {
		return nil, fault.Invalid(doingFilter, fmt.Sprintf("%s is given twice in one object", key), "give it once, or nest AND, OR and NOT")
	}
	forms := 0
	for _, given := range []bool{n.Field != nil, n.And != nil, n.Or != nil, n.Not != nil} {
		if given {
			forms++
		}
	}
	switch {
	case forms > 1:
		return nil, fault.Invalid(doingFilter, "AND, OR, NOT or a field stand beside each other in one object", "nest them")
	case n.And != nil:
		parts, err := parseNodes(n.And, depth)
		return And(parts), err
	case n.Or != nil:
		parts, err := parseNodes(n.Or, depth)
		return Or(parts), err
	case n.Not != nil:
		f, err := parseNode(n.Not, depth+1)
		return Not{f}, err
	case n.Field == nil:
		return nil, fault.Invalid(doingFilter, "a condition has no field", "name one")
	}
	value, err := filterValue(n.Value)
	if err != nil {
		return nil, err
	}
	name := n.Operator
	if name == "" {
		name = n.Op
	}
	return makeCondition(*n.Field, name, value)
}

// repeatedKey is a key that an object has twice, in whatever case, of which a decoder
// would drop one, and with it a condition.
func repeatedKey(object []byte) string {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return ""
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return ""
		}
		name, _ := key.(string)
		same := strings.ToLower(name)
		if same == "op" {
			same = "operator"
		}
		if seen[same] {
			return name
		}
		seen[same] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return ""
		}
	}
	return ""
}

func parseNodes(raw []json.RawMessage, depth int) ([]Filter, error) {
	parts := make([]Filter, 0, len(raw))
	for _, r := range raw {
		f, err := parseNode(r, depth+1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, f)
	}
	return parts, nil
}

func filterValue(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, fault.Invalid(doingFilter, "a condition has no value", "give one")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fault.Invalid(doingFilter, err.Error(), "")
	}
	return v, nil
}

// makeCondition is the condition of an operator's name.
func makeCondition(name, operator string, value any) (Filter, error) {
	list, isList := value.([]any)
	str, isString := value.(string)
	switch operator {
	case "eq":
		return Eq{name, value}, nil
	case "ne":
		return Ne{name, value}, nil
	case "gt":
		return Gt{name, value}, nil
	case "gte":
		return Gte{name, value}, nil
	case "lt":
		return Lt{name, value}, nil
	case "lte":
		return Lte{name, value}, nil
	case "in", "nin":
		if !isList {
			return nil, fault.Invalid(doingFilter, fmt.Sprintf("the value of %s is no list", operator), "give a list")
		}
		if operator == "nin" {
			return Nin{name, list}, nil
		}
		return In{name, list}, nil
	case "contains":
		return Contains{name, value}, nil
	case "icontains":
		if !isString {
			return nil, fault.Invalid(doingFilter, "the value of icontains is no string", "give a string, or use contains")
		}
		return IContains{name, str}, nil
	}
	return nil, fault.Invalid(doingFilter, fmt.Sprintf("unknown operator %q", valid.Short(operator)), "use one of "+strings.Join(opNames, ", "))
}

// signs are the operators of the short text that are not words.
var signs = map[string]string{"=": "eq", "==": "eq", "!=": "ne", "<>": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}

// textParser reads the short form by recursive descent: or, and, not, condition.
type textParser struct {
	tokens []textToken
	depth  int
}

type textToken struct {
	text   string
	quoted bool
}

func parseText(s string) (Filter, error) {
	tokens, err := scanText(s)
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
	return f, checkFilter(f)
}

const textHint = `write it as role = user and priority >= 3`

// scanText splits the text into words, quoted strings and signs.
func scanText(s string) ([]textToken, error) {
	var tokens []textToken
	for s != "" {
		switch c := s[0]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			s = s[1:]
		case c == '"' || c == '\'':
			word, rest, err := scanQuoted(s)
			if err != nil {
				return nil, err
			}
			tokens, s = append(tokens, textToken{word, true}), rest
		case strings.IndexByte("(),", c) >= 0:
			tokens, s = append(tokens, textToken{text: s[:1]}), s[1:]
		default:
			const operators = "=!<>"
			set := " \t\r\n\"'()," + operators
			n := strings.IndexAny(s, set)
			if n == 0 {
				n = len(s) - len(strings.TrimLeft(s, operators))
			}
			if n < 0 {
				n = len(s)
			}
			tokens, s = append(tokens, textToken{text: s[:n]}), s[n:]
		}
		if len(tokens) > 4*MaxFilterNodes {
			return nil, fault.Invalid(doingFilter, "it is too long", "split the query")
		}
	}
	return tokens, nil
}

// scanQuoted reads a quoted string; a backslash takes the next byte as it is.
func scanQuoted(s string) (word, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return b.String(), s[i+1:], nil
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", fault.Invalid(doingFilter, "a quoted string does not end: "+valid.Short(s), "close the quotes")
}

// word takes the next token where it is this word.
func (p *textParser) word(w string) bool {
	if len(p.tokens) == 0 || p.tokens[0].quoted || !strings.EqualFold(p.tokens[0].text, w) {
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
	return fault.Invalid(doingFilter, fmt.Sprintf("at %s there should be %s", at, want), textHint)
}

func (p *textParser) or() (Filter, error) {
	if p.depth++; p.depth > MaxFilterDepth {
		return nil, tooDeep()
	}
	defer func() { p.depth-- }()
	f, err := p.and()
	if err != nil {
		return nil, err
	}
	parts := Or{f}
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
	parts := And{f}
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
	return Not{f}, nil
}

func (p *textParser) primary() (Filter, error) {
	if !p.word("(") {
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
		return nil, fault.Invalid(doingFilter, fmt.Sprintf("at %q there should be in", valid.Short(o.text)), "write not before the field")
	}
	if sign, ok := signs[operator]; ok {
		operator = sign
	}
	if !slices.Contains(opNames, operator) {
		return makeCondition(name.text, operator, nil)
	}
	if operator == "in" || operator == "nin" {
		values, err := p.list()
		if err != nil {
			return nil, err
		}
		if negated {
			operator = "nin"
		}
		return makeCondition(name.text, operator, values)
	}
	v, err := p.take("a value")
	if err != nil {
		return nil, err
	}
	if operator == "icontains" {
		return makeCondition(name.text, operator, v.text)
	}
	return makeCondition(name.text, operator, v.value())
}

// take is the next token, which must not be punctuation.
func (p *textParser) take(want string) (textToken, error) {
	if len(p.tokens) == 0 || !p.tokens[0].quoted && strings.Contains("(),", p.tokens[0].text) {
		return textToken{}, p.unexpected(want)
	}
	t := p.tokens[0]
	p.tokens = p.tokens[1:]
	return t, nil
}

func (p *textParser) list() ([]any, error) {
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
		if !p.word(",") && (len(p.tokens) == 0 || p.tokens[0].quoted || p.tokens[0].text != ")") {
			return nil, p.unexpected("a comma or a closing parenthesis")
		}
	}
	return values, nil
}

// value is what the token stands for.
func (t textToken) value() any {
	if t.quoted {
		return t.text
	}
	switch t.text {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	var n json.Number
	if json.Unmarshal([]byte(t.text), &n) == nil && n != "" {
		return n
	}
	return t.text
}
