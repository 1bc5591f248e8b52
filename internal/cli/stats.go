package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const statsExample = `
memdbctl stats
memdbctl stats --json
memdbctl stats --by user
memdbctl stats --since 7d`

func (a *app) statsCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "stats", "Show how much the database holds and takes", statsExample)
	cmd.Args = exactly(0, "no argument")
	cmd.Long = `Show how much the database holds, and what it takes on the disk: files by kind, and
the same bytes by structure. On a terminal bytes have units.

--since DAY|DURATION counts what was written since a day (2026-11-24, at midnight UTC),
a time or so long ago (7d, 12h), in place of all else: by the log of the commits, so it
is when this database was written to, whatever times its memories have. Bytes are those
of records, vectors, histories, log and messages, before compression and without
indexes. Where the log does not reach back so far (log_ms of the policy), it says so.`
	var by, since string
	cmd.Flags().StringVar(&by, "by", "", "how many memories each `user`, agent or run has, the largest first, in place of all else")
	complete(cmd, "by", string(memory.GroupUser), string(memory.GroupAgent), string(memory.GroupRun))
	cmd.Flags().StringVar(&since, "since", "", "what was written since a `DAY`, a time or so long ago, in place of all else")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		var from time.Time
		if cmd.Flags().Changed("since") {
			if cmd.Flags().Changed("by") {
				return usagef(cmd, "--since and --by exclude each other")
			}
			var err error
			if from, err = a.parseSince(since); err != nil {
				return usagef(cmd, "--since %q: %v", since, err)
			}
		}
		return a.read(ctx, func(db *engine.DB) error {
			if !from.IsZero() {
				return a.statsSince(ctx, db, from)
			}
			if cmd.Flags().Changed("by") {
				return a.statsBy(ctx, db, memory.Group(by))
			}
			s, err := db.Stats(ctx)
			if err == nil {
				err = db.AddStructures(ctx, &s)
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s)
			}
			s.Metrics = nil // histograms are for programs
			return a.printFigures(s)
		})
	}
	return cmd
}

// statsBy prints the groups of all memories, the largest first.
func (a *app) statsBy(ctx context.Context, db *engine.DB, by memory.Group) error {
	sizes, err := db.Memories().Groups(ctx, memory.GroupQuery{AllScopes: true, By: by})
	if err != nil {
		return err
	}
	slices.SortStableFunc(sizes, func(x, y memory.GroupSize) int { return cmp.Compare(y.Memories, x.Memories) })
	t := a.rows(groupColumns...)
	for _, g := range sizes {
		if err := t.add(g, groupCells(g)...); err != nil {
			return err
		}
	}
	return t.end()
}

// parseSince reads a day, a time, or a length of time before now.
func (a *app) parseSince(s string) (time.Time, error) {
	if span, err := policy.ParseSpan(s); err == nil && span >= 0 {
		return a.now().Add(-time.Duration(span)), nil
	}
	t, err := scalar.Reader{Zone: a.zone}.Time(s)
	switch {
	case err != nil:
		return t, errors.New("it is neither a day, a time nor a length of time; give it as 2026-11-24, 7d or 12h")
	case t.After(a.now()):
		return t, errors.New("it is still to come; give an earlier time")
	}
	return t, nil
}

// statsSince prints what was written since a time.
func (a *app) statsSince(ctx context.Context, db *engine.DB, since time.Time) error {
	g, err := db.GrowthSince(ctx, since)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(g)
	}
	if !g.Whole {
		a.note("the log of commits begins at %s: what was written before is not counted", exchange.Time{Time: g.Since})
	}
	return a.printFigures(g)
}

// printFigures prints numbers under the names that they have in JSON, so that
// what the engine adds is here too.
func (a *app) printFigures(s any) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("print the stats: %w", err)
	}
	t := &table{header: []string{"", ""}, whole: true}
	if err := flatten(t, "", b); err != nil {
		return fmt.Errorf("print the stats: %w", err)
	}
	if a.outWidth > 0 {
		for _, row := range t.rows {
			row[1] = readable(row[0], row[1])
		}
	}
	a.printTable(t)
	return nil
}

// readable is a number as a person reads it: what counts bytes with a unit.
func readable(name, value string) string {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return value
	case strings.HasSuffix(name, "bytes") || strings.HasPrefix(name, "memory.") || strings.HasPrefix(name, "files.") || strings.HasPrefix(name, "structures."):
		return size(n)
	}
	return number(n)
}

// flattenNamed does as flatten for a list of objects, "a.n.b" for the value b of the
// one with the name n.
func flattenNamed(t *table, prefix string, list []byte) error {
	var objects []json.RawMessage
	if err := json.Unmarshal(list, &objects); err != nil {
		return err
	}
	for _, o := range objects {
		var named struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(o, &named); err != nil {
			return err
		}
		if err := flatten(t, prefix+named.Name+".", o); err != nil {
			return err
		}
	}
	return nil
}

// flatten adds a row for every value of an object, in its order, and "a.b" for
// the value b of the object a.
func flatten(t *table, prefix string, object []byte) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name := prefix + fmt.Sprint(key)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		switch {
		case value[0] == '{':
			if err := flatten(t, name+".", value); err != nil {
				return err
			}
		case value[0] == '[':
			if err := flattenNamed(t, name+".", value); err != nil {
				return err
			}
		case string(value) != "null":
			t.add(name, string(value))
		}
	}
	return nil
}
