package fsys

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// reserving is a file that notes what is asked of its file system.
type reserving struct {
	vfs.File
	written, reserved int64
	calls             int
	err               error
}

func (r *reserving) Write(p []byte) (int, error) {
	r.written += int64(len(p))
	return len(p), nil
}

func (r *reserving) Preallocate(offset, length int64) error {
	r.calls++
	if r.err != nil {
		return r.err
	}
	if offset != r.reserved {
		return errors.New("a gap")
	}
	r.reserved += length
	return nil
}

// TestPreallocate: of what Pebble asks for at once, blocks are reserved as they are
// written: always before, seldom, and few beyond.
func TestPreallocate(t *testing.T) {
	const asked = 70 << 20
	base := &reserving{}
	f := &file{fs: New(vfs.NewMem()), base: base}
	write := func(n int) {
		t.Helper()
		if _, err := f.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	write(100)
	if err := f.Preallocate(0, asked); err != nil || base.calls != 0 {
		t.Fatalf("reserved before anything is written: %d, %v", base.reserved, err)
	}
	for base.written < asked-64<<10 {
		write(5000)
		if base.reserved < base.written || base.reserved > base.written+max(base.written, leastReserved) || base.reserved > base.written+mostReserved {
			t.Fatalf("%d bytes are written, %d reserved", base.written, base.reserved)
		}
	}
	if base.reserved != asked || base.calls > 20 {
		t.Errorf("%d bytes of %d are reserved, in %d calls", base.reserved, asked, base.calls)
	}
	write(1 << 20)
	if base.reserved != asked {
		t.Errorf("%d bytes are reserved, more than was asked for", base.reserved)
	}
	if err := f.Preallocate(asked, asked); err != nil {
		t.Fatal(err)
	}
	write(1 << 20)
	if base.reserved < base.written {
		t.Errorf("%d bytes are written, %d reserved", base.written, base.reserved)
	}
	base.err = errors.New("not supported")
	for range 20 {
		write(1 << 20)
	}
	if calls := base.calls; calls > 30 {
		t.Errorf("%d calls of what is not supported", calls)
	}
}
