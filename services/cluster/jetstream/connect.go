package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

// Options of a connection.
type Options struct {
	// URL has the servers, with commas between them: nats://HOST:PORT or tls://HOST:PORT, with USER:PASSWORD@
	// where they want one.
	URL string
	// SystemURL is the same for a user of the system account, who may ask how the servers write. Empty: it is not
	// asked, which only Insecure allows.
	SystemURL string
	// Credentials is the file of a user, CA that of the authorities, Cert and Key are those of a client, for
	// servers that want them; empty: none.
	Credentials, CA, Cert, Key string
	// TTL is how long a lease lasts; 0: three seconds. It is fixed when the buckets are made.
	TTL time.Duration
	// Insecure takes servers as they are: fewer than three replicas, and writes that are not synced. A power cut
	// may take back what was acknowledged then.
	Insecure bool
	// Name is what the servers call the connection; empty: memdb.
	Name string
	// Logger hears of connections that are lost and found. nil: nothing is logged.
	Logger *slog.Logger
}

const (
	defaultTTL = 3 * time.Second
	// replicas is how many servers have each message.
	replicas = 3
	// window is how long a stream knows the IDs of messages.
	window = 2 * time.Minute
	// callWait is how long the answer to a call may take: what is asked while there is no leader is never answered,
	// and is to be asked again, every askEvery where it only asks. setUpWait is how long making
	// a stream or a bucket may take.
	callWait  = time.Second
	askEvery  = 200 * time.Millisecond
	setUpWait = 10 * time.Second
	// setUpTries is how often a stream is made.
	setUpTries = 5
	// markerTTL is how long it is known that a value of a bucket has gone.
	markerTTL = time.Minute
	// reconnectPause is the pause before the next server is tried.
	reconnectPause = 100 * time.Millisecond
)

// Backend is a [cluster.Backend] over JetStream. It is safe for concurrent use.
type Backend struct {
	o  Options
	nc *nats.Conn
	js jetstream.JetStream

	leases, registry, alive, keys jetstream.KeyValue

	objects jetstream.ObjectStore
	seen    seenLeases
}

var _ cluster.Backend = (*Backend)(nil)

const doingConnect = "connect to the servers of the cluster"

// Connect connects to the servers, asks how they write, and makes the buckets that are missing. It tries until ctx
// ends where there are fewer servers than replicas, or no leader yet. ErrInvalid: the servers refuse the
// credentials, or a file of the options cannot be read. ErrMismatch: the servers, a stream or a bucket keep less
// than they should.
func Connect(ctx context.Context, o Options) (_ *Backend, err error) {
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	nc, err := dial(o, o.URL)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			nc.Close()
		}
	}()
	if err := o.askSync(ctx); err != nil {
		return nil, err
	}
	b := &Backend{o: o, nc: nc}
	if b.js, err = jetstream.New(nc); err != nil {
		return nil, fault.Within(doingConnect, err)
	}
	return b, b.setUp(ctx)
}

// dial connects by a URL.
func dial(o Options, url string) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name(cmp.Or(o.Name, "memdb")), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectPause), nats.ReconnectJitter(0, 0),
		nats.ReconnectBufSize(-1), nats.Timeout(2 * callWait), nats.PingInterval(3 * callWait), nats.MaxPingsOutstanding(1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { o.Logger.Warn("a server of the cluster is lost", "error", err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			o.Logger.Info("a server of the cluster is found", "server", nc.ConnectedServerName())
		}),
		nats.IgnoreAuthErrorAbort(),
	}
	if o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(o.Credentials))
	}
	if o.CA != "" {
		opts = append(opts, nats.RootCAs(o.CA))
	}
	if o.Cert != "" || o.Key != "" {
		opts = append(opts, nats.ClientCert(o.Cert, o.Key))
	}
	nc, err := nats.Connect(url, opts...)
	if err == nil {
		return nc, nil
	}
	if errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s: %w", cluster.ErrUnavailable, doingConnect, err)
	}
	return nil, &fault.Error{
		Kind: fault.ErrInvalid, What: doingConnect, Why: "they refuse the connection", Cause: err,
		Do: "look at the addresses, the user, and the files of credentials, certificate, key and CA",
	}
}

