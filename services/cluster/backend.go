package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// The errors of a backend. Others than these, and than those of contexts, are of a call that will fail
// again: credentials that are refused, a stream that is none of memdb.
var (
	// ErrLost: another message stands where this one was to stand, or another holder has the lease. The
	// caller does not own the shard any more.
	ErrLost = errors.New("another owner was first")
	// ErrUnavailable: no answer came, or the backend has no leader or no majority now. Whether the call had
	// an effect is not known. The same call may succeed later.
	ErrUnavailable = errors.New("the backend does not answer")
	// ErrHeld: a lease has a holder, which may be asked for.
	ErrHeld = errors.New("the lease is held")
	// ErrMissing: there is no such object, entry or message (any more).
	ErrMissing = errors.New("it is missing")
	// ErrChanged: an entry has another revision than the one that was expected, or is there already.
	ErrChanged = errors.New("the entry was changed")
	// ErrNoRoom: the backend has no room for what was to be kept. It passes when there is room.
	ErrNoRoom = errors.New("the backend has no room")
)

// Backend is what shards need of others: a log, a lease and objects each, and a registry for all. It is safe
// for concurrent use.
type Backend interface {
	// Log opens the log of a shard, and makes it where it is missing. A log that is there with fewer
	// replicas, or that is synced more seldom than it should, is an error (fault.ErrMismatch).
	Log(ctx context.Context, shard int) (Log, error)
	// Objects are those of one shard. Shards do not see each other's.
	Objects(shard int) Objects
	// Leases are those of all shards.
	Leases() Leases
	// Registry is that of the cluster.
	Registry() Registry
	// Keys are those by which programs are known.
	Keys() Book
	// Close gives up what the backend holds. Leases that are held run out.
	Close() error
}

// Log is the replicated log of one shard. Sequences begin at 1 and ascend; a log that was purged begins
// later. It is safe for concurrent use.
type Log interface {
	// Append keeps data behind the message of the sequence after, which is to be the last one (0: the log
	// is empty), and returns its sequence once a quorum has it on disk. id names the message: the same
	// message with the same id is kept once, however often it is sent within [Log.Window], and its sequence
	// is returned again. ErrLost: the log has another message there, so this one was not kept and never
	// will be. ErrUnavailable: send the very same again. ErrNoRoom: it was not kept, send it again. data is
	// at most [Log.MaxMessage] bytes, and is not kept by the log once Append returns.
	Append(ctx context.Context, id string, data []byte, after uint64) (sequence uint64, err error)
	// Read calls fn with the messages from a sequence on, in their order, and returns behind the one of the
	// sequence upto, or with what fn returns; upto 0 follows the log until ctx ends. data belongs to fn.
	// ErrMissing: the log does not have the first one any more, or something is missing between.
	Read(ctx context.Context, from, upto uint64, fn func(sequence uint64, data []byte) error) error
	// Bounds are the sequences of the oldest and of the newest message. A log without messages has first
	// one above last; last is 0 where there never was one. The answer is that of the quorum.
	Bounds(ctx context.Context) (first, last uint64, err error)
	// PurgeTo removes the messages up to a sequence and with it. The newest stays.
	PurgeTo(ctx context.Context, sequence uint64) error
	// MaxMessage is how much data a message may have, in bytes.
	MaxMessage() int
	// Window is how long the log knows the IDs of messages.
	Window() time.Duration
}

// Lease is a lease that was acquired or renewed.
type Lease struct {
	// Shard is whose it is, Holder who has it.
	Shard  int
	Holder string
	// Revision ascends with each change of the lease. Who knows the newest may change it.
	Revision uint64
}

// Leases say who owns which shard, each for [Leases.TTL] after its last renewal. They are safe for
// concurrent use.
type Leases interface {
	// Acquire takes the lease of a shard that nobody holds. A [HeldError], which is ErrHeld: somebody does.
	Acquire(ctx context.Context, shard int, holder string) (Lease, error)
	// Renew begins the time of a lease again. ErrLost: it ran out, or somebody else holds it.
	Renew(ctx context.Context, l Lease) (Lease, error)
	// Release gives a lease back, so that it can be acquired at once. ErrLost: it was not held any more.
	Release(ctx context.Context, l Lease) error
	// Holder is who holds the lease of a shard, empty if nobody does.
	Holder(ctx context.Context, shard int) (string, error)
	// Holders are those of all shards that are held.
	Holders(ctx context.Context) (map[int]string, error)
	// TTL is how long a lease lasts after it was acquired or renewed.
	TTL() time.Duration
}

// HeldError is ErrHeld with the holder.
type HeldError struct {
	// Holder is who has the lease.
	Holder string
}

func (e *HeldError) Error() string { return fmt.Sprintf("%v by %s", ErrHeld, e.Holder) }

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// Object is what the objects have of one.
type Object struct {
	// Name is the one that it was put under, Size its length in bytes.
	Name string
	Size int64
}

// Objects keep large things whole. They are safe for concurrent use.
type Objects interface {
	// Put keeps what r gives under a name, in place of what was there. Nothing is kept where r or Put fails.
	// ErrNoRoom: there is no room for it.
	Put(ctx context.Context, name string, r io.Reader) error
	// Get reads an object. It is to be closed. An object that is damaged ends with an error, not io.EOF.
	// ErrMissing: there is none of that name.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Delete removes an object; one that is missing is no error.
	Delete(ctx context.Context, name string) error
	// List are the objects, by name.
	List(ctx context.Context) ([]Object, error)
}

// Entry is what the registry has under a key.
type Entry struct {
	// Key and Value are as they were given.
	Key   string
	Value []byte
	// Revision ascends with each change of the registry.
	Revision uint64
}

// Book is a small store of which nothing is ever removed. Keys are as those of the registry. It is safe for
// concurrent use.
type Book interface {
	// Put keeps a value, whatever is there.
	Put(ctx context.Context, key string, value []byte) error
	// Changed are the entries that were put behind a revision, 0 for all, and the newest revision. The answer is
	// that of the quorum: what was put before is in it.
	Changed(ctx context.Context, after uint64) (all []Entry, newest uint64, err error)
}

// Registry is a small store of the facts of the cluster and of its members. Keys are of letters, digits,
// '-', '_' and '.', up to 200 bytes; values have up to 64 KiB. It is safe for concurrent use.
type Registry interface {
	// Get is the entry of a key. ErrMissing: there is none.
	Get(ctx context.Context, key string) (Entry, error)
	// List are the entries of which the keys begin with a prefix, by key.
	List(ctx context.Context, prefix string) ([]Entry, error)
	// Put keeps a value, whatever is there.
	Put(ctx context.Context, key string, value []byte) (revision uint64, err error)
	// Swap keeps a value where the entry has a revision, 0: where there is none. ErrChanged: it has
	// another one.
	Swap(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	// Delete removes an entry; one that is missing is no error.
	Delete(ctx context.Context, key string) error
	// Beat keeps a value among those that [Registry.Alive] lists until it has not been given again for
	// [Leases.TTL].
	Beat(ctx context.Context, key string, value []byte) error
	// Alive are the entries that have beaten within that time, by key.
	Alive(ctx context.Context) ([]Entry, error)
	// Quit ends what Beat has begun, at once.
	Quit(ctx context.Context, key string) error
}
