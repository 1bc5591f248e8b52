// Package dates finds the days, months and years that a text speaks of, also those that it
// names by how far away they are: "yesterday", "last Friday", "two weeks ago", "Dec 3rd".
package dates

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MostMentions bounds what is found in one text: the first ones stand for the others.
const MostMentions = 64

// The years that are resolved: those of an RFC 3339 time.
const firstYear, lastYear = 1, 9999

// Mention is one time that a text speaks of: the days from From up to, but not including, To,
// both midnights in UTC. Of a weekday or a month without a date, such as "Fri" or "Jan", both are
// zero.
type Mention struct {
	From, To time.Time
	// Words say the time as people write dates: "7 May 2023", "May 2023", "2023", "Friday".
	Words string
}

// In returns the times that a text speaks of, in the order in which they stand there, at most
// [MostMentions]. What is said by how far away it is counts from a time, on its day in UTC. A day
// and a month without a year are those nearest to it. Dates that do not exist, such as 31 February,
// are none.
//
// English is read, ISO dates, days with dots (31.12.2023), Chinese and Japanese dates
// (2023年5月7日), and the words for yesterday, today and tomorrow of twelve languages.
func In(text string, at time.Time) []Mention {
	r := reader{text: text, day: midnight(at)}
	r.read()
	return r.found
}

// Date is a date as a text says it: a part that the text does not say is 0.
type Date struct{ Year, Month, Day int }

// Named returns the dates that a text says by day, month or year, in the order in which they stand
// there, at most [MostMentions]. It leaves out what [In] counts from another day.
func Named(text string) []Date {
	r := reader{text: text, calendar: true}
	r.read()
	return r.named
}

// Month returns the number of the month that a word in lower case names, 0 for other words.
func Month(word string) int { return months[word] }

// read finds all times of the text.
func (r *reader) read() {
	r.split()
	for i := 0; i < len(r.words) && len(r.found)+len(r.named) < MostMentions; {
		i += max(1, r.at(i))
	}
}

// word is a word of a text, or a number in it.
type word struct {
	from, to int
	key      string // in lower case; empty where it is nothing that a date is made of
	number   int    // of up to four digits, -1 for others
	digits   int
	capital  bool
}

// reader reads one text.
type reader struct {
	text  string
	day   time.Time
	words []word
	found []Mention

	calendar bool // only dates are looked for, and they go to named
	named    []Date
}

// split finds the words of the text that a date can be made of. Those between them, of which there
// may be many, are one word without a key.
func (r *reader) split() {
	for at := 0; at < len(r.text); {
		switch c := r.text[at]; {
		case c >= '0' && c <= '9':
			at = r.digits(at)
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			at = r.letters(at)
		case c < utf8.RuneSelf:
			at++
		default:
			at = r.runes(at)
		}
	}
}

// digits takes in a number, and returns where it ends.
func (r *reader) digits(at int) int {
	end := at
	for end < len(r.text) && r.text[end] >= '0' && r.text[end] <= '9' {
		end++
	}
	w := word{from: at, to: end, number: -1, digits: end - at}
	if w.digits <= 4 {
		w.number, _ = strconv.Atoi(r.text[at:end])
	}
	r.words = append(r.words, w)
	return end
}

// letters takes in a word that begins with an ASCII letter, and returns where it ends.
func (r *reader) letters(at int) int {
	var lower [longestKey]byte
	end := at
	for ; end < len(r.text); end++ {
		c := r.text[end] | 0x20
		if c < 'a' || c > 'z' {
			break
		}
		if end-at < longestKey {
			lower[end-at] = c
		}
	}
	if end < len(r.text) && (r.text[end] >= utf8.RuneSelf || r.text[end] == '\'') {
		if whole := r.wordEnd(end, false); whole > end {
			r.add(at, whole, keys[strings.ToLower(r.text[at:whole])])
			return whole
		}
	}
	key := ""
	if n := end - at; n <= longestKey && keyLengths[lower[0]-'a']>>n&1 != 0 {
		key = keys[string(lower[:n])]
	}
	r.add(at, end, key)
	return end
}

