//go:build unix && !race

package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestCodesInAFile: a database whose codes have no room in memory answers as one
// whose have, and leaves no file behind.
func TestCodesInAFile(t *testing.T) {
	const n, dim = 300, 16
	answers := func(codes int64) (found [][]string, info SpaceInfo) {
		limits, dir := smallLimits(), t.TempDir()
		limits.codes = codes
		for round := range 2 { // built, and opened again with its snapshot
			db, err := Open(dir, &Options{vectorLimits: limits})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(uint64(round), 1))
			for i := range n {
				m := Memory{ID: fmt.Sprint(round, "-", i), Scope: Scope{User: "u"}, Text: fmt.Sprint("t", round, i), Embedding: randomVec(rng, dim)}
				if _, err := db.Memories().Store(t.Context(), m, nil); err != nil {
					t.Fatal(err)
				}
			}
			waitIndexed(t, db)
			for range 20 {
				got, err := db.Memories().Recall(t.Context(), Query{Scope: Scope{User: "u"}, Embedding: randomVec(rng, dim), Profile: ProfileVector})
				if err != nil {
					t.Fatal(err)
				}
				var ids []string
				for _, hit := range got.Hits {
					ids = append(ids, hit.ID)
				}
				found = append(found, ids)
			}
			st, err := db.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			info = st.Spaces[0]
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), snapshotTemp) {
				t.Errorf("%s is left", e.Name())
			}
		}
		return found, info
	}
	inFile, file := answers(1)
	inMemory, memory := answers(0)
	if !slices.EqualFunc(inFile, inMemory, slices.Equal) {
		t.Errorf("found\n%v; with the codes in memory\n%v", inFile, inMemory)
	}
	if file.FileBytes != 2*n*(dim+8) || memory.FileBytes != 0 || file.Bytes+file.FileBytes != memory.Bytes {
		t.Errorf("%+v; with the codes in memory %+v", file, memory)
	}
}
