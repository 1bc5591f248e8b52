package policy

import (
	"slices"
	"unicode/utf8"
)

// MaxMergeText bounds the texts that are compared by edit distance, in bytes: comparing two takes a tenth of the square
// of their length in steps. Longer texts are merged only by their vectors.
const MaxMergeText = 16 << 10

// SameText reports whether the edit distance of two texts is below a share of the characters of the longer one, and
// returns how alike they are: 1 less the distance as a share. Texts over MaxMergeText are not alike.
func SameText(a, b string, share float64) (alike float64, same bool) {
	if len(a) > MaxMergeText || len(b) > MaxMergeText || len(a) == 0 || len(b) == 0 {
		return 0, false
	}
	longer := max(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	most := int(share * float64(longer))
	if float64(most) >= share*float64(longer) {
		most-- // below, not at
	}
	if most < 0 {
		return 0, false
	}
	d, ok := EditDistance([]rune(a), []rune(b), most)
	return 1 - float64(d)/float64(longer), ok
}

// EditDistance returns the Levenshtein distance of two texts (insertions, deletions and substitutions of a character),
// false where it is above most. It takes len × most steps: only the cells of the matrix within most of its diagonal can
// be on a way that is short enough (Ukkonen, 1985).
func EditDistance(a, b []rune, most int) (int, bool) {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > most {
		return 0, false
	}
	far := most + 1
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = min(j, far)
	}
	for i, c := range a {
		from, to := max(0, i+1-most), min(len(b), i+1+most)
		corner := row[max(from-1, 0)] // the cell above and to the left
		if from == 0 {
			corner = row[0]
			row[0] = min(i+1, far)
			from = 1
		} else {
			row[from-1] = far
		}
		for j := from; j <= to; j++ {
			above := far
			if j <= i+most { // the row above reaches that far
				above = row[j]
			}
			cost := corner
			if c != b[j-1] {
				cost++
			}
			corner = above
			row[j] = min(cost, above+1, row[j-1]+1, far)
		}
		if slices.Min(row[from-1:to+1]) >= far {
			return 0, false
		}
	}
	return row[len(b)], row[len(b)] <= most
}
