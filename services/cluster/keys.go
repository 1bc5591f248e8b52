package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

const (
	doingKeys = "read the keys of the cluster"
	// keysEvery is how often a node asks for the keys that are new or revoked.
	keysEvery = 500 * time.Millisecond
	// KeysHold is how long a node goes by the keys that it knows when it cannot ask for newer ones. Then it
	// refuses all: a key that was revoked meanwhile is not to open anything for longer. The election of a
	// leader is over by then.
	KeysHold = 30 * time.Second
	// maxKeys bounds the lines of all keys, in bytes, when one is put. Several may put one at a time, so what is read
	// may be twice as much.
	maxKeys = 16 << 20
)

// keyedKey is where the registry records, apart from the book of keys, that the cluster has had a key.
const keyedKey = "keyed"

// Keys are the lines of the keys of a cluster, as a node knows them. They are safe for concurrent use.
type Keys struct {
	book     Book
	registry Registry
	now      func() time.Time
	logger   *slog.Logger

	asking sync.Mutex // one asks at a time
	mu     struct {
		sync.Mutex
		lines    map[string][]byte // by name
		bytes    int
		revision uint64
		keyed    bool      // the cluster has had a key
		asked    time.Time // when the lines were the newest
	}
}

// KeysOptions are those of Keys. The zero value works.
type KeysOptions struct {
	// Logger hears where the keys cannot be asked for. nil: nobody does.
	Logger *slog.Logger
	// Clock tells the time. nil: the system's.
	Clock func() time.Time
}

// OpenKeys asks for the keys of the cluster of a backend. ErrUnavailable where it does not answer.
func OpenKeys(ctx context.Context, b Backend, o KeysOptions) (*Keys, error) {
	k := &Keys{book: b.Keys(), registry: b.Registry(), now: o.Clock, logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
	if k.now == nil {
		k.now = clock.System
	}
	k.mu.lines = map[string][]byte{}
	_, err := k.registry.Get(ctx, keyedKey)
	if err != nil && !errors.Is(err, ErrMissing) {
		return k, unreached(doingKeys, err)
	}
	k.mu.keyed = err == nil
	if err := k.Refresh(ctx); err != nil {
		return k, err
	}
	if len(k.mu.lines) > 0 { // of a cluster that an earlier version began
		err = k.noteKeyed(ctx)
	} else {
		err = nil
	}
	return k, err
}

// noteKeyed records that the cluster has had a key.
func (k *Keys) noteKeyed(ctx context.Context) error {
	k.mu.Lock()
	keyed := k.mu.keyed
	k.mu.Unlock()
	if keyed {
		return nil
	}
	if _, err := k.registry.Put(ctx, keyedKey, []byte("{}")); err != nil {
		return unreached(doingKeys, err)
	}
	k.mu.Lock()
	k.mu.keyed = true
	k.mu.Unlock()
	return nil
}

// Follow asks for what is new until ctx ends.
func (k *Keys) Follow(ctx context.Context) {
	reached := true
	for retry.Sleep(ctx, keysEvery) == nil {
		err := k.Refresh(ctx)
		if err != nil && reached && ctx.Err() == nil {
			k.logger.Warn("the keys of the cluster cannot be asked for; those that are known count for some time", "for", KeysHold, "error", err)
		}
		reached = err == nil
	}
}

// Refresh asks for what is new. ErrUnavailable where the backend does not answer, ErrMismatch where what it has is
// not what it had.
func (k *Keys) Refresh(ctx context.Context) error {
	const doing = doingKeys
	k.asking.Lock()
	defer k.asking.Unlock()
	k.mu.Lock()
	known, size := k.mu.revision, k.mu.bytes
	k.mu.Unlock()
	at := k.now() // before they are asked for
	all, newest, err := k.book.Changed(ctx, known)
	if err != nil {
		return unreached(doing, err)
	}
	for _, e := range all {
		size += len(e.Value)
	}
	switch {
	case newest < known:
		return &fault.Error{Kind: fault.ErrMismatch, What: doing, Why: fmt.Sprintf("they are of revision %d, and were of %d before", newest, known), Do: "see that the address is the one of this cluster, and start the node anew"}
	case size > 2*maxKeys:
		return tooManyKeys(doing)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range all {
		k.mu.bytes += len(e.Value) - len(k.mu.lines[e.Key])
		k.mu.lines[e.Key] = e.Value
	}
	k.mu.revision, k.mu.asked = newest, at
	return nil
}

// Version changes with the lines. ErrUnavailable where nothing newer could be asked for within KeysHold.
func (k *Keys) Version() (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if age := k.now().Sub(k.mu.asked); age > KeysHold {
		return 0, &fault.Error{
			Kind: fault.ErrUnavailable, What: "look up a key", Why: fmt.Sprintf("the keys of the cluster could not be asked for in the last %v, and some may have been revoked since", age.Truncate(time.Second)),
			Do: "see that a majority of the servers of the logs runs and is reached, and try again",
		}
	}
	return k.mu.revision, nil
}

// Lines returns the lines of all keys in the order of the names that they were put under, and whether there ever was
// one.
func (k *Keys) Lines() (lines []byte, keyed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(k.mu.lines)) {
		b.Write(k.mu.lines[name])
		b.WriteByte('\n')
	}
	return b.Bytes(), k.mu.keyed || b.Len() > 0, nil
}

// Clear is refused: nothing is ever removed from the book of a cluster.
func (k *Keys) Clear(context.Context, bool) error {
	return fault.Invalid("clear the keys of the cluster", "those of a cluster can only be revoked", "use memdbd key revoke")
}

// Put keeps a line under a name, in the place of the one that the name has. It is known here when Put returns, and
// to all other nodes that reach the backend within some seconds; the others refuse all after KeysHold. ErrFull where
// there are too many.
func (k *Keys) Put(ctx context.Context, name string, line []byte) error {
	const doing = "change the keys of the cluster"
	k.mu.Lock()
	size := k.mu.bytes + len(line)
	k.mu.Unlock()
	if size > maxKeys {
		return tooManyKeys(doing)
	}
	if err := k.noteKeyed(ctx); err != nil { // first, so that a crash leaves the nodes closed rather than open
		return err
	}
	if err := k.book.Put(ctx, name, line); err != nil {
		return unreached(doing, err)
	}
	return k.Refresh(ctx)
}

func tooManyKeys(doing string) error {
	return &fault.Error{Kind: fault.ErrFull, What: doing, Why: fmt.Sprintf("they have more than %d bytes", maxKeys), Do: "give programs keys of several scopes, instead of a key for each"}
}
