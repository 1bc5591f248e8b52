// Package openaiwire is the wire form of embeddings that OpenAI, Azure and many compatible
// servers speak.
package openaiwire

import (
	"context"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

// Source asks a server for embeddings.
type Source struct {
	// Service is how the server is called.
	Service *httpjson.Service
	Path    string // below the base URL
	Query   string
	Name    string // of the model or the deployment
	Length  int    // of the vectors
	Shorten bool   // Length is sent, since it is not the model's own
}

// Model is its name with that of the provider.
func (s *Source) Model() string { return s.Service.Provider + "/" + s.Name }

// Dim is the length of the vectors.
func (s *Source) Dim() int { return s.Length }

// Limits are those of OpenAI and Azure.
func (s *Source) Limits() embedders.Limits { return embedders.Limits{Texts: 2048, Tokens: 300_000} }

type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Format     string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions,omitempty"`
}

type response struct {
	Data []struct {
		Index     int              `json:"index"`
		Embedding embedders.Vector `json:"embedding"`
	} `json:"data"`
	Usage struct {
		TotalTokens int64 `json:"total_tokens"`
	} `json:"usage"`
}

// Call makes one call. It asks for base64, a quarter of the bytes; servers that don't know it
// answer with numbers.
func (s *Source) Call(ctx context.Context, texts []string) (embedders.Batch, error) {
	in := request{Model: s.Name, Input: texts, Format: "base64"}
	if s.Shorten {
		in.Dimensions = s.Length
	}
	var out response
	err := s.Service.Post(ctx, httpjson.Call{Path: s.Path, Query: s.Query, In: &in, Out: &out, Limit: embedders.ReplyLimit(len(texts), s.Length)})
	if err != nil {
		return embedders.Batch{}, err
	}
	if len(out.Data) != len(texts) {
		return embedders.Batch{}, s.Service.Fail(fmt.Sprintf("it returned %d vectors for %d texts", len(out.Data), len(texts)), "check base_url and the server", nil)
	}
	b := embedders.Batch{Vectors: make([][]float32, len(texts)), Tokens: out.Usage.TotalTokens}
	for _, d := range out.Data {
		if d.Index < 0 || d.Index >= len(texts) || b.Vectors[d.Index] != nil {
			return embedders.Batch{}, s.Service.Fail(fmt.Sprintf("it returned vector %d twice, or for no text", d.Index), "check base_url and the server", nil)
		}
		b.Vectors[d.Index] = d.Embedding
	}
	return b, nil
}
