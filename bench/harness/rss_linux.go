package harness

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// PeakRSS is the most memory that this process has held resident so far, in
// bytes. It reads the high-water mark of the process image; getrusage would also
// count what the parent held when it started the process.
func PeakRSS() (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading VmHWM: %w", err)
		}
		return kb << 10, nil
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, Missing("no VmHWM in the status of this process")
}
