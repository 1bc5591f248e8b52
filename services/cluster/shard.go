package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

// ShardOptions say which shard is meant, where it lies, and what it lives on.
type ShardOptions struct {
	// Backend has the log, the lease and the objects.
	Backend Backend
	// Cluster is the ID of the cluster, a UUID; Number is that of the shard, of as many Shards from 0 on.
	Cluster        string
	Number, Shards int
	// Node is the name of this machine, Dir the folder of the shard on it.
	Node, Dir string
	// Engine are the options of the database; nil: the zero options. See [engine.OpenLogged] for those that
	// cannot be set.
	Engine *engine.Options
	// LogWait is [engine.LogOptions].Wait.
	LogWait time.Duration
	// SnapshotBytes is how many bytes the log may have behind the newest snapshot before the owner makes
	// another, and purges the log. 0: 256 MiB.
	SnapshotBytes int64
	// Logger hears of what a shard does by itself. nil: nothing is logged.
	Logger *slog.Logger
	// Clock tells for how long a lease is held: durations alone count. nil: the system's.
	Clock func() time.Time

	id uuid.UUID
}

const (
	defaultSnapshotBytes = 256 << 20
	// mostShards bounds the shards of a cluster.
	mostShards = 1 << 16
	// renewals is how often a lease is renewed within its time.
	renewals = 3
	// mostEpochs bounds the tries to write an epoch record.
	mostEpochs = 20
)

// check refuses options that cannot be, and fills in what they leave open.
func (o *ShardOptions) check() (err error) {
	doing := o.doing("open")
	switch {
	case o.Backend == nil || o.Node == "" || o.Dir == "":
		return fault.Invalid(doing, "it needs a backend, a node and a folder", "give them")
	case o.Shards < 1 || o.Shards > mostShards || o.Number < 0 || o.Number >= o.Shards:
		return fault.Invalid(doing, fmt.Sprintf("there are %d shards", o.Shards), fmt.Sprintf("give 1 to %d shards, and one of them", mostShards))
	}
	if o.id, err = uuid.Parse(o.Cluster); err != nil {
		return fault.Invalid(doing, "the ID of the cluster is no UUID", "give the one that the registry of the cluster has")
	}
	if o.Engine == nil {
		o.Engine = &engine.Options{}
	}
	o.SnapshotBytes = cmp.Or(o.SnapshotBytes, defaultSnapshotBytes)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Clock == nil {
		o.Clock = clock.System
	}
	return nil
}

func (o *ShardOptions) doing(what string) string { return fmt.Sprintf("%s shard %d", what, o.Number) }

// Shard is a shard that this machine owns. It is safe for concurrent use.
type Shard struct {
	o     ShardOptions
	log   Log
	db    *engine.DB
	owner *owner
	epoch uint64
	began time.Time // when the opening began

	stop    context.CancelFunc
	work    sync.WaitGroup // what renews the lease and makes snapshots
	copying sync.Mutex     // held while a copy is made
	done    chan struct{}  // closed when it is owned no more

	closing sync.Once
	mu      sync.Mutex
	shardState
}

// shardState is what changes while a shard is owned.
type shardState struct {
	lease    Lease
	until    time.Time // when the lease runs out, by the clock of this machine
	lost     error     // why it is owned no more
	cut      bool      // the newest renewal of the lease got no answer
	stepping bool      // it is handed over: no call begins
	calls    int
	idle     chan struct{} // closed when stepping and no call runs
	ready    time.Duration // how long opening took
	behind   int64         // bytes of the log behind the newest snapshot, at the opening
	from     int64         // bytes that were sent when the newest snapshot was made
	snapshot uint64        // the message that the newest snapshot of this owner goes on behind
	failing  string        // why the newest snapshot could not be made
	erased   bool          // the log has what was erased: a snapshot is due
}

