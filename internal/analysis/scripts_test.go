package analysis

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// matching is what a document is found by, and what it is not found by.
type matching struct {
	doc  string
	by   []string
	byNo []string
}

func (m matching) check(t *testing.T) {
	t.Helper()
	a := NewEnglish()
	doc := a.Tokens(nil, m.doc)
	// A query finds the document if the document has all of its terms, and it has
	// any.
	found := func(query string) bool {
		tokens := a.Tokens(nil, query)
		for _, q := range tokens {
			if !slices.ContainsFunc(doc, func(d Token) bool { return d.Term == q.Term }) {
				return false
			}
		}
		return len(tokens) > 0
	}
	for _, query := range m.by {
		if !found(query) {
			t.Errorf("%q does not find %q", query, m.doc)
		}
	}
	for _, query := range m.byNo {
		if found(query) {
			t.Errorf("%q finds %q", query, m.doc)
		}
	}
}

func TestChinese(t *testing.T) {
	matching{
		"我昨天在北京大学学习数据库。",
		[]string{"北京", "北京大学", "大学", "数据库", "学习", "京", "我"},
		[]string{"南京", "北大", "库数", "今天"},
	}.check(t)
	matching{"用Go写的数据库v2", []string{"go", "数据库", "v2", "写的"}, []string{"写C"}}.check(t)
	// Full-width forms are the same, and so are traditional characters.
	matching{"ＡＢＣ１２３，数据", []string{"abc123", "数据", "數據"}, []string{"數学"}}.check(t)
	matching{"我買了iPhone15手機和臺灣的烏龍茶", []string{"iPhone", "iphone15", "iPhone15", "iphone 15", "买", "手机", "台湾", "乌龙茶"}, []string{"iphone16", "台北"}}.check(t)
}

func TestJapanese(t *testing.T) {
	matching{
		"東京タワーでラーメンを食べました。",
		[]string{"東京", "タワー", "ラーメン", "食べ", "東京タワー", "食", "ﾗｰﾒﾝ"},
		[]string{"京都", "ラメン", "飲み", "らーめん"},
	}.check(t)
}

func TestKorean(t *testing.T) {
	matching{
		"어제 서울에서 데이터베이스를 공부했다.",
		[]string{"서울", "서울에서", "데이터베이스", "공부", "어제", "데이터"},
		[]string{"부산", "울서"},
	}.check(t)
	// Composed and decomposed syllables are the same.
	matching{"\u1109\u1165\u110b\u116e\u11af", []string{"서울"}, nil}.check(t)
}

func TestThai(t *testing.T) {
	matching{
		"ฉันชอบกินข้าวผัดที่กรุงเทพ",
		[]string{"ข้าวผัด", "กรุงเทพ", "กินข้าว", "ชอบ"},
		[]string{"ข้าวต้ม", "เชียงใหม่"},
	}.check(t)
}

func TestEmoji(t *testing.T) {
	matching{
		"great 👍🏽 team 👩‍💻 ❤️ 🇫🇷 1️⃣",
		[]string{"👍", "👍🏿", "👩‍💻", "👩", "💻", "❤", "❤️", "🇫🇷", "1"},
		[]string{"👎", "🇩🇪", "👨‍💻", "💔"},
	}.check(t)
}

func TestCombiningMarks(t *testing.T) {
	matching{
		"re\u0301sume\u0301 Ångström Việt Nam naïve",
		[]string{"résumé", "resume", "angstrom", "A\u030angstro\u0308m", "viet nam", "naive", "VIỆT"},
		[]string{"presume"},
	}.check(t)
	// Where a mark makes another letter, it stays.
	matching{"мой", []string{"МОЙ", "мо\u0438\u0306"}, []string{"мои"}}.check(t)
	matching{"हिन्दी", []string{"हिन्दी"}, []string{"हन्द"}}.check(t)
	matching{"كِتَاب", []string{"كتاب"}, nil}.check(t)
	// A thousand marks on a letter are that letter.
	matching{"a" + strings.Repeat("\u0301", 1000) + "b", []string{"ab"}, nil}.check(t)
}

