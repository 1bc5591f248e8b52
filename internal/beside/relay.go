package beside

import (
	"errors"
	"io"
	"sync"
)

// Relay has another server run the verb that a client has asked for: what the two send goes on to the
// other one, until one of them ends. It closes both connections.
func (c *Conn) Relay(r *Request, to *Conn) error {
	if err := to.ask(r); err != nil {
		return errors.Join(err, c.Close(), to.Close())
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(to.Conn, c.Conn) // the client leaves when it has its exit code
		_ = to.Close()
	})
	_, err := io.Copy(c.Conn, to.Conn)
	err = errors.Join(err, c.Close())
	both.Wait()
	return err
}
