// Package clock is the seam through which the database learns the time.
//
// Everything else takes the time as a value or calls the Clock that it was
// given, so that decay, expiry and ranking can be tested at any instant and
// give the same answer twice.
package clock

import "time"

// Clock tells the time. It is safe for concurrent use.
type Clock func() time.Time

// System is the machine's clock. What it returns also carries the monotonic
// reading, so that the difference of two readings is a duration even when the
// machine's time was set in between.
func System() time.Time { return time.Now() }
