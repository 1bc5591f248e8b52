// Package fuzz runs whole databases through crashes, failing disks and killed
// processes, and holds what comes back against a model.
//
// It sees the database as any program does: through the public face of engine,
// over a file system that a test controls. The model is a journal: what each
// commit did, by its LSN. What a crash leaves must be the journal up to some
// LSN, and that no lower than anything acknowledged before the crash.
//
// The runs are sized for every change: they take a sample, whose seed the log
// names. With the environment variable MEMDB_SOAK set to a duration, such as
// 10m, crashes and failures are tried at every single change to a file, and
// processes are killed for that long:
//
//	MEMDB_SOAK=10m go test -timeout 0 -v ./fuzz
package fuzz
