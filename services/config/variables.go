package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/services/graphs/neo4j"
	"github.com/seed-7aedc3ff/memdb/services/providers/openai"
)

// maxVariable bounds the name of a variable, in bytes: keys are often longer than names.
const maxVariable = 64

var (
	variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	// secretWords end a word of the name of a variable that holds a secret.
	secretWords = []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASS"}
)

// Variable reports whether a configuration may look up a variable of the environment: one that
// providers have by default, or one whose name says that it holds a key, such as MY_OPENAI_KEY.
func Variable(name string) bool {
	return slices.Contains([]string{openai.Provider.BaseVariable, openai.Azure.BaseVariable, neo4j.URLVariable, neo4j.UserVariable, neo4j.PasswordVariable}, name) || holdsSecret(name)
}

// holdsSecret reports whether a name is as those of variables that hold a secret. A configuration
// can name no others: one that somebody else has written would send any variable to its server.
// And a key that was pasted in the place of a name is no name.
func holdsSecret(name string) bool {
	if len(name) > maxVariable || !variableName.MatchString(name) {
		return false
	}
	for word := range strings.SplitSeq(name, "_") {
		word = strings.TrimRight(word, "0123456789")
		for _, secret := range secretWords {
			if strings.HasSuffix(word, secret) {
				return true
			}
		}
	}
	return false
}

// checkVariables refuses a Config that names a variable which does not look like that of a secret.
// The error has the place and never the value, which may be the secret itself.
func (c *Config) checkVariables(doing string) error {
	named := [][2]string{}
	if c.LLM != nil {
		named = append(named, [2]string{"llm.config.api_key_env", c.LLM.Config.APIKeyEnv})
	}
	if c.Embedder != nil {
		named = append(named, [2]string{"embedder.config.api_key_env", c.Embedder.Config.APIKeyEnv})
	}
	if c.GraphStore != nil {
		g := &c.GraphStore.Config
		named = append(named, [2]string{"graph_store.config.password_env", g.PasswordEnv}, [2]string{"graph_store.config.token_env", g.TokenEnv})
	}
	if c.Server != nil && c.Server.Chat != nil {
		named = append(named, [2]string{"server.chat.api_key_env", c.Server.Chat.APIKeyEnv})
	}
	for _, n := range named {
		if n[1] != "" && !holdsSecret(n[1]) {
			return fault.Invalid(doing, n[0]+" is no name of a variable that holds a secret",
				fmt.Sprintf("name one of capital letters, digits and _ with %s in it, as MY_API_KEY, and set it to the secret; a secret itself is given without _env", strings.Join(secretWords, ", ")))
		}
	}
	return nil
}
