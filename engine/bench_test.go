package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// BenchmarkStore is the processor time of a store: 1 KB of text and a vector of
// 384 dimensions, on a file system in memory, so that no disk is waited for.
func BenchmarkStore(b *testing.B) {
	db, err := openOn(vfs.NewMem(), "db", Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	}()
	rng := rand.New(rand.NewPCG(1, 1))
	vocabulary := make([]string, 20_000)
	for i := range vocabulary {
		vocabulary[i] = randomWord(rng)
	}
	zipf := rand.NewZipf(rng, 1.1, 10, uint64(len(vocabulary)-1))
	i := 0
	for b.Loop() {
		m := memory.Memory{Scope: memory.Scope{Agent: fmt.Sprint("a", i%1000)}, Embedding: make([]float32, 384)}
		for j := range m.Embedding {
			m.Embedding[j] = rng.Float32() - 0.5
		}
		var text strings.Builder
		for text.Len() < 1000 {
			text.WriteString(vocabulary[zipf.Uint64()])
			text.WriteByte(' ')
		}
		m.Text = text.String()
		if _, err := db.Memories().Store(b.Context(), m, nil); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func randomWord(rng *rand.Rand) string {
	b := make([]byte, 3+rng.IntN(7))
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return string(b)
}
