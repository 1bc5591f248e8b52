package beside

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

const (
	// aliveEvery is how often a server says that a verb waits or runs, and aliveWait how long a
	// client waits for a sign of it.
	aliveEvery = 5 * time.Second
	aliveWait  = 30 * time.Second
	// cancelWait is how long a verb that was cancelled may take to end.
	cancelWait = 10 * time.Second
)

// ErrGone is that the server ended before the verb did: what it had acknowledged is kept, and
// whether the rest was done nobody knows.
var ErrGone = errors.New("the program that holds the database has ended while the verb ran")

// ErrRefused is that the server asks for what the verb does not need.
var ErrRefused = errors.New("the program that holds the database asks for what the verb does not need")

// Terms are what a client lets a verb have.
type Terms struct {
	In       io.Reader // nil for a verb that reads no input
	Out, Err io.Writer
	// Getenv looks up a variable of the environment, and reports whether the verb may have it.
	Getenv func(name string) (value string, may bool)
}

// Run asks for a verb, gives it what it reads, and writes what it says, until it ends. A context
// that is over cancels the verb, and Run waits for its end, at most ten seconds. A server that
// says nothing for half a minute has ended.
func (c *Conn) Run(ctx context.Context, r *Request, t *Terms) (code int, err error) {
	if err := c.ask(r); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(cancelWait, func() { _ = c.Close() }) // ends what is read below
		_ = c.Send(Cancel, nil)                              // a server that is gone is noticed there
	})
	defer stop()
	wants := make(chan int, 1)
	defer close(wants)
	if t.In != nil {
		go c.give(t.In, wants)
	}
	for {
		if err := c.SetReadDeadline(clock.System().Add(aliveWait)); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrGone, err)
		}
		k, body, err := c.receive()
		if err != nil {
			return 0, errors.Join(ctx.Err(), fmt.Errorf("%w: %w", ErrGone, err))
		}
		if k == Exit && len(body) == 1 {
			return int(body[0]), nil
		}
		if err := c.answer(k, body, t, wants); err != nil { // the verb need not go on
			return 0, errors.Join(err, c.Close())
		}
	}
}

// answer does what a frame of the server asks for.
func (c *Conn) answer(k Kind, body []byte, t *Terms, wants chan<- int) (err error) {
	switch k {
	case Alive:
	case Out:
		_, err = t.Out.Write(body)
	case Err:
		_, err = t.Err.Write(body)
	case Var:
		value, may := t.Getenv(string(body))
		if !may {
			return fmt.Errorf("%w: the variable %q", ErrRefused, body)
		}
		if len(value) > maxValue {
			return fmt.Errorf("the variable %s takes %d bytes; %d are the most", body, len(value), maxValue)
		}
		return c.Send(Value, []byte(value))
	case Want:
		if t.In == nil {
			return fmt.Errorf("%w: its input", ErrRefused)
		}
		if len(body) != 4 {
			return fmt.Errorf("a frame %q of %d bytes", k, len(body))
		}
		select {
		case wants <- int(min(binary.LittleEndian.Uint32(body), maxPart)):
		default:
			return fmt.Errorf("%w: more of its input before it has got the last", ErrRefused)
		}
	default:
		return fmt.Errorf("a frame %q of %d bytes", k, len(body))
	}
	return err
}

// give reads the input as far as it is wanted. It is given up when the verb has ended, even
// while it waits for a person.
func (c *Conn) give(in io.Reader, wants <-chan int) {
	buf := make([]byte, maxPart)
	for n := range wants {
		n, err := in.Read(buf[:n])
		for n == 0 && err == nil {
			n, err = in.Read(buf[:1])
		}
		if c.Send(Input, buf[:n]) != nil || n > 0 && err != nil && c.Send(Input, nil) != nil {
			return
		}
	}
}
