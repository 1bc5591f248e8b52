package peer

import (
	"context"
	"encoding/binary"
	"math"
)

// Record is one thing to be stored, by itself and durably.
type Record struct {
	Number uint64 // unique, ascending
	Scope  string
	Text   string
	Vector []float32
}

// Store is an engine that keeps single records. Put may be called by several
// goroutines at a time; when it returns, the record survives a crash.
type Store interface {
	Put(ctx context.Context, r *Record) error
	Close() error
}

// A StoreOpener makes an empty Store in a folder.
type StoreOpener struct {
	Name string
	// Missing says why this build cannot open it, and is empty where it can.
	Missing string
	// Open makes it for so many writers at a time. One that keeps plain values
	// keeps valueBytes for each record.
	Open func(dir string, writers, valueBytes int) (Store, error)
}

// Stores lists the engines that keep single records.
func Stores() []StoreOpener {
	return []StoreOpener{
		{Name: "pebble", Open: openPebble},
		{Name: "bbolt", Open: openBbolt},
		{Name: "badger", Open: openBadger},
		{Name: "sqlite-modernc", Open: func(dir string, _, _ int) (Store, error) { return openSQLiteRows("sqlite", dir) }},
		{Name: "sqlite-mattn", Missing: mattn.Missing, Open: func(dir string, _, _ int) (Store, error) { return openSQLiteRows("sqlite3", dir) }},
	}
}

// appendVector appends the components as little-endian float32s.
func appendVector(dst []byte, vec []float32) []byte {
	for _, f := range vec {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(f))
	}
	return dst
}

// key is the record's number; keys ascend, which suits every engine best.
func (r *Record) key() []byte { return binary.BigEndian.AppendUint64(nil, r.Number) }

// value is the record as size bytes: the text and the vector, then the text again
// for what an index would add.
func (r *Record) value(size int) []byte {
	b := make([]byte, 0, size+len(r.Text)+4*len(r.Vector))
	b = append(b, r.Text...)
	b = appendVector(b, r.Vector)
	for len(b) < size && r.Text != "" {
		b = append(b, r.Text...)
	}
	return b[:min(size, len(b))]
}
