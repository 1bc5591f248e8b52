package policy

import (
	"strings"
	"unicode"
)

// Importance counts what an assistant or a tool says for little, and short texts of theirs for less than the importance
// at which the default policy evicts: "I have booked seat 14C" as "Great, happy to help!". The rank of a hit goes by that
// importance; whether a memory is kept goes by what it says, too.

// Matters reports whether a text of an assistant or a tool says something that may be missed later: a number, an address
// or an identifier anywhere, or, in a sentence that is neither a question nor an offer of help, a word that is none of
// those with which a talk is kept going.
func Matters(text string) bool {
	if isSpecific(text) {
		return true
	}
	for sentence := range sentences(text) {
		if !isOffer(sentence) && saysSomething(sentence) {
			return true
		}
	}
	return false
}

// isSpecific reports whether a text has a number but one that only reports success, an address or an identifier.
func isSpecific(text string) bool {
	if strings.ContainsAny(text, "@#_$€£¥₹₽") || strings.Contains(text, "://") {
		return true
	}
	for number := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsDigit(r) }) {
		switch number {
		case "0", "200", "201", "202", "204":
		default:
			return true
		}
	}
	return false
}

// sentences visits the sentences of a text that are no questions.
func sentences(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		from := 0
		for i, r := range text {
			switch {
			case strings.ContainsRune("?？؟", r):
				from = i
			case strings.ContainsRune(".!。！।…;；\n", r):
				if !yield(text[from:i]) {
					return
				}
				from = i
			}
		}
		yield(text[from:])
	}
}

// isOffer reports whether a sentence offers help, or says that work is under way.
func isOffer(sentence string) bool {
	small := strings.ToLower(strings.ReplaceAll(sentence, "’", "'"))
	for offer := range strings.Lines(offers) {
		if strings.Contains(small, strings.TrimSuffix(offer, "\n")) {
			return true
		}
	}
	return false
}

// saysSomething reports whether a sentence has a word that is no filler.
func saysSomething(sentence string) bool {
	words := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsNumber(r) }
	for word := range strings.FieldsFuncSeq(sentence, words) {
		small := strings.ToLower(word)
		if !courtesies[small] && !isFiller(small) && strings.Trim(small, "0123456789\ufe0f") != "" {
			return true
		}
	}
	return false
}

// offers are parts of sentences in which an assistant offers help, asks for patience, or excuses itself.
const offers = `let me know
let me check
let me look
let me think
let me see
feel free
happy to help
happy to assist
glad to help
glad i could
glad that helped
here to help
here if you need
help you with
hesitate to
hope this helps
hope that helps
hope you enjoy
i can help
i can assist
i'd be happy
i'm happy to
i'm sorry
i apologize
as an ai
working on it
look into it
looking into it
anything else
have a great
have a nice
have a wonderful
take your time
lass mich wissen
lassen sie mich wissen
sag einfach bescheid
gern geschehen
helfe gern
helfe ihnen gern
ich helfe dir
zur verfügung
es tut mir leid
n'hésite
à votre disposition
ravi de vous aider
ravi d'avoir pu
je peux vous aider
je suis désolé
faites-moi savoir
dis-moi si
no dudes en
no dude en
encantado de ayudar
puedo ayudarte
puedo ayudarle
estoy aquí para
avísame si
lo siento
fico feliz em ajudar
posso ajudar
é só avisar
à disposição
non esitare
felice di aiutar
sono qui per
fammi sapere
рад помочь
рада помочь
могу помочь
дайте знать
обращайтесь
если понадобится
请告诉我
请随时
很高兴能帮
很高興能幫
有什么可以帮
乐意为您
随时为您
お手伝い
お知らせください
お気軽に
お役に立てて
도와드릴
도움이 필요
말씀해 주세요
يسعدني مساعدت
لا تتردد
yardımcı ol
chętnie pomogę
daj znać
laat het me weten
help je graag
`

// courtesies are further words that only keep a talk going, of assistants and tools.
var courtesies = func() map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(`
		idea choice question point plan thought topic luck wonderful excellent fantastic terrific absolutely definitely certainly
		appreciate appreciated congratulations congrats glad happy assist assistance help helping helpful helps enjoy thinking
		searching loading processing working checking looking please patience patient wait waiting moment second understood
		acknowledged affirmative noted roger anytime chat chatting talk talking conversation hearing feeling feel sounds weekend
		evening today day ai assistant
		done success successful successfully succeeded complete completed finished started running executed command output status
		result results found response request true false null none nil empty undefined exit code http message data
		ok okay ready pending accepted received sent
		frage fragen idee wahl hilfe helfen freut freue spaß schönen schönes wochenende gespräch
		aide aider idée choix plaisir bonne excellente journée
		ayuda ayudar ayudarte idea elección pregunta excelente placer día
		ajuda ajudar ideia escolha pergunta prazer
		aiuto aiutare aiutarti scelta domanda piacere giornata
		вопрос идея выбор помощь помочь отличный отличная хорошая
		帮助 幫助 帮忙 主意 问题 問題 选择 愉快 高兴 高興 祝您 祝你 祝 今天 生活
		アイデア 質問 良い一日を 一日 嬉しく 思い 楽しんで`) {
		m[word] = true
	}
	return m
}()
