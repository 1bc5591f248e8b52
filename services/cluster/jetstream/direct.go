package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

// What is read is asked of whichever replica hears it first, without a consumer: to make one, the leader of all
// servers must be there, which after the death of a machine is elected for seconds.

// directRequest is what a replica is asked for: messages from a sequence on, so many, of so many bytes.
type directRequest struct {
	Sequence uint64 `json:"seq"`
	Batch    int    `json:"batch"`
	MaxBytes int    `json:"max_bytes"`
}

const (
	// directSubject is what the name of a stream follows.
	directSubject = "$JS.API.DIRECT.GET."
	// directMost is how many messages are asked for at once.
	directMost = 4096
	// The header of what is no message, and what it says.
	statusHeader    = "Status"
	statusEnd       = "204"
	statusNone      = "404"
	statusNobody    = "503"
	pendingMessages = "Nats-Num-Pending"
)

// errNoMessage: the replica has no message from a sequence on.
var errNoMessage = errors.New("the replica has no such message")

// direct calls fn with messages of a stream from a sequence on, as one replica has them, at most so many. It returns
// how many the replica has behind them. ErrUnavailable: none answers, or what was begun did not end.
func (b *Backend) direct(ctx context.Context, stream string, from uint64, most int, fn func(sequence uint64, m *nats.Msg) error) (behind uint64, err error) {
	inbox := b.nc.NewInbox()
	answers, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, known(err)
	}
	defer func() { _ = answers.Unsubscribe() }() // what comes late is not heard
	request, err := json.Marshal(directRequest{Sequence: max(from, 1), Batch: min(most, directMost), MaxBytes: readBytes})
	if err != nil {
		return 0, err
	}
	if err := b.nc.PublishRequest(directSubject+stream, inbox, request); err != nil {
		return 0, known(err)
	}
	for {
		var m *nats.Msg
		err := retry.Within(ctx, callWait, func(ctx context.Context) (err error) {
			m, err = answers.NextMsgWithContext(ctx)
			return err
		})
		if err != nil {
			return 0, known(err)
		}
		switch status := m.Header.Get(statusHeader); status {
		case "":
			sequence, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("a message of %s came without its sequence: %w", stream, err)
			}
			if err := fn(sequence, m); err != nil {
				return 0, err
			}
		case statusEnd:
			return strconv.ParseUint(m.Header.Get(pendingMessages), 10, 64)
		case statusNone:
			return 0, errNoMessage
		case statusNobody:
			return 0, fmt.Errorf("%w: no replica of %s", cluster.ErrUnavailable, stream)
		default:
			return 0, fmt.Errorf("%w: %s: status %s", cluster.ErrUnavailable, stream, status)
		}
	}
}

// readDirect reads on from at, which it moves, up to a sequence that the log has.
func (l *log) readDirect(ctx context.Context, at *uint64, upto uint64, fn func(uint64, []byte) error) error {
	for *at <= upto {
		_, err := l.b.direct(ctx, l.stream, *at, int(min(upto-*at+1, directMost)), func(sequence uint64, m *nats.Msg) error {
			if sequence != *at {
				return l.missing(*at, sequence)
			}
			if err := fn(sequence, m.Data); err != nil {
				return err
			}
			*at++
			return nil
		})
		if errors.Is(err, errNoMessage) { // of a replica that lags; or it was purged to its end meanwhile
			first, _, berr := l.Bounds(ctx)
			switch {
			case berr != nil:
				return berr
			case first > *at:
				return l.missing(*at, first)
			}
			return fmt.Errorf("%w: a replica lags: %w", cluster.ErrUnavailable, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *log) missing(want, got uint64) error {
	return fmt.Errorf("%w: message %d of %s, message %d came", cluster.ErrMissing, want, l.stream, got)
}
