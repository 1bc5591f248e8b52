package filter

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// String is the short text of the filter.
func (f Condition) String() string { return checkedText(f) }

// String is the short text of the filter.
func (f All) String() string { return checkedText(f) }

// String is the short text of the filter.
func (f Any) String() string { return checkedText(f) }

// String is the short text of the filter.
func (f Negation) String() string { return checkedText(f) }

// checkedText is the short text of a filter, or in the manner of package fmt what is
// wrong with it.
func checkedText(f Filter) string {
	if err := Check(f); err != nil {
		return "%!(" + err.Error() + ")"
	}
	var b strings.Builder
	writeText(&b, f, false)
	return b.String()
}

// writeText writes a filter that was checked, in parentheses where it is a part of
// another and would not be read as one without them.
func writeText(b *strings.Builder, f Filter, part bool) {
	switch f := f.(type) {
	case Condition:
		f.writeText(b)
	case Negation:
		if part {
			b.WriteByte('(')
			defer b.WriteByte(')')
		}
		b.WriteString("not ")
		writeText(b, f.Filter, true)
	case All:
		writeList(b, "and", f, part)
	case Any:
		writeList(b, "or", f, part)
	}
}

// writeList writes what joins filters by a word: between them, or, where there are not
// two, before them.
func writeList(b *strings.Builder, word string, parts []Filter, part bool) {
	between := " " + word + " "
	switch {
	case len(parts) < 2:
		b.WriteString(word + " (")
		defer b.WriteByte(')')
		if len(parts) == 1 {
			writeText(b, parts[0], false)
		}
		return
	case part:
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	for i, f := range parts {
		if i > 0 {
			b.WriteString(between)
		}
		_, negated := f.(Negation) // not binds closer than and and or
		writeText(b, f, !negated)
	}
}

func (f Condition) writeText(b *strings.Builder) {
	b.WriteString(word(literal(f.Field)) + " ")
	values := f.literals()
	for i := range values {
		values[i] = word(values[i])
	}
	switch f.Op {
	case OpExists:
		b.WriteString("exists")
	case OpIn, OpNin:
		b.WriteString(f.Op.String() + " (" + strings.Join(values, ", ") + ")")
	default:
		b.WriteString(f.sign() + " " + values[0])
	}
}

// sign is how the short text writes the operator.
func (f Condition) sign() string {
	names := []string{OpEq: "=", OpNe: "!=", OpGt: ">", OpGte: ">=", OpLt: "<", OpLte: "<="}
	if int(f.Op) < len(names) {
		return names[f.Op]
	}
	return f.Op.String()
}

// word is the literal of a string without its quotes, where the short text reads that as
// the same string, and any other literal as it is.
func word(quoted string) string {
	s := strings.Trim(quoted, `"`)
	if s == quoted {
		return quoted
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_-.:", c) >= 0:
		default:
			return quoted
		}
	}
	switch strings.ToLower(s) {
	case "", "and", "or", "not":
		return quoted
	}
	if (token{text: s}).value() != any(s) {
		return quoted
	}
	return s
}

// literals are the values of the condition as JSON.
func (f Condition) literals() []string {
	out := make([]string, len(f.Values))
	for i, v := range f.Values {
		out[i] = literal(v)
	}
	return out
}

// literal is a value as JSON.
func literal(v any) string {
	if at, ok := v.(time.Time); ok {
		v = at.UTC().Format(time.RFC3339Nano)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "a value that is no JSON" // which Check refuses
	}
	return strings.TrimSuffix(b.String(), "\n")
}
