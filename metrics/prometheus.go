package metrics

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ContentType is the media type of what WritePrometheus writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// WritePrometheus writes metrics in the text exposition format 0.0.4 of Prometheus. All names begin
// with "memdb_"; times are in seconds, sizes in bytes.
func WritePrometheus(w io.Writer, m Metrics) error {
	p := &exposition{w: bufio.NewWriter(w)}
	p.gauge("lsn", "LSN of the newest durable commit.", float64(m.LSN))
	p.counter("commits_total", "Commits.", float64(m.Commits.Count))
	p.counter("commit_batches_total", "Batches of commits that were applied together.", float64(m.Commits.Batches))
	p.histogram("commit_apply_seconds", "Time to apply a batch of commits, under the writer lock.", one(m.Commits.Apply))
	p.histogram("sync_seconds", "Time of a sync of the log.", one(m.Commits.Sync))
	p.histogram("recall_seconds", "Time of a recall.", one(m.Recall.Total))
	p.counter("recall_failures_total", "Recalls that returned an error.", float64(m.Recall.Failed))
	p.histogram("recall_stage_seconds", "Time of the stages of recalls.", series[Durations]{"stage", m.Recall.Stages})
	p.head("evictions_total", "counter", "Memories that went, by reason.")
	for _, reason := range slices.Sorted(maps.Keys(m.Evictions)) {
		p.sample("evictions_total", label("reason", reason), float64(m.Evictions[reason]))
	}
	p.gauge("unlinked_vectors", "Vectors that wait for the vector graph.", float64(m.Index.UnlinkedVectors))
	p.gauge("dying_memories", "Memories that are gone and still take room.", float64(m.Index.Dying))
	p.counter("flushes_total", "Flushes of memtables.", float64(m.Store.Flushes))
	p.counter("compactions_total", "Compactions of the store.", float64(m.Store.Compactions))
	p.gauge("compaction_debt_bytes", "Bytes that compactions have still to rewrite.", float64(m.Store.CompactionDebtBytes))
	p.gauge("log_bytes", "Bytes of the logs that are not flushed.", float64(m.Store.LogBytes))
	p.gauge("read_amplification", "Tables that a read may have to look into.", float64(m.Store.ReadAmplification))
	p.counter("block_cache_hits_total", "Blocks that were found in the cache.", float64(m.Caches.BlockHits))
	p.counter("block_cache_misses_total", "Blocks that were read from the disk.", float64(m.Caches.BlockMisses))
	p.head("cache_bytes", "gauge", "Bytes that the caches hold.")
	for _, c := range []struct {
		name  string
		bytes int64
	}{{"blocks", m.Caches.BlockBytes}, {"embeddings", m.Caches.EmbeddingBytes}, {"scopes", m.Caches.ScopeBytes}, {"vectors", m.Caches.VectorBytes}} {
		p.sample("cache_bytes", label("cache", c.name), float64(c.bytes))
	}
	p.gauge("change_readers", "Readers of the log that run.", float64(m.Changes.Readers))
	p.gauge("changes_behind", "Commits that the slowest reader of the log has still to read.", float64(m.Changes.Behind))
	p.archives(m.Archives)
	return p.w.Flush() // which has the first error of any write
}

// WriteDisk writes the free space of a disk and what is kept of it, as WritePrometheus does; nothing where both are 0, as
// the system does not tell.
func WriteDisk(w io.Writer, free, reserve int64) error {
	if reserve == 0 {
		return nil
	}
	p := &exposition{w: bufio.NewWriter(w)}
	p.gauge("disk_free_bytes", "Free space in the file system of the database.", float64(free))
	p.gauge("disk_reserve_bytes", "Free space that is kept: no writes are taken below it and 1/64 of it.", float64(reserve))
	return p.w.Flush()
}

// archives writes what is known of each archive; nothing where there is none.
func (p *exposition) archives(all map[string]Archive) {
	if len(all) == 0 {
		return
	}
	for _, f := range []struct {
		name, typ, help string
		of              func(a *Archive) float64
	}{
		{"archive_lsn", "gauge", "LSN of the newest commit that the archive has.", func(a *Archive) float64 { return float64(a.LSN) }},
		{"archive_lag_seconds", "gauge", "How long the oldest bytes have waited for the archive.", func(a *Archive) float64 { return a.LagSeconds }},
		{"archive_unsent_bytes", "gauge", "Bytes that wait for the archive in RAM.", func(a *Archive) float64 { return float64(a.UnsentBytes) }},
		{"archive_segments_total", "counter", "Segments that were appended.", func(a *Archive) float64 { return float64(a.Segments) }},
		{"archive_failing", "gauge", "1 while the archive fails.", func(a *Archive) float64 { return float64(a.Failing) }},
	} {
		p.head(f.name, f.typ, f.help)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			a := all[name]
			p.sample(f.name, label("archive", name), f.of(&a))
		}
	}
}

// series are values by the value of one label.
type series[T any] struct {
	label  string // empty: there is one value, without a label
	values map[string]T
}

func one[T any](v T) series[T] { return series[T]{"", map[string]T{"": v}} }

type exposition struct{ w *bufio.Writer }

func (p *exposition) head(name, typ, help string) {
	fmt.Fprintf(p.w, "# HELP memdb_%s %s\n# TYPE memdb_%s %s\n", name, help, name, typ)
}

func (p *exposition) sample(name, labels string, v float64) {
	fmt.Fprintf(p.w, "memdb_%s%s %s\n", name, labels, number(v))
}

func (p *exposition) counter(name, help string, v float64) {
	p.head(name, "counter", help)
	p.sample(name, "", v)
}

func (p *exposition) gauge(name, help string, v float64) {
	p.head(name, "gauge", help)
	p.sample(name, "", v)
}

func (p *exposition) histogram(name, help string, s series[Durations]) {
	p.head(name, "histogram", help)
	for _, of := range slices.Sorted(maps.Keys(s.values)) {
		d := s.values[of]
		var pairs []string
		if s.label != "" {
			pairs = []string{s.label, of}
		}
		for _, b := range d.Buckets {
			p.sample(name+"_bucket", label(append(slices.Clone(pairs), "le", number(b.Seconds))...), float64(b.Count))
		}
		p.sample(name+"_bucket", label(append(slices.Clone(pairs), "le", "+Inf")...), float64(d.Count))
		p.sample(name+"_sum", label(pairs...), d.Seconds)
		p.sample(name+"_count", label(pairs...), float64(d.Count))
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// quoted are the characters that a label's value has in another form.
var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// label writes labels, given as names and values in turn.
func label(pairs ...string) string {
	if len(pairs) == 0 {
		return ""
	}
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		fmt.Fprintf(&b, `%s="%s"`, pairs[i], quoted.Replace(pairs[i+1]))
	}
	return b.String() + "}"
}
