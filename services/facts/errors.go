package facts

import (
	"context"
	"errors"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// ErrLLM: a language model failed, or returned what cannot be used. It stands behind
// entries of Degraded, and is that of package llm.
var ErrLLM = llm.ErrModel

// Class names errors as memories of facts do that have classes of errors.
type Class string

// The classes. Invalid arguments that no other class names are MemoryError.
const (
	MemoryError      Class = "MemoryError"
	ScopeError       Class = "ScopeError"       // no user, agent or run was given
	VectorStoreError Class = "VectorStoreError" // the database failed
	LLMError         Class = "LLMError"
	EmbeddingError   Class = "EmbeddingError"
	NotFoundError    Class = "NotFoundError"
)

// ClassOf is the class of an error that a method of Facts returned or that stands in a
// Degradation; empty for nil.
func ClassOf(err error) Class {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, memory.ErrScope):
		return ScopeError
	case errors.Is(err, memory.ErrNotFound):
		return NotFoundError
	case errors.Is(err, ErrLLM):
		return LLMError
	case errors.Is(err, memory.ErrEmbedder), errors.Is(err, memory.ErrMismatch):
		return EmbeddingError
	case errors.Is(err, memory.ErrInvalid), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return MemoryError
	}
	return VectorStoreError
}

func invalid(what, why, do string) error {
	return &memory.Error{Kind: memory.ErrInvalid, What: what, Why: why, Do: do}
}

func notFound(what string) error {
	return &memory.Error{Kind: memory.ErrNotFound, What: what, Why: "the scope has no fact of this ID", Do: "check the ID and the scope"}
}

// checkScope refuses a scope that names nothing, or names it in a way that no fact can
// have. doing is for the error.
func checkScope(doing string, s scope.Scope) error { return scope.Check(doing, s) }

// llmFailed is an error of the model.
func llmFailed(what, why string, cause error) error {
	return &memory.Error{Kind: ErrLLM, What: what, Why: why, Cause: cause, Do: "check the model and its provider, and add the messages again"}
}
