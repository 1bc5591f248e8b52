package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Two texts say the same where they differ only in how they are written: in spaces, in the shape of quotation marks, in a
// full stop at the end, in the capital of a function word that begins the text, in the spelling of a contraction. All
// else may change the meaning, whatever the language: a number, a name, a negation, an accent, a comma, a capital. So no
// likeness is measured. Each text is brought into one form, and the forms are equal or not. Where a rule cannot tell, it
// keeps what is written: two memories that say the same cost little, and one that is gone may be missed.

// Saying returns the form of a text that is equal for texts that say the same. It is empty for a blank text. A text that
// quotes code, or speaks of a password, is its own form: every sign may count there.
func Saying(text string) string {
	text = strings.TrimFunc(norm.NFC.String(text), func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
	if text == "" || isLiteral(text) {
		return text
	}
	form := withoutStop(written(text))
	if !strings.Contains(form, `"`) {
		form = respelled(form)
	}
	return smallBeginning(form)
}

// secrets are parts of words for what is typed sign by sign.
var secrets = strings.Fields(`
	password passwd passwort passphrase passcode kennwort losung contraseña contrasenya senha wachtwoord lösenord adgangskode passord
	salasana parola hasło heslo jelszó parool лозинк парол κωδικ סיסמ şifre secret geheim token login log-in username user-name ssid
	密码 密碼 口令 暗号 暗號 パスワード 合言葉 비밀번호 암호 पासवर्ड รหัสผ่าน 用户名 用戶名 ユーザー名`)

// secretPhrases are those of several words.
var secretPhrases = []string{"mot de passe", "palabra clave", "mật khẩu", "كلمة المرور", "كلمة السر", "رمز عبور", "user name", "api key", "pass word", "pass phrase"}

// isLiteral reports whether every sign of a text may count.
func isLiteral(text string) bool {
	if strings.Contains(text, "`") {
		return true
	}
	small := strings.ToLower(text)
	for _, of := range [][]string{secrets, secretPhrases} {
		for _, s := range of {
			if strings.Contains(small, s) {
				return true
			}
		}
	}
	return false
}

// typed are signs as a keyboard has them, by the shapes that they take in print.
var typed = map[rune]rune{
	'“': '"', '”': '"', '„': '"', '‟': '"', '«': '"', '»': '"',
	'‘': '\'', '’': '\'', '‛': '\'', 'ʼ': '\'', '＇': '\'',
	'，': ',', '。': '.', '｡': '.', '！': '!', '？': '?', '：': ':', '；': ';', '（': '(', '）': ')',
}

// written returns a text with single spaces and with the signs of a keyboard.
func written(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	runes := []rune(text)
	last := ' ' // the rune that was written last
	put := func(r rune) {
		out.WriteRune(r)
		last = r
	}
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case unicode.IsSpace(r):
			from := i
			for unicode.IsSpace(runes[i+1]) { // the text ends with something else
				i++
			}
			out.WriteString(space(runes, from, i+1))
			last = ' '
		case r == '.' && last != '.' && dots(runes[i:]) == 3:
			put('…')
			i += 2
		case r == '\ufe0f': // how a sign is drawn
		case typed[r] != 0 && !standsAlone(runes, i):
			put(typed[r])
		default:
			put(r)
		}
	}
	return out.String()
}

// dots counts the full stops that runes begin with.
func dots(runes []rune) (n int) {
	for n < len(runes) && runes[n] == '.' {
		n++
	}
	return n
}

// standsAlone reports whether there are spaces on both sides of a sign: then the text speaks of the sign, but for the
// guillemets and the signs that French sets apart.
func standsAlone(runes []rune, i int) bool {
	if strings.ContainsRune("«»！？：；", runes[i]) {
		return false
	}
	return (i == 0 || unicode.IsSpace(runes[i-1])) && (i == len(runes)-1 || unicode.IsSpace(runes[i+1]))
}

// space returns what the space of runes from i up to j, between two other runes, says: a line that ends without
// punctuation, and an indented one, may say something; and a space says nothing before the punctuation that ends a word,
// within guillemets, and after the full-width punctuation of Chinese and Japanese.
func space(runes []rune, i, j int) string {
	before, after := runes[i-1], runes[j]
	for at := j - 1; at >= i; at-- {
		if !strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", runes[at]) {
			continue
		}
		if indent := string(runes[at+1 : j]); indent != "" || !strings.ContainsRune(",.;!?…，。；！？", before) {
			return "\n" + indent
		}
		break
	}
	ends := j+1 == len(runes) || unicode.IsSpace(runes[j+1])
	switch {
	case ends && strings.ContainsRune("?!:;,؟،؛", after), after == '»', before == '«', isIdeograph(after) && strings.ContainsRune(",.;:!?，。；：！？", before):
		return ""
	}
	return " "
}

