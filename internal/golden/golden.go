// Package golden holds what is written to the bytes that databases have: files of encodings by
// name, and of texts, which a test's -update writes anew.
package golden

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/part"
)

var update = flag.Bool("update", false, "write the golden files anew")

// lineBytes are those in one line of a file.
const lineBytes = 32

// Encoding is a key or a value with the name that it has in the file.
type Encoding struct {
	Name  string
	Bytes []byte
}

// Keys is a part.View that begins keys in the first generation, and does nothing else.
type Keys struct{ part.View }

// Key begins a key of a kind.
func (Keys) Key(kind byte, _ int) []byte { return binary.BigEndian.AppendUint16([]byte{kind}, 1) }

// Compare holds encodings to those of a file: each is there with its bytes, and no other is.
// head is a line of the file that says what it has.
func Compare(t *testing.T, path, head string, all []Encoding) {
	t.Helper()
	if *update {
		write(t, path, head, all)
	}
	left := Read(t, path)
	for _, e := range all {
		want, ok := left[e.Name]
		delete(left, e.Name)
		switch {
		case !ok:
			t.Errorf("%s: not in %s; run with -update", e.Name, path)
		case !bytes.Equal(e.Bytes, want):
			t.Errorf("%s: encoded as\n%x\nwant\n%x", e.Name, e.Bytes, want)
		}
	}
	for name := range left {
		t.Errorf("%s: in %s, and not tested", name, path)
	}
}

// A file has a line with each name and a colon, and below it the bytes in hex, lineBytes a line.
func write(t *testing.T, path, head string, all []Encoding) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", head)
	for _, e := range all {
		fmt.Fprintf(&b, "\n%s:\n", e.Name)
		for line := range slices.Chunk(e.Bytes, lineBytes) {
			fmt.Fprintf(&b, "  %x\n", line)
		}
	}
	save(t, path, b.String())
}

// Read returns the encodings of a file by name.
func Read(t *testing.T, path string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	name := ""
	for line := range strings.Lines(read(t, path)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasSuffix(line, ":"):
			name = strings.TrimSuffix(line, ":")
			all[name] = []byte{}
		default:
			more, err := hex.DecodeString(line)
			if err != nil {
				t.Fatalf("%s, %s: %v", path, name, err)
			}
			all[name] = append(all[name], more...)
		}
	}
	return all
}

// Text holds a text to that of a file.
func Text(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		save(t, path, got)
	}
	was, is := strings.Split(read(t, path), "\n"), strings.Split(got, "\n")
	for i := range max(len(was), len(is)) {
		if i >= len(was) || i >= len(is) || was[i] != is[i] {
			t.Fatalf("%s differs from line %d on; run with -update and read the difference. Got\n%s", path, i+1, strings.Join(is[min(i, len(is)):], "\n"))
		}
	}
}

// Table holds a table to the one that a page has between the lines "<!-- NAME -->" and "<!-- end of NAME -->".
func Table(t *testing.T, path, name, table string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, found := strings.Cut(read(t, path), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no lines %q and %q", path, begin, end)
	}
	Text(t, path, before+begin+table+end+after)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func save(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
