package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

const (
	// maxMessage bounds a message, whatever the servers would take; headerRoom is what its headers may take.
	maxMessage = 1 << 20
	headerRoom = 1 << 10
	// readBytes is how much is asked for at once.
	readBytes = 8 << 20
)

// log is the stream of one shard.
type log struct {
	b       *Backend
	stream  string
	subject string
}

// Log implements [cluster.Backend].
func (b *Backend) Log(ctx context.Context, shard int) (cluster.Log, error) {
	n := strconv.Itoa(shard)
	l := &log{b: b, stream: streamPrefix + n, subject: subjectPrefix + n}
	for try := 1; ; try++ { // of two machines that make a stream at once, one may get no answer
		err := known(retry.Within(ctx, 2*callWait, l.setUp))
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, cluster.ErrUnavailable) || try == setUpTries {
			return nil, err
		}
	}
}

// setUp makes the stream where it is missing.
func (l *log) setUp(ctx context.Context) error {
	info, err := l.b.info(ctx, l.stream)
	if err == nil && !info.Config.AllowDirect {
		info.Config.AllowDirect = true
		_, err = l.b.js.UpdateStream(ctx, info.Config)
	}
	if err == nil {
		return l.b.suffices(info)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = l.b.replicated(func(n int) error {
			_, err := l.b.js.CreateStream(ctx, jetstream.StreamConfig{
				Name: l.stream, Subjects: []string{l.subject}, Storage: jetstream.FileStorage, Replicas: n,
				Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, Duplicates: window, DenyDelete: true, AllowDirect: true,
			})
			return err
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another machine was first
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return l.b.enough(ctx, l.stream)
}

// Append implements [cluster.Log].
func (l *log) Append(ctx context.Context, id string, data []byte, after uint64) (sequence uint64, err error) {
	err = call(ctx, func(ctx context.Context) error {
		ack, err := l.b.js.Publish(ctx, l.subject, data, jetstream.WithMsgID(id), jetstream.WithExpectLastSequence(after), jetstream.WithExpectStream(l.stream), jetstream.WithRetryAttempts(0))
		if err == nil {
			sequence = ack.Sequence
		}
		return err
	})
	if errors.Is(err, cluster.ErrLost) {
		has, herr := l.has(ctx, id, after+1)
		switch {
		case has:
			return after + 1, nil
		case errors.Is(herr, cluster.ErrUnavailable): // it is sent again, and asked again
			return 0, herr
		}
	}
	return sequence, err
}

// has reports whether the stream has the message of an ID at its place: a server that is alone holds the sequence
// against what it has before it looks at the ID, and after the window no server knows the ID. What a stream has, its
// quorum has.
func (l *log) has(ctx context.Context, id string, sequence uint64) (found bool, err error) {
	return ask(ctx, func(ctx context.Context) (bool, error) {
		s, err := l.b.js.Stream(ctx, l.stream)
		if err != nil {
			return false, err
		}
		m, err := s.GetMsg(ctx, sequence)
		if of := s.CachedInfo().State; errors.Is(err, jetstream.ErrMsgNotFound) && of.FirstSeq <= sequence && sequence <= of.LastSeq {
			// Any replica answers, also one that is behind: who took that for a lost race would
			// have its callers write twice what the log has.
			err = fmt.Errorf("%w: a replica of %s does not have message %d yet", cluster.ErrUnavailable, l.stream, sequence)
		}
		return err == nil && m.Header.Get(jetstream.MsgIDHeader) == id, err
	})
}

// readTries is how often a reading that gives nothing is begun again.
const readTries = 5

// Read implements [cluster.Log].
func (l *log) Read(ctx context.Context, from, upto uint64, fn func(uint64, []byte) error) error {
	at := max(from, 1)
	for try := 1; ; try++ { // what a server was asked that is no leader any more is never answered
		before := at
		var err error
		if upto == 0 {
			err = l.follow(ctx, &at, fn)
		} else {
			err = l.readDirect(ctx, &at, upto, fn)
		}
		if at > before {
			try = 1
		}
		if !errors.Is(err, cluster.ErrUnavailable) || try == readTries {
			return err
		}
		if err := retry.Sleep(ctx, reconnectPause); err != nil {
			return err
		}
	}
}

// follow reads on from at, which it moves, and what comes then.
func (l *log) follow(ctx context.Context, at *uint64, fn func(uint64, []byte) error) error {
	var consumer jetstream.Consumer
	err := call(ctx, func(ctx context.Context) (err error) {
		consumer, err = l.b.js.OrderedConsumer(ctx, l.stream, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *at, InactiveThreshold: time.Minute,
		})
		return err
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxBytes(readBytes))
	if err != nil {
		return known(err)
	}
	defer messages.Stop()
	for ; ; *at++ {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return known(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if got := meta.Sequence.Stream; got != *at {
			return l.missing(*at, got)
		}
		if err := fn(*at, m.Data()); err != nil {
			return err
		}
	}
}

// Bounds implements [cluster.Log].
func (l *log) Bounds(ctx context.Context) (first, last uint64, err error) {
	info, err := l.b.info(ctx, l.stream)
	if err != nil {
		return 0, 0, err
	}
	return max(info.State.FirstSeq, 1), info.State.LastSeq, nil
}

// PurgeTo implements [cluster.Log].
func (l *log) PurgeTo(ctx context.Context, sequence uint64) error {
	first, last, err := l.Bounds(ctx)
	if err != nil || sequence < first || last == 0 {
		return err
	}
	return call(ctx, func(ctx context.Context) error {
		s, err := l.b.js.Stream(ctx, l.stream)
		if err != nil {
			return err
		}
		return s.Purge(ctx, jetstream.WithPurgeSequence(min(sequence+1, last)))
	})
}

// MaxMessage implements [cluster.Log].
func (l *log) MaxMessage() int { return min(int(l.b.nc.MaxPayload()), maxMessage) - headerRoom }

// Window implements [cluster.Log].
func (l *log) Window() time.Duration { return window }