// runes takes in a word that begins with another letter, or a rune that is none.
func (r *reader) runes(at int) int {
	c, size := utf8.DecodeRuneInString(r.text[at:])
	if !unicode.IsLetter(c) {
		return at + size
	}
	end := r.wordEnd(at+size, isHan(c))
	if isHan(c) {
		r.words = append(r.words, word{from: at, to: end, number: -1, key: r.text[at:end]})
	} else {
		r.add(at, end, keys[strings.ToLower(r.text[at:end])])
	}
	return end
}

// add adds a word, unless it has no key and follows one that has none.
func (r *reader) add(from, to int, key string) {
	if n := len(r.words); key == "" && n > 0 && r.words[n-1].key == "" && r.words[n-1].digits == 0 {
		r.words[n-1].to = to
		return
	}
	c := r.text[from]
	r.words = append(r.words, word{from: from, to: to, number: -1, key: key, capital: c >= 'A' && c <= 'Z'})
}

// wordEnd is the end of a word that goes on at a place: Chinese letters and others are no one word.
func (r *reader) wordEnd(at int, han bool) int {
	for at < len(r.text) {
		c, n := utf8.DecodeRuneInString(r.text[at:])
		if !unicode.IsLetter(c) && !unicode.IsMark(c) && c != '\'' && c != '’' || isHan(c) != han {
			break
		}
		at += n
	}
	return at
}

func isHan(c rune) bool { return unicode.Is(unicode.Han, c) }

func isHanAt(s string) bool {
	c, _ := utf8.DecodeRuneInString(s)
	return isHan(c)
}

// key is the i-th word, empty beyond the last.
func (r *reader) key(i int) string {
	if i < 0 || i >= len(r.words) {
		return ""
	}
	return r.words[i].key
}

// between is what stands between a word and the next one.
func (r *reader) between(i int) string {
	if i < 0 || i+1 >= len(r.words) {
		return ""
	}
	return r.text[r.words[i].to:r.words[i+1].from]
}

// joined reports whether only a blank, or a comma or a dot and a blank, lies between a word and the next.
func (r *reader) joined(i int) bool {
	switch r.between(i) {
	case " ", ", ", ". ", "-":
		return true
	}
	return false
}

// at finds the time that begins with the i-th word, and says how many words it has: 0 for none.
func (r *reader) at(i int) int {
	w := &r.words[i]
	if w.digits > 0 {
		return r.number(i)
	}
	if r.calendar {
		if m := months[w.key]; m != 0 {
			return r.month(i, m)
		}
		return 0
	}
	if away, ok := dayWords[w.key]; ok {
		r.addDay(r.day.AddDate(0, 0, away))
		return 1
	}
	if isHanAt(r.text[w.from:]) {
		return r.han(w)
	}
	switch w.key {
	case "day":
		return r.dayBut(i)
	case "last", "past", "next", "this":
		return r.directed(i)
	case "a", "an", "couple", "few":
		return r.ago(i)
	}
	if _, ok := numberWords[w.key]; ok {
		return r.ago(i)
	}
	if m := months[w.key]; m != 0 {
		return r.month(i, m)
	}
	if d, ok := weekdays[w.key]; ok && w.capital && len(w.key) < len(d.String()) {
		r.found = append(r.found, Mention{Words: d.String()})
		return 1
	}
	return 0
}

// number reads what begins with digits: 2023-05-12, 31.12.2023, 12 May 2023, 3 days ago, 2023年5月7日.
func (r *reader) number(i int) int {
	w := &r.words[i]
	if r.key(i+1) == "年" || strings.HasPrefix(r.key(i+1), "年") && w.digits == 4 {
		return r.hanDate(i)
	}
	if w.digits == 4 {
		return r.year(i)
	}
	if n := r.dotted(i); n > 0 {
		return n
	}
	if n := r.dayOfMonth(i); n > 0 || r.calendar {
		return n
	}
	return r.ago(i)
}

// year reads 2023-05-12, 2023/05/12 and 2023-05; and a year by itself, after a word that says it is one.
func (r *reader) year(i int) int {
	y := r.words[i].number
	sep := r.between(i)
	if (sep == "-" || sep == "/") && r.twoDigits(i+1) {
		if r.between(i+1) == sep && r.twoDigits(i+2) {
			r.addDate(y, r.words[i+1].number, r.words[i+2].number)
			return 3
		}
		if sep == "-" && r.between(i+1) != sep {
			r.addMonth(y, r.words[i+1].number)
			return 2
		}
		return 0
	}
	if y < 1000 || (r.words[i].from > 0 || r.calendar) && !yearTellers[r.key(i-1)] {
		return 0
	}
	r.addYear(y)
	return 1
}

