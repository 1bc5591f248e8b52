package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// moved are the types of records that belong to an owner. Others are of the whole database, or of an agent
// with all of its users, and are never moved with one owner.
var moved = map[string]bool{
	exchange.TypeMemory: true, exchange.TypeHistory: true, entries.TypeLine: true,
	graph.TypeEntity: true, graph.TypeRelation: true, graph.TypeLink: true, graph.TypeMerge: true,
	sessions.TypeSession: true, sessions.TypeMessage: true, sessions.TypeMarker: true,
	usage.TypeUsage: true, usage.TypeBudget: true,
}

// format refuses other forms than JSON.
func format(c *server.Call) error {
	if f := c.R.URL.Query().Get("format"); f != "" && f != "json" {
		return invalid("format is %q; give json", f)
	}
	return nil
}

// export writes all that an agent has as one JSON document, a list of records.
func export(c *server.Call) error {
	o, err := owner(c)
	if err == nil {
		err = format(c)
	}
	if err != nil {
		return err
	}
	c.W.Header().Set("Content-Type", "application/json")
	w := &ofOwner{w: c.W, owner: o}
	if _, err := exchange.Export(c.Context(), c.DB, w, &exchange.ExportOptions{Scope: o.Scope()}); err != nil {
		return err
	}
	return w.close()
}

// ofOwner takes lines, and writes those of an owner as a document.
type ofOwner struct {
	w     io.Writer
	owner scope.Owner
	begun bool
	line  []byte // what came since the last line end
}

// Write takes lines, or parts of them.
func (w *ofOwner) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if !whole {
			w.line = append(w.line, b...)
			return n, nil
		}
		if len(w.line) > 0 {
			w.line = append(w.line, line...)
			line = w.line
		}
		if err := w.write(line); err != nil {
			return 0, err
		}
		w.line, b = w.line[:0], rest
	}
}

func (w *ofOwner) write(line []byte) error {
	var of struct {
		Type string `json:"type"`
		scope.Owner
	}
	if err := json.Unmarshal(line, &of); err != nil {
		return fmt.Errorf("read a line of the export: %w", err)
	}
	if !moved[of.Type] || of.Owner != w.owner {
		return nil
	}
	lead := ",\n"
	if !w.begun {
		w.begun, lead = true, "[\n"
	}
	if _, err := io.WriteString(w.w, lead); err != nil {
		return err
	}
	_, err := w.w.Write(line)
	return err
}

// close ends the document.
func (w *ofOwner) close() error {
	end := "\n]\n"
	if !w.begun {
		end = "[]\n"
	}
	_, err := io.WriteString(w.w, end)
	return err
}

// Imported is the report of an import. Skipped are records that were not taken, and Errors says why the
// first ones were not.
type Imported struct {
	Fragments int      `json:"fragments_imported"`
	Entities  int      `json:"entities_imported"`
	Relations int      `json:"relations_imported"`
	Entries   int      `json:"kv_imported"`
	Sessions  int      `json:"sessions_imported"`
	Messages  int      `json:"messages_imported"`
	Usage     int      `json:"usage_imported"`
	Unchanged int      `json:"unchanged"`
	Skipped   int      `json:"skipped"`
	Errors    []string `json:"errors"`
}

// imports stores a document of an export for the agent in the path, whosever it was.
func imports(c *server.Call) error {
	o, err := owner(c)
	if err == nil {
		err = format(c)
	}
	if err != nil {
		return err
	}
	in := &forOwner{from: exchange.NewDocumentReader(c.R.Body), owner: o}
	r, err := exchange.ImportJSONL(c.Context(), c.DB, in, &exchange.Options{IntoAgent: o.Agent})
	switch {
	case errors.Is(err, errDocument):
		return invalid("%v; what came before it is stored", err)
	case err != nil:
		return server.OfBody("import", err)
	}
	out := Imported{
		Fragments: r.Imported[exchange.TypeMemory], Entities: r.Imported[graph.TypeEntity], Relations: r.Imported[graph.TypeRelation],
		Entries: r.Imported[entries.TypeLine], Sessions: r.Imported[sessions.TypeSession], Messages: r.Imported[sessions.TypeMessage],
		Usage: r.Imported[usage.TypeUsage], Unchanged: r.Unchanged, Skipped: r.Skipped + in.left, Errors: []string{},
	}
	for _, e := range r.Errors {
		out.Errors = append(out.Errors, e.Error())
	}
	if in.left > 0 {
		out.Errors = append(out.Errors, fmt.Sprintf("%d records are none of an agent: they were left out", in.left))
	}
	return c.Reply(http.StatusOK, out)
}

// errDocument is that a body is no document of an export.
var errDocument = errors.New("the document")

// forOwner reads a document as lines, which it gives to an owner.
type forOwner struct {
	from  *exchange.DocumentReader
	owner scope.Owner
	left  int // records that are none of an owner
	lines bytes.Buffer
}

// Read reads from lines.
func (r *forOwner) Read(b []byte) (int, error) {
	for r.lines.Len() == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	return r.lines.Read(b)
}

// next takes a record.
func (r *forOwner) next() error {
	record, err := r.from.Next()
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF) || errors.As(err, &large):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errDocument, err)
	}
	var of map[string]json.RawMessage
	if err := exchange.Decode(record, &of); err != nil {
		return fmt.Errorf("%w: record %d: %w", errDocument, r.from.Line(), err)
	}
	var kind string
	if err := json.Unmarshal(of["type"], &kind); err != nil || !moved[kind] {
		r.left++
		return nil
	}
	// Names of fields are read whatever their case, so that one in another case is another owner's.
	maps.DeleteFunc(of, func(key string, _ json.RawMessage) bool {
		return strings.EqualFold(key, "user") || strings.EqualFold(key, "agent") || key != "type" && strings.EqualFold(key, "type")
	})
	for key, value := range map[string]string{"user": r.owner.User, "agent": r.owner.Agent} {
		b, err := json.Marshal(value)
		if err != nil {
			return err
		}
		of[key] = b
	}
	return json.NewEncoder(&r.lines).Encode(of)
}
