package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/internal/analysis"
)

const analyzeExample = `
memdbctl analyze "Alice's cats slept in src/auth.rs"
memdbctl analyze "What did she say about tea?" --query
memdbctl analyze 東京タワー --json`

func (a *app) analyzeCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "analyze TEXT… | analyze -", "Show the terms by which a text is found", analyzeExample)
	cmd.Long = `Show the terms by which a text is found: each with the bytes of the text that it
comes from. Two texts match where they have a term in common. Needs no database.

--query shows the terms that are searched for where the text is a query, with how
often each counts: queries do without the words that questions are put with.`
	var (
		language string
		query    bool
	)
	cmd.Flags().StringVar(&language, "language", analysis.English, "how words are treated: "+analysis.English+", or none: as they are")
	cmd.Flags().BoolVar(&query, "query", false, "the terms of a query")
	complete(cmd, "language", analysis.English, "none")
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
		if query {
			return a.printQueryTerms(analyzer, text)
		}
		return a.printTokens(cmd.Context(), analyzer, text)
	}
	return cmd
}

// tokenJSON is a term with the bytes that it comes from.
type tokenJSON struct {
	Term  string `json:"term"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  string `json:"text"`
}

func (a *app) printTokens(ctx context.Context, analyzer *analysis.Analyzer, text string) error {
	t := &table{header: []string{"TERM", "BYTES", "TEXT"}}
	for _, token := range analyzer.Tokens(nil, text) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !a.json {
			t.add(token.Term, fmt.Sprintf("%d-%d", token.Start, token.End), text[token.Start:token.End])
			continue
		}
		if err := a.printJSON(tokenJSON{token.Term, token.Start, token.End, text[token.Start:token.End]}); err != nil {
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

func (a *app) printQueryTerms(analyzer *analysis.Analyzer, text string) error {
	var bag analysis.Bag
	bag.AddQuery(analyzer, text, 1)
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