// OpenShard takes the lease of a shard, brings its folder up to its log, and opens it. It returns ErrHeld (see
// [HeldError]) where somebody holds the lease, ErrUnavailable (of this package) where the backend does not answer,
// and an error of package memory otherwise: ErrMismatch for a log of another cluster or of other shards, ErrCorrupt
// where the log is damaged or lacks what follows its snapshot, ErrNewerLayout where a newer memdb has written it.
func OpenShard(ctx context.Context, o ShardOptions) (*Shard, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	// The lease is looked at first: who waits for one counts its time from when it was seen, and a log without a
	// leader, as where a machine failed that had both, answers for seconds to nobody.
	err := isFree(ctx, o.Backend.Leases(), o.Number)
	for try := 1; errors.Is(err, ErrHeld) && try < freeTries; try++ {
		if err := retry.Sleep(ctx, freePause); err != nil {
			return nil, err
		}
		err = isFree(ctx, o.Backend.Leases(), o.Number)
	}
	if err != nil {
		return nil, err
	}
	f, err := newFollower(ctx, &o)
	if err != nil {
		return nil, err
	}
	return f.own(ctx)
}

// A lease that was given back just now is asked for so often, with so long a pause: who answers may not know of it yet.
const (
	freeTries = 4
	freePause = 40 * time.Millisecond
)

// isFree returns a HeldError where somebody holds the lease of a shard.
func isFree(ctx context.Context, leases Leases, shard int) error {
	holder, err := leases.Holder(ctx, shard)
	if err == nil && holder != "" {
		return &HeldError{Holder: holder}
	}
	return err
}

// own makes the follower the owner of its shard. It closes the follower in any case.
func (f *follower) own(ctx context.Context) (_ *Shard, err error) {
	s := &Shard{o: *f.o, log: f.log, done: make(chan struct{}), began: f.o.Clock()}
	f.o = &s.o
	sent := s.o.Clock()
	lease, err := s.o.Backend.Leases().Acquire(ctx, s.o.Number, s.o.Node)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	s.hold(lease, sent)
	background, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.behindIt("keeps a lease", func() { s.keep(background) })
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
			s.release()
		}
	}()
	if err := f.take(ctx, s); err != nil {
		return nil, cmp.Or(s.why(), err)
	}
	opts := *s.o.Engine
	opts.Logger = cmp.Or(opts.Logger, s.o.Logger)
	db, err := engine.OpenLogged(s.o.Dir, engine.LogOptions{Log: s.owner, Wait: s.o.LogWait, Erased: s.noteErased}, &opts)
	if err != nil {
		if errors.Is(err, fault.ErrNotOwner) {
			err = errors.Join(err, dropFolder(s.o.Dir))
		}
		return nil, err
	}
	s.mu.Lock()
	s.db, s.ready, s.behind = db, s.o.Clock().Sub(s.began), f.r.bytes
	s.mu.Unlock()
	if lost := s.why(); lost != nil {
		return nil, errors.Join(lost, s.closeDB())
	}
	s.behindIt("makes snapshots", func() { s.keepSnapshots(background) })
	s.o.Logger.Info("a shard is owned", "shard", s.o.Number, "epoch", s.epoch, "lsn", db.LSN(), "took", s.ready)
	return s, nil
}

// why is why the shard is owned no more, nil while it is.
func (s *Shard) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// take writes the epoch record of this owner, brings the folder up to it, and closes it.
func (f *follower) take(ctx context.Context, s *Shard) error {
	for try := 1; ; try++ {
		if err := f.catchUp(ctx); err != nil {
			return err
		}
		id, err := uuid.NewRandom()
		if err != nil {
			return err
		}
		w := &owner{o: &s.o, log: f.log, id: id}
		at := f.r.at
		at.epoch++
		m := s.o.message(kindEpoch, at)
		m.body = []byte(s.o.Node)
		at, err = w.one(ctx, m, at)
		if errors.Is(err, ErrLost) && try < mostEpochs { // the owner before sends what it had
			continue
		}
		if err != nil {
			return err
		}
		w.at, s.owner, s.epoch = at, w, at.epoch
		w.told = s.lose
		if f.standby.Erased() {
			s.noteErased()
			if err := f.standby.Purge(ctx); err != nil {
				return err
			}
		}
		return f.close()
	}
}

// noteErased has a snapshot made at once, which takes the place of what still has what was erased.
func (s *Shard) noteErased() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erased = true
}

// behindIt runs fn in a goroutine that closing waits for.
func (s *Shard) behindIt(what string, fn func()) {
	s.work.Go(func() {
		if err := panics.Catch(what, fn); err != nil {
			s.lose(err)
		}
	})
}

// hold notes a lease that was asked for at a time. The clock of who keeps the leases may run a little faster.
func (s *Shard) hold(l Lease, sent time.Time) {
	ttl := s.o.Backend.Leases().TTL()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.until = l, sent.Add(ttl-ttl/20)
}

