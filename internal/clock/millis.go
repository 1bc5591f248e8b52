package clock

import "time"

// FromMillis is the time of Unix milliseconds, in UTC. 0 stands for the zero time.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// ToMillis is FromMillis backwards.
func ToMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
