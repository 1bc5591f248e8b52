// Package tokens counts the tokens of a text as language models of OpenAI do, for the window
// of a session that has a budget of them:
//
//	count, err := tokens.ForModel("gpt-4o")
//	…
//	loaded, err := db.Sessions().Load(ctx, owner, "monday", &sessions.Window{Tokens: 4_000, Count: count})
//
// The counts are exact: byte pair encoding (Sennrich, Haddow, Birch, 2016) with the published
// vocabularies, which are compiled in: nothing is downloaded. They make a program some 10 MB
// larger, so this package is a module of its own, which the engine does not know. What a model
// adds for each message and role, some 4 tokens, is not counted. Providers that publish no
// vocabulary, such as Anthropic and Google, have other counts; O200k is an estimate of theirs.
package tokens

import (
	"fmt"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Encoding is a published vocabulary.
type Encoding string

// The encodings.
const (
	// O200k is that of GPT-4o and all later models.
	O200k Encoding = "o200k_base"
	// Cl100k is that of GPT-4, GPT-3.5 and the embedding models.
	Cl100k Encoding = "cl100k_base"
)

// load loads each vocabulary once: it takes some milliseconds and megabytes.
var load = map[Encoding]func() (tokenizer.Codec, error){
	O200k:  sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.O200kBase) }),
	Cl100k: sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.Cl100kBase) }),
}

// Counter returns a function that counts the tokens of a text, in time linear in its length:
// some 0.1 ms for 1 KB. Several goroutines may call it. Marks of control such as
// "<|endoftext|>" count as the text that they are. ErrInvalid for an unknown encoding.
func Counter(e Encoding) (func(text string) int, error) {
	get, known := load[e]
	if !known {
		return nil, fault.Invalid("count tokens", fmt.Sprintf("there is no encoding %q", e), fmt.Sprintf("give %q or %q", O200k, Cl100k))
	}
	codec, err := get()
	if err != nil {
		return nil, fault.Within("load the vocabulary "+string(e), err)
	}
	return func(text string) int {
		n, err := codec.Count(text)
		if err != nil {
			return len(text) // no text has more: a budget is never exceeded
		}
		return n
	}, nil
}

// ForModel is Counter for the encoding of a model of OpenAI, by its name, such as "gpt-4o".
// ErrInvalid where it is not known.
func ForModel(model string) (func(text string) int, error) {
	if strings.HasPrefix(model, "text-embedding-") {
		return Counter(Cl100k)
	}
	codec, err := tokenizer.ForModel(tokenizer.Model(model))
	if err != nil {
		return nil, fault.Invalid("count tokens", fmt.Sprintf("the encoding of the model %q is not known", model),
			fmt.Sprintf("call Counter: %q is that of newer models", O200k))
	}
	return Counter(Encoding(codec.GetName()))
}
