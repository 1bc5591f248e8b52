package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
)

const statsExample = `
memdbctl stats
memdbctl stats --json
memdbctl stats --by user`

func (a *app) statsCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "stats", "Show how much the database holds and takes", statsExample)
	cmd.Args = exactly(0, "no argument")
	var by string
	cmd.Flags().StringVar(&by, "by", "", "how many memories each `user`, agent or run has, the largest first, in place of all else")
	complete(cmd, "by", string(engine.GroupUser), string(engine.GroupAgent), string(engine.GroupRun))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			if cmd.Flags().Changed("by") {
				return a.statsBy(ctx, db, engine.Group(by))
			}
			s, err := db.Stats(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s)
			}
			return a.printStats(s)
		})
	}
	return cmd
}

// statsBy prints the groups of all memories, the largest first.
func (a *app) statsBy(ctx context.Context, db *engine.DB, by engine.Group) error {
	sizes, err := db.Memories().Groups(ctx, engine.GroupQuery{AllScopes: true, By: by})
	if err != nil {
		return err
	}
	slices.SortStableFunc(sizes, func(x, y engine.GroupSize) int { return cmp.Compare(y.Memories, x.Memories) })
	return a.printGroups(sizes)
}

// printStats prints the numbers under the names that they have in JSON, so that
// what the engine adds is here too.
func (a *app) printStats(s engine.Stats) error {
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
	case strings.HasSuffix(name, "bytes") || strings.HasPrefix(name, "memory.") || strings.HasPrefix(name, "files."):
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
