package peer

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/blevesearch/bleve/v2"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/ar" // the analyzers of languages: stop words and stemming
	_ "github.com/blevesearch/bleve/v2/analysis/lang/cjk"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/da"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/de"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/en"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/es"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/fa"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/fi"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/fr"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/hi"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/hu"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/it"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/nl"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/no"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/pl"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/pt"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/ro"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/ru"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/sv"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/tr"
	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"
)

// BleveLanguages are bleve's analyzers by the code of their language. Other languages have
// the analyzer "standard".
var BleveLanguages = map[string]string{
	"ar": "ar", "da": "da", "de": "de", "en": "en", "es": "es", "fa": "fa", "fi": "fi", "fr": "fr", "hi": "hi", "hu": "hu", "it": "it", "nl": "nl", "no": "no",
	"pl": "pl", "pt": "pt", "ro": "ro", "ru": "ru", "sv": "sv", "tr": "tr", "zh": "cjk", "ja": "cjk", "ko": "cjk",
}

// bleveText is a scorch index (Apache-2.0) that ranks by BM25.
type bleveText struct{ index bleve.Index }

// OpenBleve makes an empty index. Its batches are durable as long as
// "unsafe_batch" is not set.
func OpenBleve(dir string) (Text, error) { return OpenBleveIn(dir, "en") }

// OpenBleveIn makes an empty index whose texts are analysed by an analyzer of bleve, by
// its name. Those of [BleveLanguages] are there.
func OpenBleveIn(dir, analyzer string) (Text, error) {
	x, err := bleve.New(filepath.Join(dir, "bleve"), bleveMapping(analyzer))
	if err != nil {
		return nil, fmt.Errorf("bleve: %w", err)
	}
	return &bleveText{x}, nil
}

// bleveMapping indexes a text without positions, which ranking does not need,
// and a scope as one term.
func bleveMapping(analyzer string) mapping.IndexMapping {
	text := bleve.NewTextFieldMapping()
	text.Analyzer = analyzer
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
