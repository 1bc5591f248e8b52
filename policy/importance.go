package policy

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The importance of a memory is a weighted sum of three shares: who said it, how much was said, and whether the words
// ask to be remembered. The weights add up to 1. With them a bare "ok" falls below the 0.2 at which old memories are
// evicted, whoever says it but the system, and a sentence of a user stays above.
const (
	ImportanceRole     = 0.30
	ImportanceLength   = 0.35
	ImportanceKeywords = 0.35
)

// The shares of the roles.
const (
	ImportanceOfSystem    = 1.0
	ImportanceOfUser      = 0.6
	ImportanceOfAssistant = 0.4
	ImportanceOfTool      = 0.2
	ImportanceOfOther     = 0.4 // a role that is not known, or none
)

const (
	// ImportanceFullLength is the length in characters from which on a text has all of the share of length.
	ImportanceFullLength = 500
	// ImportanceFullKeywords is how many different keywords have all of the share of keywords.
	ImportanceFullKeywords = 3
)

// keywords are English words with which people mark what is worth keeping: requests to remember, preferences,
// obligations, decisions, dates that matter, health, and things going wrong. Each stands with the forms it takes.
var keywords = func() map[string]int {
	m := make(map[string]int)
	for i, forms := range []string{
		"remember remembers remembered reminder remind", "important importantly importance", "note noted",
		"always", "never", "prefer prefers preferred preference preferences", "favorite favourite favorites favourites",
		"love loves hate hates", "must", "need needs require requires required requirement requirements",
		"deadline deadlines due", "urgent urgently", "critical critically", "decide decides decided decision decisions",
		"agree agreed agreement", "promise promised promises", "plan plans planned", "goal goals",
		"birthday anniversary wedding", "married divorced engaged pregnant", "allergic allergy allergies",
		"diagnosed diagnosis", "password secret", "address phone email", "error errors failed failure", "bug bugs fix fixed",
		"warning warnings",
	} {
		for form := range strings.FieldsSeq(forms) {
			m[form] = i
		}
	}
	return m
}()

// longestKeyword spares longer words the look-up.
const longestKeyword = len("requirements")

// Importance returns how important a new memory is, from 0 to 1, by its text and the role of who said it ("user",
// "assistant", "system" or "tool").
func Importance(text, role string) float64 {
	length := min(1, float64(utf8.RuneCountInString(text))/ImportanceFullLength)
	words := min(1, float64(countKeywords(text))/ImportanceFullKeywords)
	// Rounded before the sum, as in Weights.Parts.
	importance := float64(ImportanceRole * roleShare(role))
	importance += float64(ImportanceLength * length)
	importance += float64(ImportanceKeywords * words)
	// Finer than the rule is, digits would only be noise to who reads them.
	const digits = 1e4
	return math.Round(importance*digits) / digits
}

func roleShare(role string) float64 {
	switch role {
	case "system":
		return ImportanceOfSystem
	case "user":
		return ImportanceOfUser
	case "assistant":
		return ImportanceOfAssistant
	case "tool":
		return ImportanceOfTool
	}
	return ImportanceOfOther
}

// countKeywords counts the different keywords in text, up to ImportanceFullKeywords.
func countKeywords(text string) int {
	var seen uint64
	count := 0
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if len(word) > longestKeyword {
			continue
		}
		i, ok := keywords[strings.ToLower(word)]
		if !ok || seen>>i&1 == 1 {
			continue
		}
		seen |= 1 << i
		if count++; count == ImportanceFullKeywords {
			break
		}
	}
	return count
}
