package functions

import (
	"encoding/json"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/services/server"
)

// Dialect has the functions over HTTP: POST /functions/NAME with the arguments as its body, answered by
// what the function returns, and GET /functions, a list of them.
func (f *Functions) Dialect() *server.Dialect {
	return &server.Dialect{
		Name: "functions", Prefixes: []string{"/functions/"}, Fail: fail,
		Routes: []server.Route{
			{Pattern: "GET /functions", Handle: list},
			{Pattern: "POST /functions/{name}", Handle: f.handle},
		},
	}
}

func list(c *server.Call) error {
	type described struct {
		ID          string `json:"id"`
		Description string `json:"description"`
	}
	out := make([]described, len(table))
	for i, f := range table {
		out[i] = described{f.Name, f.Description}
	}
	return c.Reply(http.StatusOK, out)
}

func (f *Functions) handle(c *server.Call) error {
	var data json.RawMessage
	if c.R.ContentLength != 0 {
		var err error
		if data, err = c.JSON(); err != nil {
			return err
		}
	}
	out, err := f.Invoke(c.Context(), c, c.R.PathValue("name"), data)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, out)
}

// errorBody is an error over HTTP: what an engine says of it, and beside that what kind it is.
type errorBody struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Kind      string `json:"kind"`
	RequestID string `json:"request_id"`
}

func fail(w http.ResponseWriter, _ *http.Request, f *server.Failure) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	code := CodeFailed
	switch {
	case f.Code == CodeNotFound:
		code = CodeNotFound
	case f.Status == http.StatusForbidden, f.Status == http.StatusUnauthorized:
		code = CodeForbidden
	case f.Status == http.StatusGatewayTimeout:
		code = CodeTimeout
	}
	// A client that has left cannot be told.
	_ = json.NewEncoder(w).Encode(map[string]errorBody{"error": {code, f.Message, f.Code, f.RequestID}})
}
