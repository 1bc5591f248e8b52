package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/ctxlock"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	doingEmbed = "embed pending memories"

	// defaultEmbed is how many memories a call of EmbedPending embeds unless told otherwise.
	defaultEmbed = 1000
	// embedBytes bounds the texts that are embedded together: with their terms and
	// vectors they fit one transaction.
	embedBytes = 8 << 20
	// firstRetry and lastRetry are how long a text that was refused is left alone: twice
	// as long each time.
	firstRetry = time.Minute
	lastRetry  = 24 * time.Hour
	// maxRefused bounds the refusals that are remembered, of some 100 bytes each. One
	// that is forgotten is tried again sooner.
	maxRefused = 1 << 16
	// embedEvery is how often the background looks for what is pending.
	embedEvery = time.Second
	// longestPause is the longest that the background leaves an embedder alone that fails.
	longestPause = 5 * time.Minute
)

// backlog is what is known of the memories that an embedder is still to embed. There are
// two kinds. Those that were stored while the database had an embedder are marked by a
// key. Those from before, and those whose vector an update dropped then, are found by a
// scan of all that were there when the database was opened, once: what has a vector
// by then is passed over, so that the scan begins anew after a restart and loses nothing.
type backlog struct {
	running ctxlock.Mutex // held by the pass that runs
	// renewing is held by a call that makes, switches or drops the vectors of a space beside
	// the default one.
	renewing ctxlock.Mutex
	switched atomic.Bool // the names of spaces on disk are others than those in RAM, until the next Open
	down     atomic.Bool // the embedder failed again and again, and not succeeded since
	opened   uint64      // the Seqs that the scan looks at end here

	mu      sync.Mutex // guards the rest
	scanned uint64     // the Seqs up to here have been looked at
	refused map[uint64]refusal
	last    *EmbedFailure
}

// refusal is what the embedder did with the text of one memory, by Seq.
type refusal struct {
	of    layout.Version
	count int   // in a row
	next  int64 // when it is tried again
}

// awaiting is a memory that is still to be embedded.
type awaiting struct {
	records.Live
	text string
}

func newBacklog(opened uint64) backlog {
	return backlog{running: ctxlock.New(), renewing: ctxlock.New(), opened: opened, refused: map[uint64]refusal{}}
}

// failed notes the last failure.
func (b *backlog) failed(at time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = &EmbedFailure{At: at.UTC(), Error: err.Error()}
}

func (b *backlog) lastFailure() *EmbedFailure {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// refuse notes that the text of a version was refused by itself.
func (b *backlog) refuse(v layout.Version, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.refused[v.Seq]
	if r.of != v {
		r = refusal{of: v}
	}
	wait := lastRetry
	if r.count < 16 { // the first retry this often doubled is beyond the last
		wait = min(firstRetry<<r.count, lastRetry)
	}
	r.count, r.next = r.count+1, now+wait.Milliseconds()
	if len(b.refused) >= maxRefused {
		for seq := range b.refused {
			delete(b.refused, seq)
			break
		}
	}
	b.refused[v.Seq] = r
}

// waits reports whether the text of a version was refused and is not to be tried yet.
func (b *backlog) waits(v layout.Version, now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.refused[v.Seq]
	return ok && r.of == v && now < r.next
}

// due lists the Seqs whose texts are to be tried again, in their order.
func (b *backlog) due(now int64) []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	due := maps.Clone(b.refused)
	maps.DeleteFunc(due, func(_ uint64, r refusal) bool { return now < r.next })
	return slices.Sorted(maps.Keys(due))
}

// settle forgets the refusals of a memory that is embedded, changed or gone.
func (b *backlog) settle(seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refused, seq)
}

func (b *backlog) scannedTo() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.scanned
}

func (b *backlog) advance(to uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scanned = max(b.scanned, to)
}

// gathering is the search for what is to be embedded next.
type gathering struct {
	tx      *Tx
	limit   int
	bytes   int
	found   []awaiting
	seen    map[uint64]bool
	scanned uint64 // how far the scan came
}

// full reports whether there is enough for one transaction.
func (g *gathering) full() bool { return len(g.found) >= g.limit || g.bytes >= embedBytes }

