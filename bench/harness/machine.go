package harness

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine is what a report was measured on: figures of two are not compared with each other.
type Machine struct {
	CPU   string `json:"cpu,omitempty"` // the model's name, where the system tells it
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
}

// ThisMachine describes the one that this process runs on.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, err := os.ReadFile("/proc/cpuinfo") // Linux alone has it
	if err != nil {
		return m
	}
	for lines := bufio.NewScanner(bytes.NewReader(info)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}

// Commit is the commit of the sources in a folder, with a + where they differ from it; "" where
// git does not tell it.
func Commit(dir string) string {
	head, err := exec.Command("git", "-C", dir, "rev-parse", "HEAD").Output()
	if err != nil {
		return ""
	}
	commit := strings.TrimSpace(string(head))
	if changed, err := exec.Command("git", "-C", dir, "status", "--porcelain", "--untracked-files=no").Output(); err != nil || len(changed) > 0 {
		commit += "+"
	}
	return commit
}

// Versions are those of Go and of the modules that this program is built of.
func Versions() map[string]string {
	v := map[string]string{"go": runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Replace == nil {
				v[m.Path] = m.Version
			}
		}
	}
	return v
}
