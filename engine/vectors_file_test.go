//go:build unix && !race

package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-7aedc3ff/memdb/hnsw"
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

// TestCodesFileFails: a recall by vectors whose file the system cannot read says so,
// and one by words goes on.
func TestCodesFileFails(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		limits := smallLimits()
		limits.codes = 1
		db, err := Open(t.TempDir(), &Options{vectorLimits: limits, VectorsInMemory: inMemory})
		if err != nil {
			t.Fatal(err)
		}
		defer closeTest(t, db)
		for i := range 10 {
			mustStore(t, db.Memories(), Memory{Scope: Scope{User: "ada"}, Text: fmt.Sprint("number ", i), Embedding: []float32{1, float32(i)}})
		}
		if err := unix.Ftruncate(int(db.spaces.named(defaultSpace).file.Fd()), 0); err != nil {
			t.Fatal(err)
		}
		for _, p := range []Profile{ProfileBest, ProfileVector, ProfileHybrid, ProfileSubstrate} {
			_, err := db.Memories().Recall(t.Context(), Query{Scope: Scope{User: "ada"}, Text: "number", Embedding: []float32{1, 1}, Profile: p})
			wantError(t, string(p), err, hnsw.ErrFile)
			if errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %v blames the store", p, err)
			}
		}
		if hits := mustRecall(t, db.Memories(), Query{Scope: Scope{User: "ada"}, Text: "number"}); len(hits) != 10 {
			t.Errorf("%d hits of 10 by words", len(hits))
		}
	}
}
