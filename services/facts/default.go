package facts

import (
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

// openai is the provider of the language model and of the vectors that other memories of facts
// have where they are told nothing.
const openai = "openai"

// newDefault makes the memory of facts that a program gets which says nothing, by its environment.
func newDefault(env config.Lookup) (*Facts, error) {
	c := &config.Config{}
	if key, _ := env(config.OpenAIKey); key != "" {
		c.LLM, c.Embedder = &config.LLM{Provider: openai}, &config.Embedder{Provider: openai}
	}
	models, err := c.Open(env, true)
	if err != nil {
		return nil, err
	}
	db, err := engine.OpenMemory(nil)
	if err != nil {
		return nil, err
	}
	models.Meter(db.Usage())
	return newOn(db, true, &Config{LLM: models.LLM, Embedder: models.Embedder})
}
