package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const kvExample = `
memdbctl kv put last_report '"2026-11-20"' --agent researcher
memdbctl kv get last_report --agent researcher
memdbctl kv list --agent researcher`

func (a *app) kvCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "kv", "Keep JSON values under keys, for a user or an agent", kvExample)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownVerb(cmd, args[0])
		}
		return usagef(cmd, "it takes one of put, get, delete and list")
	}
	cmd.AddCommand(a.kvPutCmd(), a.kvGetCmd(), a.kvDeleteCmd(), a.kvListCmd())
	return cmd
}

func ownerFlags(cmd *cobra.Command, o *memory.Owner) {
	cmd.Flags().StringVar(&o.User, "user", "", userHelp)
	cmd.Flags().StringVar(&o.Agent, "agent", "", agentHelp)
	markNone(cmd)
}

const kvPutExample = `
memdbctl kv put reports_count 3 --agent researcher
memdbctl kv put session '{"page":4}' --agent researcher --ttl 1h
memdbctl kv put leader '"a"' --agent researcher --if-version 0
jq .report today.json | memdbctl kv put report - --agent researcher`

func (a *app) kvPutCmd() *cobra.Command {
	cmd := newCmd("", "put KEY JSON | put KEY -", "Keep a JSON value under a key", kvPutExample)
	cmd.Long = `Keep a JSON value under a key. For - the value is read from the input, up to
8 MiB: the system bounds an argument to less.`
	cmd.Args = exactly(2, "a key and a value in JSON")
	var (
		owner     memory.Owner
		ttl       time.Duration
		ifVersion uint64
	)
	ownerFlags(cmd, &owner)
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "hide it after this time (default never)")
	cmd.Flags().Uint64Var(&ifVersion, "if-version", 0, "only where it has this version, 0: only where it is not there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		opts := &entries.PutOptions{TTL: ttl}
		if cmd.Flags().Changed("if-version") {
			opts.IfVersion = &ifVersion
		}
		if owner == (memory.Owner{}) {
			return &memory.Error{Kind: memory.ErrScope, What: "put"} // before a database is made
		}
		value, err := a.readValue(cmd, args[1])
		if err != nil {
			return err
		}
		return a.create(ctx, nil, func(db *engine.DB) error {
			e, err := db.KV().Put(ctx, owner, args[0], value, opts)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(entries.NewLine(e))
			}
			a.printf("put %s, version %d\n", escape(e.Key), e.Version)
			return nil
		})
	}
	return cmd
}

// readValue is the value that the argument is, or that the input is for "-".
func (a *app) readValue(cmd *cobra.Command, arg string) (json.RawMessage, error) {
	named := "the value" // which is not told: it may be a secret
	if arg == "-" {
		named = "the input"
		var err error
		if arg, err = a.readBounded(cmd.Context(), "the value", entries.MaxValue, "shorten it, or split it under several keys"); err != nil {
			return nil, err
		}
	}
	if !json.Valid([]byte(arg)) {
		return nil, usagef(cmd, "%s is no JSON; a string needs quotes of its own", named)
	}
	return json.RawMessage(arg), nil
}

const kvGetExample = `
memdbctl kv get reports_count --agent researcher
memdbctl kv get reports_count --agent researcher --json`

func (a *app) kvGetCmd() *cobra.Command {
	cmd := newCmd("", "get KEY", "Print the value under a key", kvGetExample)
	cmd.Args = exactly(1, "one key")
	var owner memory.Owner
	ownerFlags(cmd, &owner)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			e, err := db.KV().Get(ctx, owner, args[0])
			switch {
			case err != nil:
				return noEntry("get", args[0], err)
			case a.json:
				return a.printJSON(entries.NewLine(e))
			}
			a.printf("%s\n", e.Value)
			return nil
		})
	}
	return cmd
}

// noEntry says which flags to check where there is no such key.
func noEntry(doing, key string, err error) error {
	if !errors.Is(err, memory.ErrNotFound) {
		return err
	}
	return &memory.Error{
		Kind: memory.ErrNotFound, What: fmt.Sprintf("%s %q", doing, key), Why: "there is no such key",
		Do: "check the key, --user and --agent",
	}
}

const kvDeleteExample = `
memdbctl kv delete reports_count --agent researcher`

func (a *app) kvDeleteCmd() *cobra.Command {
	cmd := newCmd("", "delete KEY", "Delete a key and its value", kvDeleteExample)
	cmd.Args = exactly(1, "one key")
	var owner memory.Owner
	ownerFlags(cmd, &owner)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return a.use(ctx, func(db *engine.DB) error {
			if err := db.KV().Delete(ctx, owner, args[0]); err != nil {
				return noEntry("delete", args[0], err)
			}
			return a.printDeleted(1)
		})
	}
	return cmd
}

const kvListExample = `
memdbctl kv list --agent researcher
memdbctl kv list cache/ --agent researcher --limit 1000 --json`

func (a *app) kvListCmd() *cobra.Command {
	cmd := newCmd("", "list [PREFIX]", "List keys and values in the order of the keys", kvListExample)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef(cmd, "it takes at most one prefix, and got %s", count(len(args), "argument", "arguments"))
		}
		return nil
	}
	var q entries.Query
	ownerFlags(cmd, &q.Owner)
	cmd.Flags().IntVar(&q.Limit, "limit", 100, limitHelp+", up to "+number(memory.MaxLimit))
	cmd.Flags().StringVar(&q.After, "after", "", "those behind this `key`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkLimit(cmd, q.Limit); err != nil {
			return err
		}
		if len(args) == 1 {
			q.Prefix = args[0]
		}
		ctx := cmd.Context()
		return a.read(ctx, func(db *engine.DB) error {
			page, err := db.KV().List(ctx, q)
			if err != nil {
				return err
			}
			return a.printEntries(page.Entries, page.Next != "")
		})
	}
	return cmd
}

func (a *app) printEntries(page []entries.Entry, more bool) error {
	t := a.rows("KEY", "UPDATED", "VALUE")
	for _, e := range page {
		if err := t.add(entries.NewLine(e), e.Key, exchange.Time{Time: e.UpdatedAt}.String(), string(e.Value)); err != nil {
			return err
		}
	}
	if err := t.end(); err != nil {
		return err
	}
	if !more {
		return nil
	}
	return a.printNext(page[len(page)-1].Key)
}

// printNext tells on the error stream how a list goes on.
func (a *app) printNext(after string) error {
	if a.json {
		_, err := fmt.Fprintf(a.err, "{\"next\":%q}\n", after)
		return err
	}
	a.note("there are more; go on with --after %s", after)
	return nil
}