func (r *reader) twoDigits(i int) bool { return i < len(r.words) && r.words[i].digits == 2 }

// dotted reads 31.12.2023.
func (r *reader) dotted(i int) int {
	if r.words[i].digits > 2 || r.between(i) != "." || r.between(i+1) != "." || r.words[i+1].digits == 0 || r.words[i+1].digits > 2 || r.words[i+2].digits != 4 {
		return 0
	}
	r.addDate(r.words[i+2].number, r.words[i+1].number, r.words[i].number)
	return 3
}

// dayOfMonth reads "12 May 2023", "12th of May" and "12 May".
func (r *reader) dayOfMonth(i int) int {
	day, at := r.words[i].number, i+1
	if r.words[i].digits > 2 {
		return 0
	}
	if ordinals[r.key(at)] && r.between(i) == "" {
		at++
	}
	if r.key(at) == "of" && r.joined(at-1) {
		at++
	}
	if at >= len(r.words) || !r.joined(at-1) {
		return 0
	}
	m := months[r.key(at)]
	if m == 0 {
		return 0
	}
	if y, ok := r.yearAfter(at); ok {
		r.addDate(y, m, day)
		return at + 2 - i
	}
	r.addNear(m, day)
	return at + 1 - i
}

// yearAfter is the year that stands after the i-th word.
func (r *reader) yearAfter(i int) (int, bool) {
	if i+1 < len(r.words) && r.words[i+1].digits == 4 && r.joined(i) {
		return r.words[i+1].number, true
	}
	return 0, false
}

// month reads what begins with the name of a month: "May 12th, 2023", "May 2023", "Dec 3".
func (r *reader) month(i, m int) int {
	if y, ok := r.yearAfter(i); ok {
		r.addMonth(y, m)
		return 2
	}
	if w := &r.words[i]; !w.capital && alsoWords[w.key] {
		return 0
	}
	if next := i + 1; next < len(r.words) && r.joined(i) && r.words[next].digits > 0 && r.words[next].digits <= 2 {
		day, last := r.words[next].number, next
		if ordinals[r.key(next+1)] && r.between(next) == "" {
			last++
		}
		if y, ok := r.yearAfter(last); ok {
			r.addDate(y, m, day)
			return last + 2 - i
		}
		if unit := units[r.key(last+1)]; unit != noUnit && r.joined(last) { // "May 3 weeks"
			return 0
		}
		r.addNear(m, day)
		return last + 1 - i
	}
	w := &r.words[i]
	if full := time.Month(m).String(); w.capital && len(w.key) < len(full) && !r.calendar {
		r.found = append(r.found, Mention{Words: full})
		return 1
	}
	return 0
}

// dayBut reads "day before yesterday" and "day after tomorrow".
func (r *reader) dayBut(i int) int {
	switch {
	case r.key(i+1) == "before" && r.key(i+2) == "yesterday":
		r.addDay(r.day.AddDate(0, 0, -2))
	case r.key(i+1) == "after" && r.key(i+2) == "tomorrow":
		r.addDay(r.day.AddDate(0, 0, 2))
	default:
		return 0
	}
	return 3
}

// directed reads last, past, next and this with a unit, a weekday or a month.
func (r *reader) directed(i int) int {
	what := r.key(i + 1)
	if !r.joined(i) {
		return 0
	}
	way := map[string]int{"last": -1, "past": -1, "next": 1, "this": 0}[r.words[i].key]
	if what == "night" && way < 0 {
		r.addDay(r.day.AddDate(0, 0, -1))
		return 2
	}
	if partsOfDay[what] && way == 0 {
		r.addDay(r.day)
		return 2
	}
	if unit := units[what]; unit != noUnit && what == unit.String() { // "last weeks" are no week
		r.addUnit(unit, way)
		return 2
	}
	if d, ok := weekdays[what]; ok {
		r.addWeekday(d, way)
		return 2
	}
	if m := months[what]; m != 0 {
		if y, ok := r.yearAfter(i + 1); ok {
			r.addMonth(y, m)
			return 3
		}
		r.addNamedMonth(m, way)
		return 2
	}
	return 0
}

