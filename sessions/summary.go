package sessions

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Summarizer makes a summary of messages. previous is the summary of those before, empty
// where there is none; what it returns takes the place of both. It is called without a
// lock, and ends with its context.
type Summarizer interface {
	// Summarize returns the summary of messages, behind that of those before them.
	Summarize(ctx context.Context, previous string, messages []Message) (string, error)
}

// Extractive is the built-in Summarizer. It needs no network and no language model: it picks
// the sentences whose words are the most frequent in the conversation, after the idea of
// H. P. Luhn, "The Automatic Creation of Literature Abstracts", 1958. The summary says so in
// its first line.
type Extractive struct {
	// MaxChars bounds the summary, in characters. 0: 2,000.
	MaxChars int
}

const (
	// ExtractHead is the first line of what Extractive makes.
	ExtractHead  = "Extract, made without a language model:"
	extractChars = 2000
	// longestSentence bounds a sentence, in characters: a text without full stops is cut.
	longestSentence = 300
)

// sentence is one that may be picked.
type sentence struct {
	text  string
	words []string
	place int
	score float64
}

// Summarize picks sentences, and returns them in their order.
func (e Extractive) Summarize(ctx context.Context, previous string, messages []Message) (string, error) {
	var all []sentence
	for line := range strings.Lines(strings.TrimPrefix(previous, ExtractHead)) {
		all = appendSentence(all, "", strings.TrimSpace(line))
	}
	for i := range messages {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		for _, text := range sentences(messages[i].Content()) {
			all = appendSentence(all, messages[i].Role+": ", text)
		}
	}
	counts := map[string]int{}
	for _, s := range all {
		for _, w := range s.words {
			counts[w]++
		}
	}
	for i := range all {
		for _, w := range all[i].words {
			all[i].score += float64(counts[w])
		}
		all[i].score /= 1 + math.Sqrt(float64(len(all[i].words))) // neither the longest nor a single word wins
	}
	limit := e.MaxChars
	if limit <= 0 {
		limit = extractChars
	}
	return ExtractHead + "\n" + strings.Join(pick(all, limit-utf8.RuneCountInString(ExtractHead)-1), "\n"), ctx.Err()
}

// appendSentence adds a sentence that is not there yet. Its words are those without who
// said it.
func appendSentence(all []sentence, by, text string) []sentence {
	words := contentWords(text)
	text = by + text
	if text == "" || slices.ContainsFunc(all, func(s sentence) bool { return s.text == text }) {
		return all
	}
	return append(all, sentence{text: text, words: words, place: len(all)})
}

// pick returns the best sentences within a number of characters, in their order.
func pick(all []sentence, limit int) []string {
	slices.SortStableFunc(all, func(a, b sentence) int { return cmp.Compare(b.score, a.score) })
	var kept []sentence
	for _, s := range all {
		if n := utf8.RuneCountInString(s.text) + 1; n <= limit {
			limit -= n
			kept = append(kept, s)
		}
	}
	slices.SortFunc(kept, func(a, b sentence) int { return cmp.Compare(a.place, b.place) })
	texts := make([]string, len(kept))
	for i, s := range kept {
		texts[i] = s.text
	}
	return texts
}

// contentWords are the words of a text that have four letters or more, in lower case.
func contentWords(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(words, func(w string) bool { return utf8.RuneCountInString(w) < 4 })
}

// sentences cuts a text behind full stops, question and exclamation marks, and at newlines.
func sentences(text string) (all []string) {
	var b strings.Builder
	length := 0
	end := func() {
		if s := strings.TrimSpace(b.String()); s != "" {
			all = append(all, s)
		}
		b.Reset()
		length = 0
	}
	for i, r := range text {
		if length++; r == '\n' {
			end()
			continue
		}
		b.WriteRune(r)
		_, size := utf8.DecodeRuneInString(text[i:]) // 1 of a byte that is damaged
		after, _ := utf8.DecodeRuneInString(text[i+size:])
		if strings.ContainsRune(".!?", r) && unicode.IsSpace(after) || strings.ContainsRune("。！？", r) || length >= longestSentence {
			end()
		}
	}
	end()
	return all
}

// Without returns an extract without the sentences that some texts have. extract is false for another
// summary, in whose words nobody can tell what is of which text.
func Without(summary string, texts []string) (rest string, extract bool) {
	said, extract := strings.CutPrefix(summary, ExtractHead)
	if !extract {
		return "", false
	}
	var kept []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		_, sentence, by := strings.Cut(line, ": ")
		has := func(text string) bool {
			return strings.Contains(text, line) || by && sentence != "" && strings.Contains(text, sentence)
		}
		if line != "" && !slices.ContainsFunc(texts, has) {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return "", true
	}
	return ExtractHead + "\n" + strings.Join(kept, "\n"), true
}
