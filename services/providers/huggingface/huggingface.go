// Package huggingface describes models of embeddings at Hugging Face: its inference service, a
// dedicated endpoint, or a server of text-embeddings-inference.
package huggingface

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/providers"
)

const model = "sentence-transformers/all-MiniLM-L6-v2"

var known = map[string]int{
	"sentence-transformers/all-MiniLM-L6-v2": 384, "sentence-transformers/all-mpnet-base-v2": 768, "BAAI/bge-small-en-v1.5": 384, "BAAI/bge-base-en-v1.5": 768,
	"BAAI/bge-large-en-v1.5": 1024, "BAAI/bge-m3": 1024, "intfloat/multilingual-e5-large": 1024, "thenlper/gte-large": 1024,
}

// limits are what a server of text-embeddings-inference takes unless it is told otherwise.
var limits = providers.Most(embedders.Limits{Texts: 32})

// Provider is the inference service, or a dedicated endpoint at another base URL. Neither can
// shorten vectors.
var Provider = providers.Provider{
	Name: "huggingface", Variable: "HF_TOKEN", BaseURL: hosted, NeedsKey: providers.AtBaseURL,
	Vectors: &providers.Vectors{
		Model: model, Known: known, Limits: limits, Call: pipeline, Batch: newBatch,
		Request: func(c *providers.Config, texts []string, _ int) any { return embed(c, texts, 0) },
	},
}

// TEI is a server of text-embeddings-inference. It has one model, and that is its name.
var TEI = providers.Provider{
	Name: "tei", Variable: "HF_TOKEN", BaseURL: "http://localhost:8080", NeedsKey: providers.Never,
	Vectors: &providers.Vectors{Model: model, Known: known, Limits: limits, Call: providers.At("/embed"), Request: embed, Batch: newBatch},
}

// hosted is the inference service.
const hosted = "https://router.huggingface.co/hf-inference"

// pipeline is the path of a model at the inference service; an endpoint has one model.
func pipeline(s *httpjson.Service, c *providers.Config) (httpjson.Call, error) {
	if c.BaseURL != hosted {
		return httpjson.Call{Path: "/"}, nil
	}
	for part := range strings.SplitSeq(c.Model, "/") {
		if err := s.CheckPath("model", part); err != nil {
			return httpjson.Call{}, err
		}
	}
	return httpjson.Call{Path: "/models/" + c.Model + "/pipeline/feature-extraction"}, nil
}

type request struct {
	Inputs     []string `json:"inputs"`
	Normalize  bool     `json:"normalize"`
	Truncate   bool     `json:"truncate"`
	PromptName string   `json:"prompt_name,omitempty"`
	Dimensions int      `json:"dimensions,omitempty"`
}

func embed(c *providers.Config, texts []string, dimensions int) any {
	return &request{texts, true, true, c.PromptName, dimensions}
}

type batch []json.RawMessage

func newBatch() providers.Batch { return &batch{} }

// Read refuses what is no list of vectors.
func (b *batch) Read(s *httpjson.Service, _, _ int) ([]providers.Vector, error) {
	all := make([]providers.Vector, len(*b))
	for i, raw := range *b {
		if bytes.HasPrefix(raw, []byte("[[")) || json.Unmarshal(raw, &all[i]) != nil {
			return nil, s.Fail("it returned no list of vectors; a model without pooling returns one vector for each token", "use a model for sentence similarity", nil)
		}
	}
	return all, nil
}

// Tokens are not counted.
func (*batch) Tokens() int64 { return 0 }