// setUp makes the buckets that are missing, until ctx ends.
func (b *Backend) setUp(ctx context.Context) error {
	for {
		err := retry.Within(ctx, setUpWait, b.buckets)
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		b.o.Logger.Info("the servers of the cluster are not ready", "error", err)
		if serr := retry.Sleep(ctx, 2*reconnectPause); serr != nil {
			return fmt.Errorf("%w: %s: %w", cluster.ErrUnavailable, doingConnect, err)
		}
	}
}

// The names of what the servers keep.
const (
	leaseBucket    = "memdb-leases"
	registryBucket = "memdb-registry"
	aliveBucket    = "memdb-alive"
	keyBucket      = "memdb-keys"
	objectBucket   = "memdb-objects"
	streamPrefix   = "memdb-log-"
	subjectPrefix  = "memdb.log."
)

func (b *Backend) buckets(ctx context.Context) (err error) {
	for _, k := range []struct {
		name string
		ttl  time.Duration
		to   *jetstream.KeyValue
	}{{leaseBucket, b.o.TTL, &b.leases}, {registryBucket, 0, &b.registry}, {aliveBucket, b.o.TTL, &b.alive}, {keyBucket, 0, &b.keys}} {
		if *k.to, err = b.bucket(ctx, k.name, k.ttl); err != nil {
			return err
		}
	}
	if b.objects, err = b.js.ObjectStore(ctx, objectBucket); errors.Is(err, jetstream.ErrBucketNotFound) {
		err = b.replicated(func(n int) (err error) {
			b.objects, err = b.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: objectBucket, Replicas: n, Storage: jetstream.FileStorage})
			return err
		})
	}
	if err != nil {
		return err
	}
	return b.enough(ctx, "OBJ_"+objectBucket)
}

