package cli

import (
	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

const kvExample = `
memdbctl kv put last_report '"2026-11-20"' --agent researcher
memdbctl kv get last_report --agent researcher
memdbctl kv list --agent researcher`

const kvPutLong = `Store a JSON value under a key. For - the value is read from the input, up to
8 MiB: the system bounds an argument to less.`

const kvPutExample = `
memdbctl kv put reports_count 3 --agent researcher
memdbctl kv put session '{"page":4}' --agent researcher --ttl 1h
memdbctl kv put leader '"a"' --agent researcher --if-version 0
jq .report today.json | memdbctl kv put report - --agent researcher`

func (a *app) kvCmd() *cobra.Command {
	cmd := newCmd(groupMemories, "kv", "Keep JSON values under keys, for a user or an agent", kvExample)
	return withVerbs(
		cmd,
		opCmd(a, api.KVPut, shown[api.KVPutRequest, entries.Line]{
			help: help{long: kvPutLong, example: kvPutExample},
			show: func(_ *api.KVPutRequest, e entries.Line) { a.printf("put %s, version %d\n", escape(e.Key), e.Version) },
		}),
		opCmd(a, api.KVGet, shown[api.KVKey, entries.Line]{
			help: help{example: "\nmemdbctl kv get reports_count --agent researcher\nmemdbctl kv get reports_count --agent researcher --json"},
			show: func(_ *api.KVKey, e entries.Line) { a.printf("%s\n", e.Value) },
		}),
		opCmd(a, api.KVDelete, shown[api.KVKey, exchange.Deleted]{
			help: help{example: "\nmemdbctl kv delete reports_count --agent researcher"},
			show: printDeletedOf[api.KVKey](a),
		}),
		listCmd(a, api.KVList, listShown[api.KVListRequest, entries.Line]{
			help:    help{example: "\nmemdbctl kv list --agent researcher\nmemdbctl kv list cache/ --agent researcher --limit 1000 --json"},
			columns: columns[api.KVListRequest]("KEY", "UPDATED", "VALUE"),
			cells:   func(e entries.Line) []any { return []any{e.Key, e.UpdatedAt.String(), string(e.Value)} },
			cursor:  func(e entries.Line) string { return e.Key },
		}),
	)
}

// printDeletedOf shows how many an operation has deleted.
func printDeletedOf[Q any](a *app) func(*Q, exchange.Deleted) {
	return func(_ *Q, d exchange.Deleted) { a.printf("deleted %s\n", number(d.Deleted)) }
}
