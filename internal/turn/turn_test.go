package turn

import (
	"bytes"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestPass: on one processor another goroutine runs while this one works, again and
// again, and not each time that it could.
func TestPass(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ran, done atomic.Int64
	go func() {
		for done.Load() == 0 {
			ran.Add(1)
			runtime.Gosched()
		}
	}()
	var turn Turn
	passed := int64(0)
	for began := time.Now(); time.Since(began) < 20*time.Millisecond; passed++ {
		turn.Pass()
	}
	done.Store(1)
	if n := ran.Load(); n < 3 || n > passed/2 {
		t.Errorf("another goroutine ran %d times in %d calls", n, passed)
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := Writer(&out)
	for range 3 {
		if n, err := w.Write([]byte("abc")); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := out.String(); got != strings.Repeat("abc", 3) {
		t.Errorf("%q", got)
	}
}
