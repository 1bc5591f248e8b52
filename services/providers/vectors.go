package providers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

// Vectors is how models of embeddings of a provider are asked.
type Vectors struct {
	Model string // where none is configured
	// Known are the lengths of the vectors of models. AnyLength is set where every model can be
	// asked for another length, and otherwise only those that are known can.
	Known     map[string]int
	AnyLength bool
	Limits    func(model string) embedders.Limits
	Call      Call
	// Request returns the body of a request. dimensions is what to ask for, 0 for the model's own.
	Request func(c *Config, texts []string, dimensions int) any
	// Batch returns an empty reply.
	Batch func() Batch
}

// Batch is a reply with vectors in the form of a provider.
type Batch interface {
	// Read returns the vectors of so many texts, or an error of the service. dimensions is what was
	// asked for, 0 for the model's own.
	Read(s *httpjson.Service, texts, dimensions int) ([]Vector, error)
	// Tokens is how many the provider counted; 0 if it did not.
	Tokens() int64
}

// Most returns Limits that are the same for every model.
func Most(l embedders.Limits) func(string) embedders.Limits {
	return func(string) embedders.Limits { return l }
}

// InputTypes returns a Prepare of a provider that takes these types of input, the first where none is
// configured.
func InputTypes(provider string, types ...string) func(*Config) error {
	return func(c *Config) error {
		c.InputType = cmp.Or(c.InputType, types[0])
		if slices.Contains(types, c.InputType) {
			return nil
		}
		return fault.Invalid("set up "+provider, fmt.Sprintf("input_type is %.80q", c.InputType), "give one of "+strings.TrimPrefix(strings.Join(types, ", "), ", ")+", or leave it out")
	}
}

// source is the Source that NewSource makes.
type source struct {
	of      *Vectors
	service *httpjson.Service
	call    httpjson.Call
	config  Config
	shorter int // the length that is asked for; 0: the model's own
}

func (s *source) Model() string            { return s.service.Provider + "/" + s.config.Model }
func (s *source) Dim() int                 { return s.config.Dimensions }
func (s *source) Limits() embedders.Limits { return s.of.Limits(s.config.Model) }

// Call makes one call.
func (s *source) Call(ctx context.Context, texts []string) (embedders.Batch, error) {
	batch, call := s.of.Batch(), s.call
	call.In, call.Out, call.Limit = s.of.Request(&s.config, texts, s.shorter), batch, embedders.ReplyLimit(len(texts), s.Dim())
	if err := s.service.Post(ctx, call); err != nil {
		return embedders.Batch{}, err
	}
	vectors, err := batch.Read(s.service, len(texts), s.shorter)
	if err != nil {
		return embedders.Batch{}, err
	}
	return embedders.Batch{Vectors: floats(vectors), Tokens: batch.Tokens()}, nil
}

// List is a reply with vectors in the form of OpenAI.
type List struct {
	// Data has a vector for each text, in any order.
	Data []struct {
		Index     int    `json:"index"`
		Embedding Vector `json:"embedding"`
	} `json:"data"`
	// Usage is what was counted.
	Usage struct {
		TotalTokens int64 `json:"total_tokens"`
	} `json:"usage"`
}

// Tokens is the total.
func (l *List) Tokens() int64 { return l.Usage.TotalTokens }

// Read puts the vectors into the order of their texts.
func (l *List) Read(s *httpjson.Service, texts, _ int) ([]Vector, error) {
	if len(l.Data) != texts {
		return nil, s.Fail(fmt.Sprintf("it returned %d vectors for %d texts", len(l.Data), texts), "check base_url and the server", nil)
	}
	vectors := make([]Vector, texts)
	for _, d := range l.Data {
		if d.Index < 0 || d.Index >= texts || vectors[d.Index] != nil {
			return nil, s.Fail(fmt.Sprintf("it returned vector %d twice, or for no text", d.Index), "check base_url and the server", nil)
		}
		vectors[d.Index] = d.Embedding
	}
	return vectors, nil
}

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

// floats are the vectors as a Batch has them.
func floats(vectors []Vector) [][]float32 {
	all := make([][]float32, len(vectors))
	for i, v := range vectors {
		all[i] = v
	}
	return all
}

// dimensions is the length of a model's vectors: what is configured, or what is known of the
// model, by the name up to a tag such as :latest. ErrInvalid where neither says.
func dimensions(provider, model string, configured int, known map[string]int) (int, error) {
	doing := "set up " + provider
	switch {
	case configured < 0 || configured > embedders.MaxDim:
		return 0, fault.Invalid(doing, fmt.Sprintf("dimensions is %d", configured), fmt.Sprintf("give 1 to %d", embedders.MaxDim))
	case configured > 0:
		return configured, nil
	}
	name, _, _ := strings.Cut(model, ":")
	if dim := known[name]; dim > 0 {
		return dim, nil
	}
	return 0, fault.Invalid(doing, fmt.Sprintf("it is not known how long the vectors of %.80q are", model), "give dimensions")
}
