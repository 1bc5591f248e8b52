package crashfs_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
)

// script makes one change of each kind.
func script(t *testing.T, fs vfs.FS) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(fs.MkdirAll("d", 0o755))
	f, err := fs.Create("d/1.log", vfs.WriteCategoryUnspecified)
	check(err)
	_, err = f.Write([]byte("abcd"))
	check(err)
	check(f.Sync())
	check(f.Close())
	dir, err := fs.OpenDir("d")
	check(err)
	check(dir.Sync())
	check(dir.Close())
	check(fs.Link("d/1.log", "d/MANIFEST-2"))
	check(fs.Rename("d/MANIFEST-2", "d/marker.x"))
	check(fs.Remove("d/marker.x"))
	f, err = fs.ReuseForWrite("d/1.log", "d/3.sst", vfs.WriteCategoryUnspecified)
	check(err)
	check(f.SyncData())
	_, err = f.SyncTo(1)
	check(err)
	check(f.Close())
	f, err = fs.Open("d/3.sst")
	check(err)
	check(f.Close())
}

func TestEveryChangeIsSeen(t *testing.T) {
	var seen []string
	fs := crashfs.Wrap(vfs.NewMem(), func(op crashfs.Op) error {
		seen = append(seen, fmt.Sprintf("%d %s %s %s", op.N, op.Kind, op.Class(), op.Path))
		return nil
	})
	script(t, fs)
	want := []string{
		"1 mkdir other d",
		"2 create log d/1.log",
		"3 write log d/1.log",
		"4 sync log d/1.log",
		"5 close log d/1.log",
		"6 dirsync other d",
		"7 link manifest d/MANIFEST-2",
		"8 rename marker d/marker.x",
		"9 remove marker d/marker.x",
		"10 create table d/3.sst",
		"11 sync table d/3.sst",
		"12 sync table d/3.sst",
		"13 close table d/3.sst",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen:\n%q\nwant:\n%q", seen, want)
	}
	if fs.Ops() != len(want) {
		t.Errorf("%d changes counted", fs.Ops())
	}
}

// TestHookComesBefore clones before each change of a file: the clone never
// has what is about to be made durable, and the next one always does.
func TestHookComesBefore(t *testing.T) {
	mem := vfs.NewCrashableMem()
	var synced []bool
	fs := crashfs.Wrap(mem, func(crashfs.Op) error {
		_, err := mem.CrashClone(vfs.CrashCloneCfg{}).Stat("f")
		synced = append(synced, err == nil)
		return nil
	})
	f, err := fs.Create("f", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := fs.OpenDir("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if want := []bool{false, false, true}; !slices.Equal(synced, want) {
		t.Errorf("durable before create, directory sync, close: %v, want %v", synced, want)
	}
}

func TestFault(t *testing.T) {
	cause := errors.New("broken")
	write := func(fs vfs.FS, name string) error {
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = f.Write([]byte("abcd"))
		return errors.Join(err, f.Sync(), f.Close())
	}
	for _, c := range []struct {
		fault *crashfs.Fault
		name  string
		fails []bool // of four files written in turn
		left  string // in the first file
		text  string
	}{
		{&crashfs.Fault{Kind: crashfs.Write, Class: crashfs.Log}, "1.log", []bool{true, false, false, false}, "", "log-write-0"},
		{&crashfs.Fault{Kind: crashfs.Write, Class: crashfs.Log, Torn: true}, "1.log", []bool{true, false, false, false}, "ab", "log-write-0-torn"},
		{&crashfs.Fault{Kind: crashfs.Sync, Class: crashfs.Table, Skip: 1, Sticky: true}, "1.sst", []bool{false, true, true, true}, "abcd", "table-sync-1-sticky"},
		{&crashfs.Fault{Kind: crashfs.Close, Class: crashfs.Manifest, Skip: 2}, "MANIFEST-1", []bool{false, false, true, false}, "abcd", "manifest-close-2"},
		{&crashfs.Fault{Kind: crashfs.Create, Class: crashfs.Marker}, "x", []bool{false, false, false, false}, "abcd", "marker-create-0"},
	} {
		t.Run(c.text, func(t *testing.T) {
			c.fault.Err = cause
			if got := c.fault.String(); got != c.text {
				t.Errorf("named %q", got)
			}
			fs := crashfs.Wrap(vfs.NewMem(), c.fault.Hook)
			hits := 0
			for i, fails := range c.fails {
				err := write(fs, c.name)
				if (err != nil) != fails {
					t.Errorf("file %d: %v", i, err)
				}
				if fails {
					hits++
					if !errors.Is(err, cause) {
						t.Errorf("the cause is lost: %v", err)
					}
				}
				if i > 0 {
					continue
				}
				f, err := fs.Open(c.name)
				if err != nil {
					t.Fatal(err)
				}
				if left, err := io.ReadAll(f); err != nil || string(left) != c.left {
					t.Errorf("left %q, %v", left, err)
				}
				f.Close()
			}
			if c.fault.Hits() != hits {
				t.Errorf("%d hits counted, %d seen", c.fault.Hits(), hits)
			}
		})
	}
}
