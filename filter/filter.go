package filter

// Filter is a condition on memories. It is sealed: it is a [Condition], [All], [Any] or
// [Negation], each as a value and not as a pointer. A nil Filter chooses everything.
type Filter interface {
	// String is the short text of the filter.
	String() string
	// MarshalJSON is the JSON form of the filter. It fails where [Check] does.
	MarshalJSON() ([]byte, error)
	// check bounds the filter and refuses what can never hold.
	check(c *checker, depth int) error
}

// Condition is a condition on one field.
type Condition struct {
	// Field is the name of a built-in or a metadata field: see [Lookup].
	Field string
	// Op is how the field is compared.
	Op Op
	// Values are what the field is compared with: any number of values for OpIn and
	// OpNin, none for OpExists, and one for each other operator.
	Values []any
}

// All holds where all its parts hold; an empty one always holds.
type All []Filter

// Any holds where one of its parts holds; an empty one never holds.
type Any []Filter

// Negation holds where its filter does not.
type Negation struct {
	// Filter is what must not hold.
	Filter Filter
}

// Eq holds where the field equals the value.
func Eq(field string, value any) Filter { return one(field, OpEq, value) }

// Ne holds where Eq does not, also where the field is missing.
func Ne(field string, value any) Filter { return one(field, OpNe, value) }

// Gt holds where the field is greater than the value.
func Gt(field string, value any) Filter { return one(field, OpGt, value) }

// Gte holds where the field is greater than or equal to the value.
func Gte(field string, value any) Filter { return one(field, OpGte, value) }

// Lt holds where the field is less than the value.
func Lt(field string, value any) Filter { return one(field, OpLt, value) }

// Lte holds where the field is less than or equal to the value.
func Lte(field string, value any) Filter { return one(field, OpLte, value) }

// In holds where the field equals one of the values.
func In(field string, values ...any) Filter {
	return Condition{Field: field, Op: OpIn, Values: append([]any{}, values...)}
}

// Nin holds where In does not, also where the field is missing.
func Nin(field string, values ...any) Filter {
	return Condition{Field: field, Op: OpNin, Values: append([]any{}, values...)}
}

// Contains holds where the field is a string that has the value within it, or a list
// that has it as an element. A string has numbers, booleans and nil within it as JSON
// writes them.
func Contains(field string, value any) Filter { return one(field, OpContains, value) }

// IContains is Contains of a string without regard to upper and lower case.
func IContains(field, value string) Filter { return one(field, OpIContains, value) }

// Exists holds where the memory has the field, be it as null.
func Exists(field string) Filter { return Condition{Field: field, Op: OpExists} }

// Prefix holds where the field is a string that begins with the value.
func Prefix(field, value string) Filter { return one(field, OpPrefix, value) }

// Regexp holds where the field is a string within which the pattern matches: RE2, as
// package regexp reads it, of at most [MaxPattern] bytes. ^ and $ tie the pattern to the
// ends.
func Regexp(field, pattern string) Filter { return one(field, OpRegexp, pattern) }

// And holds where all the filters hold.
func And(filters ...Filter) Filter { return append(All{}, filters...) }

// Or holds where one of the filters holds.
func Or(filters ...Filter) Filter { return append(Any{}, filters...) }

// Not holds where the filter does not.
func Not(f Filter) Filter { return Negation{f} }

func one(field string, op Op, value any) Filter {
	return Condition{Field: field, Op: op, Values: []any{value}}
}

// Op is an operator on a field.
type Op uint8

// The operators, each named by the function that makes its condition.
const (
	OpEq Op = iota
	OpNe
	OpGt
	OpGte
	OpLt
	OpLte
	OpIn
	OpNin
	OpContains
	OpIContains
	OpExists
	OpPrefix
	OpRegexp
)

var opNames = []string{"eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "icontains", "exists", "prefix", "regex"}

// String is the operator's name in JSON.
func (o Op) String() string {
	if int(o) >= len(opNames) {
		return "unknown"
	}
	return opNames[o]
}

// IsEquality reports whether the operator asks for values themselves: eq, ne, in, nin.
func (o Op) IsEquality() bool { return o == OpEq || o == OpNe || o == OpIn || o == OpNin }

// IsOrder reports whether the operator asks for an order: gt, gte, lt, lte.
func (o Op) IsOrder() bool { return o == OpGt || o == OpGte || o == OpLt || o == OpLte }
