package scalar

import (
	"strings"
	"time"
)

// english reads a date with the name of a month, in the order of RFC 2822 (Sat, 31 Jan 2026
// 21:00:00 +0000), of date(1) (Sat Jan 31 21:00:00 UTC 2026) or of a text (January 31, 2026,
// 9:00 PM). The day of the week says nothing more and is not compared with the date.
func (p *written) english() (m Moment, ok bool) {
	if p.rest, ok = withoutComments(p.rest); !ok {
		return m, false
	}
	var d englishDate
	for p.rest != "" {
		before := len(p.rest)
		p.rest = strings.TrimLeft(p.rest, " \t\r\n,\u00a0\u202f")
		if p.rest == "" {
			break
		}
		if ok = d.part(p); !ok || len(p.rest) == before {
			return m, false
		}
	}
	day, ok := d.day()
	switch {
	case !ok:
		return m, false
	case !d.timed:
		return Moment{Time: day, Naive: true, Date: true}, d.zone == ""
	}
	p.rest = d.zone
	return p.at(day, d.clock)
}

// englishDate are the parts of a date as they come.
type englishDate struct {
	month   int
	numbers []int // the day and the year
	digits  []int // how many each has
	first   bool  // the month came before the day
	clock   clockTime
	timed   bool
	zone    string
	weekday bool
}

// part reads the next part.
func (d *englishDate) part(p *written) bool {
	switch c := p.rest[0]; {
	case isDigit(c):
		return d.number(p)
	case isLetter(c):
		return d.word(p)
	case c == '+' || c == '-' || strings.HasPrefix(p.rest, "\u2212"):
		return d.zoned(p)
	}
	return false
}

// number reads a time of day, a day or a year.
func (d *englishDate) number(p *written) (ok bool) {
	if n := len(p.rest); n > 2 && (p.rest[1] == ':' || p.rest[2] == ':') {
		if d.timed {
			return false
		}
		d.clock, d.timed = p.clock(false)
		return d.timed
	}
	value, n := p.digits(4)
	if len(d.numbers) == 2 {
		return false
	}
	d.first = d.first || len(d.numbers) == 0 && d.month > 0
	d.numbers, d.digits = append(d.numbers, value), append(d.digits, n)
	for _, ordinal := range []string{"st", "nd", "rd", "th"} {
		if n <= 2 && p.take(ordinal) {
			break
		}
	}
	if p.take("-") { // 31-Jan-2026
		return p.rest != "" && isLetter(p.rest[0])
	}
	return p.rest == "" || strings.ContainsRune(" \t\r\n,\u00a0", rune(p.rest[0])) || p.rest[0] >= 0x80
}

// word reads the name of a day, a month or a zone.
func (d *englishDate) word(p *written) bool {
	rest := p.rest
	name := strings.ToLower(p.letters())
	if month, ok := months[name]; ok {
		if d.month > 0 {
			return false
		}
		d.month = month + 1
		if !p.take("-") {
			p.take(".")
		}
		return true
	}
	if _, ok := weekdays[name]; ok {
		again := d.weekday
		d.weekday = true
		p.take(".")
		return !again
	}
	if name == "at" && !d.timed { // January 31, 2026 at 9:00 PM
		return true
	}
	p.rest = rest
	return d.zoned(p)
}

// zoned takes what is said of the zone, as it is.
func (d *englishDate) zoned(p *written) bool {
	if !d.timed {
		return false
	}
	end := strings.IndexAny(p.rest, " \t\r\n,")
	if end < 0 {
		end = len(p.rest)
	}
	d.zone, p.rest = strings.TrimLeft(d.zone+" "+p.rest[:end], " "), p.rest[end:]
	return true
}

// day is the date. A year of two digits is one of RFC 822, which has it behind day and month
// and before a time: below 50 in this century, from there on in the last.
func (d *englishDate) day() (time.Time, bool) {
	if d.month == 0 || len(d.numbers) != 2 {
		return time.Time{}, false
	}
	day, year, digits := d.numbers[0], d.numbers[1], d.digits[1]
	switch {
	case digits == 2 && d.timed && !d.first:
		if year += 1900; year < 1950 {
			year += 100
		}
	case digits != 4:
		return time.Time{}, false
	}
	return dayOf(year, d.month, day)
}

// months and weekdays are the names, whole and short, in small letters.
var (
	months   = names(12, func(n int) string { return time.Month(n + 1).String() }, map[string]int{"sept": 8})
	weekdays = names(7, func(n int) string { return time.Weekday(n).String() }, map[string]int{"tues": 2, "thur": 4, "thurs": 4})
)

func names(n int, name func(int) string, all map[string]int) map[string]int {
	for i := range n {
		full := strings.ToLower(name(i))
		all[full], all[full[:3]] = i, i
	}
	return all
}

// withoutComments replaces comments in parentheses, which nest, with blanks. false where one
// does not end.
func withoutComments(s string) (string, bool) {
	if !strings.ContainsAny(s, "()") {
		return s, true
	}
	var b strings.Builder
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && depth > 0:
			i++
		case c == '(':
			depth++
		case c == ')':
			depth--
			b.WriteByte(' ')
		case depth == 0:
			b.WriteByte(c)
		}
		if depth < 0 {
			return "", false
		}
	}
	return b.String(), depth == 0
}
