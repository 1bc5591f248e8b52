package analysis

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

func mustNew(t testing.TB, language string) *Analyzer {
	t.Helper()
	a, err := New(Config{Language: language})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// show renders tokens for review: the term, and the text it came from where that differs.
func show(text string, tokens []Token) string {
	var parts []string
	for _, k := range tokens {
		part := k.Term
		if source := text[k.Start:k.End]; source != k.Term {
			part += "(" + source + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func TestTokens(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"separators alone", " \t\r\n .,;-- \u3000 ", ""},
		{"prose", "The cats were running, happily!", "cat(cats) were run(running) happili(happily)"},
		{"hyphen", "a well-known state-of-the-art", "well know(known) state art"},
		{"possessive", "Alice's dogs' ALICE\u2019S", "alic(Alice) dog(dogs) alic(ALICE\u2019S)"},
		{"contractions", "she'll don't I'm we've", "she dont(don't) i(I) we"},
		{"names", "O'Brien rock'n'roll", "o(O) brien(Brien) rock n roll"},
		{"numbers", "3.14 10,000.50 1,2 007 05", "3.14 3 14 10000.50(10,000.50) 10000(10,000.50) 50(10,000.50) 1 2 007 5(05)"},
		{"date", "2024-05-01", "2024-05-01 2024 5(05) 1(01)"},
		{"timestamp", "2024-05-01T10:30Z", "2024-05-01t10:30z(2024-05-01T10:30Z) 2024 5(05) 01t10(01T10) 1(01) 10 30z(30Z) 30"},
		{"units", "10am 1960s 5km", "10am 10 am 1960s 1960 5km 5 km"},
		{"acronym", "U.S.A. e.g. US", "usa(U.S.A) eg(e.g) us(US)"},
		{"version", "v1.2.3", "v1.2.3 v1 1 2 3"},
		{"path", "src/auth.rs", "src/auth.rs src auth.rs auth rs"},
		{"windows path", `C:\Users\bob`, `c:\users\bob(C:\Users\bob) c(C) user(Users) bob`},
		{"url", "https://example.com/a", "https://example.com/a https example.com exampl(example) com"},
		{"e-mail", "alice@example.com", "alice@example.com alic(alice) example.com exampl(example) com"},
		{"camel", "getUserID HTTPServer", "getuserid(getUserID) get user(User) id(ID) httpserver(HTTPServer) http(HTTP) server(Server)"},
		{"snake", "snake_case __init__ a_.b", "snake_case snake case init a_.b b"},
		{"kebab", "kebab-case gpt-4", "kebab case gpt-4 gpt 4"},
		{"alternatives", "and/or he/she a/b/c", "he she a/b/c b c"},
		{"sigils", "C++ C# F#, c+ (C)", "c++(C++) c(C) c#(C#) c(C) f#(F#) f(F) c c(C)"},
		{"data is no name", "3f2a9c1d b2b", "3f2a9c1d b2b"},
		{"dashes end words", "one--two three...four", "one two three four"},
		{"accents", "Caf\u00e9 CAFE\u0301 \u0130stanbul stra\u00dfe \u00d8re", "cafe(Caf\u00e9) cafe(CAFE\u0301) istanbul(\u0130stanbul) strass(stra\u00dfe) ore(\u00d8re)"},
		{"compatibility", "\ufb01ne \uff21\uff22 x\u00b2 \u33a1", "fine(\ufb01ne) ab(\uff21\uff22) x 2(\u00b2) m2(\u33a1) 2(\u33a1)"},
		{"Greek", "\u0391\u03b8\u03ae\u03bd\u03b1", "\u03b1\u03b8\u03b7\u03bd\u03b1(\u0391\u03b8\u03ae\u03bd\u03b1)"},
		{"Cyrillic", "\u0401\u043b\u043a\u0430 \u0439\u043e\u0434", "\u0435\u043b\u043a\u0430(\u0401\u043b\u043a\u0430) \u0439\u043e\u0434"},
		{"Arabic", "\u0627\u0644\u0639\u0650\u0644\u0652\u0645 \u0663\u0664", "\u0627\u0644\u0639\u0644\u0645(\u0627\u0644\u0639\u0650\u0644\u0652\u0645) 34(\u0663\u0664)"},
		{"Devanagari", "\u0915\u094d\u0937\u093f", "\u0915\u094d\u0937\u093f"},
		{"Chinese", "\u4eca\u5929\u5f88\u597d\u3002", "\u4eca \u4eca\u5929 \u5929 \u5929\u5f88 \u5f88 \u5f88\u597d \u597d"},
		{"Japanese", "\u732b\u304c\u597d\u304d \u30c7\u30fc\u30bf \u3048", "\u732b \u732b\u304c \u304c\u597d \u597d \u597d\u304d \u30c7\u30fc \u30fc\u30bf \u3048"},
		{"Korean", "\uc11c\uc6b8\uc5d0 LG\uc804\uc790", "\uc11c \uc11c\uc6b8 \uc6b8\uc5d0 lg(LG) \uc804 \uc804\uc790"},
		{"Thai", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0e01", "\u0e2a\u0e27\u0e31 \u0e27\u0e31\u0e2a \u0e2a\u0e14\u0e35 \u0e01"},
		{"emoji", "\U0001f600 \U0001f44d\U0001f3fd \u2764\ufe0f \U0001f1eb\U0001f1f7", "\U0001f600 \U0001f44d(\U0001f44d\U0001f3fd) \u2764(\u2764\ufe0f) \U0001f1eb\U0001f1f7"},
		{"joined emoji", "\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb \U0001f469(\U0001f469\u200d\U0001f4bb) \U0001f4bb(\U0001f469\u200d\U0001f4bb)"},
		{"mixed", "iPhone\u30b1\u30fc\u30b9 ok", "iphon(iPhone) phone(Phone) \u30b1\u30fc \u30fc\u30b9 ok"},
		{"invalid UTF-8", "caf\xe9 \xff\xfe na\xc3", "caf(caf\xe9) na(na\xc3)"},
		{"quotes", "\u201chello\u201d\u2014world", "hello world"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := show(tc.text, mustNew(t, English).Tokens(nil, tc.text)); got != tc.want {
				t.Errorf("%q\n got %s\nwant %s", tc.text, got, tc.want)
			}
		})
	}
}

func TestLanguageNone(t *testing.T) {
	const text = "The cats weren't Alice's src/auth.rs"
	const want = "the(The) cats weren t alice(Alice) s src/auth.rs src auth.rs auth rs"
	if got := show(text, mustNew(t, None).Tokens(nil, text)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestUnknownLanguage(t *testing.T) {
	_, err := New(Config{Language: "klingon"})
	if err == nil {
		t.Fatal("no error for an unknown language")
	}
	for _, want := range []string{"klingon", English, None} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
}

// TestMatches says what finds what: whether a query and a document share a term.
func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		query, doc string
		want       bool
	}{
		{"Alice", "Alice's book", true},
		{"alice\u2019s", "we met ALICE", true},
		{"dogs'", "a dog", true},
		{"dont", "I don't know", true},
		{"running", "he runs", true},
		{"news", "a new car", false},
		{"well known", "a well-known fact", true},
		{"auth.rs", "see src/auth.rs", true},
		{"src/auth.rs", "in auth.rs:", true},
		{"rs", "src/auth.rs", true},
		{"getUserID", "call getuserid now", true},
		{"user", "getUserID()", true},
		{"snake case", "snake_case", true},
		{"snakecase", "snake_case", false},
		{"kebab", "kebab-case", true},
		{"v1.2.3", "released v1.2.3.", true},
		{"1.2.3", "v1.2.3", true},
		{"gpt4", "gpt-4 is out", true},
		{"alice@example.com", "mail <alice@example.com>", true},
		{"example.com", "alice@example.com", true},
		{"bob@example.org", "alice@elsewhere.net", false},
		{"USA", "made in the U.S.A.", true},
		{"10000", "10,000 people", true},
		{"2024", "2024-05-01", true},
		{"May 5", "on 2024-12-05", true},
		{"2024-05-01", "at 2024-05-01T10:00:00Z", true},
		{"C++", "I write c++", true},
		{"C#", "I write c++", true}, // both are C; the signs rank them
		{"iphone", "my iPhone", true},
		{"cafe", "caf\u00e9", true},
		{"cafe\u0301", "CAF\u00c9", true},
		{"strasse", "Stra\u00dfe", true},
		{"fine", "\ufb01ne", true},
		{"\uff21\uff22\uff23", "abc", true},
		{"\u0430\u0439", "\u0430\u0438", false}, // the breve tells two Cyrillic letters apart
		{"\u732b", "\u732b\u304c\u597d\u304d", true},
		{"\u5929\u6c14", "\u4eca\u5929\u5929\u6c14\u5f88\u597d", true},
		{"\u30c7\u30fc\u30bf", "\uff83\uff9e\uff70\uff80\u3092", true},
		{"\u72ac", "\u732b\u304c\u597d\u304d", false},
		{"\uc11c\uc6b8", "\uc11c\uc6b8\uc5d0\uc11c", true},
		{"\uc9d1", "\uc9d1\uc5d0", true},
		{"\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e04\u0e23\u0e31\u0e1a", true},
		{"\U0001f44d", "great \U0001f44d\U0001f3fd!", true},
		{"\U0001f4bb", "\U0001f469\u200d\U0001f4bb", true},
		{"\u2764", "\u2764\ufe0f\u2764\ufe0f", true},
		{"\U0001f600", "\U0001f622", false},
		{"34", "\u0663\u0664", true},
		{"the", "the", false}, // a stop word
	} {
		a := mustNew(t, English)
		doc := a.Tokens(nil, tc.doc)
		got := slices.ContainsFunc(a.Tokens(nil, tc.query), func(q Token) bool {
			return slices.ContainsFunc(doc, func(d Token) bool { return d.Term == q.Term })
		})
		if got != tc.want {
			t.Errorf("query %q, document %q: match %v, want %v", tc.query, tc.doc, got, tc.want)
		}
	}
}

// TestFingerprint fails when a change of the rules or of a dependency changes tokens. Then existing indexes must be
// rebuilt: it takes another version of the rules; pin the new values.
func TestFingerprint(t *testing.T) {
	for _, tc := range []struct{ language, index, want string }{
		{English, "", "english-2-bfc73270d7a83b46"},
		{None, "", "none-2-068d4981e006d6d5"},
		{Auto, "", "auto-2-40a1b1c3e53e51eb"},
		// Indexes of older rules are read by these, whatever the hash was of.
		{English, "english-1-ab975387886a48f7", "english-1-ab975387886a48f7"},
		{None, "none-1-274f03548ccbfc44", "none-1-274f03548ccbfc44"},
		{"", "auto-1-0", "auto-1-cc66c8c4bbb35119"},
		{English, "auto-1-0", "english-2-bfc73270d7a83b46"}, // of another language
		{English, "another", "english-2-bfc73270d7a83b46"},
	} {
		a, err := New(Config{Language: tc.language, Index: tc.index})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Fingerprint(); got != tc.want || a.Older() != strings.Contains(tc.want, "-1-") {
			t.Errorf("%q, index %q: fingerprint %s, older %v, want %s", tc.language, tc.index, got, a.Older(), tc.want)
		}
	}
}

func TestQuery(t *testing.T) {
	for _, tc := range []struct{ text, english, none string }{
		{"What did Alice say about her dog?", "about alic dog say", "about alice did dog her say what"},
		{"who am i", "am i who", "am i who"}, // nothing else is left
		{"the", "", "the"},
		{"", "", ""},
		{"Which of us may come?", "come may us", "come may of us which"},
	} {
		for language, want := range map[string]string{English: tc.english, None: tc.none} {
			var b Bag
			b.AddQuery(mustNew(t, language), tc.text, 2)
			var terms []string
			for _, k := range b.Terms() {
				terms = append(terms, k.Term)
			}
			if got := strings.Join(terms, " "); got != want {
				t.Errorf("%s: query %q has terms %q, want %q", language, tc.text, got, want)
			}
			if got, want := b.Length(), uint32(2*len(terms)); got != want {
				t.Errorf("%s: query %q has length %d, want %d", language, tc.text, got, want)
			}
		}
	}
}

func TestLongTerms(t *testing.T) {
	a := mustNew(t, English)
	long := strings.Repeat("k", 1000)
	one, other := a.Tokens(nil, long+"a"), a.Tokens(nil, long+"b")
	if len(one) != 1 || len(other) != 1 {
		t.Fatalf("got %d and %d tokens, want 1 each", len(one), len(other))
	}
	if n := len(one[0].Term); n != MaxTermBytes {
		t.Errorf("term of %d bytes, want %d", n, MaxTermBytes)
	}
	if one[0].Term == other[0].Term {
		t.Error("two long words became one term")
	}
	if again := a.Tokens(nil, strings.ToUpper(long)+"A"); again[0].Term != one[0].Term {
		t.Errorf("folded %q, want %q", again[0].Term, one[0].Term)
	}
	if cut := a.Tokens(nil, strings.Repeat("\u0431", 500))[0].Term; len(cut) > MaxTermBytes || strings.ContainsRune(cut, '\ufffd') {
		t.Errorf("term %q is cut within a rune", cut)
	}
}

// TestConcurrentUse lets many goroutines share the cache of words under a vocabulary larger than it.
func TestConcurrentUse(t *testing.T) {
	var text strings.Builder
	for i := range 2 * lexiconSlots {
		for n := i; ; n /= 26 {
			text.WriteByte(byte('a' + n%26))
			if n < 26 {
				break
			}
		}
		text.WriteString("ing ")
	}
	want := mustNew(t, English).Tokens(nil, text.String())
	a := mustNew(t, English)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := a.Tokens(nil, text.String()); !slices.Equal(got, want) {
				t.Error("tokens differ from those of an analyzer used alone")
			}
		})
	}
	wg.Wait()
}
