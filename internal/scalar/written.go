package scalar

import (
	"strconv"
	"strings"
	"time"
)

// MaxTime bounds the text of a time, in bytes. It is less than what the filter index takes of a
// value, so that every time of the metadata is in it.
const MaxTime = 128

// ofText reads a time that is written with the parts of a date.
func ofText(s string) (Moment, error) {
	p := &written{rest: strings.TrimSpace(s)}
	m, ok := Moment{}, false
	switch {
	case len(s) > MaxTime || len(p.rest) < len("2026-1-2"):
	case isDigit(p.rest[0]) && isDigit(p.rest[3]), p.rest[0] == '+', p.rest[0] == '-':
		m, ok = p.iso()
	default:
		m, ok = p.english()
	}
	switch {
	case ok && inYears(m.Time):
		return m, nil
	case ok || p.badYear:
		return Moment{}, badYear(s)
	case p.zone != "":
		return Moment{}, noTime(s, "the zone "+quoted(p.zone)+" is none of RFC 2822; write its offset, as +01:00")
	}
	return Moment{}, noTime(s, TimeForms)
}

// written is the text of a time that is being read, part by part.
type written struct {
	rest    string
	zone    string // an abbreviation that nothing here knows
	badYear bool
}

// iso reads what begins with the year: a date, and perhaps a time of day and an offset.
func (p *written) iso() (Moment, bool) {
	basic := false // without signs between the parts
	day, ok := p.isoDay(&basic)
	if !ok {
		return Moment{}, false
	}
	if p.rest == "" {
		return Moment{Time: day, Naive: true, Date: true}, !basic // eight digits are a number
	}
	t := p.take("T") || p.take("t")
	if !t && (basic || !p.take(" ") && !p.take(", ")) {
		return Moment{}, false
	}
	p.blanks()
	clock, ok := p.clock(t)
	if !ok {
		return Moment{}, false
	}
	return p.at(day, clock)
}

// isoDay reads a day: of a month (2026-01-31, 2026/1/31, 20260131), of a week (2026-W05-6,
// 2026W056) or of the year (2026-031).
func (p *written) isoDay(basic *bool) (time.Time, bool) {
	far := p.take("+") || p.take("-") // what ECMAScript writes of years that are beyond RFC 3339
	year, n := p.digits(9)
	if far || n > 4 && n != 8 {
		p.badYear = n == 6 && strings.HasPrefix(p.rest, "-")
		return time.Time{}, false
	}
	*basic = n == 8
	if *basic {
		return dayOf(year/10_000, year/100%100, year%100)
	}
	sep := "-"
	if n != 4 || !p.take(sep) {
		if sep = "/"; !p.take(sep) {
			sep, *basic = "", true
		}
	}
	switch {
	case n != 4:
		return time.Time{}, false
	case sep != "/" && p.take("W"):
		return p.weekDay(year, sep)
	case sep == "":
		return time.Time{}, false
	}
	return p.dayIn(year, sep)
}

// dayIn reads the day of a year, or the month and the day in it.
func (p *written) dayIn(year int, sep string) (time.Time, bool) {
	month, n := p.digits(3)
	if n == 3 && sep == "-" && (p.rest == "" || !isDigit(p.rest[0])) && !strings.HasPrefix(p.rest, sep) { // the day of the year
		t := time.Date(year, time.January, month, 0, 0, 0, 0, time.UTC)
		return t, month > 0 && t.Year() == year
	}
	if n < 1 || n > 2 || !p.take(sep) {
		return time.Time{}, false
	}
	day, n := p.digits(2)
	if n < 1 {
		return time.Time{}, false
	}
	return dayOf(year, month, day)
}

// weekDay reads the week of a year, from Monday on, and its day. Week 1 has the first Thursday.
func (p *written) weekDay(year int, sep string) (time.Time, bool) {
	week, n := p.digits(2)
	if n != 2 || !p.take(sep) {
		return time.Time{}, false
	}
	day, n := p.digits(1)
	if n != 1 || day < 1 || day > 7 {
		return time.Time{}, false
	}
	fourth := time.Date(year, time.January, 4, 0, 0, 0, 0, time.UTC) // is in week 1
	t := fourth.AddDate(0, 0, 7*(week-1)+day-1-(int(fourth.Weekday())+6)%7)
	y, w := t.ISOWeek()
	return t, y == year && w == week
}

// clockTime is a time of day.
type clockTime struct {
	since time.Duration // midnight
	leap  bool          // it is the second 60
}

// ofHalf is the hour of the day of one that may be of its half: 9 before PM is 21.
func (p *written) ofHalf(hour int) (of int, ok bool) {
	half := p.half()
	switch {
	case half == "":
		return hour, true
	case hour < 1 || hour > 12:
		return hour, false
	case half == "p":
		return hour%12 + 12, true
	}
	return hour % 12, true
}

// fraction reads the fraction of a second, 0 if there is none.
func (p *written) fraction() (f time.Duration) {
	if len(p.rest) < 2 || p.rest[0] != '.' && p.rest[0] != ',' || !isDigit(p.rest[1]) {
		return 0
	}
	p.rest = p.rest[1:]
	for unit := time.Second / 10; p.rest != "" && isDigit(p.rest[0]); unit /= 10 {
		f += time.Duration(p.rest[0]-'0') * unit
		p.rest = p.rest[1:]
	}
	return f
}

