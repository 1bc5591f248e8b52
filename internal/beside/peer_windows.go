package beside

import (
	"fmt"
	"net"

	"golang.org/x/sys/windows"
)

// trust returns ErrStranger unless the socket of a path belongs to this user, or to the
// administrators. The system does not say who is at the other end of a connection: of a client,
// which has no path, it has looked at the rights of the socket's folder.
func trust(_ net.Conn, path string) error {
	if path == "" {
		return nil
	}
	info, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("%w: the system does not say whose it is: %w", ErrStranger, err)
	}
	owner, _, err := info.Owner()
	if err != nil {
		return fmt.Errorf("%w: the system does not say whose it is: %w", ErrStranger, err)
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	for _, known := range []windows.WELL_KNOWN_SID_TYPE{windows.WinBuiltinAdministratorsSid, windows.WinLocalSystemSid} {
		if sid, err := windows.CreateWellKnownSid(known); err == nil && owner.Equals(sid) {
			return nil
		}
	}
	if !owner.Equals(user.User.Sid) {
		return fmt.Errorf("%w: it belongs to %s", ErrStranger, owner)
	}
	return nil
}
