package peer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/traverse"
)

// Triple is a relation between two entities, all by number.
type Triple struct{ Head, Relation, Tail int }

// Entity is an entity of a graph.
type Entity struct {
	Number int
	Type   string
}

// Pattern is (from type) -[relation]-> (to type).
type Pattern struct {
	From     string
	Relation int
	To       string
}

// Graph is an engine that holds relations. A query reads its whole answer, to the IDs.
type Graph interface {
	// Add adds relations, in one transaction where the engine has some.
	Add(ctx context.Context, triples []Triple) error
	// Around counts the entities that are at most so many relations away, in both
	// directions or only along relations, the start included.
	Around(ctx context.Context, start, hops int, both bool) (int, error)
	// Match counts the relations that fit a pattern; ErrUnsupported where the engine has
	// no patterns.
	Match(ctx context.Context, p Pattern) (int, error)
	Close() error
}

// ErrUnsupported is returned for what an engine does not have.
var ErrUnsupported = errors.New("not supported")

// GraphOpener makes a graph of entities in a folder.
type GraphOpener struct {
	Name    string
	Missing string
	Open    func(dir string, entities []Entity) (Graph, error)
}

// Graphs are the peers of a graph: SQLite through both drivers, and an in-memory library.
func Graphs() []GraphOpener {
	return []GraphOpener{
		{Name: "sqlite-mattn", Missing: mattn.Missing, Open: func(dir string, e []Entity) (Graph, error) { return openSQLiteGraph("sqlite3", dir, e) }},
		{Name: "sqlite-modernc", Open: func(dir string, e []Entity) (Graph, error) { return openSQLiteGraph("sqlite", dir, e) }},
		{Name: "gonum", Open: openGonum},
	}
}

// sqliteGraph is two tables with an index for each way that a query goes.
type sqliteGraph struct {
	db                   *sql.DB
	insert               *sql.Stmt
	both, forward, match *sql.Stmt
}

const graphSetUp = `
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -262144;
CREATE TABLE entities (id INTEGER PRIMARY KEY, type TEXT NOT NULL);
CREATE TABLE relations (head INTEGER, relation INTEGER, tail INTEGER, PRIMARY KEY (head, relation, tail)) WITHOUT ROWID;
CREATE INDEX by_tail ON relations (tail, relation, head);
CREATE INDEX by_relation ON relations (relation, head, tail);`

const (
	graphForward = `
WITH RECURSIVE walk(id, depth) AS (
  SELECT id, 0 FROM entities WHERE id = ?1
  UNION SELECT r.tail, depth + 1 FROM walk JOIN relations r ON r.head = walk.id WHERE depth < ?2
) SELECT DISTINCT id FROM walk`
	graphBoth = `
WITH RECURSIVE walk(id, depth) AS (
  SELECT id, 0 FROM entities WHERE id = ?1
  UNION SELECT r.tail, depth + 1 FROM walk JOIN relations r ON r.head = walk.id WHERE depth < ?2
  UNION SELECT r.head, depth + 1 FROM walk JOIN relations r ON r.tail = walk.id WHERE depth < ?2
) SELECT DISTINCT id FROM walk`
	graphMatch = `
SELECT r.head, r.tail FROM relations r
JOIN entities f ON f.id = r.head JOIN entities t ON t.id = r.tail
WHERE r.relation = ?1 AND f.type = ?2 AND t.type = ?3`
)

func openSQLiteGraph(driver, dir string, entities []Entity) (Graph, error) {
	db, err := openDriver(driver, filepath.Join(dir, "graph.db"))
	if err != nil {
		return nil, err
	}
	s := &sqliteGraph{db: db}
	if err := s.prepare(entities); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %w", err), s.Close())
	}
	return s, nil
}

func (s *sqliteGraph) prepare(entities []Entity) error {
	if _, err := s.db.Exec(graphSetUp); err != nil {
		return err
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	for _, e := range entities {
		if _, err := tx.Exec("INSERT INTO entities VALUES (?, ?)", e.Number, e.Type); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for _, p := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&s.insert, "INSERT INTO relations VALUES (?, ?, ?) ON CONFLICT DO NOTHING"},
		{&s.both, graphBoth},
		{&s.forward, graphForward},
		{&s.match, graphMatch},
	} {
		if *p.to, err = s.db.Prepare(p.sql); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteGraph) Add(ctx context.Context, triples []Triple) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	insert := tx.StmtContext(ctx, s.insert)
	for _, t := range triples {
		if _, err := insert.ExecContext(ctx, t.Head, t.Relation, t.Tail); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s *sqliteGraph) Around(ctx context.Context, start, hops int, both bool) (int, error) {
	query := s.forward
	if both {
		query = s.both
	}
	rows, err := query.QueryContext(ctx, start, hops)
	if err != nil {
		return 0, err
	}
	var id int
	return count(rows, &id)
}

func (s *sqliteGraph) Match(ctx context.Context, p Pattern) (int, error) {
	rows, err := s.match.QueryContext(ctx, p.Relation, p.From, p.To)
	if err != nil {
		return 0, err
	}
	var from, to int
	return count(rows, &from, &to)
}

// count reads all rows.
func count(rows *sql.Rows, into ...any) (n int, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return 0, err
		}
		n++
	}
	return n, rows.Err()
}

func (s *sqliteGraph) Close() error { return s.db.Close() }

// gonumGraph is a graph of gonum (BSD-3-Clause) without types: parallel relations are one
// edge. It has the edges in both directions, once each way and once as they are.
type gonumGraph struct {
	both    *simple.UndirectedGraph
	forward *simple.DirectedGraph
}

func openGonum(_ string, entities []Entity) (Graph, error) {
	g := &gonumGraph{simple.NewUndirectedGraph(), simple.NewDirectedGraph()}
	for _, e := range entities {
		g.both.AddNode(simple.Node(e.Number))
		g.forward.AddNode(simple.Node(e.Number))
	}
	return g, nil
}

func (g *gonumGraph) Add(_ context.Context, triples []Triple) error {
	for _, t := range triples {
		if t.Head == t.Tail {
			continue // its graphs have no loops, and a loop leads nowhere
		}
		e := simple.Edge{F: simple.Node(t.Head), T: simple.Node(t.Tail)}
		g.both.SetEdge(e)
		g.forward.SetEdge(e)
	}
	return nil
}

func (g *gonumGraph) Around(_ context.Context, start, hops int, both bool) (n int, err error) {
	walk := traverse.BreadthFirst{}
	until := func(_ graph.Node, depth int) bool {
		if depth > hops {
			return true
		}
		n++
		return false
	}
	if both {
		walk.Walk(g.both, simple.Node(start), until)
	} else {
		walk.Walk(g.forward, simple.Node(start), until)
	}
	return n, nil
}

func (*gonumGraph) Match(context.Context, Pattern) (int, error) { return 0, ErrUnsupported }

func (*gonumGraph) Close() error { return nil }
