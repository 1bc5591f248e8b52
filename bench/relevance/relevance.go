// Package relevance judges rankings against what is known to be relevant.
package relevance

import (
	"cmp"
	"math"
	"slices"
)

// Recall is the share of the relevant items among the first k of a ranking. It
// is 0 where nothing is relevant. A repeated item counts once.
func Recall(ranking []string, relevant map[string]float64, k int) float64 {
	total := 0
	for _, grade := range relevant {
		if grade > 0 {
			total++
		}
	}
	if total == 0 {
		return 0
	}
	found := 0
	seen := make(map[string]bool, k)
	for _, id := range ranking[:min(k, len(ranking))] {
		if relevant[id] > 0 && !seen[id] {
			seen[id] = true
			found++
		}
	}
	return float64(found) / float64(total)
}

// NDCG is the discounted cumulative gain of the first k of a ranking, divided by
// that of the best possible ranking (Järvelin and Kekäläinen, 2002): an item of
// grade g at rank r, counted from 1, gains g / log2(r+1). It is 0 where nothing
// is relevant. A repeated item gains once.
func NDCG(ranking []string, relevant map[string]float64, k int) float64 {
	ideal := idealGain(relevant, k)
	if ideal == 0 {
		return 0
	}
	gain := 0.0
	seen := make(map[string]bool, k)
	for i, id := range ranking[:min(k, len(ranking))] {
		if grade := relevant[id]; grade > 0 && !seen[id] {
			seen[id] = true
			gain += grade / discount(i)
		}
	}
	return gain / ideal
}

// idealGain is the gain of the relevant items in order of their grades.
func idealGain(relevant map[string]float64, k int) float64 {
	grades := make([]float64, 0, len(relevant))
	for _, grade := range relevant {
		if grade > 0 {
			grades = append(grades, grade)
		}
	}
	slices.SortFunc(grades, func(a, b float64) int { return cmp.Compare(b, a) })
	gain := 0.0
	for i, grade := range grades[:min(k, len(grades))] {
		gain += grade / discount(i)
	}
	return gain
}

// discount divides the gain at a rank counted from 0.
func discount(rank int) float64 { return math.Log2(float64(rank) + 2) }
