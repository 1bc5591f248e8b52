package analysis

// Numbers that people set apart in groups, as those of telephones, cards and accounts, are typed together as well:
// 555 867 5309, 555-867-5309 and (555) 867-5309 are also the term 5558675309.

// What a grouped number has. Fewer digits are years and ranges, and more are tables.
const (
	leastGrouped = 7
	mostGrouped  = 16 // the digits of a card
)

// The sizes of the groups of dates, which are no such numbers: 2024-05-01 and 01-05-2024. Beyond tooLong nothing is asked.
const (
	yearFirst = 422
	yearLast  = 224
	tooLong   = 1_000_000
)

// grouped reads a number in groups that begins at lo, and emits the term of all its digits. With its country, after a
// plus, it is also the number without. In a query it counts for as much as its groups together, each of which others have.
func (s *scanner) grouped(lo, limit int) {
	text := s.text[:limit]
	var digits [mostGrouped]byte
	n, country, groups := 0, 0, 0
	sizes := 0 // of the groups, a decimal digit each
	end := lo
	for i := lo; i < len(text); {
		from := groupStart(text, i, groups == 0)
		to := from
		for to < len(text) && classes[text[to]] == digit {
			to++
		}
		if to == from || to < len(text) && (isSegmentByte(text[to]) || classes[text[to]] == beyond) {
			break
		}
		if n+to-from <= mostGrouped {
			copy(digits[n:], text[from:to])
		}
		n += to - from
		groups++
		sizes = min(10*sizes+min(to-from, 9), tooLong)
		if groups == 1 && text[lo] == '+' {
			country = n
		}
		end, i = to, to
	}
	s.past = end
	if groups < 2 || n < leastGrouped || n > mostGrouped || sizes == yearFirst || sizes == yearLast {
		return
	}
	if s.query { // it is all that its groups ask for
		defer func(weight uint32) { s.weight = weight }(s.weight)
		s.weight *= uint32(groups)
	}
	s.emit(s.a.words.lookup(digits[:n], base), lo, end)
	if rest := n - country; country > 0 && rest >= leastGrouped {
		s.emit(s.a.words.lookup(digits[country:n], base), lo, end)
	}
}

// groupStart returns where the digits of the next group begin, behind what sets it apart: one space, hyphen or period,
// and parentheses. There is nothing to find where that is no digit.
func groupStart(text string, i int, first bool) int {
	at := func(c byte) bool { return i < len(text) && text[i] == c }
	if first {
		if at('+') {
			i++
		}
		if at('(') {
			i++
		}
		return i
	}
	apart := false
	if at(')') {
		i, apart = i+1, true
	}
	if at(' ') || at('-') || at('.') {
		i, apart = i+1, true
	}
	if at('(') {
		i, apart = i+1, true
	}
	if !apart {
		return len(text)
	}
	return i
}
