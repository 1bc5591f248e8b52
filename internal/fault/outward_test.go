package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"testing"
)

// TestOutward verifies that the text for clients of a server has no path, no address and no word of
// another service, however deep in an error they are, and else is the text of the error.
func TestOutward(t *testing.T) {
	path := &fs.PathError{Op: "open", Path: "/srv/db/store/000001.log", Err: fs.ErrPermission}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 9}, Err: errors.New("connection refused")}
	model := &Error{Kind: ErrExtractor, What: "call ollama at 10.0.0.7:9", Why: "it answered 400 Bad Request", Do: "check the model", Cause: errors.New("SECRET"), Public: "call ollama: it failed"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Error{Kind: ErrInvalid, What: "update m1", Why: "the text is empty", Do: "give one"}, "update m1: the text is empty; give one"},
		{&Error{Kind: ErrInvalid, What: "view /memories/a.md", Why: "it is a folder"}, "view /memories/a.md: it is a folder"},
		{&Error{Kind: ErrFailed, What: "open /srv/db", Why: "the log is damaged", Cause: path, Do: "see /srv/db/LOG"}, "open a path of the server: the log is damaged: open: permission denied; see a path of the server"},
		{fmt.Errorf("within: %w", path), "within: open: permission denied"},
		{errors.Join(errors.New("first"), path), "first"},
		{&Error{Kind: ErrInvalid, What: "ask", Cause: fmt.Errorf("at last: %w", refused)}, "ask: invalid argument: at last: the network failed"},
		{model, "call ollama: it failed; the server's log says why"},
		{&Error{Kind: ErrExtractor, What: "extract", Cause: fmt.Errorf("twice: %w", model), Do: "again"}, "extract: the extractor failed: twice: call ollama: it failed; the server's log says why; again"},
		{&Error{Kind: ErrFailed, What: "back up to /files/repo", Cause: &fs.PathError{Op: "open", Path: "/files/repo/a", Err: fs.ErrExist}}, "back up to repo: database failed: open repo/a: file already exists"},
		{&Error{Kind: ErrDiskFull, What: `write C:\data\db`, Why: "no space"}, "write a path of the server: no space"},
	} {
		got := Outward(c.err, "/files")
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
		for _, hidden := range []string{"/srv", "10.0.0.7", "SECRET", "refused", "400"} {
			if strings.Contains(got, hidden) {
				t.Errorf("%v: %q has %q", c.err, got, hidden)
			}
		}
	}
}
