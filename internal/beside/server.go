package beside

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

// askWait is how long a client may take to say what it wants.
const askWait = 10 * time.Second

// Handler runs a verb for a client and returns the exit code. Reads of in end with the context.
type Handler func(ctx context.Context, r *Request, in io.Reader, out, errs io.Writer) int

// Serve answers one connection, and closes it. The context of the verb is over once the client
// cancels it or is gone.
func (c *Conn) Serve(ctx context.Context, handle Handler) (err error) {
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetReadDeadline(clock.System().Add(askWait)); err != nil {
		return err
	}
	k, body, err := c.Receive()
	if err != nil {
		return err
	}
	var r Request
	if k != Verb {
		return fmt.Errorf("a connection begins with a frame of the kind %q", k)
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("a request: %w", err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	in := &input{ctx: ctx, c: c, parts: make(chan []byte)}
	var listening sync.WaitGroup
	listening.Go(func() {
		defer cancel()
		in.listen()
	})
	code := handle(ctx, &r, in, c.Writer(Out), c.Writer(Err))
	err = c.Send(Exit, []byte{byte(code)})
	cancel()
	err = errors.Join(err, c.SetReadDeadline(clock.System())) // ends listen
	listening.Wait()
	return err
}

// input is what a client reads for a verb.
type input struct {
	ctx   context.Context
	c     *Conn
	parts chan []byte
	rest  []byte
	ended bool
}

// listen takes the client's frames until it cancels the verb or is gone.
func (in *input) listen() {
	for {
		k, body, err := in.c.Receive()
		if err != nil || k != Input {
			return // Cancel, or what no client sends
		}
		select {
		case in.parts <- body:
		case <-in.ctx.Done():
			return
		}
	}
}

// Read asks the client for input where none is left.
func (in *input) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(in.rest) == 0 && !in.ended {
		const most = 64 << 10
		want := uint32(min(len(p), most))
		if err := in.c.Send(Want, binary.LittleEndian.AppendUint32(nil, want)); err != nil {
			return 0, err
		}
		select {
		case in.rest = <-in.parts:
			in.ended = len(in.rest) == 0
		case <-in.ctx.Done():
			return 0, in.ctx.Err()
		}
	}
	if in.ended {
		return 0, io.EOF
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}
