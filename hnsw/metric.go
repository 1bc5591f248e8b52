package hnsw

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// Metric says how two vectors are compared. Scores are higher for what is
// closer under each of them.
type Metric uint8

// The metrics.
const (
	Cosine Metric = iota // cosine of the angle; vectors are stored normalised
	Dot                  // dot product
	L2                   // Euclidean distance, negated
)

var metricNames = [...]string{Cosine: "cosine", Dot: "dot", L2: "l2"}

// String returns the metric's name, as [ParseMetric] takes it.
func (m Metric) String() string {
	if int(m) < len(metricNames) {
		return metricNames[m]
	}
	return fmt.Sprintf("metric %d", uint8(m))
}

// ParseMetric returns the metric of a name, in any case. Its error lists the
// names there are.
func ParseMetric(name string) (Metric, error) {
	for m, n := range metricNames {
		if strings.EqualFold(name, n) {
			return Metric(m), nil
		}
	}
	return 0, fmt.Errorf("%w: no metric %q; there are %s", ErrConfig, name, strings.Join(metricNames[:], ", "))
}

// Limits of a vector.
const (
	// MaxDim bounds what one vector costs to store and to score.
	MaxDim = 4096
	// MaxNorm keeps every dot product and squared distance of two vectors
	// finite in float32. Cosine has no use for it, since it normalises.
	MaxNorm = 1e18
)

// The errors about vectors and configurations. Messages add what was wrong
// with which value.
var (
	// ErrConfig is returned for a dimension, metric or parameter out of range.
	ErrConfig = errors.New("invalid vector index configuration")
	// ErrDimension is what a [DimensionError] matches.
	ErrDimension = errors.New("wrong vector dimension")
	// ErrNotFinite is returned for a vector with NaN or an infinity.
	ErrNotFinite = errors.New("vector is not finite")
	// ErrZeroVector is returned for a vector without a direction under Cosine.
	ErrZeroVector = errors.New("zero vector has no cosine")
	// ErrTooLong is returned under Dot and L2 for a vector longer than MaxNorm.
	ErrTooLong = errors.New("vector is too long")
	// ErrSlot is returned for a slot that was never handed out, or holds no row.
	ErrSlot = errors.New("no such slot")
	// ErrFull is returned by Add when all slots are in use.
	ErrFull = errors.New("vector index is full")
)

// DimensionError reports a vector of another dimension than its index has, or
// of none that any index can have.
type DimensionError struct {
	// Got is the length of the vector, Want that of the index's.
	Got  int
	Want int // 0: any from 1 to MaxDim
}

func (e *DimensionError) Error() string {
	if e.Want == 0 {
		return fmt.Sprintf("%v: it has %d components; 1 to %d are possible", ErrDimension, e.Got, MaxDim)
	}
	return fmt.Sprintf("%v: it has %d components; %d are needed", ErrDimension, e.Got, e.Want)
}

// Is makes a DimensionError match [ErrDimension].
func (e *DimensionError) Is(target error) bool { return target == ErrDimension }

// CheckVector returns why a vector can't be stored or searched for with a
// dimension (0: any up to [MaxDim]) and a metric, or nil.
func CheckVector(vec []float32, dim int, m Metric) error {
	_, err := checkedNorm(vec, dim, m)
	return err
}

// checkedNorm returns the length of a vector that is fit for the metric. It is
// taken in float64, where no float32 component can overflow or vanish.
func checkedNorm(vec []float32, dim int, m Metric) (float64, error) {
	if dim != 0 && len(vec) != dim || len(vec) == 0 || len(vec) > MaxDim {
		return 0, &DimensionError{Got: len(vec), Want: dim}
	}
	sum := simd.SquaredNorm(vec)
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, notFinite(vec)
	}
	norm := math.Sqrt(sum)
	switch {
	case m == Cosine && norm == 0:
		return 0, fmt.Errorf("%w: all %d components are zero", ErrZeroVector, len(vec))
	case m != Cosine && norm > MaxNorm:
		return 0, fmt.Errorf("%w: its length is %.3g; %s takes up to %.0e", ErrTooLong, norm, m, float64(MaxNorm))
	}
	return norm, nil
}

func notFinite(vec []float32) error {
	for i, v := range vec {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%w: component %d of %d is %v", ErrNotFinite, i, len(vec), v)
		}
	}
	return ErrNotFinite
}
