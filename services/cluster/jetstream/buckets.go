package jetstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

// leases are keys of a bucket, written by compare and set. The servers remove a value after the time of a lease, but
// late at times, by twice that and more. So who wants a lease counts for itself: one that was not renewed for its time,
// by the clock of this machine from when it was first seen, has run out. Its holder counts from before it asked, and so
// it has noticed by then.
type leases struct{ b *Backend }

// seenLeases are the leases that were seen, and since when; and of those that this machine holds the revisions whose
// renewal got no answer.
type seenLeases struct {
	mu         sync.Mutex
	all        map[int]seenLease
	unanswered map[int]uint64
}

type seenLease struct {
	revision uint64
	since    time.Time
}

// over reports whether a lease that is there has run out.
func (l leases) over(shard int, revision uint64) bool {
	now, seen := clock.System(), &l.b.seen
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if was, ok := seen.all[shard]; ok && was.revision == revision {
		return now.Sub(was.since) >= l.TTL()
	}
	if seen.all == nil {
		seen.all = map[int]seenLease{}
	}
	seen.all[shard] = seenLease{revision, now}
	return false
}

func leaseKey(shard int) string { return strconv.Itoa(shard) }

// TTL implements [cluster.Leases].
func (l leases) TTL() time.Duration { return l.b.o.TTL }

const (
	// acquireTries and acquirePause are for a lease that was given back just now: replicas that answer reads may
	// not know of it yet.
	acquireTries = 4
	acquirePause = 40 * time.Millisecond
)

// Acquire implements [cluster.Leases].
func (l leases) Acquire(ctx context.Context, shard int, holder string) (got cluster.Lease, err error) {
	for try := 1; ; try++ {
		got, err = l.acquire(ctx, shard, holder)
		if !errors.Is(err, cluster.ErrHeld) || try == acquireTries {
			return got, err
		}
		if err := retry.Sleep(ctx, acquirePause); err != nil {
			return got, err
		}
	}
}

func (l leases) acquire(ctx context.Context, shard int, holder string) (got cluster.Lease, err error) {
	err = call(ctx, func(ctx context.Context) error {
		revision, err := l.b.leases.Create(ctx, leaseKey(shard), []byte(holder))
		got = cluster.Lease{Shard: shard, Holder: holder, Revision: revision}
		return err
	})
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, cluster.ErrLost) {
		return l.takeOver(ctx, shard, holder)
	}
	return got, err
}

// takeOver takes a lease that has run out, from the holder that did not renew it.
func (l leases) takeOver(ctx context.Context, shard int, holder string) (got cluster.Lease, err error) {
	name, revision, err := l.look(ctx, shard)
	if err != nil {
		return got, err
	}
	held := &cluster.HeldError{Holder: name}
	if revision == 0 || !l.over(shard, revision) {
		return got, held
	}
	got, err = l.renew(ctx, cluster.Lease{Shard: shard, Holder: holder, Revision: revision})
	if errors.Is(err, cluster.ErrLost) { // somebody was first
		err = held
	}
	return got, err
}

// Renew implements [cluster.Leases]. What a renewal without an answer has made of a lease is its holder's, and is
// renewed: it would run out otherwise, and its shard would stand still meanwhile.
func (l leases) Renew(ctx context.Context, of cluster.Lease) (cluster.Lease, error) {
	seen := &l.b.seen
	got, err := l.renew(ctx, of)
	seen.mu.Lock()
	unanswered := seen.unanswered[of.Shard] == of.Revision
	switch {
	case errors.Is(err, cluster.ErrUnavailable):
		if seen.unanswered == nil {
			seen.unanswered = map[int]uint64{}
		}
		seen.unanswered[of.Shard] = of.Revision
	case !errors.Is(err, cluster.ErrLost):
		delete(seen.unanswered, of.Shard)
	}
	seen.mu.Unlock()
	if !errors.Is(err, cluster.ErrLost) || !unanswered {
		return got, err
	}
	holder, revision, lerr := l.look(ctx, of.Shard)
	if lerr != nil {
		return of, lerr
	}
	if holder != of.Holder || revision <= of.Revision {
		return of, err
	}
	of.Revision = revision
	return l.renew(ctx, of)
}

