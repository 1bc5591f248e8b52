package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// reasons, roles and kindNames are the words by the numbers that stand for them in the store.
var reasons = [layout.Reasons]memory.Reason{
	layout.ReasonScope: memory.ReasonScope, layout.ReasonAge: memory.ReasonAge, layout.ReasonConfidence: memory.ReasonConfidence,
	layout.ReasonCap: memory.ReasonCap, layout.ReasonExpired: memory.ReasonExpired, layout.ReasonPruned: memory.ReasonPruned,
	layout.ReasonMerged: memory.ReasonMerged, layout.ReasonCaller: memory.ReasonCaller,
}

var (
	roles     = [layout.RoleCount]memory.Role{memory.RoleUser, memory.RoleAssistant, memory.RoleSystem, memory.RoleTool}
	kindNames = [layout.KindCount]memory.Kind{memory.KindMessage, memory.KindFragment, memory.KindFact, memory.KindNote, memory.KindArchive, memory.KindSummary}
)

// memoryOf turns the record into what a caller sees; stats and vectors are added by
// the transaction.
func memoryOf(r *layout.Record, seq uint64) (memory.Memory, error) {
	meta, err := metadata.Decode(r.Metadata)
	if err != nil {
		return memory.Memory{}, err
	}
	importance, confidence := r.Importance, r.Confidence
	return memory.Memory{
		ID: r.ID, Seq: seq, Scope: r.Scope,
		Role: roles[r.Role], Kind: kindNames[r.Kind], Source: memory.Source(r.Source),
		Text: r.Text, Name: r.Name, Aliases: r.Aliases, Metadata: meta,
		CreatedAt: clock.FromMillis(r.Created), UpdatedAt: clock.FromMillis(r.Updated),
		EventTime: clock.FromMillis(r.Event), ExpiresAt: clock.FromMillis(r.Expires),
		Pinned:     r.Flags&layout.FlagPinned != 0,
		Importance: &importance, AutoImportance: r.Flags&layout.FlagAutoImportance != 0,
		Confidence: &confidence, Hash: textHash(r.Text),
	}, nil
}

func textHash(text string) string {
	sum := textSum(text)
	return hex.EncodeToString(sum[:])
}

// textSum is the SHA-256 of a text, which it does not copy.
func textSum(text string) [sha256.Size]byte {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text)))
}
