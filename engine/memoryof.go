package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
)

var (
	roles     = [layout.RoleCount]Role{RoleUser, RoleAssistant, RoleSystem, RoleTool}
	kindNames = [layout.KindCount]Kind{KindMessage, KindFragment, KindFact, KindNote, KindArchive, KindSummary}
)

// memoryOf turns the record into what a caller sees; stats and vectors are added by
// the transaction.
func memoryOf(r *layout.Record, seq uint64) (Memory, error) {
	meta, err := decodeMetadata(r.Metadata)
	if err != nil {
		return Memory{}, err
	}
	importance, confidence := r.Importance, r.Confidence
	return Memory{
		ID: r.ID, Seq: seq, Scope: r.Scope,
		Role: roles[r.Role], Kind: kindNames[r.Kind], Source: Source(r.Source),
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
