package httpjson

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

// Refusal is an answer of a provider that is an error. It is the cause of the error that Post
// returns.
type Refusal struct {
	Status  int    // of HTTP
	Code    string // the provider's own, may be empty
	Message string // the provider's own, may be empty
}

// maxMessage bounds what an error quotes of a provider, in bytes.
const maxMessage = 500

func (r *Refusal) Error() string {
	if r.Message == "" {
		return cmp.Or(r.Code, "no message")
	}
	return r.Message
}

// StatusOf is the status of HTTP with which a provider refused a call, 0 for other errors.
func StatusOf(err error) int {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Status
	}
	return 0
}

// Refuse is the error of a reply that has the status of success, and says otherwise in its text.
func (s *Service) Refuse(code, message string) error {
	r := &Refusal{Code: s.quote(code), Message: s.quote(message)}
	return s.Fail("it answered with an error", s.advice(r, &refusal{code: r.Code}), r)
}

// refused is the error of a reply that is one.
func (s *Service) refused(ctx context.Context, reply *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(reply.Body, maxRefusal))
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	form := parseRefusal(b)
	r := &Refusal{Status: reply.StatusCode, Code: s.quote(form.code), Message: s.quote(form.message)}
	if r.Status == http.StatusUnauthorized {
		r.Message = "" // some providers quote a part of the key
	}
	why := fmt.Sprintf("it answered %d %s", r.Status, http.StatusText(r.Status))
	failed := s.Fail(strings.TrimSpace(why), s.advice(r, &form), r)
	if !passes(reply, &form) {
		return failed
	}
	return &retry.Transient{Err: failed, After: s.after(reply.Header, form.wait)}
}

// quote makes a provider's text fit to be a part of an error.
func (s *Service) quote(text string) string {
	text = strings.Join(strings.Fields(s.hide(text)), " ")
	if len(text) > maxMessage {
		cut := maxMessage
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// advice is what to do about a refusal.
func (s *Service) advice(r *Refusal, form *refusal) string {
	key := "check the key"
	if s.KeyHint != "" {
		key += " in " + s.KeyHint
	}
	switch {
	case form.billing():
		return "check plan and billing at the provider: waiting does not help"
	case r.Status == http.StatusUnauthorized || r.Status == 498:
		if s.Key == "" {
			return "give a key" + from(s.KeyHint)
		}
		return key
	case r.Status == http.StatusForbidden:
		return key + ", and what it is allowed to do"
	case r.Status == http.StatusNotFound:
		return "check model and base_url"
	case r.Status == http.StatusTooManyRequests:
		return "wait, or configure fewer calls at once"
	case r.Status == http.StatusRequestEntityTooLarge:
		return "send less at once"
	case r.Status >= 500:
		return "try again later"
	}
	return "check the model and what is sent"
}

// passes reports whether the call may succeed when it is made again.
func passes(reply *http.Response, form *refusal) bool {
	switch reply.Header.Get("X-Should-Retry") {
	case "true":
		return true
	case "false":
		return false
	}
	switch status := reply.StatusCode; status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return true
	case http.StatusTooManyRequests:
		return !form.billing()
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	default:
		return status >= 500
	}
}

// after is how long the provider asks to wait, 0 where it does not say.
func (s *Service) after(h http.Header, inBody time.Duration) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return seconds(ms / 1000)
	}
	text := h.Get("Retry-After")
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 {
		return seconds(n)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(s.Now()), 0)
	}
	return inBody
}

// seconds is a wait; a day stands for all that are longer.
func seconds(n float64) time.Duration {
	return time.Duration(min(n, 24*60*60) * float64(time.Second))
}

// refusal is what the forms of errors have in common: those of OpenAI, Azure, Anthropic,
// Gemini, Ollama, text-embeddings-inference, Voyage, Cohere and Neo4j.
type refusal struct {
	code, kind, message string
	wait                time.Duration
}

// billing are the codes that say that no waiting helps.
var billing = []string{
	"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error", "spend_limit_reached", "spend_limit_exceeded", "access_terminated",
}

func (r *refusal) billing() bool {
	return slices.Contains(billing, r.code) || slices.Contains(billing, r.kind) || strings.Contains(r.code, "spend_limit")
}

// parseRefusal reads an error as far as it can.
func parseRefusal(b []byte) (r refusal) {
	var outer struct {
		Error     json.RawMessage `json:"error"`
		ErrorType string          `json:"error_type"`
		Message   json.RawMessage `json:"message"`
		Detail    json.RawMessage `json:"detail"`
		Errors    json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(b, &outer) != nil {
		return r
	}
	r.kind = outer.ErrorType
	var list []struct{ Code, Message string } // of Neo4j
	if json.Unmarshal(outer.Errors, &list) == nil && len(list) > 0 {
		r.code, r.message = list[0].Code, list[0].Message
	}
	for _, raw := range []json.RawMessage{outer.Message, outer.Detail, outer.Error} {
		if text := ""; json.Unmarshal(raw, &text) == nil && r.message == "" {
			r.message = text
		}
	}
	var inner struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Status  string          `json:"status"`
		Code    json.RawMessage `json:"code"`
		Details json.RawMessage `json:"details"`
	}
	if json.Unmarshal(outer.Error, &inner) != nil {
		return r
	}
	r.message, r.kind = cmp.Or(inner.Message, r.message), cmp.Or(inner.Type, inner.Status, r.kind)
	if json.Unmarshal(inner.Code, &r.code) != nil { // a number, of Gemini
		r.code = r.kind
	}
	r.details(inner.Details)
	return r
}

// details reads those of Anthropic, an object with a code, and of Gemini, a list one of which
// says how long to wait.
func (r *refusal) details(raw json.RawMessage) {
	var one struct {
		Code string `json:"error_code"`
	}
	if json.Unmarshal(raw, &one) == nil && one.Code != "" {
		r.code = one.Code
		return
	}
	var list []struct {
		Delay string `json:"retryDelay"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, d := range list {
		if wait, err := time.ParseDuration(d.Delay); err == nil && wait > 0 {
			r.wait = min(wait, 24*time.Hour)
		}
	}
}
