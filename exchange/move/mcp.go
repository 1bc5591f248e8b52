package move

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/ctxio"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// A graphWriter gives entities and relations by their names.
type graphWriter struct {
	*writer
	seed  maphash.Seed
	known map[uint64]struct{} // hashes of what was given, see knows
	order int64               // of the relations
}

func newGraphWriter(w *writer) graphWriter {
	return graphWriter{writer: w, seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
}

// knows reports whether an entity of a name, or a relation of three words, was given before.
func (g *graphWriter) knows(owner scope.Owner, words ...string) bool {
	h := maphash.String(g.seed, fmt.Sprintf("%q %q", owner, words))
	_, known := g.known[h]
	g.known[h] = struct{}{}
	return known
}

// entity gives an entity.
func (g *graphWriter) entity(at exchange.LineError, owner scope.Owner, e graph.Entity, size int) error {
	e.Owner = owner
	return g.line(at, graph.TypeEntity, graph.NewEntityLine(e), size)
}

// relation gives a relation, whose ends were given.
func (g *graphWriter) relation(at exchange.LineError, owner scope.Owner, a *products.Arc, with func(*graph.Relation), size int) error {
	g.order++
	r, err := a.Relation(g.order)
	if err != nil {
		return g.skip(at, err)
	}
	r.Owner = owner
	with(&r)
	return g.line(at, graph.TypeRelation, graph.NewRelationLine(r), size)
}

// mcpReader reads the graph of the reference memory server: the lines of its memory.jsonl, or one
// document of JSON. It reads the input three times: to find the names that are there twice, for
// the entities, and for the relations, which may name an entity that comes later.
type mcpReader struct {
	graphWriter
	twice    map[uint64]bool // hashes of names: whether there are several
	joined   map[string]*mcpEntity
	place    int64 // of the entity that was read last
	problems bool  // what cannot be read is reported now
}

// mcpEntity is an entity that has several records.
type mcpEntity struct {
	products.Node
	at               exchange.LineError
	place            int64
	created, updated time.Time
	size             int
}

func readMCP(in *Input, w *writer) error {
	r := &mcpReader{graphWriter: newGraphWriter(w), twice: map[uint64]bool{}, joined: map[string]*mcpEntity{}}
	open, err := in.again()
	if err != nil {
		return err
	}
	pass := func(visit func(at exchange.LineError, f fields, entity bool, size int) error) error {
		file, err := open()
		if err != nil {
			return err
		}
		of := &Input{Name: in.Name, Reader: bufio.NewReaderSize(ctxio.Reader(w.ctx, file), splitBuffer), looked: in.looked}
		return errors.Join(r.records(of, visit), file.Close())
	}
	err = pass(func(_ exchange.LineError, f fields, entity bool, _ int) error {
		if name, ok := f.any("name"); entity && ok {
			h := maphash.String(r.seed, name)
			_, there := r.twice[h]
			r.twice[h] = there
		}
		return nil
	})
	if err == nil {
		err = pass(r.entities)
	}
	if err == nil {
		err = r.joinedEntities()
	}
	if err != nil {
		return err
	}
	r.problems = true
	return pass(r.relations)
}

// any takes a text, or the text of another value that is not null.
func (f fields) any(key string) (string, bool) {
	raw, ok := f[key]
	if !ok || string(raw) == "null" {
		return "", false
	}
	delete(f, key)
	var s string
	if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s, true
	}
	return string(raw), true
}

// records visits the entities and relations of the input: lines, or values of a document.
func (r *mcpReader) records(in *Input, visit func(at exchange.LineError, f fields, entity bool, size int) error) error {
	of := func(at exchange.LineError, list string, raw []byte, err error) error {
		var f fields
		if err == nil {
			f, err = readFields(raw)
		}
		if err != nil {
			return r.problem(at, err)
		}
		typ, _ := f.any("type")
		switch {
		case list != "":
			typ = list
		case typ == "" && f["name"] != nil:
			typ = graph.TypeEntity
		case typ == "" && f["from"] != nil:
			typ = graph.TypeRelation
		}
		switch typ {
		case graph.TypeEntity, "entities":
			return visit(at, f, true, len(raw))
		case graph.TypeRelation, "relations":
			return visit(at, f, false, len(raw))
		case "":
			return r.problem(at, errors.New(`it has no "type"; give entity or relation`))
		}
		r.left(fmt.Sprintf("records of the type %.40q", typ), 1) // that server passes by them
		return nil
	}
	if !isLines(in) {
		return eachOf(in, r.writer, "record", []string{"entities", "relations"}, r.left, of)
	}
	lines := exchange.NewLineReader(in.Reader)
	for {
		raw, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		at := exchange.LineError{Line: lines.Line()}
		if err != nil && !errors.Is(err, exchange.ErrLongLine) {
			return fmt.Errorf("read line %d: %w", at.Line+1, err)
		}
		r.read = lines.Bytes()
		if err := of(at, "", raw, err); err != nil {
			return err
		}
	}
}

// problem reports a record that cannot be read, in the last of the passes.
func (r *mcpReader) problem(at exchange.LineError, err error) error {
	if !r.problems {
		return nil
	}
	return r.skip(at, err)
}

// left is leave, in the last of the passes.
func (r *mcpReader) left(what string, n int) {
	if r.problems {
		r.leave(what, n)
	}
}

// isLines reports whether the first line is an object of its own, and not one of lists of entities
// and relations.
func isLines(in *Input) bool {
	if l := in.layout(); len(l.under)+len(l.lists) > 0 {
		return false
	}
	head, _ := in.Reader.Peek(splitBuffer) // what there is
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	first, _, more := bytes.Cut(head, []byte("\n"))
	return len(first) > 0 && first[0] != '[' && (!more || bytes.HasSuffix(bytes.TrimSpace(first), []byte("}")))
}