// offer adds a memory, unless it needs no vector or its text is not to be tried yet.
func (g *gathering) offer(seq uint64) error {
	tx := g.tx
	l, alive := tx.reader().At(seq)
	if !alive || l.Expired(tx.state.Now) || tx.embeddedAlready(l.Doc) {
		tx.db.backlog.settle(seq) // also what is in a death range that is not cleaned up yet
		return nil
	}
	if g.seen[seq] || tx.db.backlog.waits(l.Version, tx.state.Now) {
		return nil
	}
	rec, err := tx.state.Record(l.Version)
	if err != nil || rec.Text == "" {
		return err
	}
	g.seen[seq] = true
	g.found = append(g.found, awaiting{l, rec.Text})
	g.bytes += len(rec.Text)
	return nil
}

// embeddedAlready reports whether a document has a vector in the default space.
func (tx *Tx) embeddedAlready(doc uint32) bool {
	return tx.reader().Space(memory.DefaultSpace).Has(doc)
}

// waiting lists memories that are still to be embedded, and how far the scan of those
// without a mark came.
func (tx *Tx) waiting(ctx context.Context, limit int) (found []awaiting, scanned uint64, err error) {
	b := &tx.db.backlog
	g := &gathering{tx: tx, limit: limit, seen: map[uint64]bool{}, scanned: b.scannedTo()}
	for _, seq := range b.due(tx.state.Now) {
		if g.full() {
			break
		}
		if err := g.offer(seq); err != nil {
			return nil, 0, err
		}
	}
	lower, upper := tx.state.Keys.Span(layout.KindPending)
	err = kv.Scan(tx.state.Reader, lower, upper, func(key, _ []byte) error {
		_, _, seq, ok := layout.ParsePendingKey(key)
		if !ok {
			return layout.BadKey("pending", key)
		}
		if g.full() {
			return kv.ErrStop
		}
		return g.offer(seq)
	})
	if err != nil && !errors.Is(err, kv.ErrStop) {
		return nil, 0, store.Error(doingEmbed, err)
	}
	for ; g.scanned < b.opened && !g.full(); g.scanned++ {
		if g.scanned%state.CancelEvery == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if err := g.offer(g.scanned + 1); err != nil {
			return nil, 0, err
		}
	}
	return g.found, g.scanned, nil
}

// embedded gives memories the vectors of their texts, unless they have changed since.
// It returns how many it has looked at, which are fewer where the transaction holds no
// more, and how many of those it has changed.
func (tx *Tx) embedded(ctx context.Context, waiting []awaiting, vecs [][]float32) (looked, n int, err error) {
	for i := range waiting {
		was := &waiting[i]
		l, alive := tx.reader().At(was.Seq)
		if vecs[i] == nil || !alive || l.Version != was.Version {
			continue
		}
		rec, err := tx.state.Record(l.Version)
		if err != nil {
			return i, n, err
		}
		p := &records.Prepared{Rec: *rec, Vectors: map[string][]float32{memory.DefaultSpace: vecs[i]}}
		p.Rec.Vectors = nil
		p.Rec.Flags = p.Rec.Flags&^layout.FlagPending | layout.FlagEmbedded
		if err := records.Analyse(ctx, &tx.db.tables, p); err != nil {
			return i, n, err
		}
		if err := tx.need(doingEmbed, p.Size()); err != nil {
			if n > 0 {
				return i, n, nil // the others are for the next transaction
			}
			return i, 0, err
		}
		if err := tx.rec.Fits(doingEmbed, p.Vectors); err != nil {
			return i, n, err
		}
		if err := tx.rec.Replace(p, rec, l); err != nil {
			return i, n, err
		}
		n++
	}
	return len(waiting), n, nil
}

