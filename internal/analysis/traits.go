package analysis

import (
	"sync/atomic"
	"unicode"
)

// trait is what normalization and the splitting of words ask of a rune.
type trait uint8

const (
	letterOrNumber trait = 1 << iota
	anyMark              // of the categories Mn, Mc and Me
	nonspacing           // Mn
	variation            // a variation selector
	invisible            // Me and Cf: enclosing marks, soft hyphens, joiners
	decimal              // Nd
	bares                // marks on it are removed
	respelled            // one of spellings
)

// traitPages tabulate the runes of the Basic Multilingual Plane, 256 a page, once one of a page is asked for: ten
// look-ups in Unicode's range tables take some 150 ns a rune, one here takes 2.
var traitPages [1 << 8]atomic.Pointer[[1 << 8]trait]

// traitsOf returns the traits of a rune.
func traitsOf(r rune) trait {
	if r < 0 || r > 0xffff {
		return traitsByRule(r)
	}
	page := traitPages[r>>8].Load()
	if page == nil {
		page = new([1 << 8]trait)
		for i := range page {
			page[i] = traitsByRule(r&^0xff | rune(i))
		}
		traitPages[r>>8].Store(page)
	}
	return page[r&0xff]
}

// traitsByRule is traitsOf without its table.
func traitsByRule(r rune) (t trait) {
	_, spelled := spellings[r]
	for _, is := range [...]struct {
		trait trait
		holds bool
	}{
		{letterOrNumber, unicode.IsLetter(r) || unicode.IsNumber(r)},
		{anyMark, unicode.IsMark(r)},
		{nonspacing, unicode.Is(unicode.Mn, r)},
		{variation, unicode.Is(unicode.Variation_Selector, r)},
		{invisible, unicode.In(r, unicode.Me, unicode.Cf)},
		{decimal, unicode.Is(unicode.Nd, r)},
		// The dots of the Cyrillic yo are optional, the breve of the short i is not.
		{bares, r == '\u0435' || r == '\u0415' || unicode.In(r, accented...)},
		{respelled, spelled},
	} {
		if is.holds {
			t |= is.trait
		}
	}
	return t
}
