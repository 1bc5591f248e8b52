package config

import (
	"fmt"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// FileVariable is the variable of the environment that names the file of a configuration where
// memdbctl is given none.
const FileVariable = "MEMDB_CONFIG"

// remade are the providers whose embedders can be made again of the name of their model and its
// server. Those of the others have settings that a database does not know: the folder of a local
// model, or a prompt.
var remade = map[string]bool{"openai": true, "azure_openai": true, "google": true, "ollama": true, "voyage": true, "cohere": true}

// OfVectors is the configuration of the embedder that has made the vectors of a database, by what
// the database knows of it; the key is that of the environment. ErrInvalid where that is too
// little.
//
// A folder may come from somebody else. So a server that the database names is asked only where
// the environment names it, too: no folder has a text or a key sent to a server of its choice.
func OfVectors(m engine.VectorModel, env Lookup) (*Config, error) {
	const doing = "make the embedder of the database"
	of, name, _ := strings.Cut(m.Model, "/")
	if !remade[of] || name == "" {
		return nil, fault.Invalid(doing, fmt.Sprintf("its vectors are of %q, and that is not enough to make its embedder again", m.Model), "name a configuration by --config or "+FileVariable)
	}
	if variable := named(of).BaseVariable; m.Base != "" && m.Base != env.get(variable) {
		do := "name a configuration by --config or " + FileVariable
		if variable != "" {
			do = "where it is to be trusted, set " + variable + " to it, or " + do
		}
		return nil, fault.Invalid(doing, fmt.Sprintf("its vectors were made at %q, a server that only the database names", m.Base), do)
	}
	return &Config{Embedder: &Embedder{Provider: of, Config: EmbedderCalls{Calls: Calls{Model: name}, Dimensions: m.Dim}}}, nil
}
