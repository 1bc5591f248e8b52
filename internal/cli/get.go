package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const getExample = `
memdbctl get 7c9e6679-7425-40de-944b-e07fc1f90ae7
memdbctl get launch --agent planner --json`

func (a *app) getCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "get ID", "Show a memory", getExample)
	cmd.Args = exactly(1, "one ID")
	var (
		scope   memory.Scope
		vectors bool
	)
	scopeFlags(cmd, &scope)
	markNone(cmd)
	vectorsFlag(cmd, &vectors)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			memories := db.Memories().Lacking(lackOf(cmd))
			get := memories.Get
			if vectors {
				get = memories.GetWithVectors
			}
			m, err := get(ctx, scope, args[0])
			if err != nil {
				return err
			}
			return a.printMemory(m, vectors)
		})
	}
	return cmd
}

func vectorsFlag(cmd *cobra.Command, vectors *bool) {
	cmd.Flags().BoolVar(vectors, "vectors", false, "with the vectors, in JSON")
}

// printMemory prints everything about a memory.
func (a *app) printMemory(m memory.Memory, vectors bool) error {
	if a.json {
		return a.printJSON(exchange.Show(m, vectors))
	}
	t := memoryTable(exchange.NewRecord(m))
	text := []string{m.Text}
	if a.outWidth > 0 {
		text = strings.Split(m.Text, "\n") // for a person; a program wants one cell
	}
	for i, line := range text {
		key := ""
		if i == 0 {
			key = "text"
		}
		t.add(key, line)
	}
	a.printTable(t)
	return nil
}

// memoryTable lists everything about a memory but its text.
func memoryTable(r exchange.Record) *table {
	t := &table{header: []string{"", ""}, whole: true}
	row := func(key, value string) {
		if value != "" {
			t.add(key, value)
		}
	}
	row("id", r.ID)
	row("seq", strconv.FormatUint(r.Seq, 10))
	row("user", r.User)
	row("agent", r.Agent)
	row("run", r.Run)
	row("role", string(r.Role))
	row("kind", string(r.Kind))
	row("source", string(r.Source))
	row("name", r.Name)
	row("aliases", strings.Join(r.Aliases, ", "))
	if len(r.Metadata) > 0 {
		row("metadata", compactJSON(r.Metadata))
	}
	row("importance", share(r.Importance)+computed(r.AutoImportance))
	row("confidence", share(r.Confidence))
	if stored := share(r.StoredConfidence); stored != share(r.Confidence) {
		row("stored_confidence", stored)
	}
	if decayed := share(r.DecayedImportance); decayed != share(r.Importance) {
		row("decayed_importance", decayed)
	}
	if r.Pinned {
		row("pinned", "yes")
	}
	for _, at := range []struct {
		key  string
		time exchange.Time
	}{
		{"created_at", r.CreatedAt},
		{"updated_at", r.UpdatedAt},
		{"event_time", r.EventTime},
		{"expires_at", r.ExpiresAt.Instant},
		{"last_accessed", r.LastAccessed},
	} {
		if !at.time.IsZero() {
			row(at.key, at.time.String())
		}
	}
	row("access_count", strconv.FormatUint(r.AccessCount, 10))
	row("hash", r.Hash)
	return t
}

// share writes a number from 0 to 1.
func share(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'g', 4, 64)
}

func computed(auto bool) string {
	if auto {
		return " (computed)"
	}
	return ""
}
