// Package ram is a backend of a cluster in RAM: what tests, and programs without a network, run shards on.
// It fails as it is told, so that what shards do then can be tried.
package ram

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

// Options of a store. The zero value works.
type Options struct {
	// TTL is that of leases; 0: three seconds.
	TTL time.Duration
	// Window is how long logs know the IDs of messages; 0: two minutes.
	Window time.Duration
	// MaxMessage is that of logs, in bytes; 0: 1 MiB.
	MaxMessage int
	// Clock tells the time of leases and of IDs. nil: the system's.
	Clock func() time.Time
}

const (
	defaultTTL        = 3 * time.Second
	defaultWindow     = 2 * time.Minute
	defaultMaxMessage = 1 << 20
)

// Store has everything that the machines of a cluster share. Each machine has a [Client] of it.
type Store struct {
	o Options

	mu       sync.Mutex
	logs     map[int]*log
	leases   map[int]lease
	objects  map[int]map[string][]byte
	entries  map[string]cluster.Entry
	keys     map[string]cluster.Entry
	alive    map[string]beat
	revision uint64
}

type lease struct {
	cluster.Lease
	until time.Time
}

type beat struct {
	cluster.Entry
	until time.Time
}

// New makes an empty store. nil options are the zero options.
func New(o *Options) *Store {
	s := &Store{
		logs: map[int]*log{}, leases: map[int]lease{}, objects: map[int]map[string][]byte{},
		entries: map[string]cluster.Entry{}, keys: map[string]cluster.Entry{}, alive: map[string]beat{},
	}
	if o != nil {
		s.o = *o
	}
	if s.o.TTL <= 0 {
		s.o.TTL = defaultTTL
	}
	if s.o.Window <= 0 {
		s.o.Window = defaultWindow
	}
	if s.o.MaxMessage <= 0 {
		s.o.MaxMessage = defaultMaxMessage
	}
	if s.o.Clock == nil {
		s.o.Clock = clock.System
	}
	return s
}

// Faults are what the calls of a client meet.
type Faults struct {
	// Cut: no call arrives.
	Cut bool
	// Deaf: calls arrive and are done, and no answer comes back.
	Deaf bool
	// Delay is how long a call takes at least.
	Delay time.Duration
	// Leaderless: no lease is acquired, renewed or given back; all else is answered.
	Leaderless bool
	// Full: there is no room for messages and objects.
	Full bool
}

// Client is what one machine has of a store: a [cluster.Backend]. It is safe for concurrent use.
type Client struct {
	s *Store

	mu     sync.Mutex
	faults Faults
}

var _ cluster.Backend = (*Client)(nil)

// Client makes another client.
func (s *Store) Client() *Client { return &Client{s: s} }

// Fail has the calls from now on meet faults, none with the zero Faults.
func (c *Client) Fail(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
}

// call runs fn, which is one call, with the store locked.
func (c *Client) call(ctx context.Context, fn func(f Faults) error) error {
	c.mu.Lock()
	f := c.faults
	c.mu.Unlock()
	if f.Delay > 0 {
		if err := retry.Sleep(ctx, f.Delay); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.Cut:
		return fmt.Errorf("%w: the machine is cut off", cluster.ErrUnavailable)
	}
	c.s.mu.Lock()
	err := fn(f)
	c.s.mu.Unlock()
	if f.Deaf {
		return fmt.Errorf("%w: no answer", cluster.ErrUnavailable)
	}
	return err
}

// Log implements [cluster.Backend].
func (c *Client) Log(ctx context.Context, shard int) (l cluster.Log, err error) {
	err = c.call(ctx, func(Faults) error {
		of := c.s.logs[shard]
		if of == nil {
			of = &log{first: 1, ids: map[string]kept{}, news: make(chan struct{})}
			c.s.logs[shard] = of
		}
		l = clientLog{c, of}
		return nil
	})
	return l, err
}

// Objects implements [cluster.Backend].
func (c *Client) Objects(shard int) cluster.Objects { return objects{c, shard} }

// Leases implements [cluster.Backend].
func (c *Client) Leases() cluster.Leases { return leases{c} }

