// Package fuzz runs whole databases through crashes, failing disks and killed
// processes, and holds what comes back against a model.
//
// It sees the database as any program does: through the public face of engine,
// over a file system that a test controls. The model is a journal: what each
// commit did, by its LSN. What a crash leaves must be the journal up to some
// LSN, and that no lower than anything acknowledged before the crash.
//
// A crash is a loss of power as ext4 and xfs know it (crashfs.Disk): writes that are not synced
// are torn in sectors of 512 bytes, files that grew end in zeros or chance bytes, and names that
// are not synced are there or not, in the order of a journal or in any. One thing is left out:
// chance bytes at the end of a MANIFEST. Its format has no number of the file in its chunks and
// no length that was synced, so that a last record of which a sector holds chance bytes cannot
// be told from a damaged one, and opening says that it is damaged; zeros can be told. In a log
// they can: the folder's mark says how much of the newest log was on disk.
//
// The runs are sized for every change: they take a sample, whose seed the log
// names. With the environment variable MEMDB_SOAK set to a duration, such as
// 10m, crashes and failures are tried at every single change to a file, and
// processes are killed for that long:
//
//	MEMDB_SOAK=10m go test -timeout 0 -v ./fuzz
package fuzz
