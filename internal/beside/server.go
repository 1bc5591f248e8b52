package beside

import (
	"cmp"
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

// Session is what a verb has of its client.
type Session struct {
	*Request
	In       io.Reader // whose reads end with the context of the verb
	Out, Err io.Writer
	// Getenv looks up a variable of the client's environment; empty stands for none. A client
	// refuses a variable that the verb does not need by leaving.
	Getenv func(name string) string
	// Source has In read a file of a client on another machine from now on.
	Source func(name string) error
	// Create has the client write a file, which is there once its End was called with nil.
	Create func(p NewFile) (*File, error)
}

// A File is one that a client writes.
type File struct{ in *input }

// Write sends a part of the file.
func (f *File) Write(p []byte) (int, error) { return f.in.c.Writer(Part).Write(p) }

// End says that the file is whole, or why it is not to be there, and waits until that is done.
func (f *File) End(err error) error {
	why := ""
	if err != nil {
		why = cmp.Or(err.Error(), "it failed")
	}
	return cmp.Or(err, f.in.ask(Done, []byte(why)))
}

// Handler runs a verb for a client and returns the exit code.
type Handler func(ctx context.Context, s *Session) int

// Ask waits for the request of a client.
func (c *Conn) Ask() (*Request, error) {
	if err := c.SetReadDeadline(clock.System().Add(askWait)); err != nil {
		return nil, err
	}
	k, body, err := c.receive()
	if err != nil {
		return nil, err
	}
	if k != Verb {
		return nil, fmt.Errorf("a connection begins with a frame of the kind %q", k)
	}
	var r Request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("a request: %w", err)
	}
	return &r, c.SetReadDeadline(time.Time{})
}

// Serve runs the verb that a client has asked for, and closes the connection. The context of the
// verb is over once the client cancels it or is gone.
func (c *Conn) Serve(ctx context.Context, r *Request, handle Handler) (err error) {
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	in := &input{ctx: ctx, c: c, parts: make(chan []byte), values: make(chan []byte)}
	var beside sync.WaitGroup
	beside.Go(func() {
		defer cancel()
		in.listen()
	})
	beside.Go(func() { c.sayAlive(ctx) })
	code := handle(ctx, &Session{
		Request: r, In: in, Out: c.Writer(Out), Err: c.Writer(Err), Getenv: in.getenv,
		Source: in.source, Create: in.create,
	})
	err = c.Send(Exit, []byte{byte(code)})
	cancel()
	err = errors.Join(err, c.SetReadDeadline(clock.System())) // ends listen
	beside.Wait()
	return err
}

// sayAlive tells the client every few seconds that its verb waits or runs.
func (c *Conn) sayAlive(ctx context.Context) {
	every := time.NewTicker(aliveEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if c.Send(Alive, nil) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// input is what a client reads for a verb.
type input struct {
	ctx    context.Context
	c      *Conn
	parts  chan []byte
	values chan []byte
	asking sync.Mutex // of one value at a time
	rest   []byte
	ended  bool
}

// listen takes the client's frames until it cancels the verb or is gone.
func (in *input) listen() {
	for {
		k, body, err := in.c.receive()
		if err != nil {
			return
		}
		var to chan<- []byte
		switch k {
		case Input:
			to = in.parts
		case Value:
			to = in.values
		default:
			return // Cancel, or what no client sends
		}
		select {
		case to <- body:
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
		want := uint32(min(len(p), maxPart))
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

// getenv asks the client for a variable of its environment.
func (in *input) getenv(name string) string {
	in.asking.Lock()
	defer in.asking.Unlock()
	value, err := in.value(Var, []byte(name))
	if err != nil {
		return "" // the verb is about to be cancelled
	}
	return value
}

// value sends a frame that is answered by a value. The lock is held.
func (in *input) value(k Kind, body []byte) (string, error) {
	if err := in.c.Send(k, body); err != nil {
		return "", err
	}
	select {
	case value := <-in.values:
		return string(value), nil
	case <-in.ctx.Done():
		return "", in.ctx.Err()
	}
}

// ask sends a frame that is answered by what is wrong, or by nothing.
func (in *input) ask(k Kind, body []byte) error {
	in.asking.Lock()
	defer in.asking.Unlock()
	wrong, err := in.value(k, body)
	if err == nil && wrong != "" {
		err = errors.New(wrong)
	}
	return err
}

// source has Read go on with a file of the client.
func (in *input) source(name string) error {
	if err := in.ask(Source, []byte(name)); err != nil {
		return err
	}
	in.rest, in.ended = nil, false
	return nil
}

func (in *input) create(p NewFile) (*File, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return &File{in: in}, in.ask(Target, body)
}
