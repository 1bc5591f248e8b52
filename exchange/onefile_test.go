package exchange

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// exported is the export of a database that is opened for it and checked deeply.
func exported(t *testing.T, path string, now *testClock) string {
	t.Helper()
	db, err := engine.Open(path, &engine.Options{Clock: now.now, MemoryBudget: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	out := export(t, db, nil)
	if r, err := db.CheckDeep(t.Context()); err != nil || !r.OK {
		t.Errorf("check of %s: %+v, %v", path, r, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

// sameLines fails at the first line in which two exports differ.
func sameLines(t *testing.T, what, got, want string) {
	t.Helper()
	a, b := linesOf(got), linesOf(want)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s: line %d is\n%s\nwant\n%s", what, i+1, a[i], b[i])
		}
	}
	if len(a) != len(b) || len(a) < 10 {
		t.Errorf("%s: %d lines, want %d", what, len(a), len(b))
	}
}

// TestConvert: a folder becomes a file and a folder again, and no line of the export differs. What
// was converted stays as it is, takes stores again, and begins a timeline of its own.
func TestConvert(t *testing.T) {
	now := newTestClock()
	dir := t.TempDir()
	folder, file, again := filepath.Join(dir, "db"), filepath.Join(dir, "one"), filepath.Join(dir, "again")
	want := rescuable(t, folder, now)
	before := filesOf(t, folder)
	o := &engine.Options{Clock: now.now}
	c, err := engine.Convert(t.Context(), folder, file, o)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != c.Bytes || c.Form != engine.FormFile || c.Memories == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = engine.Convert(t.Context(), file, again, o); err != nil || c.Form != engine.FormFolder {
		t.Fatalf("%+v, %v", c, err)
	}
	for path, was := range before {
		if now := filesOf(t, folder)[path]; now != was {
			t.Errorf("%s was changed", path)
		}
	}
	for _, path := range []string{file, again, folder} {
		sameLines(t, path, exported(t, path, now), want)
	}
	ids := map[string]bool{}
	for _, path := range []string{folder, file, again} {
		db, err := engine.Open(path, &engine.Options{Clock: now.now, MemoryBudget: 32 << 20})
		if err != nil {
			t.Fatal(err)
		}
		ids[db.Settings().ID] = true
		if _, err := db.Memories().Store(t.Context(), memory.Memory{Text: "stored after it", Scope: memory.Scope{User: "later"}}, nil); err != nil {
			t.Error(err)
		}
		_, err = engine.Convert(t.Context(), path, filepath.Join(dir, "more"), o)
		if !errors.Is(err, memory.ErrLocked) {
			t.Errorf("%s is open: %v", path, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(ids) != 1 {
		t.Errorf("they have the IDs %v", ids)
	}
}

// TestConvertRefuses: nothing is written over, and nothing is left of what was refused.
func TestConvertRefuses(t *testing.T) {
	now := newTestClock()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	rescuable(t, at("one.memdb"), now)
	if err := errors.Join(os.Mkdir(at("folder"), 0o700), os.WriteFile(at("other"), []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		kind     error
	}{
		{"one.memdb", "folder", memory.ErrExists},
		{"one.memdb", "other", memory.ErrExists},
		{"one.memdb", "two.memdb", memory.ErrInvalid},
		{"one.memdb", "one.memdb", memory.ErrExists},
		{"folder", "new.memdb", memory.ErrNotDatabase},
		{"none", "new.memdb", memory.ErrNotDatabase},
		{"none.memdb", "new", memory.ErrNotDatabase},
		{"other", "new", memory.ErrNotDatabase},
	} {
		_, err := engine.Convert(t.Context(), at(c.from), at(c.to), &engine.Options{Clock: now.now})
		if !errors.Is(err, c.kind) {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
	if _, err := engine.Convert(t.Context(), at("one.memdb"), at("big"), &engine.Options{Clock: now.now}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(at("new.converting"), 0o700), os.WriteFile(at("new.converting/mine"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := engine.Convert(t.Context(), at("one.memdb"), at("new"), &engine.Options{Clock: now.now})
	if !errors.Is(err, memory.ErrExists) || !strings.Contains(err.Error(), "interrupted conversion") {
		t.Errorf("beside a folder of somebody else: %v", err)
	}
	_, err = engine.Convert(t.Context(), at("big"), at("small.memdb"), &engine.Options{Clock: now.now, MaxFileBytes: 1000})
	if !errors.Is(err, memory.ErrFull) {
		t.Errorf("beyond the limit: %v", err)
	}
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"big", "folder", "new.converting", "one.memdb", "other"}) {
		t.Errorf("there lie %v, %v", names, err)
	}
}

// TestDamagedFile flips a byte at many places of a file, and cuts it off: opening names what is
// damaged and the way on; a rescue brings all that is whole, and tells what is lost; Salvage opens
// it, or says why not, and keeps the damaged file.
func TestDamagedFile(t *testing.T) {
	race.Sequential(t)
	now := newTestClock()
	whole := filepath.Join(t.TempDir(), "whole.memdb")
	all := linesOf(rescuable(t, whole, now))
	file, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	const places = 16
	salvaged := 0
	for i := range places {
		b := bytes.Clone(file)
		b[i*(len(b)-1)/(places-1)] ^= 0x40
		if i%8 == 7 {
			b = b[:i*len(b)/places]
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "a.memdb")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		o := &engine.Options{Clock: now.now, MemoryBudget: 32 << 20}
		_, err := engine.Open(path, o)
		if !errors.Is(err, memory.ErrCorrupt) || !strings.Contains(err.Error(), "the file is damaged: ") || !strings.Contains(err.Error(), "memdbctl rescue") {
			t.Fatalf("place %d: %v", i, err)
		}
		rescuedFrom(t, i, path, now, all)
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, b) {
			t.Fatalf("place %d: the damaged file was changed: %v", i, err)
		}
		o.Salvage = true
		db, err := engine.Open(path, o)
		if err != nil {
			if !errors.Is(err, memory.ErrCorrupt) {
				t.Fatalf("place %d: salvage: %v", i, err)
			}
			continue
		}
		salvaged++
		if db.Salvaged() == "" {
			t.Errorf("place %d: nothing says what was salvaged", i)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if kept, err := os.ReadFile(path + ".damaged"); err != nil || !bytes.Equal(kept, b) {
			t.Errorf("place %d: the damaged file is not kept: %v", i, err)
		}
	}
	if salvaged < places/2 {
		t.Errorf("%d of %d were salvaged", salvaged, places)
	}
}

// rescuedFrom rescues a file into a folder: what is there was there before, and where something is
// missing, it is told.
func rescuedFrom(t *testing.T, place int, path string, now *testClock, all []string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	r, err := Rescue(t.Context(), path, to, &engine.Options{Clock: now.now})
	if err != nil {
		if !errors.Is(err, memory.ErrCorrupt) {
			t.Fatalf("place %d: rescue: %v", place, err)
		}
		return
	}
	missing := map[string]bool{}
	for _, line := range all {
		missing[line] = true
	}
	for _, line := range linesOf(exported(t, to, now)) {
		delete(missing, line)
	}
	if len(missing) > 0 && len(r.Lost) == 0 {
		for line := range missing {
			t.Errorf("place %d: nothing tells that this is lost:\n%s", place, line)
		}
	}
}

// TestConvertAgain verifies that a conversion which was interrupted is done by the next call: from what it left beside
// the new database, and after the new database got its name. What was written to since is not taken for it.
func TestConvertAgain(t *testing.T) {
	now := newTestClock()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	o := &engine.Options{Clock: now.now}
	rescuable(t, at("one.memdb"), now)
	convert := func(from, to string) (engine.Converted, error) {
		return engine.Convert(t.Context(), at(from), at(to), o)
	}
	first, err := convert("one.memdb", "folder")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(at("new.converting/store"), 0o700), os.WriteFile(at("new.converting/ingested-0.sst"), []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to string }{
		{"one.memdb", "new"}, {"one.memdb", "new"}, {"folder", "two.memdb"}, {"folder", "two.memdb"},
	} {
		if got, err := convert(c.from, c.to); err != nil || got.Memories != first.Memories {
			t.Errorf("%s to %s: %+v, %v", c.from, c.to, got, err)
		}
	}
	if _, err := convert("folder", "new"); !errors.Is(err, memory.ErrExists) && !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("over a conversion of another database: %v", err)
	}
	db, err := engine.Open(at("new"), o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Memories().Store(t.Context(), memory.Memory{Scope: memory.Scope{User: "u"}, Text: "written since"}, nil)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := convert("one.memdb", "new"); !errors.Is(err, memory.ErrExists) {
		t.Errorf("over what was written to since: %v", err)
	}
}
