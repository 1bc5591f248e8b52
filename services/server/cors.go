package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/api"
)

// exposed are the headers of an answer that a page may read. The star stands for those of dialects; it works for
// requests without credentials of the browser, and others are not allowed.
var exposed = strings.Join([]string{"X-Request-Id", "Retry-After", "WWW-Authenticate", api.RepeatedHeader, api.StaleHeader, "*"}, ", ")

const (
	// preflightAge is for how long a browser need not ask again, in seconds.
	preflightAge = "600"
	// maxAllowed bounds the names of headers that a browser asks for, in bytes.
	maxAllowed = 4 << 10
	// corsMethods are those of all routes.
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
)

// share has pages of Options.Origins read the answer, whatever it will be.
func (s *Server) share(w http.ResponseWriter, r *http.Request) {
	if len(s.o.Origins) == 0 {
		return
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); slices.Contains(s.o.Origins, origin) {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", exposed)
	}
}

// isPreflight reports whether a browser asks if a page may send a request. It needs no key: the browser sends none.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers a browser.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request) error {
	if err := s.admit(r); err != nil {
		return err
	}
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network")
	h.Set("Access-Control-Allow-Methods", corsMethods)
	if names := r.Header.Get("Access-Control-Request-Headers"); isNames(names) {
		h.Set("Access-Control-Allow-Headers", names) // what the clients of dialects send is theirs to know
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	h.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// isNames reports whether a text is a list of names of headers.
func isNames(s string) bool {
	return s != "" && len(s) <= maxAllowed && strings.IndexFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~, ", r)
	}) < 0
}
