package engine

import (
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// The limits of a database. Each is checked before anything is changed.
const (
	// MaxID bounds an ID, a scope value, a name, an alias and a source, in bytes.
	MaxID = valid.MaxID
	// MaxAliases bounds the aliases of one memory.
	MaxAliases = 64
	// MaxText bounds a text, in bytes.
	MaxText = 8 << 20
	// MaxKey bounds the key of an entry, in bytes.
	MaxKey = 1024
	// MaxValue bounds the value of an entry, in bytes of JSON.
	MaxValue = 8 << 20
	// MaxValueDepth bounds how deep objects and lists nest in one.
	MaxValueDepth = 1000
	// MaxMetadata bounds metadata, in bytes of JSON.
	MaxMetadata = 256 << 10
	// MaxMetadataDepth bounds how deep objects and lists nest in metadata.
	MaxMetadataDepth = 32
	// MaxDim bounds the dimension of a vector.
	MaxDim = 4096
	// MaxSpaces bounds the vector spaces of a database.
	MaxSpaces = 64
	// MaxLimit bounds the limit of a query or a page.
	MaxLimit = valid.MaxLimit
	// MaxIndexedPaths bounds the metadata fields that are indexed for filters;
	// others are checked on candidates.
	MaxIndexedPaths = 64
	// MaxIndexedValue bounds a metadata value in the filter index, in bytes;
	// longer ones are checked on candidates.
	MaxIndexedValue = 256
	// MaxIndexedText bounds the fields of Options.IndexedText.
	MaxIndexedText = 16
	// MaxFilterNodes and MaxFilterDepth bound a filter.
	MaxFilterNodes = 10_000
	MaxFilterDepth = 64
	// MaxContained bounds the values of contains and icontains in one filter together, in
	// bytes: they are folded and made tables of before the first memory is looked at, which
	// takes some 20 ms.
	MaxContained = 1 << 20
	// MaxTxBytes and MaxTxChanges bound what one transaction writes: the store
	// below accepts no batch of 4 GiB, and a commit is held in memory.
	MaxTxBytes   = 64 << 20
	MaxTxChanges = 100_000
	// MaxMemories bounds the document numbers that are in use at once, by chunks of
	// 65,536: see giveDoc.
	MaxMemories = 1 << 31
	// MinDiskReserve is the least that is kept free of the disk, in bytes: four
	// memtables of the least size. A lower Options.DiskReserve is taken for it.
	MinDiskReserve = store.MinReserve

	defaultLimit = 10
	defaultPage  = 100
)
