package cli

import "os"

// claim does nothing: Windows does not remove a file that a program has open.
func claim(*os.File) bool { return true }
