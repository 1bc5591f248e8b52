package ram

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

// log is the log of one shard. The lock of the store guards it.
type log struct {
	first    uint64 // sequence of messages[0], or of the next one where there are none
	messages [][]byte
	ids      map[string]kept
	news     chan struct{} // closed when a message comes
}

// kept is what is known of an ID.
type kept struct {
	sequence uint64
	until    time.Time
}

// last is the sequence of the newest message, 0 if there never was one.
func (l *log) last() uint64 { return l.first + uint64(len(l.messages)) - 1 }

// clientLog is the log for one client.
type clientLog struct {
	c  *Client
	of *log
}

// Append implements [cluster.Log].
func (l clientLog) Append(ctx context.Context, id string, data []byte, after uint64) (sequence uint64, err error) {
	s := l.c.s
	if len(data) > s.o.MaxMessage {
		return 0, fmt.Errorf("a message has %d bytes, the log takes %d", len(data), s.o.MaxMessage)
	}
	err = l.c.call(ctx, func(f Faults) error {
		now := s.o.Clock()
		if was, ok := l.of.ids[id]; ok && now.Before(was.until) {
			sequence = was.sequence
			return nil
		}
		switch {
		case l.of.last() != after:
			return fmt.Errorf("%w: the log ends with %d, and not with %d", cluster.ErrLost, l.of.last(), after)
		case f.Full:
			return cluster.ErrNoRoom
		}
		l.of.messages = append(l.of.messages, bytes.Clone(data))
		sequence = l.of.last()
		l.of.ids[id] = kept{sequence, now.Add(s.o.Window)}
		close(l.of.news)
		l.of.news = make(chan struct{})
		return nil
	})
	return sequence, err
}

// Read implements [cluster.Log].
func (l clientLog) Read(ctx context.Context, from, upto uint64, fn func(uint64, []byte) error) error {
	from = max(from, 1)
	for at := from; upto == 0 || at <= upto; {
		var (
			data []byte
			news <-chan struct{}
		)
		err := l.c.call(ctx, func(Faults) error {
			switch {
			case at < l.of.first:
				return fmt.Errorf("%w: message %d, the log begins with %d", cluster.ErrMissing, at, l.of.first)
			case at <= l.of.last():
				data = bytes.Clone(l.of.messages[at-l.of.first])
			case upto > 0:
				return fmt.Errorf("%w: message %d, the log ends with %d", cluster.ErrMissing, at, l.of.last())
			}
			news = l.of.news
			return nil
		})
		if err != nil {
			return err
		}
		if data == nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-news:
			}
			continue
		}
		if err := fn(at, data); err != nil {
			return err
		}
		at++
	}
	return nil
}

// Bounds implements [cluster.Log].
func (l clientLog) Bounds(ctx context.Context) (first, last uint64, err error) {
	err = l.c.call(ctx, func(Faults) error {
		first, last = l.of.first, l.of.last()
		return nil
	})
	return first, last, err
}

// PurgeTo implements [cluster.Log].
func (l clientLog) PurgeTo(ctx context.Context, sequence uint64) error {
	return l.c.call(ctx, func(Faults) error {
		if sequence < l.of.first || len(l.of.messages) == 0 {
			return nil
		}
		n := min(sequence-l.of.first+1, uint64(len(l.of.messages)-1))
		l.of.messages = append([][]byte(nil), l.of.messages[n:]...)
		l.of.first += n
		return nil
	})
}

// MaxMessage implements [cluster.Log].
func (l clientLog) MaxMessage() int { return l.c.s.o.MaxMessage }

// Window implements [cluster.Log].
func (l clientLog) Window() time.Duration { return l.c.s.o.Window }

// Messages are those that the log of a shard has, and the sequence of the first: what a test looks at, changes, and
// gives to [Store.Replace].
func (s *Store) Messages(shard int) (first uint64, all [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[shard]
	if l == nil {
		return 1, nil
	}
	for _, m := range l.messages {
		all = append(all, bytes.Clone(m))
	}
	return l.first, all
}

// Replace puts other messages in the place of those of a log: a test damages it.
func (s *Store) Replace(shard int, first uint64, all [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[shard]; l != nil {
		l.first, l.messages = first, all
	}
}
