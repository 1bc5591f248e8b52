package memory

import (
	"github.com/seed-7aedc3ff/memdb/internal/metadata"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// The limits of a memory and of a query. Each is checked before anything is changed.
const (
	// MaxID bounds an ID, a scope value, a name, an alias and a source, in bytes.
	MaxID = valid.MaxID
	// MaxAliases bounds the aliases of one memory.
	MaxAliases = 64
	// MaxText bounds a text, in bytes.
	MaxText = 8 << 20
	// MaxMetadata bounds metadata, in bytes of JSON.
	MaxMetadata = metadata.MaxBytes
	// MaxMetadataDepth bounds how deep objects and lists nest in metadata.
	MaxMetadataDepth = metadata.MaxDepth
	// MaxIndexedPaths bounds the metadata fields that are indexed for filters;
	// others are checked on candidates.
	MaxIndexedPaths = 64
	// MaxIndexedValue bounds a metadata value in the filter index, in bytes;
	// longer ones are checked on candidates.
	MaxIndexedValue = 256
	// MaxIndexedText bounds the fields of Options.IndexedText.
	MaxIndexedText = 16
	// MaxDim bounds the dimension of a vector.
	MaxDim = 4096
	// MaxLimit bounds the limit of a query or a page.
	MaxLimit = valid.MaxLimit
	// MaxScopes bounds the scopes of a query.
	MaxScopes = 1_000
	// MaxItems bounds what one request to a server has in a list: messages, memories, facts.
	MaxItems = 10_000
)
