// Package backups keeps a database a second time, and makes a database of what was kept.
//
// Archives receive what the database writes, as it writes it. A Copier copies a whole database into a repository or an
// archive file of package backup. Restore makes a database of a copy, of what an archive has behind it, or of both, up
// to an LSN or a time.
package backups