// Registry implements [cluster.Backend].
func (c *Client) Registry() cluster.Registry { return registry{c} }

// Keys implements [cluster.Backend].
func (c *Client) Keys() cluster.Book { return book{c} }

// Close implements [cluster.Backend].
func (c *Client) Close() error {
	c.Fail(Faults{Cut: true})
	return nil
}

type leases struct{ c *Client }

var errLeaderless = fmt.Errorf("%w: the leases have no leader", cluster.ErrUnavailable)

// TTL implements [cluster.Leases].
func (l leases) TTL() time.Duration { return l.c.s.o.TTL }

// Acquire implements [cluster.Leases].
func (l leases) Acquire(ctx context.Context, shard int, holder string) (got cluster.Lease, err error) {
	s := l.c.s
	err = l.c.call(ctx, func(f Faults) error {
		if f.Leaderless {
			return errLeaderless
		}
		now := s.o.Clock()
		if held, ok := s.leases[shard]; ok && held.until.After(now) {
			return &cluster.HeldError{Holder: held.Holder}
		}
		s.revision++
		got = cluster.Lease{Shard: shard, Holder: holder, Revision: s.revision}
		s.leases[shard] = lease{got, now.Add(s.o.TTL)}
		return nil
	})
	return got, err
}

// Renew implements [cluster.Leases].
func (l leases) Renew(ctx context.Context, of cluster.Lease) (cluster.Lease, error) {
	s := l.c.s
	err := l.c.call(ctx, func(f Faults) error {
		if f.Leaderless {
			return errLeaderless
		}
		now := s.o.Clock()
		if held, ok := s.leases[of.Shard]; !ok || held.Lease != of || !held.until.After(now) {
			return cluster.ErrLost
		}
		s.revision++
		of.Revision = s.revision
		s.leases[of.Shard] = lease{of, now.Add(s.o.TTL)}
		return nil
	})
	return of, err
}

// Release implements [cluster.Leases].
func (l leases) Release(ctx context.Context, of cluster.Lease) error {
	s := l.c.s
	return l.c.call(ctx, func(f Faults) error {
		if f.Leaderless {
			return errLeaderless
		}
		if held, ok := s.leases[of.Shard]; !ok || held.Lease != of {
			return cluster.ErrLost
		}
		delete(s.leases, of.Shard)
		return nil
	})
}

// Holder implements [cluster.Leases].
func (l leases) Holder(ctx context.Context, shard int) (string, error) {
	all, err := l.Holders(ctx)
	return all[shard], err
}

// Holders implements [cluster.Leases].
func (l leases) Holders(ctx context.Context) (map[int]string, error) {
	s, all := l.c.s, map[int]string{}
	err := l.c.call(ctx, func(Faults) error {
		now := s.o.Clock()
		for shard, held := range s.leases {
			if held.until.After(now) {
				all[shard] = held.Holder
			}
		}
		return nil
	})
	return all, err
}

type objects struct {
	c     *Client
	shard int
}

// Put implements [cluster.Objects].
func (o objects) Put(ctx context.Context, name string, r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return o.c.call(ctx, func(f Faults) error {
		if f.Full {
			return cluster.ErrNoRoom
		}
		if o.c.s.objects[o.shard] == nil {
			o.c.s.objects[o.shard] = map[string][]byte{}
		}
		o.c.s.objects[o.shard][name] = b
		return nil
	})
}

// Get implements [cluster.Objects].
func (o objects) Get(ctx context.Context, name string) (r io.ReadCloser, err error) {
	err = o.c.call(ctx, func(Faults) error {
		b, ok := o.c.s.objects[o.shard][name]
		if !ok {
			return cluster.ErrMissing
		}
		r = io.NopCloser(bytes.NewReader(b))
		return nil
	})
	return r, err
}

// Delete implements [cluster.Objects].
func (o objects) Delete(ctx context.Context, name string) error {
	return o.c.call(ctx, func(Faults) error {
		delete(o.c.s.objects[o.shard], name)
		return nil
	})
}

