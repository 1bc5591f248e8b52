package graphtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Server stands in for Neo4j: it speaks the transactional endpoint and the Query API, and knows
// the statements of the adapter. A statement that it does not know is the syntax error that it
// would be there; so is a parameter that is missing.
type Server struct {
	*httptest.Server
	Authorization string // that a request must have
	Database      string
	// Fail, where it is set, answers a request in place of the server, if it returns true.
	Fail func(w http.ResponseWriter, r *http.Request, n int) bool

	t          testing.TB
	statements map[string]string // name by text

	mu       sync.Mutex
	requests int
	graph    nodes
}

// nodes is the graph.
type nodes struct {
	entities, facts map[string]map[string]string // properties by key
	links           map[[2]string]bool           // entity, fact
	relations       map[[3]string]bool           // entity, type, entity
}

// NewServer makes a server, which is empty.
func NewServer(t testing.TB, authorization string, statements map[string]string) *Server {
	t.Helper()
	s := &Server{Authorization: authorization, Database: "neo4j", t: t, statements: map[string]string{}}
	for name, text := range statements {
		s.statements[text] = name
	}
	s.graph = nodes{map[string]map[string]string{}, map[string]map[string]string{}, map[[2]string]bool{}, map[[3]string]bool{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// Requests is how many there were.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Entities are the names of all entities, of all spaces, sorted.
func (s *Server) Entities() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.graph.entities {
		names = append(names, e["name"])
	}
	slices.Sort(names)
	return names
}

// Facts is how many facts there are, of all spaces.
func (s *Server) Facts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.graph.facts)
}

// fault is an error of the server.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	n, fail := s.requests, s.Fail
	s.mu.Unlock()
	if fail != nil && fail(w, r, n) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	refuse := func(status int, code, message string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": []fault{{code, message}}})
	}
	tx, query := "/db/"+s.Database+"/tx/commit", "/db/"+s.Database+"/query/v2"
	switch {
	case r.Header.Get("Authorization") != s.Authorization:
		refuse(http.StatusUnauthorized, "Neo.ClientError.Security.Unauthorized", "Invalid credential.")
	case r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Accept") != "application/json":
		s.t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	case r.URL.Path == tx:
		s.transaction(w, r)
	case r.URL.Path == query:
		s.query(w, r, refuse)
	default:
		refuse(http.StatusNotFound, "Neo.ClientError.Database.DatabaseNotFound", "Database does not exist")
	}
}

type wireStatement struct {
	Statement  string         `json:"statement"`
	Parameters map[string]any `json:"parameters"`
	Bookmarks  []string       `json:"bookmarks"`
}

func (s *Server) transaction(w http.ResponseWriter, r *http.Request) {
	var in struct{ Statements []wireStatement }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.t.Error(err)
	}
	results, errors := []any{}, []fault{}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.graph.clone()
	for _, c := range in.Statements {
		rows, failed := s.execute(c)
		if failed != nil {
			errors = append(errors, *failed)
			s.graph = before
			break
		}
		data := []any{}
		for _, row := range rows {
			data = append(data, map[string]any{"row": row, "meta": make([]any, len(row))})
		}
		results = append(results, map[string]any{"columns": []string{}, "data": data})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results, "errors": errors, "lastBookmarks": []string{"FB:x"}})
}

func (s *Server) query(w http.ResponseWriter, r *http.Request, refuse func(int, string, string)) {
	var in wireStatement
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, failed := s.execute(in)
	if failed != nil { // the status was sent before the statement ran
		refuse(http.StatusAccepted, failed.Code, failed.Message)
		return
	}
	if rows == nil {
		rows = [][]string{}
	}
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"fields": []string{}, "values": rows}, "bookmarks": []string{fmt.Sprint("FB:", s.requests)}})
}

var parameter = regexp.MustCompile(`\$(\w+)`)

// execute runs a statement; rows are in its order.
func (s *Server) execute(c wireStatement) ([][]string, *fault) {
	name, known := s.statements[c.Statement]
	if !known {
		return nil, &fault{"Neo.ClientError.Statement.SyntaxError", "Invalid input"}
	}
	for _, m := range parameter.FindAllStringSubmatch(c.Statement, -1) {
		if _, given := c.Parameters[m[1]]; !given {
			return nil, &fault{"Neo.ClientError.Statement.ParameterMissing", "Expected parameter(s): " + m[1]}
		}
	}
	if strings.HasPrefix(name, "schema of ") {
		return nil, nil
	}
	run, ok := interpreter[name]
	if !ok {
		s.t.Errorf("the stand-in does not know how to %s", name)
		return nil, &fault{"Neo.DatabaseError.General.UnknownError", "unknown"}
	}
	rows := run(&s.graph, parameters(c.Parameters))
	if limit, ok := c.Parameters["limit"].(float64); ok && len(rows) > int(limit) {
		rows = rows[:int(limit)]
	}
	return rows, nil
}

// parameters are those of a statement, as JSON has them.
type parameters map[string]any

func (p parameters) text(name string) string { return p[name].(string) }

func (p parameters) texts(name string) (list []string) {
	for _, v := range p[name].([]any) {
		list = append(list, v.(string))
	}
	return list
}

func (p parameters) rows(name string) (list []parameters) {
	for _, v := range p[name].([]any) {
		list = append(list, v.(map[string]any))
	}
	return list
}

// selects reports whether a node is in the selection.
func (p parameters) selects(n map[string]string) bool {
	if n["space"] != p.text("space") {
		return false
	}
	all, exact := p["all"].(bool), p["exact"].(bool)
	for _, part := range []string{"user", "agent", "run"} {
		if asked := p.text(part); !all && asked != n[part] && (exact || asked != "") {
			return false
		}
	}
	return true
}

