package place

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// noError fails the test at once on an error.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError verifies the kind of an error and that its text names some things.
func wantError(t *testing.T, what string, err, kind error, says ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want %v", what, err, kind)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %v says nothing of %q", what, err, s)
		}
	}
}

// write writes a file of a test.
func write(t *testing.T, f vfs.FS, path string, b []byte) {
	t.Helper()
	file, err := f.Create(path, vfs.WriteCategoryUnspecified)
	noError(t, err)
	_, err = file.Write(b)
	noError(t, errors.Join(err, file.Close()))
}

// made is a folder with the identity of a new database, and the content of its file.
func made(t *testing.T) (f vfs.FS, id *Identity, content []byte) {
	t.Helper()
	f = vfs.NewMem()
	noError(t, MakeDir(f, "db"))
	id, err := New("", nil, time.Unix(1_800_000_000, 0))
	noError(t, err)
	id.Parent = &Origin{Timeline: id.Timeline, LSN: 7, Backup: "b"}
	noError(t, id.Write(f, "db"))
	content, err = ReadFile(f, "db")
	noError(t, err)
	return f, id, content
}

// TestRoundTrip verifies that Read returns what Write has written, and defaults of New.
func TestRoundTrip(t *testing.T) {
	f, id, _ := made(t)
	got, err := Read(f, "db")
	noError(t, err)
	if got.HashSeed != id.HashSeed || got.Timeline != id.Timeline || got.Layout != Layout || *got.Parent != *id.Parent || got.Settings.ID != id.Settings.ID || got.Checksum == "" {
		t.Errorf("read %+v, wrote %+v", got, id)
	}
	if s := got.Settings; s.Language != "auto" || len(s.IndexedText) != 1 || s.IndexedText[0].Field != "name" || !s.CreatedAt.Equal(time.Unix(1_800_000_000, 0)) {
		t.Errorf("settings %+v", s)
	}
	if got, err := Read(f, "elsewhere"); got != nil || err != nil {
		t.Errorf("of no folder: %v, %v", got, err)
	}
}

// TestEveryCharacter verifies that no change of one character of memdb.json goes unnoticed, nor that it is cut off
// anywhere.
func TestEveryCharacter(t *testing.T) {
	f, _, whole := made(t)
	wantDamaged := func(what string, b []byte) {
		t.Helper()
		write(t, f, "db/memdb.json", b)
		_, err := Read(f, "db")
		wantError(t, what, err, fault.ErrCorrupt, "--salvage", "memdbctl rescue SRC DEST")
	}
	for at := range whole {
		for _, change := range []byte{whole[at] ^ 1, whole[at] ^ 0x20, ' ', '0', '\n', 0} {
			if change == whole[at] {
				continue
			}
			b := bytes.Clone(whole)
			b[at] = change
			wantDamaged(string(whole[:at])+"|"+string(change), b)
		}
		wantDamaged("without a character", append(bytes.Clone(whole[:at]), whole[at+1:]...))
		wantDamaged("cut off", whole[:at])
	}
	write(t, f, "db/memdb.json", append(bytes.Repeat([]byte(" "), maxIdentity), whole...))
	if _, err := Read(f, "db"); err == nil {
		t.Error("a file of any size is read")
	}
}

// TestLayouts verifies which layouts are read: an old one without a checksum is, a new one without is damaged, and one
// from the future is refused.
func TestLayouts(t *testing.T) {
	f := vfs.NewMem()
	noError(t, MakeDir(f, "db"))
	for _, c := range []struct {
		name, content string
		want          error
	}{
		{"layout 1", `{"magic":"memdb","layout":1,"hash_seed":"5"}`, nil},
		{"layout 6", `{"magic":"memdb","layout":6,"hash_seed":"5"}`, nil},
		{"layout 7 without a checksum", `{"magic":"memdb","layout":7,"hash_seed":"5"}`, fault.ErrCorrupt},
		{"layout 0", `{"magic":"memdb","layout":0}`, fault.ErrCorrupt},
		{"the future", `{"magic":"memdb","layout":99}`, fault.ErrNewerLayout},
		{"another program", `{"magic":"other","layout":1}`, fault.ErrCorrupt},
		{"no JSON", `memdb`, fault.ErrCorrupt},
	} {
		write(t, f, "db/memdb.json", []byte(c.content))
		id, err := Read(f, "db")
		switch {
		case c.want != nil:
			wantError(t, c.name, err, c.want)
		case err != nil || id.HashSeed != 5:
			t.Errorf("%s: %+v, %v", c.name, id, err)
		}
	}
}

// TestTimelineIn verifies that an identity without a timeline gets one and keeps it, and that a bad one is damage.
func TestTimelineIn(t *testing.T) {
	f := vfs.NewMem()
	id := &Identity{}
	first, err := id.TimelineIn(f, "db")
	noError(t, err)
	if again, err := id.TimelineIn(f, "db"); err != nil || again != first || id.Timeline == "" {
		t.Errorf("%v and then %v, %v", first, again, err)
	}
	_, err = (&Identity{Timeline: "never"}).TimelineIn(f, "db")
	wantError(t, "a bad one", err, fault.ErrCorrupt, "memdb.json")
}

// TestAdopt verifies that settings that a program asks for are taken over by an empty database alone.
func TestAdopt(t *testing.T) {
	tag := []memory.IndexedField{{Field: "metadata.tag", Weight: 2}}
	for _, c := range []struct {
		name, language string
		indexed        []memory.IndexedField
		empty, changed bool
		want           error
	}{
		{"nothing asked", "", nil, false, false, nil},
		{"the same", "auto", []memory.IndexedField{{Field: "name", Weight: 1}}, false, false, nil},
		{"another language of an empty one", "german", nil, true, true, nil},
		{"other fields of an empty one", "", tag, true, true, nil},
		{"another language", "german", nil, false, false, fault.ErrMismatch},
		{"other fields", "", tag, false, false, fault.ErrMismatch},
	} {
		id, err := New("", nil, time.Unix(0, 0))
		noError(t, err)
		changed, err := id.Adopt("db", c.language, c.indexed, c.empty)
		switch {
		case c.want != nil:
			wantError(t, c.name, err, c.want, "leave")
		case err != nil || changed != c.changed:
			t.Errorf("%s: changed %v, %v", c.name, changed, err)
		case c.changed && c.language != "" && id.Settings.Language != c.language, c.changed && c.indexed != nil && id.Settings.IndexedText[0] != c.indexed[0]:
			t.Errorf("%s: settings %+v", c.name, id.Settings)
		}
	}
}