func (l leases) renew(ctx context.Context, of cluster.Lease) (cluster.Lease, error) {
	err := call(ctx, func(ctx context.Context) error {
		revision, err := l.b.leases.Update(ctx, leaseKey(of.Shard), []byte(of.Holder), of.Revision)
		if err == nil {
			of.Revision = revision
		}
		return err
	})
	return of, err
}

// Release implements [cluster.Leases].
func (l leases) Release(ctx context.Context, of cluster.Lease) error {
	return call(ctx, func(ctx context.Context) error {
		return l.b.leases.Delete(ctx, leaseKey(of.Shard), jetstream.LastRevision(of.Revision))
	})
}

// Holder implements [cluster.Leases].
func (l leases) Holder(ctx context.Context, shard int) (string, error) {
	holder, revision, err := l.look(ctx, shard)
	if err != nil || revision == 0 || l.over(shard, revision) {
		return "", err
	}
	return holder, nil
}

// look reads a lease, of revision 0 if there is none.
func (l leases) look(ctx context.Context, shard int) (holder string, revision uint64, err error) {
	err = call(ctx, func(ctx context.Context) error {
		e, err := l.b.leases.Get(ctx, leaseKey(shard))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			holder, revision = string(e.Value()), e.Revision()
		}
		return err
	})
	return holder, revision, err
}

// Holders implements [cluster.Leases].
func (l leases) Holders(ctx context.Context) (map[int]string, error) {
	all, err := l.b.entries(ctx, leaseBucket, "")
	held := map[int]string{}
	for _, e := range all {
		if shard, err := strconv.Atoi(e.Key); err == nil && !l.over(shard, e.Revision) {
			held[shard] = string(e.Value)
		}
	}
	return held, err
}

// entries are those of a bucket of which the keys begin with a prefix. A bucket keeps one value a key, so its stream
// is read from its beginning to its end: a value that changes meanwhile comes again.
func (b *Backend) entries(ctx context.Context, bucket, prefix string) ([]cluster.Entry, error) {
	all, _, err := b.entriesFrom(ctx, bucket, prefix, 1)
	return all, err
}

// entriesFrom is entries from a revision on, with the newest one that the replica has which answers, 0 for none.
func (b *Backend) entriesFrom(ctx context.Context, bucket, prefix string, from uint64) (_ []cluster.Entry, newest uint64, err error) {
	all, subjects := map[string]cluster.Entry{}, "$KV."+bucket+"."
	for behind := uint64(1); behind > 0; {
		behind, err = b.direct(ctx, "KV_"+bucket, from, directMost, func(sequence uint64, m *nats.Msg) error {
			from, newest = sequence+1, sequence
			key, ok := strings.CutPrefix(m.Header.Get(jetstream.SubjectHeader), subjects)
			switch {
			case !ok || !strings.HasPrefix(key, prefix):
			case m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != "": // it has gone
				delete(all, key)
			default:
				all[key] = cluster.Entry{Key: key, Value: m.Data, Revision: sequence}
			}
			return nil
		})
		if errors.Is(err, errNoMessage) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b cluster.Entry) int { return strings.Compare(a.Key, b.Key) }), newest, nil
}

// registry is a bucket of the facts of the cluster, and one of those who are alive.
type registry struct{ b *Backend }

// Get implements [cluster.Registry].
func (r registry) Get(ctx context.Context, key string) (e cluster.Entry, err error) {
	err = call(ctx, func(ctx context.Context) error {
		got, err := r.b.registry.Get(ctx, key)
		if err == nil {
			e = cluster.Entry{Key: key, Value: got.Value(), Revision: got.Revision()}
		}
		return err
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		err = fmt.Errorf("%w: %s", cluster.ErrMissing, key)
	}
	return e, err
}

// List implements [cluster.Registry].
func (r registry) List(ctx context.Context, prefix string) ([]cluster.Entry, error) {
	return r.b.entries(ctx, registryBucket, prefix)
}

// Put implements [cluster.Registry].
func (r registry) Put(ctx context.Context, key string, value []byte) (revision uint64, err error) {
	err = call(ctx, func(ctx context.Context) (err error) {
		revision, err = r.b.registry.Put(ctx, key, value)
		return err
	})
	return revision, err
}

// Swap implements [cluster.Registry].
func (r registry) Swap(ctx context.Context, key string, value []byte, revision uint64) (next uint64, err error) {
	err = call(ctx, func(ctx context.Context) (err error) {
		if revision == 0 {
			next, err = r.b.registry.Create(ctx, key, value)
		} else {
			next, err = r.b.registry.Update(ctx, key, value, revision)
		}
		return err
	})
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, cluster.ErrLost) {
		err = fmt.Errorf("%w: %s", cluster.ErrChanged, key)
	}
	return next, err
}

