package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/store"
)

// Losses are what could not be read when a database was opened. The database opens without it, and says what that is: in
// the log, in Stats.Lost, and a check names each memory. What is derived is made again where a database is opened to be
// written: the place of a memory in the indexes follows from its record.
type Losses struct {
	damages *store.Damages
	log     *slog.Logger
	n       int64
	// docs are the documents whose places in the indexes are among it. Their memories may
	// have records still.
	docs []lostDocs
}

// lostDocs are keys of documents that cannot be read, from one up to another.
type lostDocs struct{ from, to []byte }

// mostTold bounds what the log says of losses: a thousand of them have one cause.
const mostTold = 20

// NewLosses returns an empty list. Each loss is noted in damages and told to log.
func NewLosses(damages *store.Damages, log *slog.Logger) *Losses {
	return &Losses{damages: damages, log: log}
}

// Count is how many losses there are.
func (l *Losses) Count() int64 { return l.n }

// Lost notes something that cannot be read.
func (l *Losses) Lost(what string, err error) {
	if !store.IsBlock(err) { // the store has noted a block
		l.damages.Note(fmt.Sprintf("%s: %s", what, fault.CauseText(err)))
	}
	if l.n++; l.n <= mostTold {
		l.log.Error("something is lost, and the database opens without it; check names the memories", "what", what, "error", err)
	}
}

// Without returns nil where Open continues without what an error says cannot be read.
func (l *Losses) Without(what string, err error) error {
	if !store.Unreadable(err) {
		return err
	}
	l.Lost(what, err)
	return nil
}

// Numbered are keys that end in a number, and lie in its order.
type Numbered struct {
	key   func(n uint64) []byte
	parse func(key []byte) (n uint64, ok bool)
	start uint64 // the first number
	end   uint64 // one past the last
	docs  uint64 // that a number stands for
}

// Within are those of the keys from a number up to, but not including, another.
func (k Numbered) Within(start, end uint64) *Numbered {
	k.start, k.end = start, end
	return &k
}

// From are the keys from a number on.
func (k Numbered) From(start uint64) *Numbered { return k.Within(start, k.end) }

// scanAround visits keys as kv.Scan does, and goes round what cannot be read: blocks of the
// store, and values for which visit says so. It calls lost with the range of numbers.
func (k *Numbered) scanAround(r kv.Reader, visit func(n uint64, key, value []byte) error, lost func(from, to uint64, err error) error) error {
	for from := k.start; from < k.end; {
		next := from
		err := kv.Scan(r, k.key(from), layout.PrefixEnd(k.key(k.end-1)), func(key, value []byte) error {
			n, ok := k.parse(key)
			if !ok {
				return layout.BadKey("document", key)
			}
			next = n
			err := visit(n, key, value)
			if store.Unreadable(err) {
				err = lost(n, n+1, err)
			}
			next = n + 1
			return err
		})
		if err == nil || !pebble.IsCorruptionError(err) {
			return err
		}
		// From next on nothing can be read until the block ends: a range of numbers.
		// Where a key can be read, its value cannot.
		bad := sort.Search(int(k.end-next), func(i int) bool { return k.readable(r, next+uint64(i)) })
		from = next + max(1, uint64(bad))
		if err := lost(next, from, err); err != nil {
			return err
		}
	}
	return nil
}

// readable reports whether the store can look for a number.
func (k *Numbered) readable(r kv.Reader, n uint64) bool {
	err := kv.Scan(r, k.key(n), layout.PrefixEnd(k.key(k.end-1)), func(_, _ []byte) error { return kv.ErrStop })
	return err == nil || errors.Is(err, kv.ErrStop)
}

// DocKeys are the keys of documents of a kind.
func DocKeys(ks *layout.Keys, kind byte) *Numbered {
	return &Numbered{
		key: func(n uint64) []byte { return ks.Doc(kind, uint32(n)) },
		parse: func(key []byte) (uint64, bool) {
			doc, ok := layout.ParseDocKey(key)
			return uint64(doc), ok
		},
		end: 1 << 32, docs: 1,
	}
}

// RowKeys are the keys of the pages of rows.
func RowKeys(ks *layout.Keys) *Numbered {
	return &Numbered{
		key: func(n uint64) []byte { return ks.Rows(uint32(n * layout.RowsOfPage)) },
		parse: func(key []byte) (uint64, bool) {
			first, ok := layout.ParseRowsKey(key)
			return uint64(first) / layout.RowsOfPage, ok
		},
		end: 1 << 32 / layout.RowsOfPage, docs: layout.RowsOfPage,
	}
}

// ScanDocs visits the keys of documents, and notes those that cannot be read. It calls used with the chunks of these.
func (l *Losses) ScanDocs(r kv.Reader, k *Numbered, what string, visit func(n uint64, value []byte) error, used func(chunk uint16)) error {
	return k.scanAround(r, func(n uint64, _, value []byte) error { return visit(n, value) }, func(from, to uint64, err error) error {
		l.Lost(fmt.Sprintf("%s %d to %d", what, from, to-1), err)
		l.docs = append(l.docs, lostDocs{k.key(from), layout.PrefixEnd(k.key(to - 1))})
		// Their keys are deleted once their memories have other places: until then nobody
		// else gets these numbers.
		for chunk := from * k.docs >> 16; chunk <= min((to*k.docs-1)>>16, layout.MaxChunks-1); chunk++ {
			used(uint16(chunk))
		}
		return nil
	})
}
