package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// A Failure is an error as a client is told of it.
type Failure struct {
	// Status is that of HTTP.
	Status int
	// Code is a word for programs, such as not_found.
	Code string
	// Message is a sentence for people: what was being done, why it failed, what to do.
	Message string
	// Err is the error itself, which only the log has.
	Err error
	// RequestID is that of the header X-Request-Id.
	RequestID string
	// RetryAfter is when it may be tried again, 0 where that is not known.
	RetryAfter time.Duration
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the error that it tells of.
func (f *Failure) Unwrap() error { return f.Err }

// Fail returns an error of a status and a code, for errors.As with a *Failure.
func Fail(status int, code, format string, args ...any) error {
	return &Failure{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Denied returns the error of what a key may not do.
func Denied(why string) error {
	return &Failure{Status: http.StatusForbidden, Code: "denied", Message: why}
}

// Unknown returns the error of a memory that a caller does not see, whether it is there or not.
func Unknown(what string) error {
	return &memory.Error{Kind: memory.ErrNotFound, What: what}
}

// OfBody returns an error of a call that reads a body as a stream. What is an error neither of the
// database nor of the call is one of what the client has sent.
func OfBody(doing string, err error) error {
	if f := Fault(err); err == nil || f.Code != internal {
		return err
	}
	if _, caught := errors.AsType[*panics.Error](err); caught {
		return err
	}
	return &memory.Error{Kind: memory.ErrInvalid, What: doing, Why: "the body cannot be read", Cause: err, Do: "send it in the form that the route takes"}
}

// internal is the code of a failure about which a client is told nothing.
const internal = "internal"

// retryAfter is what a client is told that finds the server busy.
const retryAfter = time.Second

// Fault returns what a client is told of an error: see fault.Outward. The text of an error that is no
// *memory.Error and no *Failure may hold what is nobody's business, so only the log has it.
func Fault(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		told := *f
		return &told
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Failure{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Message: fmt.Sprintf("the body has more than %d bytes; send less at once", large.Limit), Err: err}
	}
	for _, k := range api.Faults {
		if !errors.Is(err, k.Kind) {
			continue
		}
		f := &Failure{Status: k.Status, Code: k.Code, Message: k.Kind.Error(), Err: err}
		if own, ok := errors.AsType[*memory.Error](err); ok {
			f.Message = fault.Outward(own)
		}
		if k.Status == http.StatusServiceUnavailable {
			f.RetryAfter = retryAfter
		}
		return f
	}
	if own, ok := errors.AsType[*memory.Error](err); ok {
		return &Failure{Status: http.StatusInternalServerError, Code: "failed", Message: fault.Outward(own), Err: err}
	}
	return &Failure{Status: http.StatusInternalServerError, Code: internal, Message: "the server failed; its log says why", Err: err}
}
