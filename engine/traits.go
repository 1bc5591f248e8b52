package engine

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/dates"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// traits adds the times that a text speaks of to its words, as dates, and notes what a recall asks
// of a text beside them: whether it asks, whether it says when, and who says it. What is said by
// how far away it is ("yesterday") counts from the time of the event, or of the creation.
func (db *DB) traits(ctx context.Context, p *prepared, bag *analysis.Bag, meta map[string]any) error {
	words := &db.tables.Words
	p.traits = nil
	if words.Analyzer.Load().Older() {
		return nil // of an index that has none, until it is made anew
	}
	if asks(p.rec.Text) {
		p.traits = append(p.traits, invindex.Value{Field: layout.FieldTrait, Key: layout.TraitAsks})
	}
	at := p.rec.Event
	if at == 0 {
		at = p.rec.Created
	}
	said := dates.In(p.rec.Text, clock.FromMillis(at))
	for _, m := range said {
		if err := bag.AddWords(ctx, words.Analyzer.Load(), m.Words, words.Unit); err != nil {
			return err
		}
	}
	if len(said) > 0 {
		p.traits = append(p.traits, invindex.Value{Field: layout.FieldTrait, Key: layout.TraitDated})
	}
	for _, f := range words.Indexed {
		if !f.Speaks() {
			continue
		}
		if key := state.SpeakerKey(f.Value(&p.rec, meta)); key != "" && len(key) <= memory.MaxIndexedValue {
			p.traits = append(p.traits, invindex.Value{Field: layout.FieldSpeaker, Key: key})
		}
	}
	return nil
}

// asks reports whether a text ends with a question mark, of any script, but for what closes it:
// quotes, brackets, emoji.
func asks(text string) bool {
	for text != "" {
		c, size := utf8.DecodeLastRuneInString(text)
		switch {
		case strings.ContainsRune("?\u037e\u061f\uff1f\u203d\u2047\u2048\u2049\u2753\u2754", c):
			return true
		case unicode.IsLetter(c) || unicode.IsNumber(c) || c == '.' || c == '。':
			return false
		}
		text = text[:len(text)-size]
	}
	return false
}
