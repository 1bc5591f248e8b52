package engine

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// truncate shortens a value for an error message.
func truncate(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// checkWord checks an ID, a scope value, a name: what goes into keys, logs and
// command lines, so no control characters.
func checkWord(doing, what, s string) error {
	if len(s) > MaxID {
		return invalid(doing, fmt.Sprintf("its %s is %d bytes long, the limit is %d", what, len(s), MaxID), "shorten it")
	}
	return checkPrintable(doing, what, s)
}

func checkPrintable(doing, what, s string) error {
	switch {
	case !utf8.ValidString(s):
		return invalid(doing, fmt.Sprintf("its %s %q is no UTF-8", what, truncate(s)), "convert it to UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 }):
		return invalid(doing, fmt.Sprintf("its %s %q holds a control character", what, truncate(s)), "remove it")
	}
	return nil
}

func (s Scope) check(doing string) error {
	if s == (Scope{}) {
		return &Error{Kind: ErrScope, What: doing, Do: "name whose memories are meant"}
	}
	for _, f := range []struct{ what, value string }{{"user", s.User}, {"agent", s.Agent}, {"run", s.Run}} {
		if err := checkWord(doing, f.what, f.value); err != nil {
			return err
		}
	}
	return nil
}

func checkText(doing, text string) error {
	if len(text) > MaxText {
		return invalid(doing, fmt.Sprintf("its text is %d bytes long, the limit is %d", len(text), MaxText), "split it into several memories")
	}
	if !utf8.ValidString(text) {
		return invalid(doing, "its text is no UTF-8 at byte "+fmt.Sprint(invalidAt(text)), "convert it to UTF-8")
	}
	return nil
}

// invalidAt is the offset of the first byte that is no UTF-8.
func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

func checkShare(doing, what string, v *float64) error {
	if v != nil && !(*v >= 0 && *v <= 1) {
		return invalid(doing, fmt.Sprintf("its %s is %v", what, *v), "give a number from 0 to 1")
	}
	return nil
}

// checkWords checks the fields of a memory that are words, numbers and times.
func (m *Memory) checkWords(doing string) error {
	for _, f := range []struct{ what, value string }{
		{"ID", m.ID}, {"name", m.Name}, {"source", string(m.Source)},
	} {
		if err := checkWord(doing, f.what, f.value); err != nil {
			return err
		}
	}
	if len(m.Aliases) > MaxAliases {
		return invalid(doing, fmt.Sprintf("it has %d aliases, the limit is %d", len(m.Aliases), MaxAliases), "remove some")
	}
	for _, a := range m.Aliases {
		if err := checkWord(doing, "alias", a); err != nil {
			return err
		}
	}
	if m.Role != "" && !slices.Contains(roles, m.Role) {
		return invalid(doing, fmt.Sprintf("its role is %q", truncate(string(m.Role))), "give "+oneOf(roles))
	}
	if m.Kind != "" && !slices.Contains(kindNames, m.Kind) {
		return invalid(doing, fmt.Sprintf("its kind is %q", truncate(string(m.Kind))), "give "+oneOf(kindNames))
	}
	if err := checkShare(doing, "importance", m.Importance); err != nil {
		return err
	}
	if err := checkShare(doing, "confidence", m.Confidence); err != nil {
		return err
	}
	return m.checkTimes(doing)
}

func (m *Memory) checkTimes(doing string) error {
	// Years 1 to 9999 are what RFC 3339 can write.
	for _, f := range []struct {
		what string
		ms   int64
	}{
		{"created_at", toMillis(m.CreatedAt)},
		{"updated_at", toMillis(m.UpdatedAt)},
		{"event_time", toMillis(m.EventTime)},
		{"expires_at", toMillis(m.ExpiresAt)},
		{"last_accessed", toMillis(m.LastAccessed)},
	} {
		const first, last = -62135596800000, 253402300799999
		if f.ms < first || f.ms > last {
			return invalid(doing, "its "+f.what+" is outside the years 1 to 9999", "check its unit")
		}
	}
	return nil
}

// Check tells whether a memory can be stored, as far as it tells by itself: a program
// may ask before it makes a database for it.
func (m *Memory) Check() error {
	_, err := m.checked(doingStore)
	if err == nil {
		_, err = encodeMetadata(m.Metadata)
	}
	return err
}

// checked returns the vectors of a memory whose other fields are valid, but for its
// metadata.
func (m *Memory) checked(doing string) (map[string][]float32, error) {
	if err := m.check(doing); err != nil {
		return nil, err
	}
	if err := m.checkWords(doing); err != nil {
		return nil, err
	}
	if err := checkText(doing, m.Text); err != nil {
		return nil, err
	}
	vectors, err := m.given(doing)
	if err == nil && m.Text == "" && len(vectors) == 0 {
		err = invalid(doing, "it has neither a text nor a vector", "give at least one of them")
	}
	return vectors, err
}

// given lists the vectors of a memory by space, the default one by its name.
func (m *Memory) given(doing string) (map[string][]float32, error) {
	return mergeVectors(doing, m.Embedding, m.Vectors)
}

func mergeVectors(doing string, embedding []float32, vectors map[string][]float32) (map[string][]float32, error) {
	all := make(map[string][]float32, len(vectors)+1)
	for space, v := range vectors {
		if err := checkSpaceName(doing, space); err != nil {
			return nil, err
		}
		all[space] = v
	}
	if embedding != nil {
		if _, twice := all[defaultSpace]; twice {
			return nil, invalid(doing, "it has an embedding and also a vector in the space default", "give one of the two")
		}
		all[defaultSpace] = embedding
	}
	return all, nil
}

func checkSpaceName(doing, space string) error {
	if space == "" || space == lexicalSpace {
		return invalid(doing, fmt.Sprintf("the vector space %q cannot be written", space), "choose another name for it")
	}
	return checkWord(doing, "vector space", space)
}

func checkLimit(doing string, limit, otherwise int) (int, error) {
	if limit < 0 || limit > MaxLimit {
		return 0, invalid(doing, fmt.Sprintf("limit is %d", limit), fmt.Sprintf("give a number from 1 to %d, or 0 for %d", MaxLimit, otherwise))
	}
	if limit == 0 {
		limit = otherwise
	}
	return limit, nil
}

// oneOf writes a choice: a, b or c.
func oneOf[S ~string](of []S) string {
	var b strings.Builder
	for i, s := range of {
		switch i {
		case 0:
		case len(of) - 1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String()
}
