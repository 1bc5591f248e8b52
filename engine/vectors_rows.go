package engine

import (
	"sync/atomic"
	"unsafe"
)

// rowsFile keeps float32 vectors of a space that searches have read from the store,
// by slot: to read one again takes a system call, a fifth of a look-up in the store.
// It takes no memory but what the system has to spare for the file. What is in it
// was read from the store since Open; where it fails, the store is asked.
type rowsFile struct {
	file   *scratchFile
	length int64
	// have has a bit for each slot whose vector is in the file. The writer clears it
	// when the slot is used again, which nobody then reads any more.
	have   paged[atomic.Uint64]
	closed atomic.Bool // to more vectors
}

const (
	// rowsSpare is how much must be left on the disk for vectors to be kept in files:
	// the log has a better use for it.
	rowsSpare = 4 << 30
	// rowsBetween is how many bytes are written between looks at the disk.
	rowsBetween = 64 << 20
)

// kept counts the bytes in the rows files of a database, and bounds them.
type kept struct {
	bytes atomic.Int64
	limit int64
}

func (db *DB) newRowsFile(space uint16, dim int) *rowsFile {
	f := &rowsFile{length: 4 * int64(dim), file: db.newScratchFile(space, rowsNumber, "vectors that were read: they are read from the store each time")}
	if db.vectorsInMemory {
		f.closed.Store(true)
	}
	return f
}

// bytesOf are the bytes of a vector.
func bytesOf(vec []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(vec))), 4*len(vec))
}

// read reads the vector of a slot into dst if it is in the file.
func (f *rowsFile) read(slot uint32, dst []float32) ([]float32, bool) {
	word := f.have.at(uint64(slot) / 64)
	if word == nil || word.Load()>>(slot%64)&1 == 0 {
		return nil, false
	}
	if n := int(f.length / 4); cap(dst) < n {
		dst = make([]float32, n)
	} else {
		dst = dst[:n]
	}
	if _, err := f.file.ReadAt(bytesOf(dst), int64(slot)*f.length); err != nil {
		word.And(^(1 << (slot % 64)))
		f.closed.Store(true)
		return nil, false
	}
	return dst, true
}

// keep puts the vector of a slot that the caller's transaction sees into the file,
// while there is room for it.
func (f *rowsFile) keep(slot uint32, vec []float32) {
	word := f.have.at(uint64(slot) / 64)
	if f.closed.Load() || word == nil || int64(4*len(vec)) != f.length {
		return
	}
	db := f.file.db
	after := db.kept.bytes.Add(f.length)
	if after > db.kept.limit || (after/rowsBetween != (after-f.length)/rowsBetween || after == f.length) && !db.spare() {
		db.kept.bytes.Add(-f.length)
		f.closed.Store(after <= db.kept.limit)
		return
	}
	if _, err := f.file.WriteAt(bytesOf(vec), int64(slot)*f.length); err != nil {
		db.kept.bytes.Add(-f.length)
		f.closed.Store(true)
		return
	}
	word.Or(1 << (slot % 64))
}

// spare tells whether the disk has room to spare, as far as the system tells.
func (db *DB) spare() bool {
	usage, err := db.fs.GetDiskUsage(db.dir)
	return err != nil || usage.AvailBytes >= rowsSpare
}

// use makes a slot that of another vector. The writer lock is held.
func (f *rowsFile) use(slot uint32) {
	bit := uint64(1) << (slot % 64)
	if f.have.grow(uint64(slot)/64).And(^bit)&bit != 0 {
		f.file.db.kept.bytes.Add(-f.length)
	}
}
