package dates

import "time"

// The forms of dates, which Go's parser reads and people write.
const (
	dayForm   = "2 January 2006"
	monthForm = "January 2006"
)

// addSpan adds some days. A week is said by its months, a weekend by its days.
func (r *reader) addSpan(from time.Time, days int) {
	to := from.AddDate(0, 0, days)
	if from.Year() < firstYear || to.Year() > lastYear {
		return
	}
	last := to.AddDate(0, 0, -1)
	m := Mention{From: from, To: to}
	switch {
	case days == 1:
		m.Words = from.Format(dayForm)
	case days == 2:
		m.Words = from.Format(dayForm) + " " + last.Format(dayForm)
	case from.Month() == last.Month():
		m.Words = from.Format(monthForm)
	default:
		m.Words = from.Format(monthForm) + " " + last.Format(monthForm)
	}
	r.found = append(r.found, m)
}

func (r *reader) addDay(d time.Time) { r.addSpan(d, 1) }

// addDate adds a day that may not exist.
func (r *reader) addDate(y, m, d int) {
	if t, ok := dateOf(y, m, d); ok && !r.name(y, m, d) {
		r.addDay(t)
	}
}

// name adds a date as it is said, where only that is looked for.
func (r *reader) name(y, m, d int) bool {
	if r.calendar {
		r.named = append(r.named, Date{y, m, d})
	}
	return r.calendar
}

// dateOf is a date, false where there is no such day.
func dateOf(y, m, d int) (time.Time, bool) {
	t := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)
	return t, y >= firstYear && y <= lastYear && t.Year() == y && int(t.Month()) == m && t.Day() == d
}

// addNear adds the day of a month in the year in which it is nearest.
func (r *reader) addNear(m, d int) {
	const leap = 2000 // has every day that there is
	if _, ok := dateOf(leap, m, d); !ok || r.name(0, m, d) {
		return
	}
	var best time.Time
	for y := r.day.Year() - 1; y <= r.day.Year()+1; y++ {
		t, ok := dateOf(y, m, d)
		if ok && (best.IsZero() || t.Sub(r.day).Abs() < best.Sub(r.day).Abs()) {
			best = t
		}
	}
	if !best.IsZero() {
		r.addDay(best)
	}
}

func (r *reader) addMonth(y, m int) {
	from, ok := dateOf(y, m, 1)
	if !ok || y == lastYear || r.name(y, m, 0) {
		return
	}
	r.found = append(r.found, Mention{From: from, To: from.AddDate(0, 1, 0), Words: from.Format(monthForm)})
}

func (r *reader) addYear(y int) {
	if y < firstYear || y >= lastYear || r.name(y, 0, 0) {
		return
	}
	from := time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
	r.found = append(r.found, Mention{From: from, To: from.AddDate(1, 0, 0), Words: from.Format("2006")})
}
