//go:build !cgo || !sqlite_fts5

package peer

var mattn = Opener{
	Name:    "fts5-mattn",
	Missing: "built without it: it needs cgo and go run -tags sqlite_fts5",
}
