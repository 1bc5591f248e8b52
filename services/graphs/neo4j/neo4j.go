// Package neo4j keeps the graph of a memory of facts in Neo4j, over HTTP: by the transactional
// endpoint of Neo4j 4.4 to 5, or by the Query API of 5.19 and later, which Aura has alone.
//
// # Model
//
// An entity is a node MemdbEntity, a fact a node MemdbFact with its ID and no text, a link a
// relationship MEMDB_TOLD_BY from entity to fact, and a relation a relationship MEMDB_RELATION
// whose type is a property. Each node has the space of the memory of facts and the user, agent
// and run that it belongs to; every statement names them, or the keys of nodes, which follow
// from them. Statements are constants, and what people and models have written goes into
// parameters alone, so that no text can become a part of a statement or of a label. Nodes of
// others, and of other spaces, are never touched.
package neo4j

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/graphs"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
)

// Variables of the environment, for whoever makes a Config of them.
const (
	URLVariable      = "NEO4J_URL"
	UserVariable     = "NEO4J_USER"
	PasswordVariable = "NEO4J_PASSWORD"
)

// The defaults of a Config.
const (
	DefaultDatabase = "neo4j"
	DefaultUser     = "neo4j"
	DefaultSpace    = "memdb"
	DefaultTimeout  = 30 * time.Second
	// maxName bounds names of databases and spaces, in bytes.
	maxName = 63
)

// API is one of the two interfaces over HTTP.
type API string

// The interfaces.
const (
	// Transactions is /db/{name}/tx/commit: the statements of a call are one transaction.
	Transactions API = "tx"
	// QueryV2 is /db/{name}/query/v2: each statement is a transaction, in an order in which any
	// beginning is sound, and the same call again completes it.
	QueryV2 API = "query"
)

// Config says where Neo4j is.
type Config struct {
	// URL is http://host:7474 or https://host. That of a driver is taken, too: bolt and neo4j
	// become http with the port 7474 for 7687, bolt+s and neo4j+s https with 7473, or without a
	// port for Aura.
	URL string
	// Database is "neo4j" if it is empty.
	Database string
	// Username and Password are for basic authentication; an empty name is "neo4j". Token is a
	// bearer token in their place.
	Username, Password, Token string
	// KeyHint says where Password or Token comes from, for errors.
	KeyHint string
	// Space tells memories of facts apart that share a database; empty: "memdb".
	Space string
	// API is Transactions if it is empty, and QueryV2 where URL is one of Aura.
	API API
	// Retry and Timeout are of each call; a Timeout of 0 is 30 s.
	Retry   retry.Policy
	Timeout time.Duration
	// Client makes the calls; nil: one with pooled connections.
	Client *http.Client
}

// Store is a graphs.Store in Neo4j. It is safe for concurrent use.
type Store struct {
	Config
	service *httpjson.Service

	prepared struct {
		sync.Mutex
		done bool
	}
	bookmarks struct {
		sync.Mutex
		last []string // of the newest change by the Query API, for servers that are several
	}
}

// Format prints where the store is, whatever the verb, and no password.
func (s *Store) Format(f fmt.State, verb rune) { s.service.Format(f, verb) }

const doingSetUp = "set up neo4j"

// New makes a Store. ErrInvalid where the configuration is not valid. Nothing is called.
func New(c Config) (*Store, error) {
	base, aura, err := address(c.URL)
	if err != nil {
		return nil, err
	}
	c.Database, c.Space = cmp.Or(c.Database, DefaultDatabase), cmp.Or(c.Space, DefaultSpace)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.KeyHint = cmp.Or(c.KeyHint, PasswordVariable)
	if c.API == "" {
		if c.API = Transactions; aura {
			c.API = QueryV2
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	authorization, secret := "Bearer "+c.Token, c.Token
	if c.Token == "" {
		pair := base64.StdEncoding.EncodeToString([]byte(cmp.Or(c.Username, DefaultUser) + ":" + c.Password))
		authorization, secret = "Basic "+pair, c.Password
		if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
			secret = pair // which is what is sent
		}
	}
	service, err := httpjson.New(httpjson.Config{
		Provider: "neo4j", Kind: graphs.ErrGraph, BaseURL: base, Key: secret, KeyHint: c.KeyHint, Client: c.Client,
		Header: http.Header{"Authorization": {authorization}},
		Terms:  strings.NewReplacer("model and base_url", "url and database", "base_url", "url", "model", "statement"),
	})
	if err != nil {
		return nil, err
	}
	return &Store{Config: c, service: service}, nil
}

func (c *Config) check() error {
	if err := c.Retry.Check(doingSetUp); err != nil {
		return err
	}
	switch {
	case c.Token != "" && c.Password != "":
		return fault.Invalid(doingSetUp, "both a password and a token are given", "leave one out")
	case c.Token == "" && c.Password == "":
		return fault.Invalid(doingSetUp, "there is no password", "set "+c.KeyHint+", or give password or token")
	case c.API != Transactions && c.API != QueryV2:
		return fault.Invalid(doingSetUp, fmt.Sprintf("the interface is %.40q", string(c.API)), fmt.Sprintf("give api as %s or %s", Transactions, QueryV2))
	case c.Timeout < 0:
		return fault.Invalid(doingSetUp, "the timeout is negative", "give a positive one, or 0 for the default")
	case strings.Contains(c.Username, ":"):
		return fault.Invalid(doingSetUp, "the user name has a colon, which basic authentication cannot carry", "give another user, or a token")
	}
	for what, name := range map[string]string{"database": c.Database, "space": c.Space} {
		odd := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
		}
		if len(name) > maxName || strings.Trim(name, ".") == "" || strings.ContainsFunc(name, odd) {
			return fault.Invalid(doingSetUp, fmt.Sprintf("the %s is %.80q", what, name), fmt.Sprintf("give letters, digits and . _ -, at most %d", maxName))
		}
	}
	return nil
}

