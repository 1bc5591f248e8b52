package mention

import "strings"

// typeOf is what a name names, and whether it is only guessed.
func (r *reading) typeOf(from, to int) (typ string, guessed bool) {
	if typ := r.told(from, to); typ != "" {
		return typ, false
	}
	return r.byWords(from, to), true
}

// told is what the lists, the name and the words beside it say of its type, empty for nothing.
func (r *reading) told(from, to int) string {
	words := r.words
	folded := r.folded(from, to)
	if known := famous[folded]; known != "" {
		return known
	}
	if typ := r.byEnd(from, to); typ != "" {
		return typ
	}
	given, places := r.in(words[from].folded).is(givenName), r.in(folded).is(placeName)
	switch {
	case places && (!given || to > from+1):
		return place
	case nations[folded]:
		return unknown
	case r.inPlace(from) && !titles[r.before(from)] && (!given || to == from+1):
		return place
	case r.calledPerson(from, to):
		return person
	case places:
		return place
	case given && (to == from+1 || !r.common(words[to-1].folded) || r.in(words[to-1].folded).is(givenName)):
		return person
	case r.isWork(from):
		return product
	case r.isBody(from):
		return body
	}
	return ""
}

// folded is the folded text of a name.
func (r *reading) folded(from, to int) string {
	if to == from+1 {
		return r.words[from].folded
	}
	return Fold(strings.TrimPrefix(r.span(from, to), "The "))
}

// byEnd is what the words of a name say by themselves: Lake Placid, Pride Month.
func (r *reading) byEnd(from, to int) string {
	if to-from < 2 {
		return ""
	}
	first, last := r.words[from].folded, r.words[to-1].folded
	switch {
	case bodies[last], bodies[first]:
		return body
	case places[last], placesFirst[first]:
		return place
	case events[last]:
		return event
	}
	return ""
}

// inPlace reports whether the words before a name say that it is a place.
func (r *reading) inPlace(from int) bool {
	before := r.before(from)
	if before == "the" {
		from--
		before = r.before(from)
	}
	switch {
	case within[before]:
		return true
	case before == "to":
		return motion[r.before(from-1)]
	case before == "from" || before == "of":
		return fromPlace[r.before(from-1)]
	}
	return false
}

// calledPerson reports whether the words around a name say that it is a person.
func (r *reading) calledPerson(from, to int) bool {
	before := r.before(from)
	switch {
	case titles[before], greetings[before], relatives[before], before == "named", r.isCalled(from):
		return true
	case r.words[to-1].owns && to-from <= 2 && relatives[r.after(to)]:
		return true
	case to-from <= 2 && tells[r.after(to)] && !weakTells[r.after(to)]:
		return true
	}
	return to == from+1 && r.addressed(from) && !shouted(r.span(from, to))
}

// addressed reports whether a name stands where one talks to somebody: "Thanks, Mell!"
func (r *reading) addressed(i int) bool {
	w := &r.words[i]
	if !w.comma || i == 0 {
		return false
	}
	rest := strings.TrimLeft(r.text[w.to:], " ")
	return (rest == "" || strings.ContainsAny(rest[:1], "!?.,")) && (i == 1 || r.words[i-1].first || i > 1 && r.words[i-2].first)
}

// isWork reports whether the words before a name say that it is read, watched or played.
func (r *reading) isWork(from int) bool {
	before := r.before(from)
	if before == "the" {
		before = r.before(from - 1)
	}
	return workWords[before]
}

// isBody reports whether the words before a name say that it is an organization.
func (r *reading) isBody(from int) bool {
	switch before := r.before(from); before {
	case "at", "for", "with":
		return workVerbs[r.before(from-1)]
	}
	return false
}

// byWords is the type of a name that nothing tells about: most strange words are names of persons,
// and most common ones together those of works and goods.
func (r *reading) byWords(from, to int) string {
	commons, shouts := 0, 0
	for i := from; i < to; i++ {
		w := &r.words[i]
		if r.common(w.folded) || joints[w.folded] {
			commons++
		}
		if w.to-w.from > 1 && shouted(r.text[w.from:w.to]) {
			shouts++
		}
	}
	switch {
	case shouts > 0, to == from+1 && commons > 0:
		return unknown
	case commons == 0 && to-from <= 3:
		return person
	case commons == to-from:
		return product
	}
	return unknown
}
