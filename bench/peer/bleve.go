package peer

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/blevesearch/bleve/v2"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/en" // the analyzer "en": stop words and stemming
	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"
)

// bleveText is a scorch index (Apache-2.0) that ranks by BM25.
type bleveText struct{ index bleve.Index }

// OpenBleve makes an empty index. Its batches are durable as long as
// "unsafe_batch" is not set.
func OpenBleve(dir string) (Text, error) {
	x, err := bleve.New(filepath.Join(dir, "bleve"), bleveMapping())
	if err != nil {
		return nil, fmt.Errorf("bleve: %w", err)
	}
	return &bleveText{x}, nil
}

// bleveMapping indexes a text without positions, which ranking does not need,
// and a scope as one term.
func bleveMapping() mapping.IndexMapping {
	text := bleve.NewTextFieldMapping()
	text.Analyzer = "en"
	text.Store = true
	text.IncludeTermVectors = false
	text.IncludeInAll = false
	text.DocValues = false

	scope := bleve.NewKeywordFieldMapping()
	scope.Store = false
	scope.IncludeTermVectors = false
	scope.IncludeInAll = false
	scope.DocValues = false

	doc := bleve.NewDocumentStaticMapping()
	doc.AddFieldMappingsAt("text", text)
	doc.AddFieldMappingsAt("scope", scope)

	m := bleve.NewIndexMapping()
	m.DefaultMapping = doc
	m.ScoringModel = index.BM25Scoring
	return m
}

// Add commits one batch.
func (b *bleveText) Add(_ context.Context, docs []Document) error {
	batch := b.index.NewBatch()
	for i := range docs {
		fields := map[string]any{"text": docs[i].Text, "scope": docs[i].Scope}
		if err := batch.Index(docs[i].ID, fields); err != nil {
			return fmt.Errorf("bleve: %w", err)
		}
	}
	if err := b.index.Batch(batch); err != nil {
		return fmt.Errorf("bleve: %w", err)
	}
	return nil
}

// Search matches any word of the query; the scope only filters.
func (b *bleveText) Search(ctx context.Context, scope, query string, k int) ([]string, error) {
	words := bleve.NewMatchQuery(query)
	words.SetField("text")
	owner := bleve.NewTermQuery(scope)
	owner.SetField("scope")
	both := bleve.NewBooleanQuery()
	both.AddMust(words)
	both.AddFilter(owner)
	found, err := b.index.SearchInContext(ctx, bleve.NewSearchRequestOptions(both, k, 0, false))
	if err != nil {
		return nil, fmt.Errorf("bleve: %w", err)
	}
	ids := make([]string, len(found.Hits))
	for i, hit := range found.Hits {
		ids[i] = hit.ID
	}
	return ids, nil
}

func (b *bleveText) Close() error { return b.index.Close() }