// keep renews the lease until ctx ends or the shard is lost.
func (s *Shard) keep(ctx context.Context) {
	pause := s.o.Backend.Leases().TTL() / renewals
	for retry.Sleep(ctx, pause) == nil {
		if db := s.opened(); db != nil {
			if err := db.Failed(); err != nil {
				s.lose(err)
			}
		}
		select {
		case <-s.done:
			return
		default:
		}
		if err := s.renew(ctx, pause); err != nil && ctx.Err() == nil {
			s.o.Logger.Warn("the lease of a shard could not be renewed", "shard", s.o.Number, "error", err)
		}
	}
}

// renew renews the lease. One that has run out while nobody else took it is taken again: the log says whether
// somebody has written meanwhile.
func (s *Shard) renew(ctx context.Context, limit time.Duration) error {
	s.mu.Lock()
	l := s.lease
	s.mu.Unlock()
	leases, sent := s.o.Backend.Leases(), s.o.Clock()
	err := retry.Within(ctx, limit, func(ctx context.Context) (err error) {
		if l, err = leases.Renew(ctx, l); errors.Is(err, ErrLost) {
			l, err = leases.Acquire(ctx, s.o.Number, s.o.Node)
		}
		return err
	})
	s.mu.Lock()
	s.cut = err != nil && !errors.Is(err, ErrHeld)
	s.mu.Unlock()
	// A lease that this machine holds, and that is not the one it knows, was renewed without an answer: it runs out.
	if held, ok := errors.AsType[*HeldError](err); ok && held.Holder != s.o.Node {
		s.lose(fmt.Errorf("%s holds its lease", held.Holder))
		return nil
	}
	if err == nil {
		s.hold(l, sent)
	}
	return err
}

// Cut reports whether the newest renewal of the lease got no answer.
func (s *Shard) Cut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

func (s *Shard) opened() *engine.DB {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db
}

// lose notes that the shard is owned no more.
func (s *Shard) lose(why error) {
	s.mu.Lock()
	first, db := s.lost == nil, s.db
	if first {
		s.lost = s.notOwner(fault.CauseText(why))
		close(s.done)
	}
	s.mu.Unlock()
	if !first {
		return
	}
	s.o.Logger.Warn("a shard is owned no more", "shard", s.o.Number, "why", why)
	if db != nil {
		db.Disown(fault.CauseText(why))
	}
}

func (s *Shard) notOwner(why string) error {
	return &fault.Error{Kind: fault.ErrNotOwner, What: s.o.doing("use"), Why: why, Do: doAskOwner}
}

// Done is closed once the shard is owned no more: somebody else has taken it, or it has failed. It is to be closed
// then.
func (s *Shard) Done() <-chan struct{} { return s.done }

// Use lends the database until done is called, which is to be soon. ErrNotOwner: the lease has run out, by the
// clock of this machine, or the shard is handed over or lost.
func (s *Shard) Use(ctx context.Context) (db *engine.DB, done func(), err error) {
	db, _, done, err = s.use(ctx, false)
	return db, done, err
}

// UseStale is Use that goes on where the lease cannot be renewed because the backend does not answer: stale is how
// long ago it has run out, 0 while it is held. What is read may be that much older than what another owner has by
// now; what is written, the log refuses or takes as ever.
func (s *Shard) UseStale(ctx context.Context) (db *engine.DB, stale time.Duration, done func(), err error) {
	return s.use(ctx, true)
}

func (s *Shard) use(ctx context.Context, stale bool) (*engine.DB, time.Duration, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, nil, err
	}
	now := s.o.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	over := max(0, now.Sub(s.until))
	switch {
	case s.lost != nil:
		return nil, 0, nil, s.lost
	case s.stepping:
		return nil, 0, nil, s.notOwner("it is being handed over")
	case over > 0 && !stale:
		return nil, 0, nil, s.notOwner("its lease has run out, and could not be renewed")
	}
	s.calls++
	return s.db, over, sync.OnceFunc(s.leave), nil
}

