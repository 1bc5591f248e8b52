package exchange

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TypeDatabase is the type of the line that a whole export begins with.
const TypeDatabase = "database"

// Database tells how the texts of an export were searched. An import compares it
// with the database that it fills, which has to be created with the same
// [Database.Options].
type Database struct {
	// Type is TypeDatabase; Language and IndexedText are settings of the database.
	Type        string                `json:"type"`
	Language    string                `json:"language"`
	IndexedText []memory.IndexedField `json:"indexed_text"`
}

// NewDatabase is the line of a database.
func NewDatabase(s engine.Settings) Database {
	return Database{TypeDatabase, s.Language, slices.Clip(append([]memory.IndexedField{}, s.IndexedText...))}
}

// Options are those that a database is created with to search texts in the same
// way.
func (d *Database) Options() *engine.Options {
	return &engine.Options{Language: d.Language, IndexedText: d.IndexedText}
}

// database notes where the database would find other things than the one that was
// exported.
func (b *batch) database(d *Database) error {
	s := b.db.Settings()
	if d.Language != "" && d.Language != s.Language {
		b.report.Notes = append(b.report.Notes, fmt.Sprintf(
			"the texts were indexed as %s and are now as %s; to keep that, import into a new database", d.Language, s.Language))
	}
	if d.IndexedText != nil && !slices.Equal(d.IndexedText, s.IndexedText) {
		b.report.Notes = append(b.report.Notes, fmt.Sprintf(
			"along with the text %v were searched and now %v are; to keep that, import into a new database", d.IndexedText, s.IndexedText))
	}
	return nil
}

// TypeSpace is the type of a line about a vector space.
const TypeSpace = "space"

// Space is a vector space as one flat JSON object.
type Space struct {
	// Type is TypeSpace; the others are as in engine.SpaceConfig.
	Type   string `json:"type"`
	Name   string `json:"name"`
	Dim    int    `json:"dim"`
	Metric string `json:"metric"`
	Model  string `json:"model,omitempty"`
	Base   string `json:"base,omitempty"`
}

// NewSpace is the line of a vector space.
func NewSpace(s engine.SpaceInfo) Space {
	return Space{TypeSpace, s.Name, s.Dim, s.Metric, s.Model, s.Base}
}

// space makes a vector space, which may be there already if it is the same.
func (b *batch) space(ctx context.Context, at LineError, s *Space) error {
	err := b.flush(ctx)
	if err != nil {
		return err
	}
	at.Err = b.db.CreateSpace(ctx, engine.SpaceConfig{Name: s.Name, Dim: s.Dim, Metric: engine.Metric(s.Metric), Model: s.Model, Base: s.Base})
	if at.Err == nil {
		return nil
	}
	if !isOfOneMemory(at.Err) {
		return at.Err
	}
	return b.refuse(ctx, at)
}
