package analysis

import (
	"strings"
	"testing"
)

// passage is 570 bytes of English with names, numbers and punctuation.
const passage = `When Maria came back from Lisbon in October she told everyone at the office that the new engine had ` +
	`finally passed its tests, and that she would be writing the report over the weekend. Nobody believed her at ` +
	`first; the project was late by three months, two of the people who knew it best had left, and the budget for ` +
	`1998 was already spent. "You'll see," she said, "it isn't a question of money." By Monday morning forty pages ` +
	`lay on the director's desk, carefully argued, with tables of measurements that nobody could quarrel with, and ` +
	`a short note of thanks, at the end`

func BenchmarkBagAdd(b *testing.B) {
	for _, a := range []*Analyzer{NewEnglish(), NewAuto()} {
		language, _, _ := strings.Cut(a.Fingerprint(), "-")
		b.Run(language, func(b *testing.B) { benchmarkBagAdd(b, a) })
	}
}

func benchmarkBagAdd(b *testing.B, a *Analyzer) {
	for _, bm := range []struct{ name, text string }{
		{"english", passage[:570]},
		{"curly", strings.NewReplacer("'", "\u2019", `"`, "\u201d").Replace(passage[:570])},
		{"code", strings.Repeat("func getUserID(ctx context.Context, v1.2.3) in src/auth.rs, snake_case ", 8)},
		{"french", strings.Repeat("L\u2019\u00e9t\u00e9 dernier, nous avons d\u00e9cid\u00e9 de traverser la Bretagne \u00e0 v\u00e9lo. ", 8)},
		{"chinese", strings.Repeat("\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u6563\u6b65\u3002", 14)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var bag Bag
			b.SetBytes(int64(len(bm.text)))
			b.ReportAllocs()
			for b.Loop() {
				bag.Reset()
				bag.Add(a, bm.text, 1)
			}
		})
	}
}

func BenchmarkBagTerms(b *testing.B) {
	a := NewEnglish()
	var bag Bag
	b.ReportAllocs()
	for b.Loop() {
		bag.Reset()
		bag.Add(a, passage, 1)
		bag.Terms()
	}
}
