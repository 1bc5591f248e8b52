package recall

import (
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// wordsOf are the words of a text in lower case, with the apostrophes within them.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(strings.ReplaceAll(text, "’", "'")), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsMark(c) && !unicode.IsDigit(c) && c != '\''
	})
}

func setOf(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// auxiliaries are the verbs that questions are put with.
var auxiliaries = setOf(`am are can could did do does had has have is may might must shall should was were will would
	aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't shouldn't wasn't weren't won't wouldn't`)

// pronouns are the words by which a language says "I" and "you".
type pronouns struct{ first, second map[string]bool }

// ofLanguage are the pronouns by ISO 639-1. A word is one where a text of the scope is in its
// language, since many are other words elsewhere.
var ofLanguage = map[string]pronouns{
	"en": {setOf(`i i'm i've i'd i'll me my mine myself we we're we've we'd we'll our ours ourselves`), setOf(`you you're you've you'd you'll your yours yourself`)},
	"de": {setOf(`ich mich mir mein meine meinem meinen meiner meines wir uns unser unsere unserem unseren unserer`), setOf(`du dich dir dein deine deinem deinen deiner ihnen`)},
	"fr": {setOf(`je j'ai j'avais j'étais j'aime moi mon ma mes nous notre nos m'a m'as`), setOf(`tu t'ai toi ton ta tes vous votre vos`)},
	"es": {setOf(`yo mí mi mis mío mía nosotros nosotras nuestro nuestra nuestros nuestras conmigo`), setOf(`tú tu tus ti tuyo tuya usted contigo`)},
	"it": {setOf(`io mio mia miei mie noi nostro nostra nostri nostre`), setOf(`tu te tuo tua tuoi tue`)},
	"pt": {setOf(`eu meu minha meus minhas mim comigo nós nosso nossa nossos nossas`), setOf(`tu teu tua você vocês contigo`)},
	"nl": {setOf(`ik mij mijn wij ons onze`), setOf(`jij jou jouw`)},
	"sv": {setOf(`jag mig min mitt mina vi oss vår vårt våra`), setOf(`du dig din ditt dina`)},
	"da": {setOf(`jeg mig min mit mine vi os vores`), setOf(`du dig din dit dine`)},
	"no": {setOf(`jeg meg min mitt mine vi oss vår`), setOf(`du deg din ditt dine`)},
	"fi": {setOf(`minä minun minua minulla minulle me meidän`), setOf(`sinä sinun sinua`)},
	"ru": {setOf(`я меня мне мной мой моя моё мое мои моего моей моих моим мою мы нас нам наш наша наше наши`), setOf(`ты тебя тебе тобой твой твоя твоё твои вы вас вам ваш ваша`)},
	"pl": {setOf(`ja mnie mi mną mój moja moje moich moim nas nam nasz nasza`), setOf(`ty ciebie tobie tobą twój twoja twoje`)},
	"tr": {setOf(`ben beni bana benim bende biz bizi bize bizim`), setOf(`sen seni sana senin siz sizin`)},
	"ro": {setOf(`eu mine mie meu mea mei mele noi nostru noastră`), setOf(`tu tine ție tău ta`)},
	"hu": {setOf(`én engem nekem enyém mi minket nekünk`), setOf(`te téged neked tied`)},
	"el": {setOf(`εγώ εμένα μου εμείς μας`), setOf(`εσύ εσένα σου εσείς σας`)},
	"ar": {setOf(`أنا لي عندي نحن`), setOf(`أنت لك`)},
	"hi": {setOf(`मैं मैंने मुझे मेरा मेरी मेरे हम हमने हमारा हमारी`), setOf(`तुम तुमने तुम्हारा आप आपने`)},
	"ko": {setOf(`나 나는 내가 나의 내 저 저는 제가 제 우리`), setOf(`너 너는 네가 당신 당신은`)},
}

// Of languages without spaces the pronouns are looked for within the text.
var (
	firstWithin  = []string{"我", "私", "僕", "俺", "わたし", "ぼく"}
	secondWithin = []string{"你", "您", "あなた"}
)

// requests begin a question and are addressed to whoever answers it: they say nothing of whom
// the question is about. The longest that fits is left out.
var (
	requestHeads = setOf(`can could would will please do did`)
	requestVerbs = setOf(`tell remind show give help let find send remember know recall say explain`)
	// saying are the verbs of what an assistant did.
	saying = setOf(`say said tell told mention mentioned recommend recommended suggest suggested provide provided list listed give gave
		write wrote explain explained share shared advise advised describe described propose proposed answer answered send sent create
		created show showed compare compared`)
)

// roleAskedAbout is whose turns a question is about by its person: the user's, where it says "I",
// the assistant's, where it asks what "you" said; empty for neither. in are the languages of the
// scope besides English.
func roleAskedAbout(text string, in analysis.Languages) memory.Role {
	words := withoutRequest(wordsOf(text))
	if youSaid(words) {
		return memory.RoleAssistant
	}
	codes := append([]string{"en"}, strings.Fields(in.String())...)
	first, second := false, false
	for _, code := range codes {
		p := ofLanguage[code]
		for _, w := range words {
			first = first || p.first[w]
			second = second || p.second[w]
		}
	}
	within := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case first || slices.ContainsFunc(firstWithin, within):
		return memory.RoleUser
	case second || slices.ContainsFunc(secondWithin, within):
		return memory.RoleAssistant
	}
	return ""
}

// withoutRequest leaves out "can you remind me" and the like.
func withoutRequest(words []string) []string {
	rest := words
	for len(rest) > 0 && requestHeads[rest[0]] {
		rest = rest[1:]
	}
	addressed := len(rest) > 0 && rest[0] == "you"
	if addressed {
		rest = rest[1:]
		for len(rest) > 0 && requestHeads[rest[0]] {
			rest = rest[1:]
		}
	}
	if len(rest) == 0 || !requestVerbs[rest[0]] || addressed && len(words) > 0 && words[0] == "did" {
		return words
	}
	rest = rest[1:]
	if len(rest) > 0 && (rest[0] == "me" || rest[0] == "us") {
		rest = rest[1:]
	}
	return rest
}

// youSaid reports whether a question asks for what "you" said: "did you recommend", "you told me".
func youSaid(words []string) bool {
	for i, w := range words {
		if w != "you" && w != "you've" && w != "you'd" {
			continue
		}
		for _, next := range words[i+1 : min(i+3, len(words))] {
			if saying[next] {
				return true
			}
		}
	}
	return false
}