func (s *Shard) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// StepDown hands the shard over: no call begins any more, those that run are waited for until ctx ends, the log gets
// everything, and the lease is given back, so that another machine takes it at once. The shard is closed then; the
// folder stays, and goes on to be a standby or the folder of the next opening.
func (s *Shard) StepDown(ctx context.Context) error {
	s.mu.Lock()
	s.stepping = true
	idle := s.idle
	if s.calls > 0 && idle == nil {
		idle = make(chan struct{})
		s.idle = idle
	}
	s.mu.Unlock()
	if idle != nil {
		select {
		case <-ctx.Done():
		case <-idle:
		}
	}
	return s.Close()
}

// Close closes the shard and gives its lease back. Of a shard that was lost the folder is removed: it may hold what
// the log does not have.
func (s *Shard) Close() (err error) {
	s.closing.Do(func() {
		s.mu.Lock()
		s.stepping = true
		s.mu.Unlock()
		err = s.closeDB()
		s.release()
	})
	return err
}

// closeDB closes the database, while the lease is still kept.
func (s *Shard) closeDB() error {
	err := s.db.Close()
	if s.why() != nil || errors.Is(s.db.Failed(), fault.ErrNotOwner) {
		err = errors.Join(err, dropFolder(s.o.Dir))
	}
	return err
}

// release ends what runs and gives the lease back, if it can: otherwise it runs out.
func (s *Shard) release() {
	s.stop()
	s.work.Wait()
	s.mu.Lock()
	l, lost := s.lease, s.lost
	if lost == nil {
		s.lost = s.notOwner("it is closed")
		close(s.done)
	}
	s.mu.Unlock()
	limit := s.o.Backend.Leases().TTL()
	err := retry.Within(context.Background(), limit, func(ctx context.Context) error { return s.o.Backend.Leases().Release(ctx, l) })
	if err != nil && !errors.Is(err, ErrLost) {
		s.o.Logger.Warn("the lease of a shard runs out by itself", "shard", s.o.Number, "error", err)
	}
}

// ShardStatus is what a shard is doing.
type ShardStatus struct {
	// Shard is its number, Node the machine, Epoch that of the owner.
	Shard int    `json:"shard"`
	Node  string `json:"node"`
	Epoch uint64 `json:"epoch"`
	// LSN is that of the newest commit that reads see; Sequence is that of the newest message of the log.
	LSN      uint64 `json:"lsn"`
	Sequence uint64 `json:"sequence"`
	// LeaseMS is for how long the lease is still held, 0 where it has run out.
	LeaseMS int64 `json:"lease_ms"`
	// UnsentBytes wait for the log, in UnsentBatches; Late says that it does not answer, and writes are refused.
	UnsentBatches int   `json:"unsent_batches"`
	UnsentBytes   int64 `json:"unsent_bytes"`
	Late          bool  `json:"late,omitempty"`
	// Publishes are the messages that were sent, of Bytes together; they took PublishMicros together. Resends is
	// how often no answer came.
	Publishes     int64 `json:"publishes"`
	Bytes         int64 `json:"bytes"`
	PublishMicros int64 `json:"publish_us"`
	Resends       int64 `json:"resends"`
	// BehindBytes are those of the log behind the newest snapshot that is known; Snapshot is the message that the
	// newest of this owner goes on behind, SnapshotError why one could not be made.
	BehindBytes   int64  `json:"behind_bytes"`
	Snapshot      uint64 `json:"snapshot,omitempty"`
	SnapshotError string `json:"snapshot_error,omitempty"`
	// OpenedMS is how long it took from the lease to the first call.
	OpenedMS int64 `json:"opened_ms"`
	// Error is why it is owned no more.
	Error string `json:"error,omitempty"`
}

// Status is what the shard is doing now.
func (s *Shard) Status() ShardStatus {
	w, now := s.owner.state(), s.o.Clock()
	st := ShardStatus{
		Shard: s.o.Number, Node: s.o.Node, Epoch: s.epoch, LSN: s.db.LSN(), Sequence: w.at.sequence,
		Publishes: w.messages, Bytes: w.bytes, PublishMicros: w.took.Microseconds(), Resends: w.waits,
	}
	st.UnsentBatches, st.UnsentBytes, st.Late = s.db.Unsent()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.LeaseMS = max(0, s.until.Sub(now).Milliseconds())
	st.BehindBytes, st.Snapshot, st.SnapshotError = s.behind+w.bytes-s.from, s.snapshot, s.failing
	st.OpenedMS = s.ready.Milliseconds()
	if s.lost != nil {
		st.Error = s.lost.Error()
	}
	return st
}
