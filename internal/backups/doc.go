// Package backups keeps a database a second time: it sends what the database writes to archives, and begins again
// from a base where an archive has missed something.
package backups
