package server

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/metrics"
)

// entry is what the log and the metrics have of a request. A query, a header, a body and an ID may
// be somebody's secret: none of them is here, and of the path only its pattern.
type entry struct {
	id, dialect, key string
	begun            time.Time
	failure          *Failure
}

// counts are the metrics of a server.
type counts struct {
	running     atomic.Int64
	connections atomic.Int64
	mu          sync.Mutex
	answers     map[outcome]uint64
	times       map[string]*metrics.Timer // by dialect
}

type outcome struct {
	dialect string
	status  int
}

// connection counts the connections by what they do.
func (c *counts) connection(conn net.Conn, to http.ConnState) {
	switch to {
	case http.StateNew:
		c.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		c.connections.Add(-1)
	}
}

// finish logs and counts a request.
func (s *Server) finish(r *http.Request, out *answer) {
	e, took := &out.entry, s.o.Clock().Sub(out.entry.begun)
	s.counts.add(e.dialect, out.status, took)
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("id", e.id), slog.String("dialect", e.dialect), slog.String("method", r.Method),
		slog.String("route", cmp.Or(r.Pattern, "none")), slog.Int("status", out.status),
		slog.Int64("bytes", out.bytes), slog.Duration("took", took),
		slog.String("key", e.key), slog.String("from", r.RemoteAddr),
	}
	if f := e.failure; f != nil {
		attrs = append(attrs, slog.String("code", f.Code))
		if f.Status >= http.StatusInternalServerError || f.Status == http.StatusUnauthorized && f.Err != nil && !errors.Is(f.Err, apikeys.ErrNoKey) { // whose text tells of the server
			level = slog.LevelError
			attrs = append(attrs, slog.Any("error", cmp.Or(f.Err, error(f))))
		}
	}
	s.o.Logger.LogAttrs(r.Context(), level, "request", attrs...)
}

func (c *counts) add(dialect string, status int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers == nil {
		c.answers, c.times = map[outcome]uint64{}, map[string]*metrics.Timer{}
	}
	c.answers[outcome{dialect, status}]++
	t := c.times[dialect]
	if t == nil {
		t = new(metrics.Timer)
		c.times[dialect] = t
	}
	t.Observe(took)
}

// metrics writes what is counted in the form of Prometheus.
func (s *Server) metrics(c *Call) error {
	var b bytes.Buffer
	if err := s.figures(&b); err != nil {
		return err
	}
	s.counts.write(&b)
	failed := 0
	if s.writable() != nil {
		failed = 1
	}
	fmt.Fprintf(&b, "# HELP memdb_failed Whether the database takes no writes now.\n# TYPE memdb_failed gauge\nmemdb_failed %d\n", failed)
	c.W.Header().Set("Content-Type", metrics.ContentType)
	_, err := c.W.Write(b.Bytes())
	return err
}

// figures writes those of the database, or of the shards.
func (s *Server) figures(b *bytes.Buffer) error {
	if s.o.Shards != nil {
		return s.o.Shards.Metrics(b)
	}
	free, reserve := s.db.Disk()
	return errors.Join(metrics.WritePrometheus(b, s.db.Metrics()), metrics.WriteDisk(b, free, reserve))
}

func (c *counts) write(b *bytes.Buffer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(b, "# HELP memdbd_requests_running Requests that are being answered.\n# TYPE memdbd_requests_running gauge\nmemdbd_requests_running %d\n", c.running.Load())
	fmt.Fprintf(b, "# HELP memdbd_connections Connections of clients.\n# TYPE memdbd_connections gauge\nmemdbd_connections %d\n", c.connections.Load())
	b.WriteString("# HELP memdbd_requests_total Requests that were answered.\n# TYPE memdbd_requests_total counter\n")
	for _, o := range slices.SortedFunc(maps.Keys(c.answers), func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.dialect, b.dialect), cmp.Compare(a.status, b.status))
	}) {
		fmt.Fprintf(b, "memdbd_requests_total{dialect=%q,status=\"%d\"} %d\n", o.dialect, o.status, c.answers[o])
	}
	b.WriteString("# HELP memdbd_request_seconds Time that answers took.\n# TYPE memdbd_request_seconds histogram\n")
	for _, dialect := range slices.Sorted(maps.Keys(c.times)) {
		d := c.times[dialect].Read()
		for _, bucket := range d.Buckets {
			fmt.Fprintf(b, "memdbd_request_seconds_bucket{dialect=%q,le=\"%g\"} %d\n", dialect, bucket.Seconds, bucket.Count)
		}
		fmt.Fprintf(b, "memdbd_request_seconds_bucket{dialect=%q,le=\"+Inf\"} %d\n", dialect, d.Count)
		fmt.Fprintf(b, "memdbd_request_seconds_sum{dialect=%q} %g\nmemdbd_request_seconds_count{dialect=%q} %d\n", dialect, d.Seconds, dialect, d.Count)
	}
}
