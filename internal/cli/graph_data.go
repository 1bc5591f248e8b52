package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/move"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const graphImportExample = `
memdbctl graph import triples.tsv --format tsv --agent a
memdbctl graph import graph.jsonl --agent a`

func (a *app) graphImportCmd() *cobra.Command {
	cmd := newCmd("", "import FILE | import -", "Add the entities and relations of a file", graphImportExample)
	cmd.Long = `Add the entities and relations of a file to an owner's graph. Lines of tsv are head,
relation and tail with tabs between; heads and tails that are not there become entities.
Lines of jsonl are those of export: of type entity or relation, whoever owned them. Lines that
cannot be read, or that have a key which is not known, are skipped and counted, and the exit
code is then 1. The memory.jsonl of the Model Context Protocol's memory server is read as by
import --format mcp; an entity that is there with other observations is skipped, unless
--upsert is given.`
	cmd.Args = exactly(1, "one file, or - for the input")
	cmd.ValidArgsFunction = nil // a file
	var owner memory.Owner
	var format string
	var upsert bool
	ownerFlags(cmd, &owner)
	cmd.Flags().StringVar(&format, "format", "", "tsv or jsonl (default by the file's name)")
	cmd.Flags().BoolVar(&upsert, "upsert", false, "of a memory.jsonl: update entities and relations that differ")
	complete(cmd, "format", "tsv", "jsonl")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if format == "" {
			format = "jsonl"
			if strings.HasSuffix(args[0], ".tsv") {
				format = "tsv"
			}
		}
		if format != "tsv" && format != "jsonl" {
			return usagef(cmd, "--format %q: there are tsv and jsonl", format)
		}
		if err := checkOwner("import a graph", owner); err != nil {
			return err
		}
		ctx := cmd.Context()
		in, err := a.openMove(ctx, args[0], formatJSONL)
		if err != nil {
			return err
		}
		defer done(in)
		kind, _, err := move.Recognise(ctx, &in.Input)
		if err != nil {
			return inputError(args[0], err)
		}
		return a.create(ctx, nil, func(db *engine.DB) error {
			im := &graphImport{app: a, ctx: ctx, db: db, owner: owner, tsv: format == "tsv"}
			if kind == move.MCP && !im.tsv {
				return im.memoryServer(&in.Input, upsert)
			}
			return im.run(in.Reader, args[0])
		})
	}
	return cmd
}

// checkOwner refuses a call without an owner, before a database is made.
func checkOwner(doing string, o memory.Owner) error {
	if o == (memory.Owner{}) {
		return &memory.Error{Kind: memory.ErrScope, What: doing}
	}
	return nil
}

// graphImport is an import in progress.
type graphImport struct {
	*app
	ctx    context.Context
	db     *engine.DB
	owner  memory.Owner
	tsv    bool
	batch  graph.Batch
	size   int
	report graphReport
	first  error // why the first line was skipped
}

type graphReport struct {
	Read      int             `json:"read"`
	Entities  int             `json:"entities"`
	Relations int             `json:"relations"`
	Skipped   int             `json:"skipped"`
	LeftOut   exchange.Counts `json:"left_out"`
	Seconds   float64         `json:"seconds"`
}

// memoryServer imports the graph of the reference memory server, as the verb import does.
func (im *graphImport) memoryServer(in *move.Input, upsert bool) error {
	start := im.now()
	o := exchange.Options{Scope: im.owner.Scope(), Upsert: upsert}
	items := move.Read(move.MCP, in, &move.Options{Into: o})
	r, err := exchange.ImportItems(im.ctx, im.db, items.All(im.ctx), &o)
	im.report = graphReport{Read: r.Read, Entities: r.Imported[graph.TypeEntity], Relations: r.Imported[graph.TypeRelation], Skipped: r.Skipped, LeftOut: items.LeftOut()}
	if len(r.Errors) > 0 {
		im.first = r.Errors[0]
	}
	if err != nil {
		return inputError(in.Name, err)
	}
	return im.done(start)
}

// The size of a batch of an import: of lines, and of their bytes.
const (
	importLines = 20_000
	importBytes = 8 << 20
)

func (im *graphImport) run(in io.Reader, name string) error {
	start := im.now()
	bar := &progress{app: im.app}
	lines := exchange.NewLineReader(in)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			im.report.Read++
			im.add(line, im.report.Read)
			bar.say("%s: %s read", name, count(im.report.Read, "line", "lines"))
			if im.size += len(line); len(im.batch.Relations)+len(im.batch.Entities) >= importLines || im.size >= importBytes {
				err = im.flush()
			}
		}
		if err != nil {
			return inputError(name, err)
		}
	}
	err := im.flush()
	bar.clear()
	if err != nil {
		return err
	}
	return im.done(start)
}

// done reports what the import did.
func (im *graphImport) done(start time.Time) error {
	im.report.Seconds = im.took(start)
	if im.report.LeftOut == nil {
		im.report.LeftOut = exchange.Counts{}
	}
	if im.json {
		if err := im.printJSON(im.report); err != nil {
			return err
		}
	} else {
		im.printf("read %s: %s and %s\n", count(im.report.Read, "line", "lines"),
			count(im.report.Entities, "new entity", "new entities"), count(im.report.Relations, "new relation", "new relations"))
		im.printCounts("left out", im.report.LeftOut)
	}
	if im.report.Skipped > 0 {
		return fmt.Errorf("%s skipped, the first because of this: %w", count(im.report.Skipped, "line was", "lines were"), im.first)
	}
	return nil
}

// add adds a line to the batch.
func (im *graphImport) add(line []byte, n int) {
	var err error
	if im.tsv {
		err = im.addTriple(string(line))
	} else {
		err = im.addLine(line)
	}
	if err != nil {
		im.skip(1, fmt.Errorf("line %d: %w", n, err))
	}
}

func (im *graphImport) skip(n int, why error) {
	im.report.Skipped += n
	if im.first == nil {
		im.first = why
	}
}

func (im *graphImport) addTriple(line string) error {
	f := strings.Split(line, "\t")
	if len(f) != 3 {
		return fmt.Errorf("it has %s, and a triple has three", count(len(f), "field", "fields"))
	}
	r := graph.Relation{From: f[0], Type: f[1], To: f[2]}
	if err := r.Check(); err != nil {
		return err
	}
	im.batch.Relations = append(im.batch.Relations, r)
	return nil
}

func (im *graphImport) addLine(line []byte) error {
	var of struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &of); err != nil {
		return err
	}
	switch of.Type {
	case graph.TypeEntity:
		var l graph.FoundLine // as an export has it, or a query
		if err := exchange.DecodeStrict(line, &l); err != nil {
			return err
		}
		return im.addEntity(l.Entity())
	case graph.TypeRelation:
		var l graph.RelationLine
		if err := exchange.DecodeStrict(line, &l); err != nil {
			return err
		}
		if !l.SupersededAt.IsZero() {
			return errors.New("the relation is superseded; the verb import keeps such versions")
		}
		return im.addRelation(graph.Relation{
			ID: l.ID, From: l.From, Type: l.Relation, To: l.To, Properties: l.Properties,
			ValidFrom: l.ValidFrom.Time, ValidTo: l.ValidTo.Time, CreatedAt: l.CreatedAt.Time,
		})
	default:
		return fmt.Errorf("its type is %q, not entity or relation", of.Type)
	}
}

// addEntity adds an entity to the batch, with relations from it.
func (im *graphImport) addEntity(e graph.Entity, edges []graph.Edge) error {
	if e.ID == "" {
		return errors.New("an entity has no id")
	}
	if err := e.Check(); err != nil {
		return err
	}
	var relations []graph.Relation
	for _, edge := range edges {
		r := graph.Relation{ID: edge.ID, From: e.ID, Type: edge.Type, To: edge.Target, Properties: edge.Properties, ValidFrom: edge.ValidFrom, ValidTo: edge.ValidTo}
		if err := r.Check(); err != nil {
			return err
		}
		relations = append(relations, r)
	}
	e.Extracted = false // the file is the reason for it, and brings no memories
	im.batch.Entities = append(im.batch.Entities, e)
	im.batch.Relations = append(im.batch.Relations, relations...)
	return nil
}

// addRelation adds a relation to the batch.
func (im *graphImport) addRelation(r graph.Relation) error {
	if err := r.Check(); err != nil {
		return err
	}
	im.batch.Relations = append(im.batch.Relations, r)
	return nil
}

// flush writes the batch. Where it is refused, its lines are written one by one, so that
// only those are skipped that are to blame.
func (im *graphImport) flush() error {
	b := im.batch
	im.batch, im.size = graph.Batch{}, 0
	if len(b.Entities)+len(b.Relations) == 0 {
		return nil
	}
	err := im.write(b)
	if !errors.Is(err, memory.ErrInvalid) && !errors.Is(err, memory.ErrExists) {
		return err
	}
	for _, e := range b.Entities {
		if err := im.write(graph.Batch{Entities: []graph.Entity{e}}); err != nil {
			im.skip(1, err)
		}
	}
	for _, r := range b.Relations {
		if err := im.write(graph.Batch{Relations: []graph.Relation{r}}); err != nil {
			im.skip(1, err)
		}
	}
	return im.ctx.Err()
}

func (im *graphImport) write(b graph.Batch) error {
	w, err := im.db.Graph().Write(im.ctx, im.owner, b, &graph.Options{Create: im.tsv})
	if err != nil {
		return err
	}
	im.report.Entities += w.NewEntities
	for _, r := range w.Relations {
		if r.Created {
			im.report.Relations++
		}
	}
	return nil
}

const graphExportExample = `
memdbctl graph export --format dot --agent a > graph.dot`

func (a *app) graphExportCmd() *cobra.Command {
	op, q := api.GraphExport, new(api.GraphExportRequest)
	return a.operation(&op.Operation, op.Fields(), q, help{example: graphExportExample, asks: true}, func(ctx context.Context, c *caller) error {
		_, err := runStream(ctx, c, op, q, a.stdout)
		return err
	})
}
