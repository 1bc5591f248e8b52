package harness

import (
	"math"
	"slices"
	"time"
)

// Median is the middle of the values, or the mean of the two middle ones; 0 of
// none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	mid := len(s) / 2
	if len(s)%2 == 1 {
		return s[mid]
	}
	return (s[mid-1] + s[mid]) / 2
}

func spread(values []float64) (lo, hi float64) { return slices.Min(values), slices.Max(values) }

// Meter measures the processor time of a piece of work for each of its parts.
type Meter struct{ began time.Duration }

// StartMeter begins a measurement.
func StartMeter() Meter {
	began, err := CPUTime()
	if err != nil {
		began = -1
	}
	return Meter{began}
}

// Record puts the time since the start into a sample, in microseconds for each
// of n parts, where this system tells it.
func (m Meter) Record(s Sample, metric string, n int) {
	now, err := CPUTime()
	if err != nil || m.began < 0 || n == 0 {
		return
	}
	s[metric] = float64(now-m.began) / float64(n) / float64(time.Microsecond)
}

// Latencies gathers the times of single operations of a round.
type Latencies struct {
	times  []time.Duration
	sorted bool
}

// Add records one operation.
func (l *Latencies) Add(d time.Duration) {
	l.times = append(l.times, d)
	l.sorted = false
}

// Merge adds the operations of another one.
func (l *Latencies) Merge(other *Latencies) {
	l.times = append(l.times, other.times...)
	l.sorted = false
}

// Len is the number of operations.
func (l *Latencies) Len() int { return len(l.times) }

// Sum is the time of all operations.
func (l *Latencies) Sum() time.Duration {
	var sum time.Duration
	for _, d := range l.times {
		sum += d
	}
	return sum
}

// PerSecond is the rate of one operation after the other; 0 of none.
func (l *Latencies) PerSecond() float64 {
	sum := l.Sum()
	if sum == 0 {
		return 0
	}
	return float64(len(l.times)) / sum.Seconds()
}

// Percentile is the time within which the share p of the operations ended, in
// microseconds, by the nearest rank; 0 of none.
func (l *Latencies) Percentile(p float64) float64 {
	if len(l.times) == 0 {
		return 0
	}
	if !l.sorted {
		slices.Sort(l.times)
		l.sorted = true
	}
	rank := int(math.Ceil(p*float64(len(l.times)))) - 1
	d := l.times[min(max(rank, 0), len(l.times)-1)]
	return float64(d) / float64(time.Microsecond)
}
