package analysis

import (
	_ "embed"
	"strings"
	"sync"
	"unicode/utf8"
)

// The ideographs whose simplified forms are known: from firstIdeograph on, as many as the block has.
const (
	firstIdeograph = 0x4e00
	ideographCount = 0xa000 - firstIdeograph
)

// ideographList has a traditional ideograph and its simplified form in each field.
//
//go:embed ideographs.txt
var ideographList string

// simplified has the simplified form of each ideograph, 0 for one that stays.
var simplified = sync.OnceValue(func() *[ideographCount]uint16 {
	var forms [ideographCount]uint16
	for line := range strings.Lines(ideographList) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for pair := range strings.FieldsSeq(line) {
			from, size := utf8.DecodeRuneInString(pair)
			to, _ := utf8.DecodeRuneInString(pair[size:])
			forms[from-firstIdeograph] = uint16(to)
		}
	}
	return &forms
})

// simplify returns the form of an ideograph by which both of its forms are found. All other clusters stay.
func (s *scanner) simplify(cluster string) string {
	const ideographBytes = 3
	if len(cluster) != ideographBytes || s.a.rules == firstRules {
		return cluster
	}
	r, _ := utf8.DecodeRuneInString(cluster)
	if r < firstIdeograph || r >= firstIdeograph+ideographCount {
		return cluster
	}
	if to := simplified()[r-firstIdeograph]; to != 0 {
		return string(rune(to))
	}
	return cluster
}