// List implements [cluster.Objects].
func (o objects) List(ctx context.Context) (all []cluster.Object, err error) {
	err = o.c.call(ctx, func(Faults) error {
		of := o.c.s.objects[o.shard]
		for _, name := range slices.Sorted(maps.Keys(of)) {
			all = append(all, cluster.Object{Name: name, Size: int64(len(of[name]))})
		}
		return nil
	})
	return all, err
}

type registry struct{ c *Client }

// Get implements [cluster.Registry].
func (r registry) Get(ctx context.Context, key string) (e cluster.Entry, err error) {
	err = r.c.call(ctx, func(Faults) (err error) {
		var ok bool
		if e, ok = r.c.s.entries[key]; !ok {
			err = cluster.ErrMissing
		}
		return err
	})
	return e, err
}

// List implements [cluster.Registry].
func (r registry) List(ctx context.Context, prefix string) (all []cluster.Entry, err error) {
	err = r.c.call(ctx, func(Faults) error {
		for _, key := range slices.Sorted(maps.Keys(r.c.s.entries)) {
			if strings.HasPrefix(key, prefix) {
				all = append(all, r.c.s.entries[key])
			}
		}
		return nil
	})
	return all, err
}

// put keeps an entry; the store is locked.
func (r registry) put(key string, value []byte) uint64 {
	r.c.s.revision++
	r.c.s.entries[key] = cluster.Entry{Key: key, Value: bytes.Clone(value), Revision: r.c.s.revision}
	return r.c.s.revision
}

// Put implements [cluster.Registry].
func (r registry) Put(ctx context.Context, key string, value []byte) (revision uint64, err error) {
	err = r.c.call(ctx, func(Faults) error {
		revision = r.put(key, value)
		return nil
	})
	return revision, err
}

// Swap implements [cluster.Registry].
func (r registry) Swap(ctx context.Context, key string, value []byte, revision uint64) (next uint64, err error) {
	err = r.c.call(ctx, func(Faults) error {
		if r.c.s.entries[key].Revision != revision {
			return cluster.ErrChanged
		}
		next = r.put(key, value)
		return nil
	})
	return next, err
}

// Delete implements [cluster.Registry].
func (r registry) Delete(ctx context.Context, key string) error {
	return r.c.call(ctx, func(Faults) error {
		delete(r.c.s.entries, key)
		return nil
	})
}

// Beat implements [cluster.Registry].
func (r registry) Beat(ctx context.Context, key string, value []byte) error {
	s := r.c.s
	return r.c.call(ctx, func(Faults) error {
		s.revision++
		s.alive[key] = beat{cluster.Entry{Key: key, Value: bytes.Clone(value), Revision: s.revision}, s.o.Clock().Add(s.o.TTL)}
		return nil
	})
}

// Alive implements [cluster.Registry].
func (r registry) Alive(ctx context.Context) (all []cluster.Entry, err error) {
	s := r.c.s
	err = r.c.call(ctx, func(Faults) error {
		now := s.o.Clock()
		for _, key := range slices.Sorted(maps.Keys(s.alive)) {
			if s.alive[key].until.After(now) {
				all = append(all, s.alive[key].Entry)
			}
		}
		return nil
	})
	return all, err
}

// Quit implements [cluster.Registry].
func (r registry) Quit(ctx context.Context, key string) error {
	return r.c.call(ctx, func(Faults) error {
		delete(r.c.s.alive, key)
		return nil
	})
}

// book has the keys.
type book struct{ c *Client }

// Put implements [cluster.Book].
func (b book) Put(ctx context.Context, key string, value []byte) error {
	s := b.c.s
	return b.c.call(ctx, func(Faults) error {
		s.revision++
		s.keys[key] = cluster.Entry{Key: key, Value: bytes.Clone(value), Revision: s.revision}
		return nil
	})
}

// Changed implements [cluster.Book].
func (b book) Changed(ctx context.Context, after uint64) (all []cluster.Entry, newest uint64, err error) {
	s := b.c.s
	err = b.c.call(ctx, func(Faults) error {
		for _, e := range s.keys {
			if newest = max(newest, e.Revision); e.Revision > after {
				all = append(all, e)
			}
		}
		return nil
	})
	return all, newest, err
}