// auraHost ends the names of hosts at Aura, which answer at the port of HTTPS.
const auraHost = ".databases.neo4j.io"

// address is the URL of HTTP that belongs to one of a driver, or a URL of HTTP as it is.
func address(given string) (base string, aura bool, err error) {
	bad := func(why string) error {
		return fault.Invalid(doingSetUp, why, "give url as http://host:7474 or bolt://host:7687")
	}
	if given == "" {
		return "", false, fault.Invalid(doingSetUp, "there is no URL", "set "+URLVariable+", or give url as http://host:7474")
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" {
		return "", false, bad("its URL is none")
	}
	aura = strings.HasSuffix(u.Hostname(), auraHost)
	if u.Scheme == "http" || u.Scheme == "https" {
		return given, aura, nil
	}
	kind, security, _ := strings.Cut(u.Scheme, "+")
	if kind != "bolt" && kind != "neo4j" || security != "" && security != "s" && security != "ssc" {
		return "", false, bad(fmt.Sprintf("there is no way to a URL of %.20s", u.Scheme))
	}
	if u.Port() != "" && u.Port() != "7687" {
		return "", false, bad("its URL is one of Bolt with a port of its own, and memdb speaks HTTP")
	}
	if u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return "", false, bad("its URL has a user, a path or a query")
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	switch {
	case aura:
		return "https://" + host, true, nil
	case security != "":
		return "https://" + host + ":7473", false, nil
	}
	return "http://" + host + ":7474", false, nil
}

// keyOf is the key of an entity: its space, owner, run and name.
func (s *Store) keyOf(user, agent, run, name string) string {
	return graphs.Key(fmt.Sprintf("%q %q %q %q", s.Space, user, agent, run), name)
}

// factKey is the key of a fact: its space, owner and ID, in which case counts.
func (s *Store) factKey(f *graphs.Fact) string {
	return graphs.Key(fmt.Sprintf("%q %q %q %q", s.Space, f.Scope.User, f.Scope.Agent, f.ID), "")
}

// Apply makes a change.
func (s *Store) Apply(ctx context.Context, c graphs.Change) (done graphs.Applied, err error) {
	if err := s.prepare(ctx); err != nil {
		return done, err
	}
	calls, err := s.unlinking(ctx, &c)
	if err != nil {
		return done, err
	}
	puts := -1 // where the relations are among the calls
	if len(c.Entities) > 0 && len(c.Told) > 0 {
		calls = append(calls, s.putting(&c)...)
		puts = len(calls) - 1
	}
	if len(calls) == 0 {
		return done, nil
	}
	replies, err := s.run(ctx, calls...)
	if err != nil || puts < 0 {
		return done, err
	}
	taken := map[string]bool{}
	for _, row := range replies[puts] {
		taken[row[0]] = true
	}
	for i, r := range c.Relations {
		if taken[fmt.Sprint(i)] {
			done.Taken = append(done.Taken, r)
		} else {
			done.Lost = append(done.Lost, r)
		}
	}
	return done, nil
}

