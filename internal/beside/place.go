package beside

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

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

// Dial connects to the program that serves the database of a folder. It returns os.ErrNotExist
// where none does, and ErrStranger where what is there belongs to another user.
func Dial(dir string) (*Conn, error) {
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
	return &Conn{Conn: c}, nil
}

// Trust returns ErrStranger for a client that is neither this user's nor root's.
func (c *Conn) Trust() error { return trust(c.Conn, "") }
