package wiretest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
)

// Key is the secret of all stand-ins, which no error may show.
const Key = "sk-secret-0123456789"

// Server stands in for a provider: answer gets each request with its body, and returns
// status and body of the reply.
func Server(t testing.TB, answer func(r *http.Request, body []byte) (int, string)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		status, reply := answer(r, body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s
}

// Target is an adapter under test.
type Target struct {
	Provider string // as errors name it
	Kind     error  // of its errors
	Variable string // that holds the key; empty: it needs none
	Missing  string // what to check where nothing is found; empty: "model and base_url"
	// Call makes an adapter for a base URL with Key, and calls it.
	Call func(ctx context.Context, base string) error
	// Reply is one that succeeds, in the provider's form.
	Reply string
	// Refuse writes an error in the provider's form.
	Refuse func(message string) string
}

// case of a fault.
type faulty struct {
	name   string
	serve  http.HandlerFunc
	want   string        // a part of the error
	passes bool          // it is Transient
	after  time.Duration // that it asks to wait
}

// Faults injects the failures of networks and providers into an adapter, and wants errors
// that name the provider and hold no key.
func Faults(t *testing.T, target Target) {
	t.Helper()
	var leaked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { leaked.Add(1) }))
	t.Cleanup(other.Close)
	for _, c := range target.faults(other.URL) {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(c.serve)
			defer s.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := target.Call(t.Context(), s.URL)
			runtime.ReadMemStats(&after)
			target.holds(t, err, c.want)
			again, passes := errors.AsType[*retry.Transient](err)
			if passes != c.passes || passes && again.After != c.after {
				t.Errorf("passes %v, %+v, want %v after %s", passes, again, c.passes, c.after)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 512<<20 {
				t.Errorf("%d MiB allocated", took>>20)
			}
		})
	}
	if leaked.Load() > 0 {
		t.Error("a redirect to another host was followed")
	}
	t.Run("hang", func(t *testing.T) { target.hang(t) })
	t.Run("no server", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		s.Close()
		err := target.Call(t.Context(), s.URL)
		target.holds(t, err, "cannot be reached")
		if _, passes := errors.AsType[*retry.Transient](err); !passes {
			t.Error("a server that is down may come back")
		}
	})
}

// holds checks what all errors have in common.
func (target *Target) holds(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	if !errors.Is(err, target.Kind) || !strings.Contains(text, target.Provider) || !strings.Contains(text, want) {
		t.Errorf("%v: want %q of %s, of the kind %q", err, want, target.Provider, target.Kind)
	}
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Do == "" {
		t.Errorf("%v: no next step", err)
	}
	if strings.Contains(text, Key) || strings.Contains(fmt.Sprintf("%#v %+v", err, err), Key) {
		t.Errorf("the error shows the key: %v", err)
	}
}

// hang has a server that accepts a call and says nothing.
func (target *Target) hang(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	}))
	defer s.Close()
	defer close(release)
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := target.Call(ctx, s.URL); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that hangs: %v, want the error of the context", err)
	}
}

func (target *Target) faults(other string) []faulty {
	refuse := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, target.Refuse("no luck with "+Key))
		}
	}
	redirect := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other+r.URL.Path, status) }
	}
	send := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, body)
		}
	}
	return []faulty{
		{name: "wrong key", serve: refuse(401), want: target.Variable},
		{name: "forbidden", serve: refuse(403), want: "no luck with [key]"},
		{name: "not found", serve: refuse(404), want: "check " + cmp.Or(target.Missing, "model and base_url")},
		{name: "busy", serve: refuse(429, "Retry-After", "7"), want: "429", passes: true, after: 7 * time.Second},
		{name: "busy in milliseconds", serve: refuse(429, "Retry-After-Ms", "1500", "Retry-After", "7"), want: "429", passes: true, after: 1500 * time.Millisecond},
		{name: "not to be repeated", serve: refuse(500, "X-Should-Retry", "false"), want: "500"},
		{name: "broken", serve: refuse(500), want: "500", passes: true},
		{name: "overloaded", serve: refuse(529), want: "529", passes: true},
		{name: "empty refusal", serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, want: "502", passes: true},
		{name: "HTML", serve: send("text/html", "<html><body>Sign in</body></html>"), want: "HTML"},
		{name: "HTML that says JSON", serve: send("application/json", "\n<!DOCTYPE html>"), want: "HTML"},
		{name: "nothing", serve: send("application/json", ""), want: "ends in the middle", passes: true},
		{name: "half a reply", serve: target.half(false), want: "in the middle", passes: true},
		{name: "half a reply, well ended", serve: target.half(true), want: "ends in the middle", passes: true},
		{name: "other JSON", serve: send("application/json", `"hello"`), want: "not the JSON"},
		{name: "100 MB", serve: huge, want: "longer than"},
		{name: "redirect 302", serve: redirect(302), want: "redirects"},
		{name: "redirect 307", serve: redirect(307), want: "redirects"},
		{name: "redirect 308", serve: redirect(308), want: "redirects"},
	}
}

// half sends the first half of a good reply, and ends the connection or the reply.
func (target *Target) half(ended bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !ended {
			w.Header().Set("Content-Length", fmt.Sprint(len(target.Reply)))
		}
		_, _ = io.WriteString(w, target.Reply[:len(target.Reply)/2])
	}
}

// huge sends 100 MB of JSON.
func huge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"x":"`)
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range 100 {
		if _, err := w.Write(piece); err != nil {
			return // the caller has hung up, as it should
		}
	}
	_, _ = io.WriteString(w, `"}`)
}
