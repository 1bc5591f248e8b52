package hnsw

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// File is a file for an index alone, empty at first, which grows as the index
// does and is of no use after it. It stays open as long as the index is used, and
// nothing is asked of it before it is needed.
type File interface {
	// Fd returns the system's descriptor, or all ones if there is none.
	Fd() uintptr
	io.WriterAt
}

// ErrFile is returned once the system could not read or write what an index keeps
// in its file. Nothing can be done with that index any more; it is to be built
// anew.
var ErrFile = errors.New("the file of a vector index fails")

var errNoDescriptor = errors.New("the file of a vector index has no descriptor")

const (
	// spillGrain is what the sizes of pages in a file are multiples of: those of
	// all systems' own pages.
	spillGrain = 64 << 10
	// spillWrite is how much of a new page is written at once.
	spillWrite = 1 << 20
)

// spill maps pages of a file. Only the goroutine that grows the index takes them.
type spill struct {
	file File
	end  int64

	failed atomic.Pointer[error]
	mu     sync.Mutex
	mapped [][]byte // each for as long as its page is, which is as long as the index
}

// newSpill returns nil where rows stay in memory.
func newSpill(f File) *spill {
	if f == nil || !mapsFiles {
		return nil
	}
	return &spill{file: f}
}

// newPage appends zeroed pages to the file, and maps them. They are written first:
// blocks that are there can't be lacking when a mapped page is written back, which
// nobody could be told of.
func (s *spill) newPage(bytes uintptr) (*page, error) {
	if s.file.Fd() == ^uintptr(0) {
		return nil, errNoDescriptor
	}
	size := (int64(bytes) + spillGrain - 1) &^ (spillGrain - 1)
	zeros := make([]byte, min(size, spillWrite))
	for at := int64(0); at < size; at += int64(len(zeros)) {
		zeros = zeros[:min(size-at, spillWrite)]
		if _, err := s.file.WriteAt(zeros, s.end+at); err != nil {
			return nil, err
		}
	}
	p, m, err := mapFile(s.file.Fd(), s.end, int(size))
	if err != nil {
		return nil, err
	}
	s.end += size
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mapped = append(s.mapped, m)
	return p, nil
}

// err returns why the index can't be used any more.
func (s *spill) err() error {
	if s != nil {
		if err := s.failed.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// guard has a fault of a mapped page become an error of the call that deferred
// what it returns: the system raises one where it cannot read the file.
func (s *spill) guard() func(*error) {
	if s == nil {
		return unguarded
	}
	before := debug.SetPanicOnFault(true)
	return func(err *error) {
		debug.SetPanicOnFault(before)
		if fault := recover(); fault != nil {
			*err = s.fail(fault)
		}
	}
}

func unguarded(*error) {}

// fail notes a fault, and passes on what is none of a mapped page.
func (s *spill) fail(fault any) error {
	at, ok := fault.(interface {
		error
		Addr() uintptr
	})
	if !ok || !s.holds(at.Addr()) {
		panic(fault)
	}
	err := fmt.Errorf("%w: a part of it cannot be read or written: %w", ErrFile, at)
	s.failed.CompareAndSwap(nil, &err)
	return s.err()
}

func (s *spill) holds(address uintptr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.mapped {
		if within(m, address) {
			return true
		}
	}
	return false
}
