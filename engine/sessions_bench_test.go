package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

var supportAgent = memory.Owner{Agent: "support"}

// appendText is a message of about 1 KB.
func appendText(n uint64) string {
	return fmt.Sprintf("message %d %s", n, strings.Repeat(fmt.Sprintf("word%d ", n%977), 110))
}

// BenchmarkSessionAppend appends messages with their memories, durably, by 1 writer and by
// 64, each to a session of its own.
func BenchmarkSessionAppend(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			db, err := Open(b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			var n, session atomic.Uint64
			b.SetParallelism(writers)
			before := db.store.Metrics().WAL.BytesWritten
			parallel(b, writers, func() func() error {
				name := fmt.Sprint("s", session.Add(1))
				return func() error {
					_, err := db.Sessions().Append(context.Background(), supportAgent, name, []sessions.Message{{Text: appendText(n.Add(1))}}, nil)
					return err
				}
			})
			b.ReportMetric(float64(db.store.Metrics().WAL.BytesWritten-before)/float64(b.N), "log-B/op")
		})
	}
}

// BenchmarkSessionRaw is what BenchmarkSessionAppend is compared with: one key with as many
// bytes as an append writes to the log, synced by Pebble.
func BenchmarkSessionRaw(b *testing.B) {
	const bytes = 1500
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			db, err := pebble.Open(b.TempDir(), &pebble.Options{Logger: quietLogger{}})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			var n atomic.Uint64
			parallel(b, writers, func() func() error {
				value := []byte(strings.Repeat("v", bytes))
				return func() error {
					return db.Set(binary.BigEndian.AppendUint64(nil, n.Add(1)), value, pebble.Sync)
				}
			})
		})
	}
}

// parallel runs b.N calls by a number of writers.
func parallel(b *testing.B, writers int, writer func() func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, writers)
	b.ResetTimer()
	for range writers {
		call := writer()
		go func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.StopTimer()
}

// BenchmarkSessionRead reads the window of a session of 100,000 messages with memories, and
// a page of 100,000 sessions.
func BenchmarkSessionRead(b *testing.B) {
	const many = 100_000
	db, err := Open(b.TempDir(), &Options{Durability: Buffered})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	s, ctx := db.Sessions(), b.Context()
	for from := 0; from < many; from += 500 {
		var m []sessions.Message
		for i := range 500 {
			m = append(m, sessions.Message{Role: "user", Text: fmt.Sprint("message number ", from+i)})
		}
		if _, err := s.Append(ctx, supportAgent, "long", m, nil); err != nil {
			b.Fatal(err)
		}
		err := db.Update(ctx, func(tx *Tx) error {
			for i := range 500 {
				if _, err := tx.Sessions().Open(ctx, memory.Owner{Agent: "many"}, fmt.Sprint("s", from+i), nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("window", func(b *testing.B) {
		for b.Loop() {
			l, err := s.Load(ctx, supportAgent, "long", nil)
			if err != nil || len(l.Messages) != 20 {
				b.Fatal(len(l.Messages), err)
			}
		}
	})
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			p, err := s.List(ctx, sessions.Query{Owner: memory.Owner{Agent: "many"}})
			if err != nil || len(p.Sessions) != 100 {
				b.Fatal(len(p.Sessions), err)
			}
		}
	})
}

// quietLogger drops what Pebble tells of its opening.
type quietLogger struct{}

func (quietLogger) Infof(string, ...any)  {}
func (quietLogger) Errorf(string, ...any) {}
func (quietLogger) Fatalf(string, ...any) {}
