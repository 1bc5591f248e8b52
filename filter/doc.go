// Package filter is the language in which memories are chosen by their fields: its
// syntax tree, the check of it, its two written forms, and the comparison that decides
// whether a filter holds.
//
// # The tree
//
// A [Filter] is a [Condition] on one field, or joins others: [All], [Any], [Negation].
// The functions [Eq] to [Not] make them.
//
//	filter.And(filter.Gte("priority", 3), filter.Or(filter.In("tag", "work", "home"),
//		filter.Not(filter.IContains("text", "draft"))))
//
// # The written forms
//
// [Parse] reads both. Short text, which String writes:
//
//	priority >= 3 and (tag in (work, home) or not text icontains draft)
//
// JSON, which MarshalJSON writes: {"field": …, "operator": …, "value": …} (or "op"),
// {"AND": [ … ]}, {"OR": [ … ]} and {"NOT": … }. What Parse has read, it reads again
// from either form, and both times the tree is the same.
//
// # Fields
//
// A field is one of id, user, agent, run (also user_id, agent_id, run_id), role, kind,
// source, name, aliases, text (also memory, content), pinned, importance, confidence,
// access_count, created_at, updated_at, event_time, expires_at, last_accessed; or the
// name of a metadata field. metadata.x forces metadata, and a dot goes one object
// deeper. What else memdb shows of a memory, such as its seq and its hash, is no field,
// and naming it is an error.
//
// # Comparison
//
// Values are strings, numbers, booleans or null; types are never coerced: a string is
// not less than a number, and 1 is not "1". Strings are ordered by their bytes, numbers
// exactly up to 64 bits. A value that a built-in field can never have is an error.
//
// A built-in time is compared with a time.Time, a string in a form of a time (RFC 3339, a date,
// RFC 2822 and others; UTC without an offset), or a number since 1970 of at least nine digits,
// to the millisecond. A metadata field that is compared with a time.Time, or with a string in
// such a form, is compared by time: a string in any form, or such a number, is the instant that
// it means, to the nanosecond, so that eq holds for every form of one instant. A metadata value
// that is no time is then neither less, equal nor more. Compared with a number, it is a number.
//
// A field that a memory does not have fails every condition but ne, nin and NOT. A
// built-in field of text that it does not have (an agent, a name) also equals "".
package filter
