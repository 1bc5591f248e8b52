package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

const getExample = `
memdbctl get 7c9e6679-7425-40de-944b-e07fc1f90ae7
memdbctl get launch --agent planner --json`

func (a *app) getCmd() *cobra.Command {
	return opCmd(a, api.MemoryGet, shown[api.MemoryGetRequest, exchange.Record]{
		help: help{example: getExample, group: groupMemories},
		show: func(_ *api.MemoryGetRequest, r exchange.Record) { a.printMemory(r) },
	})
}

// printMemory prints everything about a memory.
func (a *app) printMemory(r exchange.Record) {
	t := memoryTable(r)
	text := []string{r.Text}
	if a.outWidth > 0 {
		text = strings.Split(r.Text, "\n") // for a person; a program wants one cell
	}
	for i, line := range text {
		key := ""
		if i == 0 {
			key = "text"
		}
		t.add(key, line)
	}
	a.printTable(t)
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
