package mention

import "testing"

// BenchmarkTurns reads the turns of chats: with names, and without.
func BenchmarkTurns(b *testing.B) {
	for name, text := range map[string]string{
		"names": "Hey Caroline! On 7 May 2023 I met Dr. Maria Lopez in Ghent, she works at the University of Antwerp; write to ada@example.org.",
		"talk":  "Wow, that sounds great! It must be so rewarding to see everyone enjoying what you make. I always feel better after a long walk. What about you?",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (Rules{}).Extract(b.Context(), text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkListing is what the lists cost, once a process.
func BenchmarkListing(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if len(unpacked()) == 0 {
			b.Fatal("no lists")
		}
	}
}