// Delete implements [cluster.Registry].
func (r registry) Delete(ctx context.Context, key string) error {
	return call(ctx, func(ctx context.Context) error { return r.b.registry.Delete(ctx, key) })
}

// Beat implements [cluster.Registry].
func (r registry) Beat(ctx context.Context, key string, value []byte) error {
	return call(ctx, func(ctx context.Context) error {
		_, err := r.b.alive.Put(ctx, key, value)
		return err
	})
}

// Alive implements [cluster.Registry].
func (r registry) Alive(ctx context.Context) ([]cluster.Entry, error) {
	return r.b.entries(ctx, aliveBucket, "")
}

// Quit implements [cluster.Registry].
func (r registry) Quit(ctx context.Context, key string) error {
	return call(ctx, func(ctx context.Context) error { return r.b.alive.Delete(ctx, key) })
}

// book is the bucket of keys.
type book struct{ b *Backend }

// Put implements [cluster.Book].
func (k book) Put(ctx context.Context, key string, value []byte) error {
	return call(ctx, func(ctx context.Context) error {
		_, err := k.b.keys.Put(ctx, key, value)
		return err
	})
}

// Changed implements [cluster.Book]. The leader says which revision is the newest, and a replica has the entries; one
// that lags is asked again.
func (k book) Changed(ctx context.Context, after uint64) (all []cluster.Entry, newest uint64, err error) {
	info, err := k.b.info(ctx, "KV_"+keyBucket)
	if err != nil {
		return nil, 0, err
	}
	last := info.State.LastSeq
	if last <= after {
		return nil, last, nil
	}
	for try := 1; ; try++ {
		all, newest, err = k.b.entriesFrom(ctx, keyBucket, "", after+1)
		if err != nil || newest >= last {
			return all, newest, err
		}
		if try == readTries {
			return nil, 0, fmt.Errorf("%w: a replica of %s lags", cluster.ErrUnavailable, keyBucket)
		}
		if err := retry.Sleep(ctx, reconnectPause); err != nil {
			return nil, 0, err
		}
	}
}

// objects are those of one shard in the bucket of all.
type objects struct {
	b     *Backend
	shard int
}

func (o objects) name(name string) string { return fmt.Sprintf("%d/%s", o.shard, name) }

// Put implements [cluster.Objects].
func (o objects) Put(ctx context.Context, name string, r io.Reader) error {
	_, err := o.b.objects.Put(ctx, jetstream.ObjectMeta{Name: o.name(name)}, r)
	return known(err)
}

// Get implements [cluster.Objects].
func (o objects) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := o.b.objects.Get(ctx, o.name(name))
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		err = fmt.Errorf("%w: %s", cluster.ErrMissing, name)
	}
	if err != nil {
		return nil, known(err)
	}
	return r, nil
}

// Delete implements [cluster.Objects].
func (o objects) Delete(ctx context.Context, name string) error {
	err := call(ctx, func(ctx context.Context) error { return o.b.objects.Delete(ctx, o.name(name)) })
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	return err
}

// List implements [cluster.Objects].
func (o objects) List(ctx context.Context) (all []cluster.Object, err error) {
	err = call(ctx, func(ctx context.Context) error {
		infos, err := o.b.objects.List(ctx)
		if errors.Is(err, jetstream.ErrNoObjectsFound) {
			return nil
		}
		for _, info := range infos {
			if name, ok := strings.CutPrefix(info.Name, o.name("")); ok {
				all = append(all, cluster.Object{Name: name, Size: int64(info.Size)})
			}
		}
		return err
	})
	slices.SortFunc(all, func(a, b cluster.Object) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}
