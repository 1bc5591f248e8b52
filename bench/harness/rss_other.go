//go:build !linux

package harness

// PeakRSS is known on Linux only.
func PeakRSS() (int64, error) { return 0, Missing("peak memory is measured on Linux") }
