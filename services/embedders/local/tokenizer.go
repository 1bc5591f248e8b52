package local

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// tokenizerFile is what of tokenizer.json counts.
type tokenizerFile struct {
	Truncation *struct {
		Most int `json:"max_length"`
	} `json:"truncation"`
	Normalizer struct {
		Type      string `json:"type"`
		Clean     *bool  `json:"clean_text"`
		Chinese   *bool  `json:"handle_chinese_chars"`
		Accents   *bool  `json:"strip_accents"`
		Lowercase *bool  `json:"lowercase"`
	} `json:"normalizer"`
	PreTokenizer struct {
		Type string `json:"type"`
	} `json:"pre_tokenizer"`
	Model struct {
		Type       string         `json:"type"`
		Unknown    string         `json:"unk_token"`
		Prefix     *string        `json:"continuing_subword_prefix"`
		MaxLetters int            `json:"max_input_chars_per_word"`
		Vocabulary map[string]int `json:"vocab"`
	} `json:"model"`
}

// tokenizer makes WordPieces of texts, as BERT does (Schuster and Nakajima, 2012; Devlin et al.,
// 2019).
type tokenizer struct {
	vocabulary                  map[string]int
	first, last, unknown        int
	prefix                      string // of a piece that goes on
	maxLetters                  int    // a longer word is unknown
	clean, chinese, strip, fold bool
	most                        int // tokens of an input; 0: no bound
}

// defaultLetters is what tokenizers have that name no other bound.
const defaultLetters = 100

func (l *loader) tokenizer(vocabulary int) (*tokenizer, error) {
	const file, do = "tokenizer.json", "give a model with the WordPiece of BERT, such as all-MiniLM-L6-v2"
	var f tokenizerFile
	if err := l.decode(file, maxTokenizer, false, &f); err != nil {
		return nil, err
	}
	for what, is := range map[string][2]string{
		"model": {f.Model.Type, "WordPiece"}, "normalizer": {f.Normalizer.Type, "BertNormalizer"}, "pre_tokenizer": {f.PreTokenizer.Type, "BertPreTokenizer"},
	} {
		if is[0] != is[1] && (what != "model" || is[0] != "") { // older files name no type of a model
			return nil, l.bad(file, fmt.Sprintf("its %s is %.40q, not %s", what, is[0], is[1]), do)
		}
	}
	t := &tokenizer{vocabulary: f.Model.Vocabulary, prefix: "##", maxLetters: f.Model.MaxLetters}
	if f.Model.Prefix != nil {
		t.prefix = *f.Model.Prefix
	}
	if t.maxLetters <= 0 {
		t.maxLetters = defaultLetters
	}
	if f.Truncation != nil {
		t.most = f.Truncation.Most
	}
	yes := func(given *bool, otherwise bool) bool {
		if given == nil {
			return otherwise
		}
		return *given
	}
	n := &f.Normalizer
	t.clean, t.chinese, t.fold = yes(n.Clean, true), yes(n.Chinese, true), yes(n.Lowercase, true)
	t.strip = yes(n.Accents, t.fold)
	byNumber := func(a, b string) int { return cmp.Or(cmp.Compare(t.vocabulary[a], t.vocabulary[b]), cmp.Compare(a, b)) }
	if names := slices.SortedFunc(maps.Keys(t.vocabulary), byNumber); len(names) > 0 {
		for _, name := range []string{names[0], names[len(names)-1]} {
			if id := t.vocabulary[name]; id < 0 || id >= vocabulary {
				return nil, l.bad(file, fmt.Sprintf("the token %.40q has the number %d, and config.json has %d tokens", name, id, vocabulary), "get both files again")
			}
		}
	}
	if f.Model.Unknown == "" {
		f.Model.Unknown = "[UNK]"
	}
	for name, id := range map[string]*int{"[CLS]": &t.first, "[SEP]": &t.last, f.Model.Unknown: &t.unknown} {
		found := false
		if *id, found = t.vocabulary[name]; !found {
			return nil, l.bad(file, fmt.Sprintf("its vocabulary has no token %.40q", name), do)
		}
	}
	return t, nil
}

// encode makes tokens of a text: at most so many, 3 or more, with the first and the last.
func (t *tokenizer) encode(text string, most int) []int {
	ids := append(make([]int, 0, min(most, len(text)/3+3)), t.first)
	for word := range t.words(text) {
		if ids = t.pieces(ids, word); len(ids) >= most-1 {
			ids = ids[:most-1]
			break
		}
	}
	return append(ids, t.last)
}

// words are the words and the marks of punctuation of a text, normalised.
func (t *tokenizer) words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if t.strip {
			text = norm.NFD.String(text)
		}
		var word strings.Builder
		end := func() bool {
			w := word.String()
			word.Reset()
			return w == "" || yield(w)
		}
		for _, r := range text {
			switch {
			case t.clean && (r == 0 || r == unicode.ReplacementChar || isControl(r)):
				continue
			case isSpace(r):
				if !end() {
					return
				}
				continue
			case t.strip && unicode.Is(unicode.Mn, r):
				continue
			}
			if t.fold {
				r = unicode.ToLower(r)
			}
			if isPunctuation(r) || t.chinese && isChinese(r) {
				if !end() || !yield(string(r)) {
					return
				}
				continue
			}
			word.WriteRune(r)
		}
		end()
	}
}

// pieces appends the longest pieces that a word is made of, from its beginning on, or the
// unknown token where it is made of none.
func (t *tokenizer) pieces(ids []int, word string) []int {
	before := len(ids)
	starts := make([]int, 0, len(word)+1) // of its letters, and its end
	for i := range word {
		starts = append(starts, i)
	}
	if len(starts) > t.maxLetters {
		return append(ids, t.unknown)
	}
	starts = append(starts, len(word))
	for from := 0; from < len(starts)-1; {
		to := len(starts) - 1
		for ; to > from; to-- {
			piece := word[starts[from]:starts[to]]
			if from > 0 {
				piece = t.prefix + piece
			}
			if id, known := t.vocabulary[piece]; known {
				ids = append(ids, id)
				break
			}
		}
		if to == from {
			return append(ids[:before], t.unknown)
		}
		from = to
	}
	return ids
}

// isControl reports whether BERT leaves a character out.
func isControl(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return unicode.Is(unicode.C, r)
}

func isSpace(r rune) bool { return unicode.IsSpace(r) }

// isPunctuation holds for punctuation, and for all signs of ASCII that are neither letters nor
// digits.
func isPunctuation(r rune) bool {
	if r < 128 {
		return r > ' ' && r != 127 && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return unicode.IsPunct(r)
}

// chinese are the ranges whose characters are words by themselves.
var chinese = [][2]rune{
	{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F},
}

func isChinese(r rune) bool {
	for _, c := range chinese {
		if r >= c[0] && r <= c[1] {
			return true
		}
	}
	return false
}
