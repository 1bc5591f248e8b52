package beside

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrGone is that the server ended before the verb did: what it had acknowledged is kept, and
// whether the rest was done nobody knows.
var ErrGone = errors.New("the program that holds the database has ended while the verb ran")

// Run asks for a verb, gives it what it reads of in, and writes what it says, until it ends. A
// context that is over cancels the verb, and Run still waits for its end.
func (c *Conn) Run(ctx context.Context, r *Request, in io.Reader, out, errs io.Writer) (code int, err error) {
	if err := c.Ask(r); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Send(Cancel, nil) }) // a server that is gone is noticed below
	defer stop()
	wants := make(chan int, 1)
	defer close(wants)
	go c.give(in, wants)
	for {
		k, body, err := c.Receive()
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrGone, err)
		}
		switch k {
		case Out:
			_, err = out.Write(body)
		case Err:
			_, err = errs.Write(body)
		case Want:
			if len(body) != 4 {
				return 0, fmt.Errorf("a frame %q of %d bytes", k, len(body))
			}
			wants <- int(binary.LittleEndian.Uint32(body))
		case Exit:
			if len(body) != 1 {
				return 0, fmt.Errorf("a frame %q of %d bytes", k, len(body))
			}
			return int(body[0]), nil
		default:
			return 0, fmt.Errorf("a frame of the unknown kind %q", k)
		}
		if err != nil { // nobody reads what the verb says: it need not go on
			return 0, errors.Join(err, c.Close())
		}
	}
}

// give reads the input as far as it is wanted. It is given up when the verb has ended, even
// while it waits for a person.
func (c *Conn) give(in io.Reader, wants <-chan int) {
	var buf []byte
	for n := range wants {
		buf = slices.Grow(buf[:0], n)[:n]
		n, err := in.Read(buf)
		if n == 0 && err == nil {
			continue
		}
		if c.Send(Input, buf[:n]) != nil || n > 0 && err != nil && c.Send(Input, nil) != nil {
			return
		}
	}
}