// observationsOf takes the observations of an entity: null is none, and what is no text is its JSON.
func observationsOf(f fields) []string {
	raw, ok := f[graph.Observations]
	if !ok {
		return nil
	}
	delete(f, graph.Observations)
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	var all []string
	for _, o := range list {
		if text, ok := (fields{"": o}).any(""); ok {
			all = append(all, text)
		}
	}
	return all
}

// createdOf are the keys of programs that extend that server for when a record was made.
var createdOf = []string{"createdAt", "created_at"}

// timeOf reads a time that stays where it is.
func (r *mcpReader) timeOf(f fields, keys ...string) time.Time {
	for _, key := range keys {
		if v, err := decodeAny(f[key]); err == nil {
			if t, err := (scalar.Reader{Zone: r.opts.Zone}).Time(v); err == nil {
				return t
			}
		}
	}
	return time.Time{}
}

// more are the keys that are left, which become properties.
func (r *mcpReader) more(f fields) map[string]json.RawMessage {
	for key, raw := range f {
		if string(raw) == "null" {
			delete(f, key)
		} else if products.Reserved(key) {
			r.leave(key, 1)
			delete(f, key)
		}
	}
	return f
}

// entities is the pass for the entities.
func (r *mcpReader) entities(at exchange.LineError, f fields, entity bool, size int) error {
	name, ok := f.any("name")
	if !entity || !ok {
		return nil
	}
	r.place++
	e := mcpEntity{at: at, place: r.place, size: size}
	e.Name = name
	e.Type, _ = f.any("entityType")
	e.Observations = observationsOf(f)
	e.created, e.updated = r.timeOf(f, createdOf...), r.timeOf(f, "updatedAt", "updated_at", "lastUpdated", "lastModified")
	e.More = r.more(f)
	if !r.twice[maphash.String(r.seed, name)] {
		return r.node(&e)
	}
	first := r.joined[name]
	if first == nil {
		r.joined[name] = &e
		return nil
	}
	r.join(first, &e)
	return nil
}

// join adds a further record of an entity to the first one: observations and keys that it lacks.
func (r *mcpReader) join(first, e *mcpEntity) {
	r.leave("second records of an entity, joined with the first", 1)
	for _, text := range e.Observations {
		if !slices.Contains(first.Observations, text) {
			first.Observations = append(first.Observations, text)
		}
	}
	if first.Type == "" {
		first.Type = e.Type
	} else if e.Type != "" && e.Type != first.Type {
		r.leave("entityType of a second record", 1)
	}
	for key, raw := range e.More {
		if have, there := first.More[key]; !there {
			first.More[key] = raw
		} else if !bytes.Equal(have, raw) {
			r.leave(key+" of a second record", 1)
		}
	}
	if first.created.IsZero() {
		first.created = e.created
	}
	first.size += e.size
}

// joinedEntities gives the entities that have several records, in the order of the first ones.
func (r *mcpReader) joinedEntities() error {
	all := make([]*mcpEntity, 0, len(r.joined))
	for _, e := range r.joined {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *mcpEntity) int { return int(a.place - b.place) })
	for _, e := range all {
		if err := r.node(e); err != nil {
			return err
		}
	}
	return nil
}

// node gives an entity.
func (r *mcpReader) node(e *mcpEntity) error {
	out, err := e.Entity(e.place)
	if err != nil {
		return r.skip(e.at, err)
	}
	out.CreatedAt, out.UpdatedAt = e.created, e.updated
	if out.UpdatedAt.Before(out.CreatedAt) {
		out.UpdatedAt = time.Time{}
	}
	var aliases []string
	if raw, ok := e.More["aliases"]; ok && json.Unmarshal(raw, &aliases) == nil {
		out.Aliases = aliases
	}
	owner := r.scope("", "", "").Owner()
	r.knows(owner, e.Name)
	return r.entity(e.at, owner, out, e.size)
}

// relations is the pass for the relations. An end that is no entity of the input is one without a
// name: that server keeps such a relation, and shows no entity.
func (r *mcpReader) relations(at exchange.LineError, f fields, entity bool, size int) error {
	if entity {
		if f["name"] == nil || string(f["name"]) == "null" {
			return r.skip(at, errors.New("an entity has no name"))
		}
		return nil
	}
	var a products.Arc
	var from, to bool
	a.From, from = f.any("from")
	a.To, to = f.any("to")
	if !from || !to {
		return r.skip(at, errors.New(`a relation lacks "from" or "to"`))
	}
	a.Type, _ = f.any("relationType")
	owner := r.scope("", "", "").Owner()
	for _, end := range []string{a.From, a.To} {
		if !r.knows(owner, end) {
			if err := r.entity(at, owner, graph.Entity{ID: products.NodeID(end)}, 0); err != nil {
				return err
			}
		}
	}
	begins, ends, created := r.timeOf(f, "validFrom", "valid_from"), r.timeOf(f, "validTo", "valid_to"), r.timeOf(f, createdOf...)
	a.More = r.more(f)
	if !begins.IsZero() && !ends.IsZero() && !ends.After(begins) { // both stay properties
		begins, ends = time.Time{}, time.Time{}
	}
	if r.knows(owner, a.From, a.Type, a.To) {
		r.leave("relations that are there already", 1)
		return nil
	}
	return r.relation(at, owner, &a, func(to *graph.Relation) { to.ValidFrom, to.ValidTo, to.CreatedAt = begins, ends, created }, size)
}
