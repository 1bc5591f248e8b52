package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

const analyzeExample = `
memdbctl analyze "Alice's cats slept in src/auth.rs"
memdbctl analyze "What did she say about tea?" --query
memdbctl analyze "Ich habe die Häuser gesehen"
memdbctl analyze 東京タワー --json`

func (a *app) analyzeCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "analyze TEXT… | analyze -", "Show the terms by which a text is found", analyzeExample)
	cmd.Long = `Show the terms by which a text is found: each with the bytes of the text that it
comes from. Two texts match where they have a term in common. Needs no database.
Words are stemmed in the language of the text; one besides English is named.

--query shows the terms that are searched for where the text is a query, with how
often each counts: queries do without the words that questions are put with. In a
database, the words of a query are read in the languages of the memories in scope;
here, in that of the query.`
	var (
		language string
		query    bool
	)
	cmd.Flags().StringVar(&language, "language", analysis.Auto, "how words are treated: "+analysis.Auto+", in the language of the text; "+analysis.English+"; or none: as they are")
	cmd.Flags().BoolVar(&query, "query", false, "the terms of a query")
	complete(cmd, "language", analysis.Auto, analysis.English, "none")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef(cmd, "there is no text; give it as an argument, or - to read it")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		analyzer, err := analysis.New(analysis.Config{Language: language})
		if err != nil {
			return usagef(cmd, "--language %q: %v", language, err)
		}
		text, err := a.readText(cmd.Context(), args)
		if err != nil {
			return err
		}
		if languages := analyzer.Languages(text); !a.json && slices.ContainsFunc(languages, analysis.Language.Marked) {
			a.note("the text is in %s", listed(languages))
		}
		if query {
			return a.printQueryTerms(cmd.Context(), analyzer, text)
		}
		return a.printTokens(cmd.Context(), analyzer, text)
	}
	return cmd
}

// tokenJSON is a term with the bytes that it comes from, and the languages of the whole text, as codes of ISO 639-1.
type tokenJSON struct {
	Term      string   `json:"term"`
	Start     int      `json:"start"`
	End       int      `json:"end"`
	Text      string   `json:"text"`
	Languages []string `json:"languages,omitempty"`
}

// listed is a list of names of languages.
func listed(languages []analysis.Language) string {
	var names []string
	for _, l := range languages {
		names = append(names, l.String())
	}
	return strings.Join(names, " and ")
}

func (a *app) printTokens(ctx context.Context, analyzer *analysis.Analyzer, text string) error {
	t := &table{header: []string{"TERM", "BYTES", "TEXT"}}
	var codes []string
	for _, l := range analyzer.Languages(text) {
		codes = append(codes, l.Code())
	}
	for _, token := range analyzer.Tokens(nil, text) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !a.json {
			t.add(token.Term, fmt.Sprintf("%d-%d", token.Start, token.End), text[token.Start:token.End])
			continue
		}
		if err := a.printJSON(tokenJSON{token.Term, token.Start, token.End, text[token.Start:token.End], codes}); err != nil {
			return err
		}
	}
	a.printTerms(t)
	return nil
}

// termJSON is a term of a query.
type termJSON struct {
	Term  string `json:"term"`
	Count uint32 `json:"count"`
}

// printQueryTerms prints the terms of a query in a scope whose memories are in the language of the query.
func (a *app) printQueryTerms(ctx context.Context, analyzer *analysis.Analyzer, text string) error {
	var in analysis.Languages
	for _, l := range analyzer.Languages(text) {
		if l.Marked() {
			in = in.With(l)
		}
	}
	var bag analysis.Bag
	if err := bag.AddQueryIn(ctx, analyzer, text, 1, in); err != nil {
		return err
	}
	t := &table{header: []string{"TERM", "COUNT"}}
	for _, term := range bag.Terms() {
		if !a.json {
			t.add(term.Term, number(int64(term.Freq)))
			continue
		}
		if err := a.printJSON(termJSON{term.Term, term.Freq}); err != nil {
			return err
		}
	}
	a.printTerms(t)
	return nil
}

func (a *app) printTerms(t *table) {
	switch {
	case a.json:
	case len(t.rows) == 0:
		a.note("there are no terms in it: nothing will find it by its text")
	default:
		a.printTable(t)
	}
}
