package host

import (
	"os"
	"runtime"
	"testing"
)

func TestProcess(t *testing.T) {
	pid, program, machine := Process()
	if pid != os.Getpid() || program == "" || machine == "" {
		t.Errorf("Process = %d, %q, %q", pid, program, machine)
	}
}

func TestVariable(t *testing.T) {
	t.Setenv("MEMDB_TEST", "here")
	if value, set := Variable("MEMDB_TEST"); value != "here" || !set {
		t.Errorf("Variable = %q, %v", value, set)
	}
}

func TestMemory(t *testing.T) {
	const least = 64 << 20
	if m := Memory(); m < least && (m != 0 || runtime.GOOS == "linux") {
		t.Errorf("Memory = %d", m)
	}
}
