// Package beside carries a verb of memdbctl to the program that holds the database, and what the
// verb reads and writes back, over a socket.
//
// A connection is one verb. It begins with a request; frames follow in both directions until the
// server tells the exit code. A frame is a byte that says what it is, the length of its body in
// four bytes, little-endian, and the body.
//
// The folder that names the socket may come from somebody else. So either end asks the system who
// the other is, and goes on only with the same user, or with root. The client gives away nothing
// beyond its request unless the verb calls for it: a variable of the environment by its name, and
// the input of a verb that reads one.
package beside

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

// Kind is what a frame is.
type Kind byte

// The kinds of frames. The client sends Verb, Input, Cancel and Value, the server the others.
// Files are asked for by a server on another machine alone.
const (
	Verb   Kind = 'V' // a Request as JSON
	Input  Kind = 'I' // what was read of the input; empty at its end
	Cancel Kind = 'C' // the verb shall end
	Value  Kind = 'N' // the value of the variable that was asked for, empty without one
	Alive  Kind = 'A' // the verb waits or runs
	Out    Kind = 'O'
	Err    Kind = 'E'
	Want   Kind = 'W' // the verb reads the input: at most so many bytes, in four bytes
	Var    Kind = 'G' // the verb looks up the variable of this name
	Source Kind = 'R' // the file of this name becomes the input; Value has why not
	Target Kind = 'T' // a file is to be written, a NewFile as JSON; Value has why not
	Part   Kind = 'P' // a part of that file
	Done   Kind = 'D' // that file is whole, or is not to be there: why; Value has what failed
	Exit   Kind = 'X' // the exit code, a byte
)

const (
	// MaxRequest bounds a request: systems bound the arguments of a process at about as much.
	MaxRequest = 4 << 20
	// maxPart bounds the body of every other frame but Value.
	maxPart = 64 << 10
	// maxValue bounds the value of a variable, as Linux does.
	maxValue = 128 << 10
)

// Request is a verb, and what it sees of the process that asks for it.
type Request struct {
	Args []string `json:"args"`
	// JSON and Quiet are the flags of a shell whose line the verb is.
	JSON  bool `json:"json,omitempty"`
	Quiet bool `json:"quiet,omitempty"`
	// Dir is the working folder, from which relative names of files go.
	Dir string `json:"dir"`
	// InTerminal: a person would have to type the input. The widths are those of the terminals
	// that the outputs go to, 0 for none.
	InTerminal bool `json:"in_terminal,omitempty"`
	OutWidth   int  `json:"out_width,omitempty"`
	ErrWidth   int  `json:"err_width,omitempty"`
	Styled     bool `json:"styled,omitempty"`
}

// A NewFile is a file that a verb writes.
type NewFile struct {
	Name string `json:"name"`
	// Force: it takes the place of one that is there.
	Force bool `json:"force,omitempty"`
}

// A Conn reads and writes frames. Its Send may be called by several at once.
type Conn struct {
	net.Conn
	mu sync.Mutex
}

// writeWait is how long the other end may take nothing: a program whose output nobody reads
// waits for its reader, as in a pipe, but not for ever.
const writeWait = 10 * time.Minute

// Send writes a frame.
func (c *Conn) Send(k Kind, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := binary.LittleEndian.AppendUint32([]byte{byte(k)}, uint32(len(body)))
	if err := c.SetWriteDeadline(clock.System().Add(writeWait)); err != nil {
		return err
	}
	_, err := c.Write(append(head, body...)) // at once: the other end may leave when it has the head of an empty body
	return err
}

// receive reads a frame. A body takes memory as it arrives, not as it is announced.
func (c *Conn) receive() (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return 0, nil, err
	}
	k, n, most := Kind(head[0]), int64(binary.LittleEndian.Uint32(head[1:])), int64(maxPart)
	switch k {
	case Verb:
		most = MaxRequest
	case Value:
		most = maxValue
	}
	if n > most {
		return 0, nil, fmt.Errorf("a frame %q of %d bytes; %d are the most", k, n, most)
	}
	var body bytes.Buffer
	if got, err := body.ReadFrom(io.LimitReader(c.Conn, n)); err != nil || got < n {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return k, body.Bytes(), nil
}

// Writer returns a writer whose bytes go in frames of a kind.
func (c *Conn) Writer(k Kind) io.Writer { return frames{c, k} }

type frames struct {
	c *Conn
	k Kind
}

func (f frames) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), maxPart)]
		if err := f.c.Send(f.k, part); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

// ask sends a request.
func (c *Conn) ask(r *Request) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(body) > MaxRequest {
		return fmt.Errorf("the arguments take %d bytes; %d are the most", len(body), MaxRequest)
	}
	return c.Send(Verb, body)
}
