package dates

import (
	"strings"
	"time"
)

// unit is a length of time that is counted.
type unit int

const (
	noUnit unit = iota
	day
	week
	weekend
	month
	year
)

// String is the unit's name for one of it.
func (u unit) String() string { return [...]string{"", "day", "week", "weekend", "month", "year"}[u] }

var units = map[string]unit{
	"day": day, "days": day, "week": week, "weeks": week, "weekend": weekend, "weekends": weekend,
	"month": month, "months": month, "year": year, "years": year,
}

var numberWords = map[string]int{
	"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
	"couple": 2, "few": 3,
}

var ordinals = map[string]bool{"st": true, "nd": true, "rd": true, "th": true}

var partsOfDay = map[string]bool{"morning": true, "afternoon": true, "evening": true, "noon": true}

// yearTellers stand before the number of a year.
var yearTellers = set(`in since from until till by before after during around circa year of summer winter autumn spring fall early late mid
	jahr en de im seit`)

// dayWords are how many days away what they name is. None of them is a common word of another
// language, so they are read in any text.
var dayWords = map[string]int{
	"today": 0, "tonight": 0, "yesterday": -1, "tomorrow": 1,
	"heute": 0, "gestern": -1, "vorgestern": -2, "übermorgen": 2,
	"aujourd'hui": 0, "aujourd’hui": 0, "demain": 1,
	"hoy": 0, "ayer": -1, "anteayer": -2,
	"oggi": 0, "ieri": -1, "domani": 1,
	"hoje": 0, "ontem": -1, "anteontem": -2, "amanhã": 1,
	"vandaag": 0, "gisteren": -1, "eergisteren": -2, "overmorgen": 2,
	"idag": 0, "igår": -1, "imorgon": 1,
	"сегодня": 0, "вчера": -1, "позавчера": -2, "завтра": 1, "послезавтра": 2,
	"dzisiaj": 0, "wczoraj": -1, "przedwczoraj": -2,
	"bugün": 0, "dün": -1,
	"오늘": 0, "어제": -1, "내일": 1, "모레": 2,
}

// hanDays are such words of Chinese and Japanese, which stand among others without spaces.
var hanDays = []struct {
	word string
	away int
}{{"昨天", -1}, {"昨日", -1}, {"今天", 0}, {"今日", 0}, {"明天", 1}, {"明日", 1}, {"前天", -2}, {"后天", 2}, {"後天", 2}}

// weekdays are the names of days and their short forms.
var weekdays = func() map[string]time.Weekday {
	m := map[string]time.Weekday{"tues": time.Tuesday, "thur": time.Thursday, "thurs": time.Thursday}
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToLower(d.String())
		m[name], m[name[:3]] = d, d
	}
	return m
}()

// months are the names of months and their short forms.
var months = func() map[string]int {
	m := map[string]int{"sept": 9}
	for n := time.January; n <= time.December; n++ {
		name := strings.ToLower(n.String())
		m[name], m[name[:3]] = int(n), int(n)
	}
	return m
}()

// alsoWords are names of months that are other words, too, where they have no capital letter.
var alsoWords = set(`may march mar jan dec`)

// structure are the other words that dates are said with.
var structure = set(`day before after last past next this a an of ago from now night yesterday tomorrow`)

// longestKey is the length of the longest key of ASCII letters, in bytes, or more.
const longestKey = 16

// keys are all words that dates are made of, by themselves in lower case.
var keys = func() map[string]string {
	m := map[string]string{}
	take := func(w string) { m[w] = w }
	for _, words := range []map[string]bool{structure, partsOfDay, ordinals, yearTellers, alsoWords} {
		for w := range words {
			take(w)
		}
	}
	for w := range units {
		take(w)
	}
	for w := range numberWords {
		take(w)
	}
	for w := range dayWords {
		take(w)
	}
	for w := range weekdays {
		take(w)
	}
	for w := range months {
		take(w)
	}
	return m
}()

// keyLengths are the lengths of the keys that begin with each letter, as bits: most words are told
// from keys by these alone.
var keyLengths = func() (lengths [26]uint32) {
	for k := range keys {
		if c := k[0]; c >= 'a' && c <= 'z' {
			lengths[c-'a'] |= 1 << len(k)
		}
	}
	return lengths
}()

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}
