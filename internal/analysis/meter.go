package analysis

import "context"

// stepsPerLook is how many steps a scan takes between looks at its context. A step is a term, a segment or a byte that
// is normalised, and takes at most about a microsecond: a scan ends a few milliseconds after its context.
const stepsPerLook = 4096

// bytesPerStep is how many bytes are looked through in the time of a step.
const bytesPerStep = 256

// meter counts the steps of a scan and ends it with its context. What cannot be left half-way, such as finding where a
// word of 8 MiB ends, takes some 10 to 30 ms.
type meter struct {
	ctx  context.Context // nil never ends
	left int             // steps until the next look
	err  error
}

// spend counts steps, and reports whether the scan goes on.
func (m *meter) spend(steps int) bool {
	if m.left -= steps; m.left >= 0 {
		return true
	}
	return m.look()
}

// look asks the context.
func (m *meter) look() bool {
	if m.err == nil && m.ctx != nil {
		m.err = m.ctx.Err()
	}
	if m.err != nil {
		return false // and left stays below 0
	}
	m.left = stepsPerLook
	return true
}
