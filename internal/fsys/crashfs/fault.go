package crashfs

import (
	"fmt"
	"sync/atomic"
)

// Fault makes changes of one kind to one class of files fail.
type Fault struct {
	Kind  Kind
	Class Class // ignored for DirSync and Mkdir
	// Skip is how many such changes succeed first, counted from when the hook
	// is set.
	Skip int
	// Sticky makes every later one fail too; else exactly one does.
	Sticky bool
	// Torn makes a failed write leave the first half of its bytes.
	Torn bool
	// Err is what the caller gets, wrapped.
	Err error

	seen, hits atomic.Int64
}

// String names the fault, as a subtest would.
func (ft *Fault) String() string {
	s := fmt.Sprintf("%s-%s-%d", ft.Class, ft.Kind, ft.Skip)
	if ft.Kind == DirSync {
		s = fmt.Sprintf("%s-%d", ft.Kind, ft.Skip)
	}
	if ft.Torn {
		s += "-torn"
	}
	if ft.Sticky {
		s += "-sticky"
	}
	return s
}

// Hits is how many changes were made to fail.
func (ft *Fault) Hits() int { return int(ft.hits.Load()) }

// Hook injects the fault.
func (ft *Fault) Hook(op Op) error {
	if op.Kind != ft.Kind {
		return nil
	}
	if ft.Kind != DirSync && ft.Kind != Mkdir && op.Class() != ft.Class {
		return nil
	}
	n := int(ft.seen.Add(1)) - 1
	if n < ft.Skip || (n > ft.Skip && !ft.Sticky) {
		return nil
	}
	ft.hits.Add(1)
	return &injectedError{op: op, torn: ft.Torn, cause: ft.Err}
}

// injectedError is an injected failure; it tells a file whether to write half.
type injectedError struct {
	op    Op
	torn  bool
	cause error
}

func (e *injectedError) Error() string {
	return fmt.Sprintf("injected into %s of %s (change %d): %v", e.op.Kind, e.op.Path, e.op.N, e.cause)
}

func (e *injectedError) Unwrap() error { return e.cause }
