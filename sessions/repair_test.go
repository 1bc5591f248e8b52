package sessions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/testdb"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

func TestSessionRepairIsIdempotent(t *testing.T) {
	w := newTalk(t)
	s, ctx := w.db.Sessions(), t.Context()
	testdb.Store(t, w.db.Memories(), memory.Memory{ID: "lives", Scope: supportAgent.Scope(), Text: "from a memory"})
	at := func(s int) time.Time { return time.Unix(int64(1_700_000_000+s), 0).UTC() }
	message := func(id, role, text string, second int, refs ...string) sessions.Item {
		return sessions.Item{Message: &sessions.Message{ID: id, Role: role, Text: text, At: at(second), MemoryIDs: refs}}
	}
	n, err := s.Save(ctx, supportAgent, "s", []sessions.Item{
		message("", "user", "", 1), message("e", "user", "", 1), message("a", "user", "one", 1), message("a", "user", "one", 1),
		message("b", "user", "two", 2), message("c", "assistant", "", 3, "lives"), message("d", "user", "", 4, "gone"),
		{Marker: &sessions.Marker{Summarized: 3}},
		message("f", "tool", strings.Repeat("x", 600_000), 9), message("g", "user", "late", 8),
	}, nil)
	if err != nil || n != 9 {
		t.Fatal(n, err)
	}
	before := w.items("s")
	dry, err := s.Repair(ctx, supportAgent, "s", true)
	lsn := w.db.LSN()
	want := sessions.RepairStats{EmptyRemoved: 2, DuplicatesRemoved: 1, ConsecutiveMerged: 1, OrphanedRefs: 1, Reordered: 1, OversizedDetected: 1}
	if err != nil || dry.Stats != want || dry.TotalFixes != 5 || !dry.Repaired {
		t.Errorf("%+v, %v", dry, err)
	}
	testdb.Equal(t, "after a dry run", w.items("s"), before)
	r, err := s.Repair(ctx, supportAgent, "s", false)
	if err != nil || r != dry || w.db.LSN() != lsn+1 {
		t.Errorf("%+v, %v, %d commits", r, err, w.db.LSN()-lsn)
	}
	repaired := []string{"user: one\ntwo", "assistant: from a memory", "user: ", "--- 3", "user: late", "tool: " + strings.Repeat("x", 600_000)}
	testdb.Equal(t, "repaired", w.items("s"), repaired)
	lsn = w.db.LSN()
	if again, err := s.Repair(ctx, supportAgent, "s", false); err != nil || again.Repaired || again.TotalFixes != 0 || w.db.LSN() != lsn {
		t.Errorf("again: %+v, %v", again, err)
	}
	w.work()
	testdb.Check(t, w.db, 1)
	if err := s.UndoRepair(ctx, supportAgent, "s"); err != nil {
		t.Fatal(err)
	}
	testdb.Equal(t, "undone", w.items("s"), before)
	testdb.WantError(t, "undone twice", s.UndoRepair(ctx, supportAgent, "s"), memory.ErrNotFound)
	if _, err := s.Repair(ctx, supportAgent, "s", false); err != nil {
		t.Fatal(err)
	}
	w.say("s", "user", "more")
	testdb.WantError(t, "undone after an append", s.UndoRepair(ctx, supportAgent, "s"), memory.ErrConflict)
	w.work()
	testdb.Check(t, w.db, 2)
}

func TestSessionRepairsEachCorruptionByItself(t *testing.T) {
	w := newTalk(t)
	testdb.Store(t, w.db.Memories(), memory.Memory{ID: "lives", Scope: supportAgent.Scope(), Text: "from a memory"})
	message := func(id, role, text string, second int, refs ...string) sessions.Item {
		at := time.Unix(int64(1_700_000_000+second), 0).UTC()
		return sessions.Item{Message: &sessions.Message{ID: id, Role: role, Text: text, At: at, MemoryIDs: refs}}
	}
	big := strings.Repeat("x", 512_001)
	for name, c := range map[string]struct {
		items []sessions.Item
		want  []string
		stats sessions.RepairStats
		fixes int
	}{
		"nothing":              {[]sessions.Item{message("a", "user", "x", 1), message("b", "assistant", "y", 2)}, []string{"user: x", "assistant: y"}, sessions.RepairStats{}, 0},
		"neither ID nor text":  {[]sessions.Item{message("", "user", "", 1), message("b", "assistant", "y", 2)}, []string{"assistant: y"}, sessions.RepairStats{EmptyRemoved: 1}, 1},
		"no ID":                {[]sessions.Item{message("", "user", "x", 1), message("b", "assistant", "y", 2)}, []string{"user: x", "assistant: y"}, sessions.RepairStats{}, 0},
		"no content":           {[]sessions.Item{message("a", "user", "", 1), message("b", "assistant", "y", 2)}, []string{"assistant: y"}, sessions.RepairStats{EmptyRemoved: 1}, 1},
		"one ID twice":         {[]sessions.Item{message("a", "user", "x", 1), message("b", "tool", "z", 1), message("a", "user", "x", 2)}, []string{"user: x", "tool: z"}, sessions.RepairStats{DuplicatesRemoved: 1}, 1},
		"one ID for two":       {[]sessions.Item{message("a", "user", "x", 1), message("a", "assistant", "y", 2)}, []string{"user: x", "assistant: y"}, sessions.RepairStats{DuplicatesRemoved: 1}, 1},
		"a role twice":         {[]sessions.Item{message("a", "user", "x", 1), message("b", "user", "y", 2)}, []string{"user: x\ny"}, sessions.RepairStats{ConsecutiveMerged: 1}, 1},
		"the system's twice":   {[]sessions.Item{message("a", "system", "x", 1), message("b", "system", "y", 2)}, []string{"system: x", "system: y"}, sessions.RepairStats{}, 0},
		"a memory that is not": {[]sessions.Item{message("a", "user", "x", 1, "gone"), message("b", "assistant", "", 2, "lives")}, []string{"user: x", "assistant: from a memory"}, sessions.RepairStats{OrphanedRefs: 1}, 0},
		"swapped times":        {[]sessions.Item{message("a", "user", "x", 2), message("b", "assistant", "y", 1)}, []string{"assistant: y", "user: x"}, sessions.RepairStats{Reordered: 1}, 1},
		"over 500 KB":          {[]sessions.Item{message("a", "user", big, 1)}, []string{"user: " + big}, sessions.RepairStats{OversizedDetected: 1}, 0},
		"500 KB":               {[]sessions.Item{message("a", "user", big[1:], 1)}, []string{"user: " + big[1:]}, sessions.RepairStats{}, 0},
	} {
		if _, err := w.db.Sessions().Save(t.Context(), supportAgent, "s", c.items, nil); err != nil {
			t.Fatal(name, err)
		}
		r, err := w.db.Sessions().Repair(t.Context(), supportAgent, "s", false)
		if err != nil || r.Stats != c.stats || r.TotalFixes != c.fixes || r.Repaired != (c.fixes > 0) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		testdb.Equal(t, name, w.items("s"), c.want)
		if again, err := w.db.Sessions().Repair(t.Context(), supportAgent, "s", false); err != nil || again.TotalFixes != 0 || again.Repaired {
			t.Errorf("%s, again: %+v, %v", name, again, err)
		}
	}
}
