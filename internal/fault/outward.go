package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
)

// ownPath matches the absolute paths in a text.
var ownPath = regexp.MustCompile(`(^|[\s"'(\[=])(?:/[^\s"':;,)\]]+|[A-Za-z]:\\[^\s"':;,)\]]+)`)

// ownKinds are the kinds of errors that tell of the machine and not of what a client has sent: an
// absolute path in their texts is one of the machine.
var ownKinds = []error{ErrFailed, ErrCorrupt, ErrDiskFull, ErrFull, ErrLocked, ErrReadOnly, ErrBusy, ErrClosed, ErrUnavailable, ErrNotOwner, ErrNotDatabase, ErrNewerLayout}

// Outward returns the text of an error as a client of a server may read it: without paths and
// addresses of the server's machine, and without what other services have answered to the server.
// Names below the folders that a client may use stay, without the folder. The log of the server has
// Error.
func Outward(err error, folders ...string) string {
	text := outward(err, folders)
	for _, f := range folders {
		text = strings.ReplaceAll(text, below(f), "")
	}
	for _, kind := range ownKinds {
		if errors.Is(err, kind) {
			return ownPath.ReplaceAllString(text, "${1}a path of the server")
		}
	}
	return text
}

// below is what the names of all files in a folder begin with, no name for the empty folder.
func below(folder string) string {
	if folder == "" {
		return "\x00"
	}
	return strings.TrimRight(folder, `/\`) + string(filepath.Separator)
}

// outward is the first line of an error's text, in which the texts of the errors below it are
// outward, too.
func outward(err error, folders []string) string {
	switch e := err.(type) { //nolint:errorlint // each error of the chain in its turn
	case *Error:
		if e.Public != "" {
			return e.Public + "; the server's log says why"
		}
	case *fs.PathError:
		name := ""
		for _, f := range folders {
			if rest, ok := strings.CutPrefix(e.Path, below(f)); ok {
				name = " " + rest
			}
		}
		return e.Op + name + ": " + outward(e.Err, folders)
	}
	if kind := fmt.Sprintf("%T", err); strings.HasPrefix(kind, "*net.") || strings.HasPrefix(kind, "*url.") {
		return "the network failed" // by its name, since nothing here imports the network
	}
	text := CauseText(err)
	var causes []error
	switch e := err.(type) { //nolint:errorlint // as errors.Unwrap does
	case interface{ Unwrap() error }:
		causes = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		causes = e.Unwrap()
	}
	for _, cause := range causes {
		if cause == nil {
			continue
		}
		if inner := CauseText(cause); inner != "" {
			text = strings.ReplaceAll(text, inner, outward(cause, folders))
		}
	}
	return text
}
