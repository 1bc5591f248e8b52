package data_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/bench/data"
)

var update = flag.Bool("update", false, "write README.md anew")

// TestPage holds the page to the table.
func TestPage(t *testing.T) {
	var page bytes.Buffer
	if err := data.WriteMarkdown(&page); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("README.md", page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("README.md")
	if err != nil || !bytes.Equal(got, page.Bytes()) {
		t.Errorf("README.md is not the table: go -C bench test ./data -run TestPage -update (%v)", err)
	}
}

// TestMakeUp makes each set up twice: all its files are there, they do not depend on when, and
// no part of one is left behind.
func TestMakeUp(t *testing.T) {
	for _, s := range data.Sets() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first, err := s.MakeUp(filepath.Join(dir, "1"), 100)
			if s.Name == "bge-m3" {
				if err == nil {
					t.Error("something stands in for real embeddings")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			second, err := s.MakeUp(filepath.Join(dir, "2"), 100)
			if err != nil || !s.In(first) || !s.In(second) {
				t.Fatalf("files are missing in %s or %s: %v", first, second, err)
			}
			for _, f := range s.Files {
				if a, b := sum(t, first, f.Path), sum(t, second, f.Path); a != b {
					t.Errorf("%s differs from one time to the next", f.Path)
				}
			}
			again, err := s.MakeUp(filepath.Join(dir, "1"), 100)
			if err != nil || again != first {
				t.Errorf("asked again: %s, %v", again, err)
			}
			if left, _ := os.ReadDir(filepath.Join(dir, "1")); len(left) != 1 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func sum(t *testing.T, folder, path string) [32]byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(path)))
	if err != nil || len(b) == 0 {
		t.Fatalf("%s: %d bytes, %v", path, len(b), err)
	}
	return sha256.Sum256(b)
}

// TestLook tells a file that is not the published one from one that is not there.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	locomo := data.Of("locomo/locomo5.json")
	if locomo == nil || locomo.In(dir) || locomo.In("") {
		t.Fatalf("the set of locomo5.json: %v", locomo)
	}
	if err := os.MkdirAll(filepath.Join(dir, "locomo"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "locomo", "locomo5.json"), []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !locomo.In(dir) {
		t.Error("the file is not seen")
	}
	var out bytes.Buffer
	if err := data.WriteTable(&out, dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"locomo5.json, differs from the published one", "corpus.tsv.zst, not there", "terms  CC BY-NC 4.0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &out)
		}
	}
	if data.Of("locomo/other.json") != nil {
		t.Error("a file of no set has one")
	}
}