func (b *Backend) bucket(ctx context.Context, name string, ttl time.Duration) (jetstream.KeyValue, error) {
	kv, err := b.js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		err = b.replicated(func(n int) (err error) {
			c := jetstream.KeyValueConfig{Bucket: name, TTL: ttl, Replicas: n, Storage: jetstream.FileStorage}
			if ttl > 0 { // with marks of what has gone, replicas let go of a value in time
				c.LimitMarkerTTL = markerTTL
			}
			kv, err = b.js.CreateKeyValue(ctx, c)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, err
	}
	if got := status.TTL(); got != ttl {
		return nil, mismatch(fmt.Sprintf("the bucket %s keeps values for %v, and not for %v", name, got, ttl), "give all machines one time of leases")
	}
	return kv, b.enough(ctx, "KV_"+name)
}

// replicated runs fn, which makes something of so many replicas. A server that is alone has one.
func (b *Backend) replicated(fn func(replicas int) error) error {
	err := fn(replicas)
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && b.o.Insecure && api.ErrorCode == codeNotClustered {
		return fn(1)
	}
	return err
}

// enough refuses a stream that keeps less than it should.
func (b *Backend) enough(ctx context.Context, stream string) error {
	info, err := b.info(ctx, stream)
	if err != nil {
		return err
	}
	return b.suffices(info)
}

// suffices refuses a stream that keeps less than it should.
func (b *Backend) suffices(info *jetstream.StreamInfo) error {
	c, stream := info.Config, info.Config.Name
	if b.o.Insecure || c.Replicas >= replicas && c.Storage == jetstream.FileStorage {
		return nil
	}
	return mismatch(fmt.Sprintf("%s has %d replicas in %v storage; an acknowledged write needs %d in files", stream, c.Replicas, c.Storage, replicas), "nats stream edit "+stream+" --replicas=3; or take less with --insecure")
}

func mismatch(why, do string) error {
	return &fault.Error{Kind: fault.ErrMismatch, What: doingConnect, Why: why, Do: do}
}

// Close implements [cluster.Backend].
func (b *Backend) Close() error {
	b.nc.Close()
	return nil
}

// Leases implements [cluster.Backend].
func (b *Backend) Leases() cluster.Leases { return leases{b} }

// Registry implements [cluster.Backend].
func (b *Backend) Registry() cluster.Registry { return registry{b} }

// Keys implements [cluster.Backend].
func (b *Backend) Keys() cluster.Book { return book{b} }

// Objects implements [cluster.Backend].
func (b *Backend) Objects(shard int) cluster.Objects { return objects{b, shard} }

// call runs fn, which is one call, for a bounded time, and gives its error one of the kinds of package cluster.
func call(ctx context.Context, fn func(context.Context) error) error {
	return known(retry.Within(ctx, callWait, fn))
}

// ask is call for what may be asked again and changes nothing: what no leader has heard is never answered, so it is
// asked anew every askEvery, and the first answer counts. An election that ends is noticed as soon.
func ask[T any](ctx context.Context, fn func(context.Context) (T, error)) (got T, err error) {
	err = call(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		type answer struct {
			got T
			err error
		}
		var asked sync.WaitGroup
		answers := make(chan answer, callWait/askEvery+1)
		defer asked.Wait()
		defer cancel()
		for {
			asked.Go(func() {
				var a answer
				caught := panics.Catch("asks a server", func() { a.got, a.err = fn(ctx) })
				a.err = cmp.Or(caught, a.err)
				answers <- a
			})
			for waiting := true; waiting; {
				var a answer
				err := retry.Within(ctx, askEvery, func(wait context.Context) error {
					select {
					case a = <-answers:
						return nil
					case <-wait.Done():
						return wait.Err()
					}
				})
				switch {
				case ctx.Err() != nil:
					return ctx.Err()
				case err != nil: // it is time to ask anew
					waiting = false
				case !errors.Is(known(a.err), cluster.ErrUnavailable):
					got = a.got
					return a.err
				}
			}
		}
	})
	return got, err
}

// info asks the leader of a stream what the stream is and has. ErrUnavailable if there is none: a replica answers then,
// and it may lack what a majority has.
func (b *Backend) info(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	return ask(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return nil, err
		}
		info := s.CachedInfo()
		if info.Cluster != nil && info.Cluster.Leader == "" {
			return nil, fmt.Errorf("%w: %s has no leader", cluster.ErrUnavailable, stream)
		}
		return info, nil
	})
}

// The codes of errors that the client does not name.
const (
	codeNoResources   = 10023
	codeNoStorage     = 10047
	codeStoreFailed   = 10077
	codeNotAvailable  = 10008
	codeNotClustered  = 10074
	codeNoPeers       = 10005
	codeMaxBytesError = "maximum bytes exceeded"
)

// known is an error as one of the kinds of package cluster, if it is one.
func known(err error) error {
	if err == nil {
		return nil
	}
	wrapped := func(kind error) error { return fmt.Errorf("%w: %w", kind, err) }
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch api.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return wrapped(cluster.ErrLost)
		case codeNoResources, codeNoStorage, codeStoreFailed:
			return wrapped(cluster.ErrNoRoom)
		case codeNotAvailable, codeNoPeers:
			return wrapped(cluster.ErrUnavailable)
		}
		if strings.Contains(api.Description, codeMaxBytesError) {
			return wrapped(cluster.ErrNoRoom)
		}
		if api.Code >= 500 {
			return wrapped(cluster.ErrUnavailable)
		}
		return err
	}
	over, late := errors.AsType[*retry.Overtime](err)
	switch {
	case late:
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, over)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionReconnecting),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, jetstream.ErrNoHeartbeat), errors.Is(err, context.DeadlineExceeded):
		return wrapped(cluster.ErrUnavailable)
	}
	return err
}
