// Package panics turns a panic into an error, so that no goroutine of the database ends the
// program that it is linked into.
package panics

import (
	"fmt"
	"runtime/debug"
)

// Error is a panic that was caught.
type Error struct {
	What  string // what was being done
	Value any    // what it panicked with
	Stack []byte // of the goroutine
}

func (e *Error) Error() string {
	return fmt.Sprintf("a panic while it %s: %v\n%s", e.What, e.Value, e.Stack)
}

// Unwrap returns the error that it panicked with, nil for another value.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Catch calls fn, and returns an *Error where it panics. what says what fn does, as a verb:
// "cleans up".
func Catch(what string, fn func()) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Error{What: what, Value: value, Stack: debug.Stack()}
		}
	}()
	fn()
	return nil
}
