package state

import (
	"maps"
	"sync"
)

// Fields are the numbers of the metadata paths that filters find by postings.
type Fields struct {
	mu    sync.RWMutex
	num   map[string]uint32
	given uint32
}

// Number is that of a path, false where it has none.
func (f *Fields) Number(path string) (uint32, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	num, ok := f.num[path]
	return num, ok
}

// Given is the highest number that was given. There may be fewer paths: those that only what was
// erased had are gone, and their numbers are not given again.
func (f *Fields) Given() uint32 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.given
}

// Gave notes that so many numbers were given.
func (f *Fields) Gave(most uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.given = max(f.given, most)
}

// All are the paths with their numbers.
func (f *Fields) All() map[string]uint32 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return maps.Clone(f.num)
}

// Remove drops a path whose name is gone.
func (f *Fields) Remove(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.num, path)
}

// Add gives a path its number.
func (f *Fields) Add(path string, num uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.num[path] = num
	f.given = max(f.given, num)
}

// NewFields has none yet.
func NewFields() *Fields { return &Fields{num: map[string]uint32{}} }
