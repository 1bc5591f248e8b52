package httpjson

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
)

var errKind = errors.New("the stand-in failed")

func service(t *testing.T, base string) *Service {
	t.Helper()
	s, err := New(Config{
		Provider: "acme", Kind: errKind, BaseURL: base, Key: wiretest.Key, KeyHint: "ACME_KEY",
		Header: http.Header{"Authorization": {"Bearer " + wiretest.Key}},
		Now:    func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFaults(t *testing.T) {
	wiretest.Faults(t, wiretest.Target{
		Provider: "acme", Kind: errKind, Variable: "ACME_KEY", Reply: `{"a":"reply"}`,
		Refuse: func(m string) string { return `{"error":"` + m + `"}` },
		Call: func(ctx context.Context, base string) error {
			var out struct{ A string }
			return service(t, base+"/v1").Post(ctx, Call{Path: "/x", In: 1, Out: &out})
		},
	})
}

// TestPost sends what was asked, and follows a redirect within the host.
func TestPost(t *testing.T) {
	connections := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		if r.URL.Path == "/v1/old" {
			http.Redirect(w, r, "/v1/x?q=1", http.StatusTemporaryRedirect)
			return
		}
		if r.Method != http.MethodPost || r.URL.Path != "/v1/x" || r.URL.RawQuery != "q=1" || r.Header.Get("Authorization") != "Bearer "+wiretest.Key || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		_, _ = w.Write([]byte(`{"n":2}`))
	}))
	defer s.Close()
	service := service(t, s.URL+"/v1/")
	for range 5 {
		for _, call := range []Call{{Path: "/x", Query: "q=1"}, {Path: "/old"}} {
			var out struct{ N int }
			call.In, call.Out = map[string]int{"n": 1}, &out
			if err := service.Post(t.Context(), call); err != nil || out.N != 2 {
				t.Errorf("%+v: %+v, error %v", call, out, err)
			}
		}
	}
	if len(connections) != 1 {
		t.Errorf("%d connections for calls one after the other", len(connections))
	}
}

// TestRefusals reads errors in the forms of all providers.
func TestRefusals(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name, body string
		status     int
		header     string // of Retry-After
		want       string
		passes     bool
		after      time.Duration
	}{
		{"OpenAI", `{"error":{"message":"no such model","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, 404, "", "no such model", false, 0},
		{"OpenAI quota", `{"error":{"message":"over quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, 429, "5", "billing", false, 0},
		{"Anthropic", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}`, 529, "", "Overloaded", true, 0},
		{"Anthropic spend limit", `{"type":"error","error":{"type":"rate_limit_error","message":"spent","details":{"error_code":"spend_limit_reached"}}}`, 429, "", "billing", false, 0},
		{"Gemini", `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17s"}]}}`, 429, "", "slow down", true, 17 * time.Second},
		{"Ollama", `{"error":"model not found, try pulling it first"}`, 404, "", "try pulling", false, 0},
		{"TEI", `{"error":"overloaded","error_type":"Overloaded"}`, 429, "", "overloaded", true, 0},
		{"Voyage", `{"detail":"Model bad is not supported."}`, 400, "", "Model bad", false, 0},
		{"Cohere", `{"id":"x","message":"invalid api token"}`, 498, "", "check the key in ACME_KEY", false, 0},
		{"a date", `{}`, 503, "Thu, 01 Jan 2026 00:01:00 GMT", "503", true, minute},
		{"a date that was", `{}`, 503, "Wed, 31 Dec 2025 00:01:00 GMT", "503", true, 0},
		{"an odd time", `{}`, 503, "soon", "503", true, 0},
		{"a negative time", `{}`, 503, "-5", "503", true, 0},
		{"a huge time", `{}`, 503, "1e300", "503", true, 24 * time.Hour},
		{"not implemented", `{}`, 501, "", "501", false, 0},
		{"a long text", `{"error":"` + strings.Repeat("\u00e9", 5000) + `"}`, 400, "", "...", false, 0},
		{"no JSON", "go\r\naway", 400, "", "400", false, 0},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.header != "" {
				w.Header().Set("Retry-After", c.header)
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		err := service(t, s.URL).Post(t.Context(), Call{Path: "/x", Out: new(any)})
		s.Close()
		again, passes := errors.AsType[*retry.Transient](err)
		if !errors.Is(err, errKind) || StatusOf(err) != c.status || !strings.Contains(err.Error(), c.want) || passes != c.passes || passes && again.After != c.after || len(err.Error()) > 800 {
			t.Errorf("%s: %v, passes %v %+v", c.name, err, passes, again)
		}
	}
}

func TestLimit(t *testing.T) {
	s := wiretest.Server(t, func(*http.Request, []byte) (int, string) { return 200, `"` + strings.Repeat("x", 98) + `"` })
	var out string
	if err := service(t, s.URL).Post(t.Context(), Call{Out: &out, Limit: 100}); err != nil || len(out) != 98 {
		t.Errorf("%d bytes, error %v", len(out), err)
	}
	if err := service(t, s.URL).Post(t.Context(), Call{Out: &out, Limit: 99}); !errors.Is(err, errKind) {
		t.Errorf("one byte more than the limit: %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no URL":        {},
		"no scheme":     {BaseURL: "api.acme.com/v1"},
		"a file":        {BaseURL: "file:///etc/passwd"},
		"a password":    {BaseURL: "https://u:" + wiretest.Key + "@acme.com"},
		"a query":       {BaseURL: "https://acme.com/?key=" + wiretest.Key},
		"no URL at all": {BaseURL: "https://[" + wiretest.Key},
		"a line":        {BaseURL: "https://acme.com", Key: wiretest.Key + "\n"},
		"a long key":    {BaseURL: "https://acme.com", Key: strings.Repeat("k", maxKey+1)},
	} {
		c.Provider, c.KeyHint = "acme", "ACME_KEY"
		_, err := New(c)
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "acme") || strings.Contains(err.Error(), wiretest.Key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
