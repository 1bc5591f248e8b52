//go:build linux || darwin || freebsd

package beside

import (
	"fmt"
	"net"
	"os"
)

// trust returns ErrStranger unless the other end of a connection is of this user, or root. The
// system says who it is: for a listener, who made it listen.
func trust(c net.Conn, _ string) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%w: it is a connection of another kind", ErrStranger)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var uid uint32
	var failed error
	if err := raw.Control(func(fd uintptr) { uid, failed = peer(int(fd)) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("%w: the system does not say whose it is: %w", ErrStranger, failed)
	}
	return trusted(uid)
}

// trusted returns ErrStranger for another user than this one and root.
func trusted(uid uint32) error {
	if own := uint32(os.Geteuid()); uid != own && uid != 0 {
		return fmt.Errorf("%w: user %d is at its other end, and this is user %d", ErrStranger, uid, own)
	}
	return nil
}
