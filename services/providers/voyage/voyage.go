// Package voyage describes Voyage AI's models of embeddings.
package voyage

import (
	"strings"

	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/providers"
)

// Provider is Voyage AI. A type of input may be left out.
var Provider = providers.Provider{
	Name: "voyage", Variable: "VOYAGE_API_KEY", BaseURL: "https://api.voyageai.com/v1",
	Prepare: providers.InputTypes("voyage", "", "query", "document"),
	Vectors: &providers.Vectors{
		Model: "voyage-3.5",
		Known: map[string]int{
			"voyage-4": 1024, "voyage-4-large": 1024, "voyage-4-lite": 1024, "voyage-3.5": 1024, "voyage-3.5-lite": 1024, "voyage-3-large": 1024, "voyage-3": 1024,
			"voyage-3-lite": 512, "voyage-code-3": 1024, "voyage-finance-2": 1024, "voyage-law-2": 1024, "voyage-multilingual-2": 1024,
		},
		Limits: limits, Call: providers.At("/embeddings"), Request: embed, Batch: func() providers.Batch { return &providers.List{} },
	},
}

// limits depend on the model: small ones take more tokens at once.
func limits(model string) embedders.Limits {
	switch {
	case strings.HasSuffix(model, "-lite"):
		return embedders.Limits{Texts: 1000, Tokens: 1_000_000}
	case model == "voyage-3.5" || model == "voyage-4":
		return embedders.Limits{Texts: 1000, Tokens: 320_000}
	}
	return embedders.Limits{Texts: 1000, Tokens: 120_000}
}

type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	InputType  string   `json:"input_type,omitempty"`
	Truncation bool     `json:"truncation"`
	Dimensions int      `json:"output_dimension,omitempty"`
}

func embed(c *providers.Config, texts []string, dimensions int) any {
	return &request{c.Model, texts, c.InputType, true, dimensions}
}
