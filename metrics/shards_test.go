package metrics

import (
	"strings"
	"testing"
)

func TestWriteShards(t *testing.T) {
	var b strings.Builder
	if err := WriteShards(&b, map[int]Shard{7: {Epoch: 2, LSN: 40, LagMS: 1500, Unsent: 10, Published: 3}, 1: {Epoch: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"memdb_shards 2\n", "memdb_shard_epoch{shard=\"1\"} 1\nmemdb_shard_epoch{shard=\"7\"} 2\n", `memdb_shard_lsn{shard="7"} 40`,
		`memdb_shard_lag_seconds{shard="7"} 1.5`, `memdb_shard_unsent_bytes{shard="7"} 10`, `memdb_shard_published_total{shard="7"} 3`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
