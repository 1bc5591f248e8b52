package peer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
)

// bleveIndex is a scorch index that keeps no texts.
type bleveIndex struct {
	bleveText
	dir string
}

func openBleveIndex(dir string, positions bool) (Index, error) {
	m := bleveMapping("en").(*mapping.IndexMappingImpl)
	text := m.DefaultMapping.Properties["text"].Fields[0]
	text.Store, text.IncludeTermVectors = false, positions
	dir = filepath.Join(dir, "bleve")
	x, err := bleve.New(dir, m)
	if err != nil {
		return nil, fmt.Errorf("bleve: %w", err)
	}
	return &bleveIndex{bleveText{x}, dir}, nil
}

// Settle merges all segments into one, which is as fast as scorch gets.
func (b *bleveIndex) Settle(ctx context.Context) error {
	x, err := b.index.Advanced()
	if err != nil {
		return fmt.Errorf("bleve: %w", err)
	}
	s, ok := x.(*scorch.Scorch)
	if !ok {
		return errors.New("bleve: the index is not a scorch index")
	}
	if err := s.ForceMerge(ctx, nil); err != nil {
		return fmt.Errorf("bleve: %w", err)
	}
	return b.cleaned(ctx)
}

// cleaned waits until the files of merged segments are removed, which happens in
// the background: until the folder has stood still for a second, at most ten.
func (b *bleveIndex) cleaned(ctx context.Context) error {
	last := int64(-1)
	for range 10 {
		size, err := b.Bytes()
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed while it was looked at
			return err
		}
		if err == nil && size == last {
			return nil
		}
		last = size
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return nil
}

// Find asks through the same queries that bleve's documentation shows.
func (b *bleveIndex) Find(ctx context.Context, ask Ask) ([]string, error) {
	var words query.Query
	switch ask.Mode {
	case Phrase:
		q := bleve.NewMatchPhraseQuery(ask.Text)
		q.SetField("text")
		words = q
	default:
		q := bleve.NewMatchQuery(ask.Text)
		q.SetField("text")
		if ask.Mode == All {
			q.SetOperator(query.MatchQueryOperatorAnd)
		}
		words = q
	}
	if ask.Scope != "" {
		owner := bleve.NewTermQuery(ask.Scope)
		owner.SetField("scope")
		owner.SetBoost(0)
		words = bleve.NewConjunctionQuery(owner, words) // ten times as fast as a filter
	}
	found, err := b.index.SearchInContext(ctx, bleve.NewSearchRequestOptions(words, ask.K, 0, false))
	if err != nil {
		return nil, fmt.Errorf("bleve: %w", err)
	}
	ids := make([]string, len(found.Hits))
	for i, hit := range found.Hits {
		ids[i] = hit.ID
	}
	return ids, nil
}

// Bytes is the size of the folder.
func (b *bleveIndex) Bytes() (int64, error) { return harness.FolderSize(b.dir) }