// putting are the calls that put entities, their links and relations, in this order.
func (s *Store) putting(c *graphs.Change) []call {
	user, agent, run := c.Scope.User, c.Scope.Agent, c.Scope.Run
	entities, links, relations := []any{}, []any{}, []any{}
	for _, e := range c.Entities {
		key, words := s.keyOf(user, agent, run, e.Name), graphs.Words(e.Name)
		first := ""
		if len(words) > 0 {
			first = words[0]
		}
		entities = append(entities, map[string]any{
			"key": key, "name": e.Name, "words": graphs.Spaced(e.Name), "first": first, "type": e.Type, "description": e.Description,
		})
		for _, f := range graphs.About(e.Name, c.Told) {
			links = append(links, map[string]any{"entity": key, "fact": s.factKey(&f), "id": f.ID, "run": f.Scope.Run})
		}
	}
	for i, r := range c.Relations {
		relations = append(relations, map[string]any{
			"from": s.keyOf(user, agent, run, r.Source), "to": s.keyOf(user, agent, run, r.Target), "type": r.Relation, "place": fmt.Sprint(i),
		})
	}
	within := func(list []any, name string) map[string]any {
		return map[string]any{"space": s.Space, "user": user, "agent": agent, "run": run, name: list}
	}
	return []call{
		{putEntities, within(entities, "entities")},
		{putLinks, within(links, "links")},
		{putRelations, map[string]any{"relations": relations}},
	}
}

// unlinking are the calls that take off what facts no longer tell. It asks what they are linked
// to first.
func (s *Store) unlinking(ctx context.Context, c *graphs.Change) ([]call, error) {
	facts, gone := map[string]*graphs.Fact{}, []any{}
	keys := []any{}
	for i := range c.Retold {
		f := &c.Retold[i]
		key := s.factKey(f)
		if facts[key] == nil {
			keys = append(keys, key)
		}
		facts[key] = f
	}
	for i := range c.Gone {
		key := s.factKey(&c.Gone[i])
		if facts[key] == nil {
			keys = append(keys, key)
		}
		facts[key] = nil // all its links go
		gone = append(gone, key)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	linked, err := s.run(ctx, call{readLinks, map[string]any{"facts": keys}})
	if err != nil {
		return nil, err
	}
	links, loose := []any{}, []any{}
	for _, row := range linked[0] {
		fact, entity, name := row[0], row[1], row[2]
		if f := facts[fact]; f == nil || graphs.LeftBehind(f, name) {
			links = append(links, map[string]any{"entity": entity, "fact": fact})
			loose = append(loose, entity)
		}
	}
	return []call{
		{dropLinks, map[string]any{"links": links}},
		{dropFacts, map[string]any{"facts": gone}},
		{dropLoose, map[string]any{"entities": loose}},
	}, nil
}

// Delete deletes a part of the space.
func (s *Store) Delete(ctx context.Context, sel graphs.Selection) error {
	p := s.selection(sel)
	_, err := s.run(ctx, call{dropEntities, p}, call{dropFactsOf, p})
	return err
}

func (s *Store) selection(sel graphs.Selection) map[string]any {
	return map[string]any{
		"space": s.Space, "all": sel.All, "exact": sel.Exact,
		"user": sel.Scope.User, "agent": sel.Scope.Agent, "run": sel.Scope.Run,
	}
}

// Around finds what lies around the names of a text.
func (s *Store) Around(ctx context.Context, sel graphs.Selection, text string) (near graphs.Near, err error) {
	words := graphs.QueryWords(text)
	if len(words) == 0 {
		return near, nil
	}
	p := s.selection(sel)
	p["words"], p["text"], p["limit"] = words, graphs.Spaced(text), graphs.MaxReached
	named, err := s.run(ctx, call{readNamed, p})
	if err != nil || len(named[0]) == 0 {
		return near, err
	}
	keys, seen := []any{}, map[string]bool{}
	add := func(rows [][]string) {
		for _, row := range rows {
			if !seen[row[0]] && len(keys) < graphs.MaxReached {
				seen[row[0]] = true
				keys, near.Names = append(keys, row[0]), append(near.Names, row[1])
			}
		}
	}
	add(named[0])
	p = s.selection(sel)
	p["keys"], p["limit"] = keys, graphs.MaxReached
	beside, err := s.run(ctx, call{readBeside, p})
	if err != nil {
		return graphs.Near{}, err
	}
	add(beside[0])
	p = map[string]any{"keys": keys, "limit": graphs.MaxReached}
	rest, err := s.run(ctx, call{readBetween, p}, call{readFacts, p})
	if err != nil {
		return graphs.Near{}, err
	}
	for _, row := range rest[0] {
		near.Relations = append(near.Relations, graphs.Relation{Source: row[0], Relation: row[1], Target: row[2]})
	}
	for _, row := range rest[1] {
		near.Facts = append(near.Facts, row[0])
	}
	return near, nil
}