func (g *nodes) clone() nodes {
	deep := func(m map[string]map[string]string) map[string]map[string]string {
		out := map[string]map[string]string{}
		for k, v := range m {
			out[k] = maps.Clone(v)
		}
		return out
	}
	return nodes{deep(g.entities), deep(g.facts), maps.Clone(g.links), maps.Clone(g.relations)}
}

// detach deletes an entity or a fact with all that leads to it.
func (g *nodes) detach(key string) {
	delete(g.entities, key)
	delete(g.facts, key)
	maps.DeleteFunc(g.links, func(l [2]string, _ bool) bool { return l[0] == key || l[1] == key })
	maps.DeleteFunc(g.relations, func(r [3]string, _ bool) bool { return r[0] == key || r[2] == key })
}

// sorted are the rows, each once, by their columns in an order.
func sorted(rows [][]string, by ...int) [][]string {
	slices.SortFunc(rows, func(a, b []string) int {
		for _, i := range by {
			if c := strings.Compare(a[i], b[i]); c != 0 {
				return c
			}
		}
		return 0
	})
	return slices.CompactFunc(rows, slices.Equal)
}

// interpreter does what the statements of these names say.
var interpreter = map[string]func(*nodes, parameters) [][]string{
	"put entities": func(g *nodes, p parameters) [][]string {
		for _, x := range p.rows("entities") {
			n := map[string]string{"space": p.text("space"), "user": p.text("user"), "agent": p.text("agent"), "run": p.text("run")}
			for _, name := range []string{"key", "name", "words", "first", "type", "description"} {
				n[name] = x.text(name)
			}
			g.entities[n["key"]] = n
		}
		return nil
	},
	"put links": func(g *nodes, p parameters) [][]string {
		for _, x := range p.rows("links") {
			if g.entities[x.text("entity")] == nil {
				continue
			}
			g.facts[x.text("fact")] = map[string]string{"space": p.text("space"), "user": p.text("user"), "agent": p.text("agent"), "run": x.text("run"), "id": x.text("id")}
			g.links[[2]string{x.text("entity"), x.text("fact")}] = true
		}
		return nil
	},
	"put relations": func(g *nodes, p parameters) (rows [][]string) {
		for _, x := range p.rows("relations") {
			if g.entities[x.text("from")] != nil && g.entities[x.text("to")] != nil {
				g.relations[[3]string{x.text("from"), x.text("type"), x.text("to")}] = true
				rows = append(rows, []string{x.text("place")})
			}
		}
		return rows
	},
	"drop links": func(g *nodes, p parameters) [][]string {
		for _, x := range p.rows("links") {
			delete(g.links, [2]string{x.text("entity"), x.text("fact")})
		}
		return nil
	},
	"drop facts": func(g *nodes, p parameters) [][]string {
		for _, key := range p.texts("facts") {
			g.detach(key)
		}
		return nil
	},
	"drop loose entities": func(g *nodes, p parameters) [][]string {
		for _, key := range p.texts("entities") {
			told := false
			for l := range g.links {
				told = told || l[0] == key
			}
			if !told {
				g.detach(key)
			}
		}
		return nil
	},
	"drop entities of a selection": func(g *nodes, p parameters) [][]string { return drop(g, g.entities, p) },
	"drop facts of a selection":    func(g *nodes, p parameters) [][]string { return drop(g, g.facts, p) },
	"read links": func(g *nodes, p parameters) (rows [][]string) {
		facts := p.texts("facts")
		for l := range g.links {
			if slices.Contains(facts, l[1]) {
				rows = append(rows, []string{l[1], l[0], g.entities[l[0]]["name"]})
			}
		}
		return rows
	},
	"read named entities": func(g *nodes, p parameters) (rows [][]string) {
		words := p.texts("words")
		for key, n := range g.entities {
			if slices.Contains(words, n["first"]) && strings.Contains(p.text("text"), n["words"]) && p.selects(n) {
				rows = append(rows, []string{key, n["name"]})
			}
		}
		return sorted(rows, 1, 0)
	},
	"read entities beside": func(g *nodes, p parameters) (rows [][]string) {
		keys := p.texts("keys")
		for r := range g.relations {
			for _, ends := range [][2]string{{r[0], r[2]}, {r[2], r[0]}} {
				if n := g.entities[ends[1]]; slices.Contains(keys, ends[0]) && p.selects(n) {
					rows = append(rows, []string{ends[1], n["name"]})
				}
			}
		}
		return sorted(rows, 1, 0)
	},
	"read relations between": func(g *nodes, p parameters) (rows [][]string) {
		keys := p.texts("keys")
		for r := range g.relations {
			if slices.Contains(keys, r[0]) && slices.Contains(keys, r[2]) {
				rows = append(rows, []string{g.entities[r[0]]["name"], r[1], g.entities[r[2]]["name"]})
			}
		}
		return sorted(rows, 0, 1, 2)
	},
	"read facts": func(g *nodes, p parameters) (rows [][]string) {
		keys := p.texts("keys")
		for l := range g.links {
			if slices.Contains(keys, l[0]) {
				rows = append(rows, []string{g.facts[l[1]]["id"]})
			}
		}
		return sorted(rows, 0)
	},
}

// drop deletes the nodes of a selection.
func drop(g *nodes, of map[string]map[string]string, p parameters) [][]string {
	for key, n := range maps.Clone(of) {
		if p.selects(n) {
			g.detach(key)
		}
	}
	return nil
}
