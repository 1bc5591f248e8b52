package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/wal"
)

// owner is the log of a shard for the database of its owner: one message in flight, each behind the one that the
// owner has sent before, so that no message of another owner comes between unnoticed.
type owner struct {
	o   *ShardOptions
	log Log
	id  uuid.UUID // of this owner: no other gives its messages the same names
	// told hears that the log refuses this owner, nil if nobody does.
	told func(error)

	mu sync.Mutex
	ownerState
}

// ownerState is where the log is. Mark reads it, Append changes it.
type ownerState struct {
	at       place
	messages int64
	bytes    int64
	waits    int64         // how often no answer came
	took     time.Duration // of all messages together
}

var _ engine.Log = (*owner)(nil)

const (
	// leastResend to mostResend are the pauses before the same message is sent again, each twice the one before.
	leastResend = 20 * time.Millisecond
	mostResend  = 250 * time.Millisecond
)

// Mark implements engine.Log.
func (w *owner) Mark() engine.LogMark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return engine.LogMark{Epoch: w.at.epoch, Sequence: w.at.sequence, Sum: w.at.sum}
}

func (w *owner) state() ownerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ownerState
}

// Append implements engine.Log.
func (w *owner) Append(ctx context.Context, f *wal.Frame) error {
	if at := w.state().at; f.First != at.number+1 {
		return w.lost(fmt.Errorf("batch %d would follow batch %d", f.First, at.number))
	}
	most := w.log.MaxMessage() - messageHead - frameRoom
	for begin := 0; begin < len(f.Batches); {
		end, size := begin, 0
		for end < len(f.Batches) && (end == begin || size+len(f.Batches[end]) <= most) {
			size += len(f.Batches[end])
			end++
		}
		part := *f
		part.First, part.Last, part.Batches = f.First+uint64(begin), f.First+uint64(end)-1, f.Batches[begin:end]
		if err := w.send(ctx, &part); err != nil {
			return err
		}
		begin = end
	}
	return nil
}

// frameRoom is what the head of a frame and the lengths in it take at most, for batches that fill a message.
const frameRoom = 4 << 10

// send sends a frame, in parts where it is larger than a message. The frame counts once the last part is there.
func (w *owner) send(ctx context.Context, f *wal.Frame) error {
	body, err := f.AppendPlain(nil) // packing takes as long as a tenth of the round trip, and the log is purged
	if err != nil {
		return err
	}
	at, most := w.state().at, w.log.MaxMessage()-messageHead
	parts := (len(body) + most - 1) / most
	if parts > mostParts {
		return fault.Invalid("send a write to the log of a shard", fmt.Sprintf("it has %d bytes", len(body)), "split the transaction into several")
	}
	for i := range parts {
		m := w.o.message(kindBatches, at)
		m.part, m.parts, m.body = uint32(i), uint32(parts), body[i*most:min((i+1)*most, len(body))]
		if at, err = w.one(ctx, m, at); err != nil {
			return err
		}
	}
	at.number = f.Last
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = at
	return nil
}

// message is one of the shard behind a place.
func (o *ShardOptions) message(kind byte, at place) *message {
	return &message{
		kind: kind, layout: engine.LayoutVersion, parts: 1, cluster: o.id, shard: uint32(o.Number), shards: uint32(o.Shards),
		epoch: at.epoch, before: at.sum,
	}
}

// one sends one message until the log has it, or refuses it, and returns the place behind it.
func (w *owner) one(ctx context.Context, m *message, at place) (place, error) {
	data, began := m.encode(), clock.System()
	id := w.id.String() + "-" + strconv.FormatUint(at.sequence+1, 10)
	for pause := leastResend; ; pause = min(2*pause, mostResend) {
		sequence, err := w.log.Append(ctx, id, data, at.sequence)
		switch {
		case err == nil && sequence == at.sequence+1:
			w.mu.Lock()
			w.messages++
			w.bytes += int64(len(data))
			w.took += clock.System().Sub(began)
			w.mu.Unlock()
			at.sequence, at.sum = sequence, m.sum
			return at, nil
		case err == nil:
			return at, w.lost(fmt.Errorf("message %d was kept as %d", at.sequence+1, sequence))
		case errors.Is(err, ErrLost):
			return at, w.lost(err)
		case ctx.Err() != nil:
			return at, ctx.Err()
		}
		w.mu.Lock()
		w.waits++
		w.mu.Unlock()
		w.o.Logger.Debug("the log of a shard took no message; it is sent again", "shard", w.o.Number, "error", err)
		if err := retry.Sleep(ctx, pause); err != nil {
			return at, err
		}
	}
}

// lost is the error of an owner that is none any more.
func (w *owner) lost(cause error) error {
	if w.told != nil {
		w.told(cause)
	}
	return &fault.Error{
		Kind: fault.ErrNotOwner, What: fmt.Sprintf("write to shard %d", w.o.Number), Why: "its log takes nothing of this machine any more", Cause: cause,
		Do: doAskOwner,
	}
}

const doAskOwner = "ask the owner of the shard: memdbctl cluster status names it"
