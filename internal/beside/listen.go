package beside

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// acceptWait is how long a listener waits after a failure to accept a connection.
const acceptWait = 50 * time.Millisecond

// Trusting returns a listener that accepts only clients of this user and of root. A memdbctl of 0.3 or
// earlier, which sends a frame first, gets a message that says so.
func Trusting(l net.Listener) net.Listener { return trusting{l} }

type trusting struct{ net.Listener }

// Accept waits for a client.
func (l trusting) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil: // as when the process has no file descriptor left
			time.Sleep(acceptWait)
		case trust(c, "") != nil:
			_ = c.Close()
		default:
			return &greeted{Conn: c}, nil
		}
	}
}

// A greeted connection is one of which the first byte says what the client speaks.
type greeted struct {
	net.Conn
	begun bool
}

// Read reads what a client sends in HTTP.
func (c *greeted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || c.begun {
		return n, err
	}
	c.begun = true
	if Kind(p[0]) != Verb {
		return n, err
	}
	return 0, errors.Join(io.EOF, c.sendAway(p[:n]), c.Close())
}

// sendAway answers a frame, of which the beginning was read.
func (c *greeted) sendAway(begun []byte) error {
	const head = 5
	for len(begun) < head {
		rest := make([]byte, head-len(begun))
		n, err := c.Conn.Read(rest)
		if begun = append(begun, rest[:n]...); err != nil {
			return err
		}
	}
	left := int64(binary.LittleEndian.Uint32(begun[1:head])) - int64(len(begun)-head)
	if left > MaxRequest {
		return nil
	}
	if _, err := io.CopyN(io.Discard, c.Conn, left); err != nil { // it reads an answer once it has sent all
		return err
	}
	to := &Conn{Conn: c.Conn}
	told := "memdbctl: the program that holds the database has memdb " + version() + ", and this memdbctl is of 0.3 or earlier; use the memdbctl of that version, or end the program\n"
	return errors.Join(to.Send(Err, []byte(told)), to.Send(Exit, []byte{1}))
}
