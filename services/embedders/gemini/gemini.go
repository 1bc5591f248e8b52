// Package gemini embeds texts with Google's models.
package gemini

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

const (
	// BaseURL is Google's own.
	BaseURL = "https://generativelanguage.googleapis.com"
	// DefaultModel is used where none is configured.
	DefaultModel = "gemini-embedding-001"
	// DefaultInputType has documents and questions in one space, as an Embedder needs that does
	// not know which a text is.
	DefaultInputType = "SEMANTIC_SIMILARITY"
	// Variable of the environment that holds the key.
	Variable = "GOOGLE_API_KEY"
)

// known are the dimensions of models.
var known = map[string]int{"gemini-embedding-001": 3072, "text-embedding-004": 768}

var inputTypes = []string{
	"RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "SEMANTIC_SIMILARITY", "CLASSIFICATION", "CLUSTERING", "QUESTION_ANSWERING", "FACT_VERIFICATION", "CODE_RETRIEVAL_QUERY",
}

// Config says which model.
type Config struct {
	Model      string // empty: DefaultModel
	Key        string
	KeyHint    string // where the key comes from, for errors; empty: Variable
	BaseURL    string // empty: BaseURL
	Dimensions int    // 0: the model's own, where it is known
	InputType  string // the provider's taskType; empty: DefaultInputType
	Client     *http.Client
}

type source struct {
	service   *httpjson.Service
	model     string
	inputType string
	dim       int
	shorten   bool
}

// New makes a Source, ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (embedders.Source, error) {
	c.KeyHint, c.InputType = cmp.Or(c.KeyHint, Variable), cmp.Or(c.InputType, DefaultInputType)
	model := strings.TrimPrefix(cmp.Or(c.Model, DefaultModel), "models/")
	switch {
	case c.Key == "":
		return nil, fault.Invalid("set up google", "there is no key", "set "+c.KeyHint)
	case !slices.Contains(inputTypes, c.InputType):
		return nil, fault.Invalid("set up google", fmt.Sprintf("input_type is %.80q", c.InputType), "give one of "+strings.Join(inputTypes, ", "))
	}
	dim, err := embedders.Dimensions("google", model, c.Dimensions, known)
	if err != nil {
		return nil, err
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "google", Kind: fault.ErrEmbedder, BaseURL: cmp.Or(c.BaseURL, BaseURL), Header: http.Header{"X-Goog-Api-Key": {c.Key}}, Key: c.Key, KeyHint: c.KeyHint, Client: c.Client,
	})
	if err != nil {
		return nil, err
	}
	return &source{service, model, c.InputType, dim, dim != known[model]}, service.CheckPath("model", model)
}

func (s *source) Model() string            { return "google/" + s.model }
func (s *source) Dim() int                 { return s.dim }
func (s *source) Limits() embedders.Limits { return embedders.Limits{Texts: 100} }

type part struct {
	Text string `json:"text"`
}

type content struct {
	Parts []part `json:"parts"`
}

type one struct {
	Model      string  `json:"model"`
	Content    content `json:"content"`
	TaskType   string  `json:"taskType"`
	Dimensions int     `json:"outputDimensionality,omitempty"`
}

type request struct {
	Requests []one `json:"requests"`
}

type response struct {
	Embeddings []struct {
		Values embedders.Vector `json:"values"`
	} `json:"embeddings"`
}

// Call makes one call. The service gives vectors that were shortened no length of 1: they
// get it here.
func (s *source) Call(ctx context.Context, texts []string) (embedders.Batch, error) {
	var in request
	for _, text := range texts {
		r := one{Model: "models/" + s.model, Content: content{[]part{{text}}}, TaskType: s.inputType}
		if s.shorten {
			r.Dimensions = s.dim
		}
		in.Requests = append(in.Requests, r)
	}
	var out response
	err := s.service.Post(ctx, httpjson.Call{
		Path: "/v1beta/models/" + s.model + ":batchEmbedContents", In: &in, Out: &out, Limit: embedders.ReplyLimit(len(texts), s.dim),
	})
	if err != nil {
		return embedders.Batch{}, err
	}
	var b embedders.Batch
	for _, e := range out.Embeddings {
		if s.shorten {
			normalise(e.Values)
		}
		b.Vectors = append(b.Vectors, e.Values)
	}
	return b, nil
}

// normalise gives a vector the length 1. Zeros stay.
func normalise(v []float32) {
	squares := 0.0
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return
	}
	length := math.Sqrt(squares)
	for i, x := range v {
		v[i] = float32(float64(x) / length)
	}
}
