package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// place is how far somebody has read a log: behind which message, of which epoch, with which sum, and which batch
// was the last of it.
type place struct {
	sequence uint64
	epoch    uint64
	sum      uint64
	number   uint64 // of the newest batch, 0: not known or none
}

// reader takes the messages of a log in their order, and proves that each follows the one before.
type reader struct {
	of    *ShardOptions
	at    place
	parts [][]byte // of a frame of which the rest has not come
	bytes int64    // of the messages that were taken
}

// take reads the message that follows, and returns the frame that it ends, nil for none.
func (r *reader) take(sequence uint64, data []byte) (*wal.Frame, error) {
	m, err := decodeMessage(data)
	if err != nil {
		return nil, err
	}
	if err := r.prove(m); err != nil {
		return nil, err
	}
	r.at.sequence, r.at.sum = sequence, m.sum
	r.bytes += int64(len(data))
	if m.kind == kindEpoch { // what an owner before had not ended is no part of the log
		r.at.epoch, r.parts = m.epoch, nil
		return nil, nil
	}
	if r.parts = append(r.parts, m.body); m.part+1 < m.parts {
		return nil, nil
	}
	body := bytes.Join(r.parts, nil)
	r.parts = nil
	frame, err := wal.NewReader(bytes.NewReader(body)).Next()
	if err != nil {
		return nil, fault.Within(doingReadLog, err)
	}
	if frame.Kind != wal.Batches || r.at.number != 0 && frame.First != r.at.number+1 {
		return nil, corrupt(fmt.Sprintf("batch %d follows batch %d", frame.First, r.at.number))
	}
	r.at.number = frame.Last
	return frame, nil
}

// prove refuses a message that is not of this log, or does not follow.
func (r *reader) prove(m *message) error {
	switch {
	case m.cluster != r.of.id:
		return mismatch(fmt.Sprintf("it is the log of the cluster %s, and not of %s", m.cluster, r.of.id), "give each cluster streams and buckets of its own")
	case int(m.shard) != r.of.Number:
		return mismatch(fmt.Sprintf("it is the log of shard %d, and not of shard %d", m.shard, r.of.Number), "see which stream was put in the place of which")
	case int(m.shards) != r.of.Shards:
		return mismatch(fmt.Sprintf("its cluster has %d shards, and not %d", m.shards, r.of.Shards), "the number of shards is fixed when a cluster is made")
	case m.before != r.at.sum:
		return corrupt("a message does not follow the one before it")
	case m.kind == kindEpoch && m.epoch <= r.at.epoch, m.kind == kindBatches && m.epoch != r.at.epoch:
		return corrupt(fmt.Sprintf("a message of epoch %d follows epoch %d", m.epoch, r.at.epoch))
	case m.kind == kindBatches && int(m.part) != len(r.parts):
		return corrupt(fmt.Sprintf("part %d of a frame follows %d parts", m.part, len(r.parts)))
	}
	return nil
}

func corrupt(why string) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: doingReadLog, Why: why, Do: restoreShard}
}

func mismatch(why, do string) error {
	return &fault.Error{Kind: fault.ErrMismatch, What: doingReadLog, Why: why, Do: do}
}

// errDrop: the folder does not fit the log, or is damaged, and is made again from the log.
var errDrop = errors.New("the folder is to be made again")

// follower brings a folder up to the log of its shard.
type follower struct {
	o       *ShardOptions
	log     Log
	dir     string
	standby *engine.Standby
	r       reader
	has     uint64 // the number of the newest batch in the folder
	applied int64  // bytes of the batches that were applied
	until   uint64 // no batch behind this one is applied, 0: all are
	past    *Past  // no batch is applied from the first one on that this does not have, nil: all are
	over    bool   // past has ended the reading
	newest  struct {
		lsn  uint64
		time int64 // in Unix milliseconds
	} // of the commits in a snapshot that was applied
}

// openFollower opens the folder, and begins it again where it is damaged.
func openFollower(ctx context.Context, o *ShardOptions, log Log, dir string) (*follower, error) {
	f := &follower{o: o, log: log, dir: dir}
	err := f.open()
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrNotRetained) || errors.Is(err, errDrop):
		return f, f.again(ctx, err)
	}
	return nil, err // it is not ours to remove, or removing it helps nobody
}

// open opens the folder as it is.
func (f *follower) open() (err error) {
	budget := engine.StandbyOptions{MemoryBudget: f.o.Engine.MemoryBudget, DiskReserve: f.o.Engine.DiskReserve, Logger: f.o.Logger}
	if f.standby, err = engine.OpenStandby(f.dir, &budget); err != nil {
		return err
	}
	if err := f.begin(); err != nil {
		return errors.Join(err, f.close())
	}
	return nil
}

// begin begins to read behind what the folder has. When its newest batch was applied, the message of its mark was
// the newest of the log: so the batch is in a later message of the same epoch, or in none.
func (f *follower) begin() error {
	m, at, err := f.standby.Position()
	if err == nil && at.Parts > 0 {
		err = fmt.Errorf("%w: a snapshot is not complete", errDrop)
	}
	f.has = at.Number
	f.r = reader{of: f.o, at: place{sequence: m.Sequence, epoch: m.Epoch, sum: m.Sum}, bytes: f.r.bytes}
	return err
}

func (f *follower) close() error {
	if f.standby == nil {
		return nil
	}
	s := f.standby
	f.standby = nil
	return s.Close()
}

// again drops the folder, for a reason, and begins with the newest snapshot, if there is one.
func (f *follower) again(ctx context.Context, why error) error {
	f.o.Logger.Warn("the folder of a shard is dropped, and made again from its log", "shard", f.o.Number, "dir", f.dir, "why", why)
	if err := errors.Join(f.close(), dropFolder(f.dir)); err != nil {
		return err
	}
	if err := f.open(); err != nil {
		return err
	}
	return f.fromSnapshot(ctx)
}

