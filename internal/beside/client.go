package beside

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
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
	// Open and Create are the files of a verb that runs on another machine; nil: it gets none. They
	// refuse names that are not among the arguments.
	Open   func(name string) (io.ReadCloser, error)
	Create func(p NewFile) (Writing, error)
}

// Writing is a file that is being written. Its End keeps it, or with an error takes it back.
type Writing interface {
	io.Writer
	End(err error) error
}

// files are those that a verb of another machine reads and writes.
type files struct {
	source io.Closer
	target Writing
}

// close ends what the verb has left open.
func (f *files) close(err error) error {
	var failed error
	if f.source != nil {
		failed = f.source.Close()
	}
	if f.target != nil {
		failed = errors.Join(failed, f.target.End(cmp.Or(err, ErrGone)))
	}
	return failed
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
	v := &verb{c: c, t: t, wants: make(chan int, 1)}
	defer func() {
		close(v.wants)
		err = errors.Join(err, v.files.close(err))
	}()
	if t.In != nil {
		go c.give(t.In, v.wants)
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
		if err := v.answer(k, body); err != nil { // the verb need not go on
			return 0, errors.Join(err, c.Close())
		}
	}
}

// verb is one that runs.
type verb struct {
	c     *Conn
	t     *Terms
	wants chan int
	files files
	input bool // a file is the input
}

// answer does what a frame of the server asks for.
func (v *verb) answer(k Kind, body []byte) (err error) {
	switch k {
	case Alive:
	case Out:
		_, err = v.t.Out.Write(body)
	case Err:
		_, err = v.t.Err.Write(body)
	case Var:
		value, may := v.t.Getenv(string(body))
		if !may {
			return fmt.Errorf("%w: the variable %q", ErrRefused, body)
		}
		if len(value) > maxValue {
			return fmt.Errorf("the variable %s takes %d bytes; %d are the most", body, len(value), maxValue)
		}
		return v.c.Send(Value, []byte(value))
	case Want:
		return v.want(body)
	case Source, Target, Part, Done:
		return v.file(k, body)
	default:
		return fmt.Errorf("a frame %q of %d bytes", k, len(body))
	}
	return err
}

// want has a part of the input read.
func (v *verb) want(body []byte) error {
	if v.t.In == nil && !v.input {
		return fmt.Errorf("%w: its input", ErrRefused)
	}
	if len(body) != 4 {
		return fmt.Errorf("a frame %q of %d bytes", Want, len(body))
	}
	select {
	case v.wants <- int(min(binary.LittleEndian.Uint32(body), maxPart)):
		return nil
	default:
		return fmt.Errorf("%w: more of its input before it has got the last", ErrRefused)
	}
}

// file does what a frame of a file asks for.
func (v *verb) file(k Kind, body []byte) error {
	switch {
	case v.t.Open == nil || v.t.Create == nil:
		return fmt.Errorf("%w: a file", ErrRefused)
	case k == Source:
		return v.told(v.open(string(body)))
	case k == Target:
		var p NewFile
		if err := json.Unmarshal(body, &p); err != nil || v.files.target != nil {
			return fmt.Errorf("%w: a file beside another one", ErrRefused)
		}
		target, err := v.t.Create(p)
		if err == nil {
			v.files.target = target
		}
		return v.told(err)
	case v.files.target == nil:
		return fmt.Errorf("%w: a file that it has not named", ErrRefused)
	case k == Part:
		_, err := v.files.target.Write(body)
		return err
	}
	var why error
	if len(body) > 0 {
		why = errors.New(string(body))
	}
	target := v.files.target
	v.files.target = nil
	if err := target.End(why); why == nil {
		return v.told(err)
	}
	return v.told(nil) // what is wrong the server says itself
}

// open makes a file the input.
func (v *verb) open(name string) error {
	if v.files.source != nil {
		return errors.New("the verb reads a file already")
	}
	f, err := v.t.Open(name)
	if err != nil {
		return err
	}
	close(v.wants) // of the input before
	v.files.source, v.input, v.wants = f, true, make(chan int, 1)
	go v.c.give(f, v.wants)
	return nil
}

// told sends what is wrong, or that nothing is.
func (v *verb) told(wrong error) error {
	why := ""
	if wrong != nil {
		why = cmp.Or(wrong.Error(), "it failed")
	}
	return v.c.Send(Value, []byte(why[:min(len(why), maxValue)]))
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
