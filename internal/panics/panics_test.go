package panics

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestCatch(t *testing.T) {
	if err := Catch("rests", func() {}); err != nil {
		t.Error(err)
	}
	err := Catch("counts", func() { panic("no fingers") })
	for _, want := range []string{"while it counts", "no fingers", "TestCatch"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v says nothing of %q", err, want)
		}
	}
	if err := Catch("reads", func() { panic(io.ErrUnexpectedEOF) }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := Catch("indexes", func() {
		few, at := make([]int, 2), 3
		few[at] = 1
	}); err == nil {
		t.Error("an index out of range was not caught")
	}
}
