package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

// What takes over a second says so on a terminal, and takes the line away at its end.
func TestDuring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := &app{console: console{err: &out, errWidth: 80, now: clock.System}}
		broken := errors.New("broken")
		work := func(d time.Duration) func() error {
			return func() error {
				time.Sleep(d)
				return broken
			}
		}
		if err := a.during("check", work(patience/2)); !errors.Is(err, broken) || out.Len() > 0 {
			t.Errorf("half a second: %v, %q", err, out.String())
		}
		if err := a.during("check", work(3*time.Second+patience/2)); !errors.Is(err, broken) {
			t.Error(err)
		}
		if got := out.String(); !strings.HasPrefix(got, "\rcheck: 1 s\x1b[K") || !strings.Contains(got, "check: 3 s") || !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("four seconds: %q", got)
		}
		out.Reset()
		for _, quiet := range []*app{
			{console: console{err: &out, now: clock.System}},
			{console: console{err: &out, errWidth: 80, now: clock.System}, quiet: true},
			{console: console{err: &out, errWidth: 80, now: clock.System}, json: true},
		} {
			if err := quiet.during("check", work(2*time.Second)); !errors.Is(err, broken) || out.Len() > 0 {
				t.Errorf("in a pipe, quiet or for a program: %v, %q", err, out.String())
			}
		}
	})
}