// addUnit adds the week, weekend, month or year that is so many away.
func (r *reader) addUnit(u unit, way int) {
	switch u {
	case day:
		r.addDay(r.day.AddDate(0, 0, way))
	case week:
		r.addSpan(r.monday().AddDate(0, 0, 7*way), 7)
	case weekend:
		from := r.monday().AddDate(0, 0, 5+7*way)
		if way < 0 && r.day.Weekday() == time.Sunday {
			from = r.monday().AddDate(0, 0, -2)
		}
		r.addSpan(from, 2)
	case month:
		first := time.Date(r.day.Year(), r.day.Month()+time.Month(way), 1, 0, 0, 0, 0, time.UTC)
		r.addMonth(first.Year(), int(first.Month()))
	case year:
		r.addYear(r.day.Year() + way)
	}
}

// monday is the first day of the week.
func (r *reader) monday() time.Time { return r.day.AddDate(0, 0, -(int(r.day.Weekday())+6)%7) }

// addWeekday adds the nearest weekday before, or after, the day; "this" is the one of the week.
func (r *reader) addWeekday(d time.Weekday, way int) {
	away := (int(d) - int(r.day.Weekday()) + 7) % 7 // 0 to 6 days ahead
	switch {
	case way < 0:
		away -= 7
	case way > 0 && away == 0:
		away = 7
	case way == 0:
		r.addDay(r.monday().AddDate(0, 0, (int(d)+6)%7))
		return
	}
	r.addDay(r.day.AddDate(0, 0, away))
}

// addNamedMonth adds the month of a name before, after or of the year.
func (r *reader) addNamedMonth(m, way int) {
	y, now := r.day.Year(), int(r.day.Month())
	switch {
	case way < 0 && m >= now:
		y--
	case way > 0 && m <= now:
		y++
	}
	r.addMonth(y, m)
}

// ago reads "two weeks ago", "a couple of days ago" and "3 months from now".
func (r *reader) ago(i int) int {
	n, at := r.words[i].number, i+1
	if r.words[i].digits == 0 {
		n = numberWords[r.words[i].key]
		if r.key(i) == "a" || r.key(i) == "an" {
			n = 1
			if more, ok := numberWords[r.key(at)]; ok && (r.key(at) == "couple" || r.key(at) == "few") {
				n, at = more, at+1
			}
		}
	}
	if r.key(at) == "of" {
		at++
	}
	u := units[r.key(at)]
	if n < 0 || n > lastYear || u == noUnit || u == weekend {
		return 0
	}
	switch {
	case r.key(at+1) == "ago":
		n = -n
	case r.key(at+1) == "from" && r.key(at+2) == "now":
		at++
	default:
		return 0
	}
	switch u {
	case day:
		r.addDay(r.day.AddDate(0, 0, n))
	case week:
		r.addSpan(r.monday().AddDate(0, 0, 7*n), 7)
	case month:
		first := time.Date(r.day.Year(), r.day.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		r.addMonth(first.Year(), int(first.Month()))
	case year:
		r.addYear(r.day.Year() + n)
	}
	return at + 2 - i
}

// han reads the words for days that stand within a run of Chinese or Japanese letters.
func (r *reader) han(w *word) int {
	run := r.text[w.from:w.to]
	for _, d := range hanDays {
		if strings.Contains(run, d.word) {
			r.addDay(r.day.AddDate(0, 0, d.away))
		}
	}
	return 1
}

// hanDate reads 2023年5月7日, 2023年5月 and 2023年.
func (r *reader) hanDate(i int) int {
	y := r.words[i].number
	if i+2 >= len(r.words) || r.key(i+1) != "年" || !strings.HasPrefix(r.key(i+3), "月") {
		r.addYear(y)
		return 2
	}
	m := r.words[i+2].number
	if r.key(i+3) == "月" && strings.HasPrefix(r.key(i+5), "日") {
		r.addDate(y, m, r.words[i+4].number)
		return 6
	}
	r.addMonth(y, m)
	return 4
}

func midnight(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}