// clock reads hours and minutes, and perhaps seconds with a fraction: 21:00, 21:00:00,5,
// 210000, 9:00 PM. short allows 21 and 2100, which only a T before them makes a time.
func (p *written) clock(short bool) (c clockTime, ok bool) {
	hour, n := p.digits(6)
	minute, second, places := 0, 0, 2
	switch {
	case n == 6 && short:
		hour, minute, second, places = hour/10_000, hour/100%100, hour%100, 3
	case n == 4 && short:
		hour, minute = hour/100, hour%100
	case n == 2 && short && !strings.HasPrefix(p.rest, ":"):
	case n > 2 || n < 1 || !p.take(":"):
		return c, false
	default:
		if minute, n = p.digits(2); n != 2 {
			return c, false
		}
		if p.take(":") {
			if second, n = p.digits(2); n != 2 {
				return c, false
			}
			places = 3
		}
	}
	var fraction time.Duration
	if places == 3 {
		fraction = p.fraction()
	}
	hour, ok = p.ofHalf(hour)
	if c.leap = second == 60; c.leap {
		second, fraction = 59, 999*time.Millisecond
	}
	c.since = time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second + fraction
	return c, ok && hour <= 24 && minute < 60 && second < 60 && c.since <= 24*time.Hour
}

// half reads am or pm.
func (p *written) half() string {
	rest := strings.TrimLeft(p.rest, " \u00a0\u202f") // ICU writes narrow blanks
	for half, forms := range map[string][]string{"a": {"am", "a.m."}, "p": {"pm", "p.m."}} {
		for _, form := range forms {
			if n := len(form); len(rest) >= n && strings.EqualFold(rest[:n], form) && (len(rest) == n || !isLetter(rest[n])) {
				p.rest = rest[n:]
				return half
			}
		}
	}
	return ""
}

// at is a time of day on a day, with the offset that is the rest of the text.
func (p *written) at(day time.Time, c clockTime) (Moment, bool) {
	m := Moment{Time: day.Add(c.since)}
	offset, known, ok := p.offset()
	if !ok {
		return m, false
	}
	m.Naive = !known
	m.Time = m.Add(-offset)
	if h, minute, _ := m.Clock(); c.leap { // they are inserted at midnight UTC
		return m, minute == 59 && (h == 23 || m.Naive)
	}
	return m, true
}

// zones are the names that RFC 2822 gives an offset, in hours.
var zones = map[string]int{
	"Z": 0, "UT": 0, "UTC": 0, "GMT": 0,
	"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}

// offset reads what follows a time of day, to the end: nothing, the name of a zone, an offset
// (+01, +0100, +01:00), or both in either order; then perhaps what Go, Java and others add
// about the zone: [Europe/Berlin], m=+0.1. known is false without an offset.
func (p *written) offset() (offset time.Duration, known, ok bool) {
	p.blanks()
	name := p.letters()
	hours, isZone := zones[strings.ToUpper(name)]
	if name != "" && !isZone {
		p.zone = name
		return 0, false, false
	}
	offset, known = time.Duration(hours)*time.Hour, isZone
	if isZone && hours == 0 || name == "" {
		signed, n, ok := p.signed()
		if !ok {
			return 0, false, false
		}
		if n > 0 {
			offset, known = signed, true
			p.blanks()
			if p.letters() == "" { // time.Time.String repeats its zone
				_, _, ok = p.signed()
			}
			if !ok {
				return 0, false, false
			}
		}
	}
	p.blanks()
	if known && p.take("m=") { // the monotonic clock of Go
		p.rest = ""
	}
	for known && p.take("[") {
		_, after, found := strings.Cut(p.rest, "]")
		if !found {
			return 0, false, false
		}
		p.rest = after
	}
	return offset, known, p.rest == ""
}

// Offset reads an offset from UTC without a time: +02:00, -0700, +02, Z.
func Offset(s string) (time.Duration, bool) {
	p := &written{rest: s}
	offset, n, ok := p.signed()
	return offset, ok && p.rest == "" && n > 0 || s == "Z"
}

// signed reads an offset with a sign, of n bytes.
func (p *written) signed() (offset time.Duration, n int, ok bool) {
	before := len(p.rest)
	sign := time.Duration(1)
	switch {
	case p.take("+"):
	case p.take("-"), p.take("\u2212"):
		sign = -1
	default:
		return 0, 0, true
	}
	hours, digits := p.digits(4)
	minutes, seconds := 0, 0
	switch {
	case digits == 4:
		hours, minutes = hours/100, hours%100
	case digits < 1 || digits > 2:
		return 0, 0, false
	case p.take(":"):
		if minutes, digits = p.digits(2); digits != 2 {
			return 0, 0, false
		}
		if p.take(":") {
			if seconds, digits = p.digits(2); digits != 2 {
				return 0, 0, false
			}
		}
	}
	offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second
	return sign * offset, before - len(p.rest), hours < 24 && minutes < 60 && seconds < 60
}

// take takes a text off the front.
func (p *written) take(s string) bool {
	rest, ok := strings.CutPrefix(p.rest, s)
	p.rest = rest
	return ok
}

func (p *written) blanks() { p.rest = strings.TrimLeft(p.rest, " \t\u00a0") }

// digits takes at most so many digits off the front.
func (p *written) digits(most int) (value, n int) {
	for n < most && n < len(p.rest) && isDigit(p.rest[n]) {
		n++
	}
	value, _ = strconv.Atoi(p.rest[:n])
	p.rest = p.rest[n:]
	return value, n
}

// letters takes the letters off the front.
func (p *written) letters() string {
	n := 0
	for n < len(p.rest) && isLetter(p.rest[n]) {
		n++
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
