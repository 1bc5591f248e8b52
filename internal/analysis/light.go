package analysis

import (
	"strings"
	"sync"

	"github.com/blevesearch/snowballstem/arabic"
)

// The stemmers of languages that Snowball does not have, or not in the library: light ones, which cut inflections off
// and leave derivations alone (for the kind of rules see Savoy, Light Stemming Approaches, 2006).

// replacer makes a strings.Replacer when it is first needed.
func replacer(pairs ...string) func() *strings.Replacer {
	return sync.OnceValue(func() *strings.Replacer { return strings.NewReplacer(pairs...) })
}

// arabicLetters gives letters that look alike or that are typed for each other one form: kaf, yeh, heh and alef. Marks
// and hamzas above letters are gone already.
var arabicLetters = replacer(
	"ک", "ك", "ی", "ي", "ى", "ي", "ے", "ي", "ۓ", "ي", "ې", "ي", "ہ", "ه", "ھ", "ه", "ە", "ه", "ۂ", "ه", "ۃ", "ه", "ۀ", "ه", "ة", "ه",
	"ٱ", "ا", "ں", "ن", "\u200c", "")

// arabicArticles are the article, alone and behind the words that are written together with it.
var arabicArticles = endings{list: strings.Fields("ال وال بال كال فال لل ولل"), least: 3, once: true}

// arabicParticles are words that are written together with the next one; only before what is a word of some length,
// since most words that begin so do not begin with a particle.
var arabicParticles = endings{list: strings.Fields("و ف ب ل ك"), least: 4, once: true}

// arabicStem takes the article off, which a word loses in a compound, before Snowball does the rest.
func arabicStem(w string) string {
	return arabicLetters().Replace(snowball(arabic.Stem, withoutArticle(arabicLetters().Replace(w))))
}

// withoutArticle takes off what a word is written together with.
func withoutArticle(w string) string {
	short := arabicArticles.cutFront(w)
	if len(short) == len(w) && strings.HasPrefix(w, "و") {
		short = arabicParticles.cutFront(w)
	}
	return short
}

var (
	persianPrefixes = endings{list: strings.Fields("مي نمي"), least: 3, once: true}
	persianEndings  = endings{list: strings.Fields("هايمان هايتان هايشان هايم هايت هايش هايي هاي ها ترين تر مان تان شان ان ات يم يد ند ام اش اند ايم ايد م ت ش ي ه د ن"), least: 3}
)

// persianStem takes off the signs of the present and endings of number, person and possession.
func persianStem(w string) string {
	return persianEndings.cut(persianPrefixes.cutFront(arabicLetters().Replace(w)))
}

var urduEndings = endings{list: strings.Fields("يون يان ئين ئون ين ون تا تي تين نا ني گا گي ا ي و ه"), least: 2}

// urduStem takes off endings of number, case, gender and tense. What is stemmed has the letters of arabicLetters.
func urduStem(w string) string { return urduEndings.cut(arabicLetters().Replace(w)) }

// hebrewFinals are the forms that letters have at the end of words.
var hebrewFinals = replacer("ך", "כ", "ם", "מ", "ן", "נ", "ף", "פ", "ץ", "צ", "׳", "", "״", "")

var (
	// Of "the", "and", "in", "to", "as", "from" and "that", which Hebrew writes together with the next word.
	hebrewPrefixes = endings{list: strings.Fields("ה ו ב ל כ מ ש"), least: 3}
	hebrewEndings  = endings{list: strings.Fields("ימ ות יות ה ת י ו נו ני תי תמ כמ המ ית יימ"), least: 3}
)

func hebrewStem(w string) string {
	return hebrewEndings.cut(hebrewPrefixes.cutFront(hebrewFinals().Replace(w)))
}

// hindiLetters writes the two signs of nasal vowels as one, a nasal consonant before another one too, and leaves out
// the nukta, as most people do when they type.
var hindiLetters = replacer("\u093c", "", "ँ", "ं", "न्", "ं", "म्", "ं", "ङ्", "ं", "ञ्", "ं", "ण्", "ं", "ऑ", "ओ", "ॉ", "ो", "ये", "ए", "यी", "ई")

// hindiEndings are those of A Lightweight Stemmer for Hindi (Ramanathan and Rao, 2003), with the signs of vowels that
// hindiLetters leaves.
var hindiEndings = endings{list: strings.Fields(`ाएंगी ाएंगे ाऊंगी ाऊंगा ाएगी ाएगा ाओगी ाओगे एंगी ेंगी एंगे ेंगे ूंगी ूंगा ातीं नाओं नाएं ताओं ताएं ियां ियों
	ाकर ाइए ाईं ाया ेगी ेगा ोगी ोगे ाने ाना ाते ाती ाता तीं ाओं ाएं ुओं ुएं ुआं कर ाओ िए ाई ाए ने नी ना ते ीं ती ता ां ों ें ो े ू ु ी ि ा या ई ए ं`), least: 2, once: true}

func hindiStem(w string) string { return hindiEndings.cut(hindiLetters().Replace(w)) }

// greekEndings are those of nouns, adjectives and verbs, without accents and with the small sigma.
var greekEndings = endings{list: strings.Fields(`οσ ου ο οι ων ουσ ε α ασ εσ η ησ εωσ εισ ι ιο ια ιων ιου ιεσ μα ματοσ ματα ματων υ
	ω εισ ει ουμε ομε ετε ουν ουνε ομαι εσαι εται ομαστε εστε ονται αω αει αμε ατε ανε αν ησα ησεσ ησε ησαμε ησατε ησαν ησω ησει ησουν ασα ασε ασω ασει σα σεσ σε σαμε σατε σαν σω σει σουν
	ιζω ιζει ιζουν ιζα ιζε ικοσ ικη ικο ικα ικησ ικου ικουσ αμ ουσα ουσε ουσαν`), least: 3}

func greekStem(w string) string { return greekEndings.cut(w) }

var (
	polishEndings = endings{list: strings.Fields(`ami ach ami om ów owie owi em ą ę ie i y a e o u ego emu ej ych ymi ich imi im ym iego iemu iej
		ować uje uję ujesz ują ował owała owali ać ał ała ało ali ały am asz amy acie ają ić ił iła iło ili iły isz imy icie ieć iał iała ieli eć yć ył yła yli
		ąc ący ła ło li ły ć ł esz emy ecie łem łam łeś łaś aniem ania anie enie enia eniu`), least: 3}
	czechEndings = endings{list: strings.Fields(`ami ach ech ům em ou ího ímu ým ých ými ím ích ími ého ému é á ý í ě ů y i a e o u ov ovi ové
		ovat uje uji uješ ují oval ovala ovali at al ala alo ali aly ám áš áme áte ají it il ila ilo ili ily ím íš íme íte et el ela eli ět ěl ěla ěli l la li lo ly ání ení t`), least: 3}
	ukrainianEndings = endings{list: strings.Fields(`ами ями ах ях ам ям ом ем єм ою ею єю ів їв ові еві єві и і ї а я у ю о е є ь й ий ій ого ього ому ьому их іх ими іми им ім ої ій
		ати ає аю аєш ають ав ала ало али увати ує ую уєш ують ував увала ували ити ить ин ив ила ило или ять иш имо ите іти іла іли ів ть ти в ла ло ли ся сь ння нню нням`), least: 3}
)

func polishStem(w string) string    { return polishEndings.cut(w) }
func czechStem(w string) string     { return czechEndings.cut(w) }
func ukrainianStem(w string) string { return ukrainianEndings.cut(w) }
