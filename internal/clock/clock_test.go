package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

func TestSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now clock.Clock = clock.System
		before := now()
		time.Sleep(time.Hour)
		if d := now().Sub(before); d != time.Hour {
			t.Errorf("an hour of sleep moved the clock by %v", d)
		}
	})
}
