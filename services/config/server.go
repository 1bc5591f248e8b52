package config

// Server is how a database is served over HTTP: the table that memdbd reads. The zero Server is
// its default.
type Server struct {
	// Listen is the address, host:port; empty: 127.0.0.1:7070.
	Listen string `json:"listen,omitempty"`
	// TLSCert and TLSKey are files in PEM; both or none.
	TLSCert string `json:"tls_cert,omitempty"`
	TLSKey  string `json:"tls_key,omitempty"`
	// Hosts are names, beside those of loopback, by which it is reached over a loopback address.
	Hosts []string `json:"hosts,omitempty"`
	// Origins are those of pages in browsers that may ask.
	Origins []string `json:"origins,omitempty"`
	// Dialects are those that are answered; empty: all.
	Dialects []string `json:"dialects,omitempty"`
	// MaxBody bounds a body, in bytes; 0: 16 MiB. Timeout bounds a request; 0: a minute. Grace is
	// how long requests may take to end when the server ends; 0: 20 seconds.
	MaxBody int64    `json:"max_body,omitempty"`
	Timeout Duration `json:"timeout,omitzero"`
	Grace   Duration `json:"grace,omitzero"`
	// MaxConcurrent bounds the requests at once, 0: 256, and MaxStreams the streams, 0: 1,024.
	MaxConcurrent int `json:"max_concurrent,omitempty"`
	MaxStreams    int `json:"max_streams,omitempty"`
	// Rate is how many requests a second a key may make, 0: any number, and Burst how many at once.
	Rate  float64 `json:"rate,omitempty"`
	Burst float64 `json:"burst,omitempty"`
	// Log is the form of the log: text, json or off; empty: text.
	Log string `json:"log,omitempty"`
	// Files is the folder below which verbs of other machines keep backups and archives; empty:
	// they keep none.
	Files string `json:"files,omitempty"`
	// Schedule has memories age by the times of the policy.
	Schedule bool `json:"schedule,omitempty"`
	// Chat is the proxy for chat programs, nil for none.
	Chat *Chat `json:"chat,omitempty"`
	// III is the engine whose worker the server is, nil for none.
	III *III `json:"iii,omitempty"`
}

// Chat is what a proxy for chat programs asks.
type Chat struct {
	// BaseURL is that of a server of OpenAI's chat completions, with its version: https://host/v1.
	BaseURL string `json:"base_url,omitempty"`
	// APIKey is its key, APIKeyEnv the variable of the environment that holds it; with neither
	// there is none.
	APIKey    Secret `json:"api_key,omitzero"`
	APIKeyEnv string `json:"api_key_env,omitempty"`
	// Tokens bound what is added of memories to a request; 0: 1,000.
	Tokens int `json:"tokens,omitempty"`
}

// III is an engine of iii, and whose memories its functions see.
type III struct {
	// URL is that of its socket, ws://host:49134.
	URL string `json:"url,omitempty"`
	// User, Agent and Run are the scope that no call leaves; all empty: calls name any.
	User  string `json:"user,omitempty"`
	Agent string `json:"agent,omitempty"`
	Run   string `json:"run,omitempty"`
}

// Key is the key of a chat server, by the environment where it lies there.
func (c *Chat) Key(env Lookup) string {
	if c.APIKeyEnv != "" {
		return env.get(c.APIKeyEnv)
	}
	return c.APIKey.value()
}
