package state

import "sync"

// Fields are the numbers of the metadata paths that filters find by postings.
type Fields struct {
	mu  sync.RWMutex
	num map[string]uint32
}

// Number is that of a path, false where it has none.
func (f *Fields) Number(path string) (uint32, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	num, ok := f.num[path]
	return num, ok
}

// Count is how many paths have a number.
func (f *Fields) Count() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.num)
}

// Add gives a path its number.
func (f *Fields) Add(path string, num uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.num[path] = num
}

// NewFields has none yet.
func NewFields() *Fields { return &Fields{num: map[string]uint32{}} }
