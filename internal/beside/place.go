package beside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

const (
	// socketName is the socket in the folder of a database, and placeName the file that names
	// one that lies elsewhere. Beside a database in one file, their names begin with its own.
	socketName = "memdb.sock"
	placeName  = "memdb.socket"
	fileSocket = ".sock"
	filePlace  = ".socket"
	fileSuffix = ".memdb"
	// maxPath is how long the path of a socket may be on every system.
	maxPath = 103
	// dialWait is how long a program may take to be reached.
	dialWait = time.Second
)

// ErrStranger is that what a folder names is not a socket of this user, or root's: the folder may
// come from somebody else.
var ErrStranger = errors.New("the socket is not this user's")

// names are the socket of a database if nobody has chosen another place, and the file that names another place.
func names(db string) (socket, place string) {
	info, err := os.Stat(db)
	if err == nil && info.IsDir() || err != nil && !strings.HasSuffix(db, fileSuffix) {
		return filepath.Join(db, socketName), filepath.Join(db, placeName)
	}
	return db + fileSocket, db + filePlace
}

// Place returns where the socket of a database is, in its folder or beside its file, if nobody has chosen another
// place, and whether a socket can be there: its path must not be longer than 103 bytes.
func Place(db string) (path string, fits bool) {
	path, _ = names(db)
	return path, len(path) <= maxPath
}

// Note notes for a database that its socket is elsewhere.
func Note(db, path string) error {
	_, place := names(db)
	return fsys.WriteSmall(filepath.Dir(place), filepath.Base(place), []byte(path+"\n"))
}

// Forget removes what Note has noted.
func Forget(db string) error {
	_, place := names(db)
	err := os.Remove(place)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// find returns the path of the socket that serves the database of a folder, or os.ErrNotExist.
func find(dir string) (path string, err error) {
	path, named := names(dir)
	b, err := fsys.ReadSmall(named, maxPath+1) // with its newline
	switch {
	case err == nil:
		if path = strings.TrimSpace(string(b)); !filepath.IsAbs(path) {
			return "", fmt.Errorf("%s names %q, which is no whole path: %w", named, path, ErrStranger)
		}
	case !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("%w: %w", ErrStranger, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", os.ErrNotExist
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return "", fmt.Errorf("%s is no socket: %w", path, ErrStranger)
	}
	return path, nil
}

// Connect connects to the program that serves the database of a folder. It returns os.ErrNotExist
// where none does, and ErrStranger where what is there belongs to another user.
func Connect(dir string) (net.Conn, error) {
	path, err := find(dir)
	if err != nil {
		return nil, err
	}
	c, err := net.DialTimeout("unix", path, dialWait)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: %w", ErrStranger, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", os.ErrNotExist, err) // whoever has made it is gone
	}
	if err := trust(c, path); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Dial is Connect for frames.
func Dial(ctx context.Context, dir string) (*Conn, error) {
	c, err := Connect(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	conn, err := begin(ctx, c, &url.URL{Scheme: "http", Host: "localhost"}, nil)
	if err != nil && IsOld(ctx, dir) {
		err = ErrOld
	}
	return conn, err
}

// ErrOld is that the program that serves a database does not know HTTP.
var ErrOld = errors.New("it has memdb 0.3 or earlier, which another memdbctl speaks with")

// IsOld reports whether the program that serves the database of a folder ends connections of HTTP without an answer, as
// memdb 0.3 does.
func IsOld(ctx context.Context, dir string) bool {
	c, err := Connect(dir)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(clock.System()) })()
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return ctx.Err() == nil
	}
	n, _ := c.Read(make([]byte, 1))
	return n == 0 && ctx.Err() == nil
}
