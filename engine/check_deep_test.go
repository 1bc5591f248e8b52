package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestCheckDeep: a deep check reports the recall of each space, and finds a graph whose
// links lead nowhere, which Check does not look at.
func TestCheckDeep(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	limits := smallLimits()
	limits.Crossover = 1100
	db := openTest(t, vfs.NewMem(), setup{tuning: tuning{vectors: limits}})
	ada := memory.Scope{User: "ada"}
	if err := db.Update(t.Context(), func(tx *Tx) error {
		for i := range 4000 {
			m := memory.Memory{Scope: ada, Text: fmt.Sprint("tea ", i), Embedding: randomVec(rng, 24)}
			if _, err := tx.Memories().Store(t.Context(), m, nil); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	waitIndexed(t, db)
	r, err := db.CheckDeep(t.Context())
	if err != nil || !r.OK || len(r.Spaces) != 1 || r.Spaces[0].Sampled != 200 || r.Spaces[0].Recall < .95 {
		t.Fatalf("%+v, %v", r, err)
	}
	db.life.EndWork() // The linker reads the index.
	s := db.spaces.Named(memory.DefaultSpace)
	s.Index = misled(t, db, s)
	if r, err = db.Check(t.Context()); err != nil || !r.OK || r.Spaces != nil {
		t.Errorf("a check that is not deep: %+v, %v", r, err)
	}
	r, err = db.CheckDeep(t.Context())
	if err != nil || r.OK || r.Spaces[0].Recall > .8 || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, `vector space "default": its index finds`) {
		t.Errorf("all links lead to 64 vectors: %+v, %v", r, err)
	}
}

// misled is the index of a space with other links in the lowest layer: to the first 64
// slots.
func misled(t *testing.T, db *DB, s *spaces.Space) *hnsw.Index {
	t.Helper()
	snap := s.Index.Snapshot()
	defer snap.Close()
	var b bytes.Buffer
	if _, err := snap.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	// Of the sections, each of which ends with its checksum, the links are the last but one.
	var starts, ends []int
	for start, end := 0, 0; end+8 <= len(data); end++ {
		if end-start >= 8 && binary.LittleEndian.Uint64(data[end:]) == xxh3.Hash(data[start:end]) {
			starts, ends = append(starts, start), append(ends, end)
			start = end + 8
			end = start - 1
		}
	}
	at, end := starts[len(starts)-2], ends[len(ends)-2]
	links, next := data[at:end], 0
	for slot := range s.Index.Len() {
		for layer := range layers(uint64(s.Num), slot) {
			n := int(binary.LittleEndian.Uint16(links[next:]))
			for i := range n {
				if layer == 0 {
					binary.LittleEndian.PutUint32(links[next+2+4*i:], (slot+uint32(i))%64)
				}
			}
			next += 2 + 4*n
		}
	}
	if next != len(links) {
		t.Fatalf("%d bytes of links; %d were read", len(links), next)
	}
	binary.LittleEndian.PutUint64(data[end:], xxh3.Hash(links))
	x, err := hnsw.ReadSnapshot(bytes.NewReader(data), db.spaces.IndexConfig(s))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// layers returns in how many layers of a graph a slot is, which follows from the seed (see
// docs/format/vectors.md).
func layers(seed uint64, slot uint32) int {
	const step = 0x9e3779b97f4a7c15
	h := seed + (uint64(slot)+1)*step
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	return int(-math.Log((float64(h>>11)+1)/(1<<53))/math.Log(16)) + 1
}