// isIdeograph reports whether a character is of a writing without spaces.
func isIdeograph(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// withoutStop drops the full stop that ends a text, unless it may be a part of what it follows: of an address, a code,
// an abbreviation with stops, or an ordinal ("Er wurde 3.").
func withoutStop(form string) string {
	for _, stop := range []string{"।", "۔"} {
		if short, ended := strings.CutSuffix(form, stop); ended {
			return short
		}
	}
	short, ended := strings.CutSuffix(form, ".")
	last, _ := utf8.DecodeLastRuneInString(short)
	switch {
	case !ended || short == "":
		return form
	case isIdeograph(last) || strings.ContainsRune(`")]）」』`, last):
		return short
	case unicode.IsDigit(last):
		if !countsOnly(short) {
			return form
		}
		return short
	}
	word := strings.TrimRightFunc(short, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || r == '\'' || r == '-' })
	before, _ := utf8.DecodeLastRuneInString(word)
	if len(word) == len(short) || word != "" && !unicode.IsSpace(before) && !strings.ContainsRune(`"(,;!?…—–،`, before) {
		return form
	}
	return short
}

// countsOnly reports whether the number that ends a text is none that a stop makes an ordinal: a time, a number of four
// digits or more, or what follows English words.
func countsOnly(form string) bool {
	words := strings.Fields(form)
	number := words[len(words)-1]
	if strings.Trim(number, "0123456789:,$€£¥+-") != "" {
		return false
	}
	if strings.Contains(number, ":") || len(number) >= len("1990") && strings.Trim(number, "0123456789") == "" {
		return true
	}
	if len(words) < 2 {
		return false
	}
	switch strings.ToLower(words[len(words)-2]) {
	case "is", "are", "at", "of", "to", "costs", "i'm":
		return true
	case "am":
		return len(words) > 2 && strings.EqualFold(words[len(words)-3], "i")
	}
	return false
}

// spellings are contractions and old spellings, by what is usual. Only those are here that say the same in every
// sentence: "can not" may permit what "cannot" forbids, and 'd and 's have two meanings each.
var spellings = func() map[string]string {
	m := map[string]string{
		"can't": "cannot", "won't": "will not", "shan't": "shall not", "i'm": "I am", "okay": "ok",
		"whilst": "while", "amongst": "among", "towards": "toward", "daß": "dass", "muß": "muss",
	}
	for verb := range strings.FieldsSeq("do does did is are was were have has had could should would must need") {
		m[verb+"n't"] = verb + " not"
	}
	for who := range strings.FieldsSeq("you we they") {
		m[who+"'re"] = who + " are"
	}
	for who := range strings.FieldsSeq("i you we they") {
		m[who+"'ve"] = who + " have"
	}
	for who := range strings.FieldsSeq("i you he she it we they") {
		m[who+"'ll"] = who + " will"
	}
	m["i've"], m["i'll"] = "I have", "I will"
	return m
}()

// respelled returns a form with the usual spelling of its words.
func respelled(form string) string {
	var out strings.Builder
	out.Grow(len(form))
	for form != "" {
		end := strings.IndexAny(form, " \n")
		if end < 0 {
			end = len(form)
		}
		chunk := form[:end]
		word := strings.TrimRight(strings.TrimLeft(chunk, "(¿¡"), ".,;:!?…)")
		at := strings.Index(chunk, word)
		out.WriteString(chunk[:at])
		out.WriteString(usual(word))
		out.WriteString(chunk[at+len(word):])
		if end < len(form) {
			out.WriteByte(form[end])
			end++
		}
		form = form[end:]
	}
	return out.String()
}

// usual returns the usual spelling of a word, with its capital.
func usual(word string) string {
	small := strings.ToLower(word)
	is, has := spellings[small]
	switch {
	case !has:
		return word
	case word == small:
		return is
	case isName(word) || strings.HasPrefix(word, "I'"):
		return strings.ToUpper(is[:1]) + is[1:]
	}
	return word
}

// capitalMeans are function words that mean something else with a capital, also where they begin a text: names in English,
// polite forms in German, Italian and Danish.
var capitalMeans = func() map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq("will may can sie ihr ihre ihrem ihren ihrer ihres ihnen du euch lei loro de dem deres") {
		m[word] = true
	}
	return m
}()

// smallBeginning writes the function word that begins a form in small letters, and "i" as "I" before a verb that has its
// form of the first person.
func smallBeginning(form string) string {
	first, rest, _ := strings.Cut(form, " ")
	if second, _, _ := strings.Cut(rest, " "); first == "i" && ofFirstPerson[second] {
		return "I" + form[1:]
	}
	word := strings.TrimRight(strings.TrimLeft(first, `"(¿¡`), ",:;!?")
	small := strings.ToLower(word)
	if !isName(word) || !fillers[small] || capitalMeans[small] {
		return form
	}
	return strings.Replace(form, word, small, 1)
}

var ofFirstPerson = map[string]bool{
	"am": true, "have": true, "do": true, "like": true, "love": true, "hate": true, "live": true, "work": true, "want": true, "think": true,
	"know": true, "prefer": true, "speak": true,
}
