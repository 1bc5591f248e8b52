package memory

import "time"

// StoreOptions changes what Store does. nil is the default.
type StoreOptions struct {
	// Upsert makes a store under an existing ID an update instead of ErrExists: the
	// memory becomes the one given, but for CreatedAt, access statistics, an
	// importance or confidence that is not given, and, where the text is the same,
	// the vectors of spaces that are not given.
	Upsert bool
	// NoDedup stores the memory even where its owner already has the same text.
	NoDedup bool
	// SkipInvalid makes StoreBatch report an invalid memory in its Stored.Err
	// and store the others, instead of storing none.
	SkipInvalid bool
}

// Stored is what became of a memory that was to be stored.
type Stored struct {
	// ID and Seq are those of the memory that is there now.
	ID  string `json:"id"`
	Seq uint64 `json:"seq"`
	// Stored: a new memory was added. Deduplicated: ID is that of the earlier
	// memory with the same text. Updated: Upsert changed an existing memory. None
	// of them: it was already there, unchanged, under the same ID.
	Stored       bool `json:"stored"`
	Deduplicated bool `json:"deduplicated"`
	Updated      bool `json:"updated,omitempty"`
	// Pending: the memory was written without the vector that the database's embedder
	// is to make of its text, for the reason PendingWhy. It is found by its text until
	// engine.DB.EmbedPending embeds it.
	Pending    bool   `json:"pending,omitempty"`
	PendingWhy string `json:"pending_why,omitempty"`
	// Unextracted is why the memory was written without links to the entities that its text
	// mentions, where the database has an extractor. See engine.DB.ExtractEntities.
	Unextracted string `json:"unextracted,omitempty"`
	// Err is set only under SkipInvalid.
	Err error `json:"-"`
}

// Patch says what an update changes; a nil field stays as it is.
type Patch struct {
	// Text is the new text; Role and Source say what it is and where it comes from.
	Text     *string
	Role     *Role
	Source   *Source
	Metadata *map[string]any // replaces the whole object
	// MergeMetadata changes the fields that it names, as a JSON merge patch (RFC 7386):
	// null removes a field, an object is merged with the one that is there, and any other
	// value takes the field's place. It does not go with Metadata.
	MergeMetadata map[string]any
	Name          *string
	Aliases       *[]string
	// Embedding and Vectors replace the vectors of the spaces that they name. A
	// vector that is not replaced while the text changes is embedded again, or,
	// without an embedder, dropped: it would describe another text.
	Embedding []float32
	Vectors   map[string][]float32
	EventTime *time.Time
	ExpiresAt *time.Time // the zero time: never
	Pinned    *bool
	// Importance fixes it; AutoImportance makes it computed again.
	Importance     *float64
	AutoImportance bool
	Confidence     *float64
}

// CheckPatch checks the given fields as those of a memory.
func CheckPatch(doing string, patch *Patch) error {
	m := Memory{Importance: patch.Importance, Confidence: patch.Confidence}
	if patch.Text != nil {
		if err := CheckText(doing, *patch.Text); err != nil {
			return err
		}
	}
	if patch.Role != nil {
		m.Role = *patch.Role
	}
	if patch.Source != nil {
		m.Source = *patch.Source
	}
	if patch.Name != nil {
		m.Name = *patch.Name
	}
	if patch.Aliases != nil {
		m.Aliases = *patch.Aliases
	}
	if patch.EventTime != nil {
		m.EventTime = *patch.EventTime
	}
	if patch.ExpiresAt != nil {
		m.ExpiresAt = *patch.ExpiresAt
	}
	return m.checkWords(doing)
}
