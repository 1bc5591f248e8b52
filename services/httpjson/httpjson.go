// Package httpjson makes the calls of providers: a value is posted as JSON, and one comes
// back. Connections are kept and used again, replies are bounded, redirects to another host
// are refused, and an error names the provider and the next step, never the key.
package httpjson

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

const (
	// MaxReply bounds every reply, in bytes, whatever a call allows.
	MaxReply = 64 << 20
	// maxRefusal bounds what is read of a reply that is an error.
	maxRefusal = 64 << 10
	// maxKey bounds a key: headers of servers are bounded, too.
	maxKey = 8 << 10
	// maxRedirects bounds redirects within the host.
	maxRedirects = 3
	// idlePerHost is how many connections to a host are kept for the next calls.
	idlePerHost = 16
	idleTimeout = 90 * time.Second
)

// Config says whom to call, and how.
type Config struct {
	// Provider is what errors call it.
	Provider string
	// Kind is that of all errors of calls.
	Kind error
	// BaseURL is http or https with a host, and perhaps a path. It holds no password.
	BaseURL string
	// Header is sent with every call.
	Header http.Header `json:"-"`
	// Key is the secret in Header, so that no error shows it. It is empty for a server that
	// needs none.
	Key string `json:"-"`
	// KeyHint says where the key comes from, as "OPENAI_API_KEY", for an error about it.
	KeyHint string
	// Terms replaces terms of what errors advise, where the configuration of a provider has
	// others than model and base_url. nil: nothing.
	Terms *strings.Replacer `json:"-"`
	// Client makes the calls; its CheckRedirect and Timeout are not used. nil: one with
	// pooled connections.
	Client *http.Client
	// Now reads the dates of Retry-After. nil: clock.System.
	Now clock.Clock
}

// Service is a provider that can be called. It is safe for concurrent use.
type Service struct {
	Config
	base *url.URL
}

// Format prints the provider and its host, whatever the verb, and never the key.
func (s *Service) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s at %s", s.Provider, s.base.Host)
}

// New checks the configuration. ErrInvalid where it is not valid. Nothing is called.
func New(c Config) (*Service, error) {
	doing := "set up " + c.Provider
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fault.Invalid(doing, "its base URL is none", "give base_url as https://host/path")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fault.Invalid(doing, "its base URL has a password, a query or a fragment", "give base_url as https://host/path, and the key as api_key or api_key_env")
	case len(c.Key) > maxKey || strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, fault.Invalid(doing, "its key is longer than 8 KiB or has spaces, line ends or characters beyond ASCII", "copy the key again"+from(c.KeyHint))
	}
	u.Path = strings.TrimRight(u.Path, "/")
	client := &http.Client{}
	if c.Client != nil {
		*client = *c.Client
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = idlePerHost, idleTimeout
		client.Transport = transport
	}
	client.Timeout, client.CheckRedirect = 0, sameHost // contexts bound calls
	c.Client = client
	if c.Now == nil {
		c.Now = clock.System
	}
	return &Service{c, u}, nil
}

// CheckPath refuses a name that would not be one part of a path. what says of what it is.
func (s *Service) CheckPath(what, name string) error {
	odd := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("._-:@", r)
	}
	if name == "" || name == "." || name == ".." || strings.ContainsFunc(name, odd) {
		return fault.Invalid("set up "+s.Provider, fmt.Sprintf("the %s is %.80q", what, name), "give letters, digits and . _ - : @")
	}
	return nil
}

func from(hint string) string {
	if hint == "" {
		return ""
	}
	return " to " + hint
}

// errRedirect is why a redirect is not followed.
var errRedirect = errors.New("redirect")

// sameHost follows the redirects that repeat the call at the same host.
func sameHost(next *http.Request, before []*http.Request) error {
	first := before[0]
	if len(before) > maxRedirects || next.URL.Host != first.URL.Host || next.URL.Scheme != first.URL.Scheme || next.Method != first.Method {
		return errRedirect
	}
	return nil
}

// Call is one call.
type Call struct {
	Path  string // below the base URL, "/chat/completions"
	Query string // encoded, mostly empty
	In    any    // becomes the body
	Out   any    // takes the reply
	Limit int64  // most bytes of a reply, up to MaxReply; 0: MaxReply
}

