package engine

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestTiesAreInOrderOfSeq, also where the limit cuts through them and updates have
// moved the oldest to the newest documents.
func TestTiesAreInOrderOfSeq(t *testing.T) {
	db := openTest(t, vfs.NewMem(), Options{})
	ada := memory.Scope{User: "ada"}
	const n = 40
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint(i))
		mustStore(t, db.Memories(), memory.Memory{ID: want[i], Scope: ada, Text: "prefers tea", Embedding: []float32{1, 2}, CreatedAt: newTestClock().now()})
	}
	for i := range n / 2 {
		mustUpdate(t, db.Memories(), ada, fmt.Sprint(n/2-1-i), memory.Patch{Pinned: new(true)})
	}
	for _, q := range []memory.Query{
		{Text: "tea", Profile: memory.ProfileText},
		{Embedding: []float32{2, 1}, Profile: memory.ProfileVector},
		{Text: "tea", Embedding: []float32{2, 1}, Profile: memory.ProfileHybrid},
	} {
		for _, limit := range []int{1, 3, 10, n - 1, n, n + 1} {
			q.Scope, q.Limit, q.NoTouch = ada, limit, true
			equalSlices(t, fmt.Sprintf("%s, limit %d", q.Profile, limit), hitIDs(mustRecall(t, db.Memories(), q)), want[:min(limit, n)])
		}
	}
}
