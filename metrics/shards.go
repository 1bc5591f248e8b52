package metrics

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
)

// Shard is how far a shard of a cluster is that this process owns.
type Shard struct {
	// Epoch is how often it has changed its owner, LSN its newest commit.
	Epoch, LSN uint64
	// LagMS is for how long the oldest write has waited for the log, in milliseconds, and Unsent how
	// many bytes wait. Published is how many messages were sent to the log.
	LagMS, Unsent int64
	Published     uint64
}

// WriteShards writes the figures of the shards, by their numbers, as WritePrometheus does.
func WriteShards(w io.Writer, all map[int]Shard) error {
	p := &exposition{w: bufio.NewWriter(w)}
	p.gauge("shards", "Shards that this node owns.", float64(len(all)))
	for _, f := range []struct {
		name, typ, help string
		of              func(s Shard) float64
	}{
		{"shard_epoch", "counter", "How often the shard has changed its owner.", func(s Shard) float64 { return float64(s.Epoch) }},
		{"shard_lsn", "counter", "LSN of the newest commit of the shard.", func(s Shard) float64 { return float64(s.LSN) }},
		{"shard_lag_seconds", "gauge", "For how long the oldest write has waited for the log.", func(s Shard) float64 { return float64(s.LagMS) / 1000 }},
		{"shard_unsent_bytes", "gauge", "Bytes that wait for the log.", func(s Shard) float64 { return float64(s.Unsent) }},
		{"shard_published_total", "counter", "Messages that this node has sent to the log of the shard.", func(s Shard) float64 { return float64(s.Published) }},
	} {
		p.head(f.name, f.typ, f.help)
		for _, n := range slices.Sorted(maps.Keys(all)) {
			p.sample(f.name, label("shard", strconv.Itoa(n)), f.of(all[n]))
		}
	}
	return p.w.Flush() // which has the first error of any write
}
