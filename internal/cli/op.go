package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// help is what the help of a command says beside what its operation does.
type help struct {
	long, example string
	// group is the group of a command that is below no other.
	group string
	// open opens the database, in place of what the access of the operation asks for.
	open withDB
}

// shown is how a command shows the reply of its operation.
type shown[Q, R any] struct {
	help
	// show shows the reply to people.
	show func(q *Q, r R)
	// end is what follows, and may fail. nil: nothing.
	end func(r R) error
	// more adds the flags and the checks that the command alone has. nil: none.
	more func(cmd *cobra.Command, q *Q)
}

// opCmd is the command of an operation.
func opCmd[Q, R any](a *app, op *api.Op[Q, R], s shown[Q, R]) *cobra.Command {
	q := new(Q)
	cmd := a.operation(&op.Operation, op.Fields(), q, s.help, func(ctx context.Context, db *engine.DB) error {
		r, err := op.Run(ctx, db, q)
		switch {
		case err != nil:
			return err
		case a.json:
			err = a.printJSON(r)
		default:
			s.show(q, r)
		}
		if err == nil && s.end != nil {
			err = s.end(r)
		}
		return err
	})
	if s.more != nil {
		s.more(cmd, q)
	}
	return cmd
}

// listShown is how a command shows the items of a list: by columns.
type listShown[Q, L any] struct {
	help
	columns func(q *Q) []string
	cells   func(l L) []any
	// rows are in place of cells where an item takes several rows.
	rows func(l L) [][]any
	// line shows an item to people as it is, in place of a row.
	line func(l L)
	// cursor is what --after takes to continue behind an item. nil: it takes the cursor of the next page.
	cursor func(l L) string
}