func TestIdentifiers(t *testing.T) {
	matching{
		"panic in src/auth.rs, line 42, calling getUserID of HTTPServer",
		[]string{"src/auth.rs", "auth.rs", "auth", "rs", "src", "getUserID", "getuserid", "user", "user id", "http server", "HTTPServer", "42"},
		[]string{"src/user.rs", "author", "setUserID", "userid"},
	}.check(t)
	matching{
		"upgrade to v1.2.3 of snake_case and kebab-case, C++ not C#",
		[]string{"v1.2.3", "snake_case", "snake case", "kebab-case", "kebab case", "c++", "c#"},
		[]string{"v1.2.4", "1.3.2.1", "v2", "snakecase"},
	}.check(t)
	matching{
		"mail alice.smith+news@example.co.uk or bob@example.org",
		[]string{"smith", "news@example.co.uk", "example.co.uk", "bob@example.org", "bob", "example.org", "alice"},
		[]string{"carol@example.org", "bob@example.net", "example.com"},
	}.check(t)
	matching{
		"see https://example.com/a/b?c=d#e and 10.0.0.1 or 2001:db8::1",
		[]string{"example.com", "https", "10.0.0.1", "db8"},
		[]string{"10.0.0.2", "example.org"},
	}.check(t)
}

var update = flag.Bool("update", false, "write the golden tokens anew")

// TestGoldenTokens fails when a dependency or a rule changes what becomes of a text
// of each kind, and shows where. Then indexes must be rebuilt, see TestFingerprint.
func TestGoldenTokens(t *testing.T) {
	var b strings.Builder
	a := NewEnglish()
	for text := range strings.SplitSeq(probeText, " ") {
		b.WriteString(text + "\t" + show(text, a.Tokens(nil, text)) + "\n")
	}
	checkGolden(t, "tokens.txt", b.String())
}

// checkGolden compares lines with a file, which -update writes.
func checkGolden(t *testing.T, name, lines string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(golden), "\n")
	for i, got := range strings.Split(lines, "\n") {
		if i >= len(want) || got != want[i] {
			t.Fatalf("line %d is %q", i+1, got)
		}
	}
	if n := strings.Count(lines, "\n"); n != len(want)-1 {
		t.Errorf("%d lines, want %d", n, len(want)-1)
	}
}

// TestEveryRune fails when a dependency changes what becomes of any character, alone or
// within a word, and TestEverySuffix when the stemmer changes: more than the text of
// TestGoldenTokens, on which fingerprints stand, can hold. Then it takes another version of the rules; pin
// the new values.
func TestEveryRune(t *testing.T) {
	for a, want := range map[*Analyzer]uint64{FirstEnglish(): 0xfc8633363a427a08, NewEnglish(): 0x568f4f762b808c22} {
		if got := everyRune(a); got != want {
			t.Errorf("%s: tokens have the hash %#x, want %#x", a.Fingerprint(), got, want)
		}
	}
}

func everyRune(a *Analyzer) uint64 {
	h := xxh3.New()
	var tokens []Token
	for r := range rune(utf8.MaxRune + 1) {
		// Where characters are alike by the thousand, some stand for all.
		if many := r >= 0x3400 && r < 0xf900 || r >= 0x17000; many && (r < 0x1f000 || r >= 0x1fc00) && r%32 > 0 {
			continue
		}
		tokens = a.Tokens(tokens[:0], "a"+string(r)+"b "+string(r)+string(r))
		for _, k := range tokens {
			fmt.Fprintf(h, "%s %d %d,", k.Term, k.Start, k.End)
		}
	}
	return h.Sum64()
}

func TestEverySuffix(t *testing.T) {
	for a, want := range map[*Analyzer]uint64{FirstEnglish(): 0xaf4bc649796cf364, NewEnglish(): 0xbabe1413a0e58885} {
		if got := everySuffix(a); got != want {
			t.Errorf("%s: stems have the hash %#x, want %#x", a.Fingerprint(), got, want)
		}
	}
}

func everySuffix(a *Analyzer) uint64 {
	h := xxh3.New()
	suffixes := strings.Fields("s es ies ied eed eedly ed edly ing ingly at bl iz y ly ational tional enci anci abli entli izer ization ator alism " +
		"aliti alli fulness ousli ousness iveness iviti biliti bli ogi fulli lessli alize icate iciti ical ful ness ative al ance ence er ic able " +
		"ible ant ement ment ent ism ate iti ous ive ize ion e l 's '")
	for stem := range strings.FieldsSeq("b cr hop control fall happ relat nation generaliz adjust vietnam sk d l t commun arsen gener succ proc exc yell sky inn herr") {
		for _, first := range append(suffixes, "") {
			for _, second := range append(suffixes, "") {
				for _, k := range a.Tokens(nil, stem+first+second) {
					fmt.Fprintf(h, "%s ", k.Term)
				}
			}
		}
	}
	return h.Sum64()
}
