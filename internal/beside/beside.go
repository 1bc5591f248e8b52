// Package beside carries a verb of memdbctl to the program that holds the database, and what the
// verb reads and writes back, over a socket.
//
// A connection is one verb. It begins with a request; frames follow in both directions until the
// server tells the exit code. A frame is a byte that says what it is, the length of its body in
// four bytes, little-endian, and the body.
package beside

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

// Kind is what a frame is.
type Kind byte

// The kinds of frames. The server sends Out, Err, Want and Exit, the client the others.
const (
	Verb   Kind = 'V' // a Request as JSON
	Input  Kind = 'I' // what was read of the input; empty at its end
	Cancel Kind = 'C' // the verb shall end
	Out    Kind = 'O'
	Err    Kind = 'E'
	Want   Kind = 'W' // the verb reads the input: at most so many bytes, in four bytes
	Exit   Kind = 'X' // the exit code, a byte
)

// MaxBody bounds the body of a frame, and so a request.
const MaxBody = 4 << 20

// Request is a verb, and what it sees of the process that asks for it.
type Request struct {
	Args []string `json:"args"`
	// JSON and Quiet are the flags of a shell whose line the verb is.
	JSON  bool `json:"json,omitempty"`
	Quiet bool `json:"quiet,omitempty"`
	// Dir is the working folder, from which relative names of files go.
	Dir string   `json:"dir"`
	Env []string `json:"env"`
	// InTerminal: a person would have to type the input. The widths are those of the terminals
	// that the outputs go to, 0 for none.
	InTerminal bool `json:"in_terminal,omitempty"`
	OutWidth   int  `json:"out_width,omitempty"`
	ErrWidth   int  `json:"err_width,omitempty"`
	Styled     bool `json:"styled,omitempty"`
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
	buffers := net.Buffers{head, body}
	_, err := buffers.WriteTo(c.Conn)
	return err
}

// Receive reads a frame.
func (c *Conn) Receive() (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > MaxBody {
		return 0, nil, fmt.Errorf("a frame of %d bytes; %d are the most", n, MaxBody)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(c.Conn, body)
	return Kind(head[0]), body, err
}

// Writer returns a writer whose bytes go in frames of a kind.
func (c *Conn) Writer(k Kind) io.Writer { return frames{c, k} }

type frames struct {
	c *Conn
	k Kind
}

func (f frames) Write(p []byte) (n int, err error) {
	const most = 64 << 10
	for len(p) > 0 {
		part := p[:min(len(p), most)]
		if err := f.c.Send(f.k, part); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

const (
	// socketName is the socket in the folder of a database, and placeName the file that names
	// one that lies elsewhere.
	socketName = "memdb.sock"
	placeName  = "memdb.socket"
	// maxPath is how long the path of a socket may be on every system.
	maxPath = 103
)

// Place returns where the socket of a database's folder lies if nobody has chosen another place,
// and whether a socket can lie there: its path must not be longer than 103 bytes.
func Place(dir string) (path string, fits bool) {
	path = filepath.Join(dir, socketName)
	return path, len(path) <= maxPath
}

// Note notes in the folder of a database that its socket lies elsewhere.
func Note(dir, path string) error {
	return os.WriteFile(filepath.Join(dir, placeName), []byte(path+"\n"), 0o600)
}

// Forget removes what Note has noted.
func Forget(dir string) error {
	err := os.Remove(filepath.Join(dir, placeName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Dial connects to the program that serves the database of a folder. It returns os.ErrNotExist
// where none does.
func Dial(dir string) (*Conn, error) {
	path, _ := Place(dir)
	if b, err := os.ReadFile(filepath.Join(dir, placeName)); err == nil {
		path = strings.TrimSpace(string(b))
	}
	if _, err := os.Lstat(path); err != nil {
		return nil, os.ErrNotExist
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", os.ErrNotExist, err) // whoever has made it is gone
	}
	return &Conn{Conn: c}, nil
}

// Ask sends a request.
func (c *Conn) Ask(r *Request) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(body) > MaxBody {
		return fmt.Errorf("the arguments and the environment take %d bytes; %d are the most", len(body), MaxBody)
	}
	return c.Send(Verb, body)
}