// listCmd is the command of an operation that answers a list.
func listCmd[Q, L any](a *app, op *api.List[Q, L], s listShown[Q, L]) *cobra.Command {
	q := new(Q)
	return a.operation(&op.Operation, op.Fields(), q, s.help, func(ctx context.Context, db *engine.DB) error {
		if of, ok := any(q).(api.Shortened); ok {
			of.BriefOf().Bare = !a.json
		}
		if of, ok := any(q).(api.Tolerant); ok {
			of.LossyOf().Lost = a.unreadable.lost
		}
		var header []string
		if s.columns != nil {
			header = s.columns(q)
		}
		t := a.rows(header...)
		var last L
		found := 0
		end, err := op.Run(ctx, db, q, func(l L) error {
			found++
			last = l
			rows := [][]any{nil}
			switch {
			case s.line != nil && !a.json:
				s.line(l)
				return nil
			case a.json:
			case s.rows == nil:
				rows[0] = s.cells(l)
			default:
				rows = s.rows(l)
			}
			for _, cells := range rows {
				if err := t.add(l, cells...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := t.end(); err != nil {
			return err
		}
		if end.Next == "" {
			return a.noteLimit(end.Plan, found)
		}
		if s.cursor != nil {
			end.Next = s.cursor(last)
		}
		return a.printNext(end.Next)
	})
}

// noteLimit says what ended a query of a graph before it was through, other than its own limit. It is an
// error where the query had found nothing by then.
func (a *app) noteLimit(p graph.Plan, found int) error {
	if p.Limit == "" || p.Limit == "results" {
		return nil
	}
	after := fmt.Sprintf("at its limit of %s, after %s and %s", p.Limit,
		count(p.Nodes, "entity", "entities"), count(p.Edges, "relation", "relations"))
	if found == 0 {
		return fmt.Errorf("the query ended %s, before it found anything; raise --max-nodes or --max-edges, or ask for less", after)
	}
	a.note("there is more: the query ended %s", after)
	return nil
}

// columns are the same columns for every request.
func columns[Q any](names ...string) func(*Q) []string {
	return func(*Q) []string { return names }
}

// operation is a command that sets the fields of a request from its flags and arguments, and runs an operation on the
// database.
func (a *app) operation(op *api.Operation, fields []api.Field, q any, h help, run func(ctx context.Context, db *engine.DB) error) *cobra.Command {
	b := &binding{a: a, q: q, files: map[*api.Field]string{}}
	use := []string{op.Name[strings.LastIndexByte(op.Name, ' ')+1:]}
	for i := range fields {
		if f := &fields[i]; f.Arg != "" {
			b.args = append(b.args, f)
			use = append(use, f.Arg)
			b.words = b.words || f.Words
		}
	}
	cmd := newCmd(h.group, strings.Join(use, " "), op.Summary, h.example)
	cmd.Long = h.long
	b.cmd = cmd
	for i := range fields {
		b.bind(&fields[i])
	}
	if op.Once {
		a.requestFlag(cmd)
	}
	_, owned := q.(api.Owned)
	scoped, isScoped := q.(api.Scoped)
	if _, asking := q.(api.Asking); owned || isScoped || asking {
		markNone(cmd)
	}
	cmd.Args = b.checkArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if of, ok := q.(api.Owned); ok && op.Access == api.Creates && *of.OwnerOf() == (api.Owner{}) {
			return &memory.Error{Kind: memory.ErrScope, What: op.Doing} // before a database is made
		}
		if err := b.setArgs(args); err != nil {
			return err
		}
		if err := b.complete(fields); err != nil {
			return err
		}
		if isScoped {
			scoped.ScopeOf().Lack = lackOf(cmd)
		}
		if of, ok := q.(api.Timed); ok {
			of.MadeOf().At = a.now()
		}
		if of, ok := q.(api.Checked); ok {
			if err := of.Check(); err != nil {
				return err
			}
		}
		ctx := cmd.Context()
		if a.everyone {
			return run(ctx, nil)
		}
		on := func(db *engine.DB) error { return run(ctx, db) }
		of, trial := q.(api.Trial)
		switch {
		case h.open != nil:
			return h.open(ctx, on)
		case op.Access == api.Reads, trial && of.ReadsOnly():
			return a.read(ctx, on)
		case op.Access == api.Writes:
			return a.use(ctx, on)
		}
		return a.create(ctx, nil, on)
	}
	return cmd
}

// A binding binds the flags and arguments of a command to the fields of a request.
type binding struct {
	a    *app
	cmd  *cobra.Command
	q    any
	args []*api.Field
	// files are the names of the files that fields are read from.
	files map[*api.Field]string
	// words: the last argument takes all that are left.
	words bool
}

// bind makes the flag of a field, or completes its argument.
func (b *binding) bind(f *api.Field) {
	switch {
	case f.Arg != "" && len(f.Enum) > 0:
		b.cmd.ValidArgs, b.cmd.ValidArgsFunction = f.Enum, nil
	case f.Flag != "":
		usage := f.Help
		if f.Kind.Zoned {
			usage += " (" + timeForms + ")"
		}
		flag := b.cmd.Flags().VarPF(&fieldFlag{binding: b, f: f, text: f.Default}, f.Flag, "", usage)
		if f.Kind == api.Flag {
			flag.NoOptDefVal = "true"
		}
		if len(f.Enum) > 0 {
			complete(b.cmd, f.Flag, f.Enum...)
		}
	}
}

// complete reads files, and sets the fields whose flags are left out, or refuses to.
func (b *binding) complete(fields []api.Field) error {
	for i := range fields {
		f := &fields[i]
		switch name, is := b.files[f]; {
		case is:
			if err := b.readFile(f, name); err != nil {
				return err
			}
		case f.Flag == "" || b.cmd.Flags().Changed(f.Flag):
		case f.Required:
			return usagef(b.cmd, "give --%s", f.Flag)
		case f.Default != "":
			if err := b.set(f, f.Default); err != nil {
				return err
			}
		}
	}
	return nil
}

// readFile sets a field to what a file has.
func (b *binding) readFile(f *api.Field, name string) error {
	in, err := b.a.openInput(b.cmd.Context(), name)
	if err != nil {
		return err
	}
	defer done(in)
	return f.ReadLines(b.q, in, "read "+name)
}

// set sets a field to what was written on the command line. A file is read later.
func (b *binding) set(f *api.Field, text string) error {
	if f.Kind == api.File {
		b.files[f] = text
		return nil
	}
	read := func(r scalar.Reader) error {
		v, err := f.Kind.Read(b.cmd.Context(), r.Zone, text)
		if err != nil {
			return err
		}
		return f.Set(b.q, v)
	}
	if f.Kind.Zoned {
		return b.a.inZone(read)
	}
	return read(scalar.Reader{})
}

// A fieldFlag is the value of a flag that sets a field.
type fieldFlag struct {
	*binding
	f    *api.Field
	text string
}

// Set implements pflag.Value.
func (v *fieldFlag) Set(s string) error {
	if v.f.Kind.Once && v.text != "" {
		return errors.New("it is given twice; join the two with and")
	}
	v.text = s
	return v.set(v.f, s)
}

// String implements pflag.Value.
func (v *fieldFlag) String() string { return v.text }

// Type implements pflag.Value: it is what the value is called in the help.
func (v *fieldFlag) Type() string {
	switch {
	case v.f.Kind == api.Flag:
		return "bool"
	case v.f.Unit != "":
		return v.f.Unit
	}
	return v.f.Kind.Unit
}

// checkArgs refuses a wrong number of arguments.
func (b *binding) checkArgs(cmd *cobra.Command, args []string) error {
	least := 0
	var names []string
	for _, f := range b.args {
		if !strings.HasPrefix(f.Arg, "[") {
			least++
		}
		names = append(names, f.Arg)
	}
	if len(args) >= least && (b.words || len(args) <= len(b.args)) {
		return nil
	}
	takes := "no argument"
	if len(names) > 0 {
		takes = strings.Join(names, " and ")
	}
	return usagef(cmd, "it takes %s, and got %s", takes, count(len(args), "argument", "arguments"))
}

// setArgs sets the fields of the arguments. The value that "-" stands for is read from the input.
func (b *binding) setArgs(args []string) error {
	for i, f := range b.args[:min(len(args), len(b.args))] {
		texts, named := args[i:i+1], f.Arg+":"
		if f.Words {
			texts = args[i:]
		}
		if f.Words && !f.Repeated {
			texts = []string{strings.Join(texts, " ")}
		}
		if f.Place == api.AsBody {
			named = f.Help // not the value: it may be a secret
		}
		if f.Stdin > 0 && texts[0] == "-" {
			named = "the input"
			text, err := b.a.readBounded(b.cmd.Context(), f.Help, f.Stdin, "shorten it, or split it under several names")
			if err != nil {
				return err
			}
			texts = []string{text}
		}
		for _, text := range texts {
			if err := b.set(f, text); err != nil {
				return usagef(b.cmd, "%s %v", named, err)
			}
		}
	}
	return nil
}
