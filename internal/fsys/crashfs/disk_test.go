package crashfs_test

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
)

func create(t *testing.T, disk *crashfs.Disk, name, content string, sync bool) vfs.File {
	t.Helper()
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte(content))
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func syncDir(t *testing.T, disk *crashfs.Disk, name string) {
	t.Helper()
	dir, err := disk.OpenDir(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Sync(); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, disk *crashfs.Disk, name string) string {
	t.Helper()
	f, err := disk.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDiskTearsSectors: of a write that is not synced each sector is there or is not, of a
// file's growth any length, and what is missing there is zeros or chance bytes.
func TestDiskTearsSectors(t *testing.T) {
	const sectors = 6
	old, next := strings.Repeat("a", sectors*crashfs.SectorSize), strings.Repeat("b", sectors*crashfs.SectorSize)
	disk := crashfs.NewDisk()
	f := create(t, disk, "f", old, true)
	syncDir(t, disk, "/")
	if _, err := f.WriteAt([]byte(next+next), 0); err != nil {
		t.Fatal(err)
	}
	if got := content(t, disk.Crash(crashfs.Crash{}), "f"); got != old {
		t.Error("a crash that keeps nothing changed what was synced")
	}
	if got := content(t, disk.Crash(crashfs.Crash{Percent: 100}), "f"); got != next+next {
		t.Error("a crash that keeps all lost something")
	}
	seen := map[string]bool{}
	for seed := range uint64(200) {
		how := crashfs.Crash{Percent: 50, Garbage: seed%2 == 0, Rand: rand.New(rand.NewPCG(seed, 0))}
		got := []byte(content(t, disk.Crash(how), "f"))
		if len(got) < len(old) || len(got) > 2*len(next) {
			t.Fatalf("seed %d: %d bytes", seed, len(got))
		}
		seen[map[bool]string{true: "whole length", false: "some length"}[len(got) == 2*len(next)]] = true
		at := 0
		for sector := range slices.Chunk(got, crashfs.SectorSize) {
			is := ""
			for _, of := range []string{"a", "b", "\x00"} {
				if bytes.Count(sector, []byte(of)) == len(sector) {
					is = of
				}
			}
			grown := at >= sectors
			at++
			switch {
			case is == "b", is == "a" && !grown, is == "\x00" && grown && !how.Garbage, is == "" && grown && how.Garbage:
			default:
				t.Fatalf("seed %d: sector %d is %q…", seed, at-1, sector[:8])
			}
			seen[is] = true
		}
	}
	for _, want := range []string{"a", "b", "\x00", "", "some length", "whole length"} {
		if !seen[want] {
			t.Errorf("no crash left %q", want)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, disk.Crash(crashfs.Crash{}), "f"); got != next+next {
		t.Error("what was synced is lost")
	}
}

// TestDiskLosesNames: changes of names that are not synced are kept up to one of them, or,
// unordered, any; a renamed file has one name; and a synced folder keeps its names.
func TestDiskLosesNames(t *testing.T) {
	prepared := func() *crashfs.Disk {
		disk := crashfs.NewDisk()
		if err := disk.MkdirAll("db/in", 0o755); err != nil {
			t.Fatal(err)
		}
		create(t, disk, "db/in/old", "1", true)
		create(t, disk, "db/in/gone", "2", true)
		for _, dir := range []string{"/", "db", "db/in"} {
			syncDir(t, disk, dir)
		}
		create(t, disk, "db/in/x", "3", true)
		if err := disk.Rename("db/in/old", "db/in/new"); err != nil {
			t.Fatal(err)
		}
		if err := disk.Remove("db/in/gone"); err != nil {
			t.Fatal(err)
		}
		create(t, disk, "db/in/y", "4", true)
		return disk
	}
	left := func(disk *crashfs.Disk, how crashfs.Crash) string {
		names, err := disk.Crash(how).List("db/in")
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	disk := prepared()
	ordered := []string{"gone old", "gone old x", "gone new x", "new x", "new x y"}
	if got := left(disk, crashfs.Crash{}); got != ordered[0] {
		t.Errorf("nothing kept: %q", got)
	}
	if got := left(disk, crashfs.Crash{Percent: 100}); got != ordered[4] {
		t.Errorf("all kept: %q", got)
	}
	seen, free := map[string]bool{}, map[string]bool{}
	for seed := range uint64(300) {
		seen[left(disk, crashfs.Crash{Percent: 50, Rand: rand.New(rand.NewPCG(seed, 0))})] = true
		free[left(disk, crashfs.Crash{Percent: 50, Unordered: true, Rand: rand.New(rand.NewPCG(seed, 0))})] = true
	}
	slices.Sort(ordered)
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, ordered) {
		t.Errorf("in order: %q, want %q", got, ordered)
	}
	if len(free) != 16 { // each of four changes, or not
		t.Errorf("in any order: %d states, %q", len(free), slices.Sorted(maps.Keys(free)))
	}
	for names := range free {
		if strings.Contains(names, "old") == strings.Contains(names, "new") {
			t.Errorf("a renamed file has both names, or none: %q", names)
		}
	}
	syncDir(t, disk, "db/in")
	if got := left(disk, crashfs.Crash{}); got != "new x y" {
		t.Errorf("synced: %q", got)
	}
	if got := content(t, disk.Crash(crashfs.Crash{}), "db/in/new"); got != "1" {
		t.Errorf("the renamed file holds %q", got)
	}
}