// Post makes a call. Its errors have the Config's Kind; those that may pass are
// retry.Transient. The end of ctx is its error alone.
func (s *Service) Post(ctx context.Context, c Call) error {
	body, err := json.Marshal(c.In)
	if err != nil {
		return s.failed("the request is no JSON", "check the JSON Schemas of tools", err)
	}
	u := *s.base
	u.Path, u.RawQuery = s.base.Path+c.Path, c.Query
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return s.failed("the request cannot be made", "check base_url and model", nil)
	}
	r.Header = s.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "memdb")
	reply, err := s.Client.Do(r)
	if err != nil {
		return s.unreached(ctx, err)
	}
	defer reply.Body.Close() //nolint:errcheck // the reply was read, or given up
	if reply.StatusCode < 200 || reply.StatusCode > 299 {
		return s.refused(ctx, reply)
	}
	return s.read(ctx, reply, &c)
}

// read takes the reply.
func (s *Service) read(ctx context.Context, reply *http.Response, c *Call) error {
	limit := int64(MaxReply)
	if c.Limit > 0 {
		limit = min(c.Limit, MaxReply)
	}
	tooLong := func() error {
		return s.failed(fmt.Sprintf("the reply is longer than %d bytes", limit), "check base_url: this is no reply to what was asked", nil)
	}
	if reply.ContentLength > limit {
		return tooLong()
	}
	b, err := io.ReadAll(io.LimitReader(reply.Body, limit+1))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &retry.Transient{Err: s.failed("the connection ended in the middle of the reply", "try again", nil)}
	case int64(len(b)) > limit:
		return tooLong()
	}
	kind, _, _ := mime.ParseMediaType(reply.Header.Get("Content-Type"))
	if first := bytes.TrimSpace(b); kind == "text/html" || len(first) > 0 && first[0] == '<' {
		return s.failed("the reply is a page of HTML", "check base_url, and what stands between: a proxy or a login page answered", nil)
	}
	if err := json.Unmarshal(b, c.Out); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset >= int64(len(b)) {
			return &retry.Transient{Err: s.failed(fmt.Sprintf("the reply ends in the middle, after %d bytes", len(b)), "try again", nil)}
		}
		return s.failed("the reply is not the JSON that was expected", "check base_url and the version of the server", errors.New(s.hide(err.Error())))
	}
	return nil
}

// unreached is the error of a call that got no reply.
func (s *Service) unreached(ctx context.Context, err error) error {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errRedirect):
		return s.failed("the server redirects to another place, and the key stays here", "give the right base_url", nil)
	case isDNS && dns.IsNotFound:
		return s.failed("there is no host of this name", "check base_url", nil)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err // without the URL
	}
	return &retry.Transient{Err: s.failed("it cannot be reached", "check the network and base_url", errors.New(s.hide(err.Error())))}
}

// failed is an error of the service.
func (s *Service) failed(why, do string, cause error) error {
	return s.Fail(why, do, cause)
}

// Fail is an error of the service's kind, which names the provider and its host. Keys are
// taken out of why.
func (s *Service) Fail(why, do string, cause error) error {
	if s.Terms != nil {
		do = s.Terms.Replace(do)
	}
	return &fault.Error{
		Kind: s.Kind, What: "call " + s.Provider + " at " + s.base.Host, Why: s.hide(why), Do: do, Cause: cause,
		Public: "call " + s.Provider + ": it failed",
	}
}

// hide takes the key out of a text, in whatever coding a provider or a proxy gives it back.
func (s *Service) hide(text string) string {
	if s.Key == "" {
		return text
	}
	for _, form := range codings(s.Key) {
		text = strings.ReplaceAll(text, form, "[key]")
	}
	return text
}

// leastCoded is how long a coded form of a key is that is hidden, in bytes: shorter ones stand in
// other words.
const leastCoded = 8

// codings are the forms that a key may have in a text: as it is, escaped for an address or for
// JSON, in hexadecimal, and in base64, wherever in what was encoded it begins.
func codings(key string) []string {
	query, path := url.QueryEscape(key), url.PathEscape(key)
	forms := []string{key, query, path, strings.ToLower(query), strings.ToLower(path)}
	if b, err := json.Marshal(key); err == nil {
		forms = append(forms, string(b[1:len(b)-1]))
	}
	coded := []string{hex.EncodeToString([]byte(key)), strings.ToUpper(hex.EncodeToString([]byte(key)))}
	for offset := range 3 {
		whole := append(make([]byte, offset), key...)
		from, to := (offset*8+5)/6, len(whole)*8/6 // the characters that say nothing but the key
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			coded = append(coded, alphabet.EncodeToString(whole)[from:to])
		}
	}
	for _, form := range coded {
		if len(form) >= leastCoded {
			forms = append(forms, form)
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // a form may be within another
	return slices.Compact(forms)
}
