package invindex

import (
	"errors"
	"math"
)

const (
	// MaxTermBytes bounds a term, and the key of a filter value. Analyzers cut
	// far earlier; the bound keeps dictionary keys small.
	MaxTermBytes = 1024
	// MaxFreq is where a term's frequency in a document saturates: postings
	// hold it in 16 bits.
	MaxFreq = math.MaxUint16
	// MaxLength is where a document's length saturates.
	MaxLength = math.MaxUint32 - 1
	// MaxDocTerms, MaxDocValues and MaxDocNumbers bound one document.
	MaxDocTerms   = 1 << 22
	MaxDocValues  = 1 << 12
	MaxDocNumbers = 1 << 12
	// MaxDoc is the highest document number: one past it must fit 32 bits.
	MaxDoc = math.MaxUint32 - 1
	// MaxQueryTerms bounds a query; beyond it a text is a document, not a query.
	MaxQueryTerms = 1024
	// MaxHits bounds the results of one search.
	MaxHits = 1 << 20
)

var (
	// ErrOrder is returned by Add for a document number that is not above
	// every earlier one.
	ErrOrder = errors.New("invindex: document number out of order")
	// ErrInvalid is returned for a document or a query that is malformed or
	// over a limit. Nothing was changed.
	ErrInvalid = errors.New("invindex: invalid argument")
	// ErrCorrupt is returned for stored bytes that are damaged: a forward record,
	// or a page of a sealed chunk, which the error names.
	ErrCorrupt = errors.New("invindex: damaged")
	// ErrNoNumbers is returned by FindRange where documents were added whose numbers
	// are not known.
	ErrNoNumbers = errors.New("invindex: the numbers of some documents are not known")
	// ErrVersion is returned for a chunk that a newer program sealed.
	ErrVersion = errors.New("invindex: unknown version")
)
