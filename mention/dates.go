package mention

import (
	"fmt"
	"strings"
)

// dates adds the days, months and years that a text names: 2023-05-07, 2023-05, 2023, and May 7
// where no year is said.
func (f *finding) dates(text string, words []word) {
	for i := range words {
		w := &words[i]
		switch {
		case w.folded[0] >= '0' && w.folded[0] <= '9':
			f.isoDate(w.folded)
			if year, ok := yearOf(w.folded); ok && i > 0 && w.joined && yearTellers[words[i-1].folded] {
				f.addDate(year, 0, 0)
			}
		case monthOf(w) != 0:
			f.monthDate(text, words, i)
		}
	}
}

// yearTellers stand before the number of a year.
var yearTellers = set(`in since from until till by before after during around circa year of summer winter autumn spring fall early late mid`)

// monthDate adds the date that a month is part of. A month alone is none.
func (f *finding) monthDate(text string, words []word, i int) {
	day, month, last := 0, monthOf(&words[i]), i
	before := i - 1
	if before > 0 && words[before].folded == "of" && words[i].joined {
		before--
	}
	if before >= 0 && words[before+1].joined && words[i].joined {
		if day = dayOf(words[before].folded); day == 0 && number(words[before].folded) != 0 {
			return // 99 May
		}
	}
	if day == 0 && near(text, words, i+1) {
		if day = dayOf(words[i+1].folded); day != 0 {
			last++
		}
	}
	year := 0
	if near(text, words, last+1) {
		year, _ = yearOf(words[last+1].folded)
	}
	if day != 0 || year != 0 {
		f.addDate(year, month, day)
	}
}

// near reports whether only a blank, a comma or a point lies between a word and the one before.
func near(text string, words []word, i int) bool {
	if i >= len(words) {
		return false
	}
	switch text[words[i-1].to:words[i].from] {
	case " ", ", ", ". ", ",":
		return true
	}
	return false
}

// isoDate adds a date in the form 2023-05-07 or 2023-05.
func (f *finding) isoDate(s string) {
	parts := strings.Split(s, "-")
	if len(parts) < 2 || len(parts) > 3 || len(parts[1]) != 2 || len(parts[0]) != 4 {
		return
	}
	year, ok := yearOf(parts[0])
	month, day := number(parts[1]), 0
	if len(parts) == 3 {
		if day = dayOf(parts[2]); day == 0 || len(parts[2]) != 2 {
			return
		}
	}
	if ok && month >= 1 && month <= 12 {
		f.addDate(year, month, day)
	}
}

// addDate adds a date, of which a year, a month or a day that is 0 is not said.
func (f *finding) addDate(year, month, day int) {
	name := ""
	switch {
	case month == 0:
		name = fmt.Sprintf("%04d", year)
	case year == 0:
		name = fmt.Sprintf("%s %d", monthNames[month-1], day)
	case day == 0:
		name = fmt.Sprintf("%04d-%02d", year, month)
	default:
		name = fmt.Sprintf("%04d-%02d-%02d", year, month, day)
	}
	f.add(Entity{Name: name, Type: date}, false)
}

var monthNames = strings.Fields("January February March April May June July August September October November December")

// months are the names of months and their short forms, folded.
var months = func() map[string]int {
	m := map[string]int{"sept": 9}
	for i, name := range monthNames {
		m[Fold(name)], m[Fold(name[:3])] = i+1, i+1
	}
	return m
}()

// monthOf is the number of a month, 0 for another word. What is a word, too, has a capital.
func monthOf(w *word) int {
	if m := months[w.folded]; m != 0 && (w.capital || len(w.folded) > len("march")) {
		return m
	}
	return 0
}

// dayOf is the number of a day, as in 7 and 7th, 0 for another word.
func dayOf(s string) int {
	for _, end := range []string{"st", "nd", "rd", "th"} {
		s = strings.TrimSuffix(s, end)
	}
	if n := number(s); len(s) <= 2 && n <= 31 {
		return n
	}
	return 0
}

// yearOf is a year that people speak of.
func yearOf(s string) (int, bool) {
	n := number(s)
	return n, len(s) == 4 && n >= 1000 && n < 2200
}

// number is that of at most four digits, 0 for anything else.
func number(s string) (n int) {
	if len(s) > 4 {
		return 0
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
		n = 10*n + int(s[i]-'0')
	}
	return n
}
