//go:build unix

package fsys

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadSmall reads a file, and nothing else that can have its name.
func TestReadSmall(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string) {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("file", "hello")
	write("long", "hello, all")
	for _, err := range []error{
		os.Symlink(at("file"), at("link")), os.Symlink("/dev/zero", at("zeros")),
		os.Mkdir(at("folder"), 0o700), syscall.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if b, err := ReadSmall(at("file"), 5); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{"link", "zeros", "folder", "pipe"} {
		if b, err := ReadSmall(at(name), 5); !errors.Is(err, ErrNoFile) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := ReadSmall(at("long"), 5); err == nil || !strings.Contains(err.Error(), "more than 5 bytes") {
		t.Errorf("a long file: %q, %v", b, err)
	}
	if _, err := ReadSmall(at("none"), 5); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestWriteSmall replaces what has the name, and follows no link.
func TestWriteSmall(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, []byte("mine"), 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	if err := WriteSmall(dir, "link", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadSmall(link, 10); err != nil || string(b) != "new" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "mine" {
		t.Errorf("the target: %q, %v", b, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
