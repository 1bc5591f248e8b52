// Package host tells on which machine and in which process the database runs, and in which
// environment.
package host

import (
	"os"
	"path/filepath"
)

// Variable is a variable of the environment of this process.
func Variable(name string) (value string, set bool) { return os.LookupEnv(name) }

// Process is this process: its number, the name of its program, and its machine.
func Process() (pid int, program, machine string) {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown host"
	}
	return os.Getpid(), filepath.Base(os.Args[0]), machine
}
