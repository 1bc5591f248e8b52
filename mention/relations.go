package mention

import (
	"slices"
	"strings"
)

// phrase is what relates two names that it stands between: the kind of relation, and what the
// names are, empty where it does not say.
type phrase struct{ kind, source, target string }

// phrases are the words between two names that relate them: those that say it without doubt.
var phrases = map[string]phrase{
	"works at": {"works_at", person, body}, "works for": {"works_for", person, body}, "worked at": {"worked_at", person, body},
	"worked for": {"worked_for", person, body}, "works with": {"works_with", person, ""}, "works on": {"works_on", person, ""},
	"studies at": {"studies_at", person, body}, "studied at": {"studied_at", person, body}, "teaches at": {"teaches_at", person, body},
	"founded": {"founded", person, body}, "runs": {"runs", person, body}, "joined": {"joined", person, body},
	"lives in": {"lives_in", person, place}, "lived in": {"lived_in", person, place}, "grew up in": {"grew_up_in", person, place},
	"moved to": {"moved_to", person, place}, "was born in": {"born_in", person, place}, "is from": {"is_from", person, place},
	"comes from": {"is_from", person, place}, "visited": {"visited", person, place}, "knows": {"knows", person, person},
	"met": {"met", person, person}, "married": {"married_to", person, person}, "is married to": {"married_to", person, person},
	"is engaged to": {"engaged_to", person, person}, "is dating": {"dates", person, person}, "is friends with": {"friend_of", person, person},
	"uses": {"uses", "", ""},
}

// relatives are what one person is of another.
var relatives = set(`brother sister mother father mom mum dad son daughter husband wife friend colleague boss cousin uncle aunt grandma grandpa
	grandmother grandfather partner girlfriend boyfriend neighbour neighbor roommate nephew niece fiance fiancee teacher coach mentor`)

// mostBetween bounds the text between two names that are related.
const mostBetween = 24

// relate adds the relations of names that follow each other.
func (f *finding) relate(text string, names []name) {
	for i := 1; i < len(names) && len(f.Relations) < MaxRelations; i++ {
		a, b := &names[i-1], &names[i]
		if b.from-a.to > mostBetween || b.from < a.to || Fold(a.text) == Fold(b.text) {
			continue
		}
		between := strings.TrimSpace(text[a.to:b.from])
		if kin, ok := ofOwner(between); a.owns && ok {
			f.relation(b.text, phrase{kin + "_of", person, person}, a.text) // Ada's sister Eve
			continue
		}
		if kin := wordAfter(text, b); b.owns && between == "is" && relatives[kin] {
			f.relation(a.text, phrase{kin + "_of", person, person}, b.text) // Eve is Ada's sister
			continue
		}
		if p, relates := phrases[between]; relates && !a.owns && !b.owns {
			f.relation(a.text, p, b.text)
		}
	}
}

// ofOwner is the relative in the words between the name of an owner and another name.
func ofOwner(between string) (string, bool) {
	for _, owns := range []string{"'s ", "’s "} {
		if kin, ok := strings.CutPrefix(between, owns); ok && relatives[Fold(kin)] {
			return Fold(kin), true
		}
	}
	return "", false
}

// wordAfter is the word after the name of an owner.
func wordAfter(text string, n *name) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(text[n.to:], "'s"), "’s")
	rest = strings.TrimPrefix(rest, " ")
	return Fold(rest[:wordEnd(rest, 0)])
}

// relation adds a relation whose ends are what its kind says, or may be.
func (f *finding) relation(source string, p phrase, target string) {
	from, to := f.place(source), f.place(target)
	if from < 0 || to < 0 || !f.mayBe(from, p.source) || !f.mayBe(to, p.target) {
		return
	}
	f.retype(from, p.source)
	f.retype(to, p.target)
	r := Relation{Source: f.Entities[from].Name, Relation: p.kind, Target: f.Entities[to].Name}
	if !slices.Contains(f.Relations, r) {
		f.Relations = append(f.Relations, r)
	}
}

// mayBe reports whether an entity has a type, or one that is only guessed.
func (f *finding) mayBe(i int, typ string) bool {
	return typ == "" || f.Entities[i].Type == typ || f.guessed[i] || f.Entities[i].Type == unknown
}

// retype gives a type to an entity that has only a guessed one.
func (f *finding) retype(i int, typ string) {
	if typ != "" && f.mayBe(i, typ) {
		f.Entities[i].Type = typ
		delete(f.guessed, i)
	}
}

// place is where an entity is, -1 for none.
func (f *finding) place(name string) int {
	if i, known := f.known[Fold(Clean(name, MaxName))]; known {
		return i
	}
	return -1
}
