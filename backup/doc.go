// Package backup keeps backups of databases, in a repository or in an archive.
//
// # The model
//
// A repository is a folder of files that never change, each named by the SHA-256 of its content,
// and of manifests. A manifest is one backup: it names the files of a database as of one LSN, with
// their sizes and hashes. The tables of a database never change either, so a backup writes what is
// new since the one before, and names the rest again. Backups of several databases may share a
// repository. docs/format/backup.md has the layout.
//
//	memdb-backup.json       marks the folder, and says which version of the layout it has
//	files/ab/abcd…          a file by its hash; ab are the first two digits of it
//	backups/ID.json         a manifest; IDs ascend with the order in which backups were made
//	partial/                what is being written
//
// A file is on disk, was read back and proven before it gets its name; all files of a backup are
// there before its manifest is, which is renamed into its place as the last step. So a backup that
// is interrupted anywhere is not there: what it has written is taken up by the next one, or pruned.
//
// A writer ([Begin], [Prune]) locks the repository; who reads it takes no lock, and may read from
// a medium that cannot be written. Every read is held against the hash: damage is ErrCorrupt
// or a [Problem] that names the file and the backups that need it, never other content.
//
// An archive is one file: a tar, compressed by zstd, of a repository with one backup. Unpacked, it
// is that repository.
//
// The package knows files and bytes, and not what is in them: engine takes backups
// ([engine.DB.Backup]) and restores them ([engine.Restore]).
//
// [engine.DB.Backup]: https://pkg.go.dev/github.com/seed-7aedc3ff/memdb/engine#DB.Backup
// [engine.Restore]: https://pkg.go.dev/github.com/seed-7aedc3ff/memdb/engine#Restore
package backup
