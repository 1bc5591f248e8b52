//go:build cgo && sqlite_fts5

package peer

import _ "github.com/mattn/go-sqlite3" // the driver "sqlite3": SQLite in C (MIT)

var mattn = Opener{
	Name: "fts5-mattn",
	Open: func(dir string) (Text, error) { return openSQLite("sqlite3", dir) },
}
