package config

import (
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/services/graphs/neo4j"
)

// secretWords are the words of which one is in the name of a variable that holds a secret.
var secretWords = []string{"KEY", "APIKEY", "TOKEN", "PASSWORD", "PASS", "SECRET"}

// Variable reports whether a configuration may look up a variable of the environment: one that
// providers have by default, or one whose name says that it holds a key, such as MY_OPENAI_KEY.
func Variable(name string) bool {
	if slices.Contains([]string{openaiBase, azureBase, neo4j.URLVariable, neo4j.UserVariable, neo4j.PasswordVariable}, name) {
		return true
	}
	words := strings.Split(name, "_")
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(secretWords, w) })
}