// fromSnapshot begins an empty folder with the newest snapshot, if there is one.
func (f *follower) fromSnapshot(ctx context.Context) error {
	objects := f.o.Backend.Objects(f.o.Number)
	all, err := snapshots(ctx, objects)
	if err != nil || len(all) == 0 {
		return err
	}
	r, err := objects.Get(ctx, all[len(all)-1].Name)
	if err != nil {
		return err
	}
	if err := errors.Join(f.fill(ctx, r), r.Close()); err != nil {
		return fault.Within("read the snapshot of a shard", err)
	}
	if err := f.begin(); err != nil || f.has == 0 {
		return cmp.Or(err, corrupt("a snapshot is empty"))
	}
	return nil
}

// fill applies a snapshot.
func (f *follower) fill(ctx context.Context, from io.Reader) error {
	frames := wal.NewReader(from)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		frame, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f.standby.Apply(frame)
		}
		if err != nil {
			return err
		}
		if frame.LSN > f.newest.lsn {
			f.newest.lsn, f.newest.time = frame.LSN, frame.Time
		}
	}
}

// apply takes a message of the log.
func (f *follower) apply(sequence uint64, data []byte) error {
	epoch, number := f.r.at.epoch, f.r.at.number
	frame, err := f.r.take(sequence, data)
	if err != nil {
		return err
	}
	if f.r.at.epoch != epoch && f.has > number { // nothing of its epoch comes any more
		return diverged(f.has, number)
	}
	if frame == nil || frame.Last <= f.has {
		return nil
	}
	if f.until > 0 && frame.Last > f.until {
		frame.Batches = frame.Batches[:f.until-frame.First+1]
		frame.Last, frame.LSN, frame.Time = f.until, 0, 0
	}
	if f.past != nil {
		if f.over = cutOff(frame, f.past); len(frame.Batches) == 0 {
			return nil
		}
	}
	if err := f.standby.Apply(frame); err != nil {
		if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrNotRetained) {
			err = fmt.Errorf("%w: %w", errDrop, err)
		}
		return err
	}
	f.has = frame.Last
	for _, b := range frame.Batches {
		f.applied += int64(len(b))
	}
	return nil
}

// cutOff leaves out the batches of a frame from the first one on that a past state does not have, and reports whether
// there is one.
func cutOff(frame *wal.Frame, at *Past) bool {
	n := slices.IndexFunc(frame.Batches, func(b []byte) bool { return !at.has(engine.NewestCommit(b)) })
	if n < 0 {
		return false
	}
	frame.Batches = frame.Batches[:n]
	frame.Last, frame.LSN, frame.Time = frame.First+uint64(n)-1, 0, 0
	return true
}

func diverged(has, number uint64) error {
	return fmt.Errorf("%w: it holds batch %d, and its epoch ends in the log with batch %d", errDrop, has, number)
}

// catchUp brings the folder to the end of the log as it is now. A folder that does not fit the log is dropped, and
// made again.
func (f *follower) catchUp(ctx context.Context) error {
	err := f.tail(ctx)
	for try := 0; try < 3 && (errors.Is(err, errDrop) || errors.Is(err, ErrMissing)); try++ { // a newer snapshot may have come meanwhile
		if err = f.again(ctx, err); err == nil {
			err = f.tail(ctx)
		}
	}
	if errors.Is(err, ErrMissing) || errors.Is(err, errDrop) {
		return &fault.Error{
			Kind: fault.ErrCorrupt, What: fmt.Sprintf("bring up shard %d", f.o.Number), Cause: err,
			Why: "the log does not have what follows the newest snapshot", Do: restoreShard,
		}
	}
	return err
}

// A log that ends before what the folder has is asked so often for its end, with so long a pause.
const (
	boundsTries = 6
	boundsPause = 250 * time.Millisecond
)

// tail applies what follows in the log.
func (f *follower) tail(ctx context.Context) error {
	from := f.r.at.sequence + 1
	first, last, err := f.log.Bounds(ctx)
	for try := 1; err == nil && from > last+1 && try < boundsTries; try++ { // a new leader may still apply what it has
		if err = retry.Sleep(ctx, boundsPause); err == nil {
			first, last, err = f.log.Bounds(ctx)
		}
	}
	if err != nil {
		return err
	}
	switch {
	case from < first:
		return fmt.Errorf("%w: message %d, the log begins with %d", ErrMissing, from, first)
	case from > last+1: // what a quorum had does not go: the folder may be all that is left
		return mismatch(
			fmt.Sprintf("the log ends with message %d, and %s has followed it to %d: it is another log, or has lost messages", last, f.dir, from-1),
			"look for the streams of the cluster; to go on without what is lost, move that folder away")
	case from <= last:
		if err := f.log.Read(ctx, from, last, f.apply); err != nil {
			return err
		}
	}
	if f.has > f.r.at.number {
		return diverged(f.has, f.r.at.number)
	}
	return nil
}

// dropFolder removes the folder of a shard.
func dropFolder(dir string) error {
	files, dir := fsys.Named(dir)
	return files.RemoveAll(dir)
}

// snapshotPrefix is what the names of snapshots begin with; the sequence follows that the log goes on behind.
const snapshotPrefix = "base-"

func snapshotName(sequence uint64) string { return fmt.Sprintf("%s%020d", snapshotPrefix, sequence) }

// snapshots are those of a shard, the oldest first.
func snapshots(ctx context.Context, objects Objects) ([]Object, error) {
	all, err := objects.List(ctx)
	all = slices.DeleteFunc(all, func(o Object) bool { return !strings.HasPrefix(o.Name, snapshotPrefix) })
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}