// EmbedPending embeds up to limit memories that have a text and no vector in the space
// default, whatever the reason: they were stored in a transaction, while the embedder
// failed, or before the database had one. 0 is 1,000. It returns how many it embedded.
//
// A text that the embedder refuses does not stop the others. It is tried again a minute
// later, and then after twice the time each time, up to a day, or when the database was
// opened again. An error says that none was embedded because of the last failure. 0 and
// no error means that none are to be embedded now, or that the database has no embedder.
// [Stats] has how many are left.
func (db *DB) EmbedPending(ctx context.Context, limit int) (int, error) {
	if err := db.usable(doingEmbed); err != nil {
		return 0, err
	}
	limit, err := valid.Limit(doingEmbed, limit, defaultEmbed)
	if err != nil || db.embedder == nil {
		return 0, err
	}
	if err := db.writable(doingEmbed); err != nil {
		return 0, err
	}
	ctx, err = db.apart(ctx, doingEmbed)
	if err != nil {
		return 0, err
	}
	if err := db.backlog.running.LockContext(ctx); err != nil {
		return 0, err
	}
	defer db.backlog.running.Unlock()
	total, more := 0, true
	var failed error
	for total < limit && more {
		var n int
		var refused error
		n, more, refused, err = db.embedSome(ctx, limit-total)
		if total += n; err != nil {
			return total, err
		}
		failed = cmp.Or(refused, failed)
	}
	if total > 0 {
		failed = nil // it is in the statistics
	}
	return total, failed
}

// embedSome embeds what fits one transaction, up to limit memories. more is false where
// none are left or the embedder fails, refused is the last failure of the embedder.
func (db *DB) embedSome(ctx context.Context, limit int) (n int, more bool, refused, err error) {
	var waiting []awaiting
	var scanned uint64
	err = db.view(ctx, nil, func(tx *Tx) error {
		waiting, scanned, err = tx.waiting(ctx, limit)
		return err
	})
	if err != nil {
		return 0, false, nil, err
	}
	if len(waiting) == 0 {
		db.backlog.advance(scanned)
		return 0, false, nil, nil
	}
	texts := make([]string, len(waiting))
	for i := range waiting {
		texts[i] = waiting[i].text
	}
	vecs, some := make([][]float32, len(waiting)), false
	down := db.embedEach(ctx, texts, halvings(len(texts))+refusalsInARow, func(i int, vec []float32, err error) {
		if vecs[i] = vec; err != nil {
			refused = err
			db.backlog.refuse(waiting[i].Version, db.now())
			return
		}
		some = true
	})
	if ctx.Err() != nil {
		return 0, false, nil, ctx.Err()
	}
	refused = cmp.Or(down, refused)
	looked := len(waiting)
	if some {
		err = db.Update(ctx, func(tx *Tx) error {
			looked, n, err = tx.embedded(ctx, waiting, vecs)
			return err
		})
	}
	if err != nil {
		return 0, false, refused, err
	}
	if down == nil && looked == len(waiting) {
		db.backlog.advance(scanned)
	}
	return n, down == nil && (n > 0 || refused != nil), refused, nil
}

// embedBehind is EmbedPending in the background.
func (db *DB) embedBehind(ctx context.Context) error {
	for pause := embedEvery; ; pause = min(2*pause, longestPause) {
		n, err := db.EmbedPending(ctx, 0)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case n > 0:
			pause = embedEvery
			continue
		case !errors.Is(err, memory.ErrEmbedder):
			return err // nil where nothing is left
		}
		_ = retry.Sleep(ctx, pause) // the failure is in the statistics
	}
}

// countPending counts the memories that have a text and no vector in the default space.
// It looks at the rows of all; of those without such a vector it reads the records of
// those that have one in another space, and so may have no text.
func (tx *Tx) countPending(ctx context.Context) (n int64, err error) {
	all, standard := tx.db.spaces.All(), tx.reader().Space(memory.DefaultSpace)
	looked := 0
	selection.EachRow(&tx.state, func(doc uint32, r *doctable.Row) bool {
		if looked++; looked%state.CancelEvery == 0 && ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return false
		}
		if !r.Visible(tx.state.LSN) || r.Over(tx.state.Now) || standard.Has(doc) {
			return true
		}
		has := func(s *spaces.Space) bool { return s.Has(doc) }
		if !slices.ContainsFunc(all, has) {
			n++
			return true
		}
		var rec *layout.Record
		if rec, err = tx.state.Record(r.Version); err == nil && rec.Text != "" {
			n++
		}
		err = tx.state.Without(err)
		return true
	})
	return n, err
}
