package products

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestCheckPath verifies which paths a file may have.
func TestCheckPath(t *testing.T) {
	for path, good := range map[string]bool{
		"/a": true, "/a/b.md": true, "/ä b": true, "": false, "/": false, "a": false, "/a/": false, "//a": false, "/a//b": false, "/.": false, "/a/../b": false,
		"/\u2028": false, "/a\u200e": false, "/a\u0308": false, "/\xff": false, strings.Repeat("/a", 20): true, strings.Repeat("/a", 21): false,
	} {
		if err := CheckPath(Memories, path); (err == nil) != good || err != nil && !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%q: %v", path, err)
		}
	}
}
