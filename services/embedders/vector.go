package embedders

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Vector is one vector in the reply of a provider: a list of numbers, or the base64 of
// float32 in little-endian order. A null among the numbers is an error.
type Vector []float32

// UnmarshalJSON reads either form.
func (v *Vector) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw)%4 != 0 {
			return errors.New("a vector is no base64 of float32")
		}
		*v = make(Vector, len(raw)/4)
		for i := range *v {
			(*v)[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		return nil
	}
	if bytes.Contains(b, []byte("null")) {
		return errors.New("a vector holds null in the place of a number")
	}
	return json.Unmarshal(b, (*[]float32)(v))
}

// Float32s are the vectors as a Batch has them.
func Float32s(vectors []Vector) [][]float32 {
	all := make([][]float32, len(vectors))
	for i, v := range vectors {
		all[i] = v
	}
	return all
}

// Dimensions is the length of a model's vectors: what is configured, or what is known of the
// model, by the name up to a tag such as :latest. ErrInvalid where neither says.
func Dimensions(provider, model string, configured int, known map[string]int) (int, error) {
	doing := "set up " + provider
	switch {
	case configured < 0 || configured > MaxDim:
		return 0, fault.Invalid(doing, fmt.Sprintf("dimensions is %d", configured), fmt.Sprintf("give 1 to %d", MaxDim))
	case configured > 0:
		return configured, nil
	}
	name, _, _ := strings.Cut(model, ":")
	if dim := known[name]; dim > 0 {
		return dim, nil
	}
	return 0, fault.Invalid(doing, fmt.Sprintf("it is not known how long the vectors of %.80q are", model), "give dimensions")
}
