package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
)

// TestOfVectors makes the embedder of a database of what that knows, and asks no server that the
// database alone names.
func TestOfVectors(t *testing.T) {
	const base = "https://models.example/v1"
	keyed := env("OPENAI_API_KEY", wiretest.Key, "VOYAGE_API_KEY", wiretest.Key, "OPENAI_BASE_URL", base)
	bare := env("OPENAI_API_KEY", wiretest.Key)
	for _, c := range []struct {
		of   engine.VectorModel
		env  Lookup
		want string // of the error; empty: none
	}{
		{engine.VectorModel{Model: "openai/text-embedding-3-small", Dim: 512}, bare, ""},
		{engine.VectorModel{Model: "openai/m", Base: base, Dim: 3}, keyed, ""},
		{engine.VectorModel{Model: "voyage/voyage-3", Dim: 1024}, keyed, ""},
		{engine.VectorModel{Model: "ollama/nomic-embed-text", Dim: 768}, nil, ""},
		{engine.VectorModel{Model: "openai/m", Base: base, Dim: 3}, bare, "a server that only the database names; where it is to be trusted, set OPENAI_BASE_URL"},
		{engine.VectorModel{Model: "openai/m", Base: base + "/x", Dim: 3}, keyed, "a server that only the database names"},
		{engine.VectorModel{Model: "ollama/m", Base: base, Dim: 3}, keyed, "a server that only the database names; name a configuration"},
		{engine.VectorModel{Model: "local/m", Dim: 3}, keyed, "not enough to make its embedder"},
		{engine.VectorModel{Model: "clip", Dim: 3}, keyed, "not enough to make its embedder"},
		{engine.VectorModel{Model: "openai/", Dim: 3}, keyed, "not enough to make its embedder"},
	} {
		got, err := OfVectors(c.of, c.env)
		if c.want != "" {
			if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %+v, error %v", c.of, got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.of, err)
			continue
		}
		s, err := got.Open(c.env, false)
		if err != nil || s.Engine.Model() != c.of.Model || s.Engine.Dim() != c.of.Dim {
			t.Errorf("%+v: %+v, error %v", c.of, got, err)
		}
	}
}
