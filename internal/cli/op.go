package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/api/client"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
)

// help is what the help of a command says beside what its operation does.
type help struct {
	long, example string
	// group is the group of a command that is below no other.
	group string
	// open opens the database, in place of what the access of the operation asks for.
	open withDB
	// asks: another program that has the database is asked by the request, which has all that the operation needs.
	asks bool
}

// shown is how a command shows the reply of its operation.
type shown[Q, R any] struct {
	help
	// show shows the reply to people.
	show func(q *Q, r R)
	// refuse is the error that a reply is for a command. nil: none.
	refuse func(q *Q, r R) error
	// end is what follows, and may fail. nil: nothing.
	end func(r R) error
	// more adds the flags and the checks that the command alone has. nil: none.
	more func(cmd *cobra.Command, q *Q)
}

// opCmd is the command of an operation.
func opCmd[Q, R any](a *app, op *api.Op[Q, R], s shown[Q, R]) *cobra.Command {
	q := new(Q)
	s.asks = isWhole(op.Fields(), q, s.open)
	cmd := a.operation(&op.Operation, op.Fields(), q, s.help, func(ctx context.Context, c *caller) error {
		r, err := runOp(ctx, c, op, q)
		if err == nil && s.refuse != nil {
			err = s.refuse(q, r)
		}
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
	s.asks = isWhole(op.Fields(), q, s.open)
	return a.operation(&op.Operation, op.Fields(), q, s.help, func(ctx context.Context, c *caller) error {
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
		end, err := runList(ctx, c, op, q, func(l L) error {
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
		if api.IsLimited(err) {
			return &exitError{exitFailed, err} // the command line is right
		}
		if err != nil {
			return err
		}
		if err := t.end(); err != nil {
			return err
		}
		if end.Next == "" {
			return a.noteLimit(&end, found)
		}
		if s.cursor != nil {
			end.Next = s.cursor(last)
		}
		return a.printNext(end.Next)
	})
}

// noteLimit says what ended a query of a graph before it was through, other than its own limit. It is an
// error where the query had found nothing by then.
func (a *app) noteLimit(e *api.End, found int) error {
	of := api.ListEnd{Count: found}
	if err := e.Limited(&of); err != nil {
		return &exitError{exitFailed, err}
	}
	if of.Limit == "" || of.Limit == "results" {
		return nil
	}
	a.note("there is more: the query ended at its limit of %s, after %s and %s", of.Limit,
		count(of.Entities, "entity", "entities"), count(of.Relations, "relation", "relations"))
	return nil
}

// columns are the same columns for every request.
func columns[Q any](names ...string) func(*Q) []string {
	return func(*Q) []string { return names }
}

// operation is a command that sets the fields of a request from its flags and arguments, and runs an operation on the
// database.
func (a *app) operation(op *api.Operation, fields []api.Field, q any, h help, run func(ctx context.Context, c *caller) error) *cobra.Command {
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
	if h.asks {
		cmd.Annotations = map[string]string{askable: "yes"}
	}
	b.cmd = cmd
	for i := range fields {
		b.bind(&fields[i])
	}
	if op.Once {
		a.requestFlag(cmd)
	}
	_, owned := q.(api.Owned)
	_, scoped := q.(api.Scoped)
	if _, asking := q.(api.Asking); owned || scoped || asking {
		markNone(cmd)
	}
	cmd.Args = b.checkArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var server *client.Client
		if a.asks(cmd) {
			var err error
			if server, err = a.server(cmd.Context()); err != nil {
				return err
			}
		}
		if err := b.request(op, fields, args, server != nil); err != nil {
			return err
		}
		if of, ok := q.(api.Checked); ok {
			if err := of.Check(); err != nil {
				return named(err, fields)
			}
		}
		if server != nil {
			return named(a.ask(cmd.Context(), op, server, run), fields)
		}
		return named(b.onDatabase(op, h.open, run), fields)
	}
	return cmd
}

// request sets the request from the command line. asked: another program is asked, which knows whether it names an owner.
func (b *binding) request(op *api.Operation, fields []api.Field, args []string, asked bool) error {
	if of, ok := b.q.(api.Owned); ok {
		if _, many := b.q.(api.OwnedByMany); !many {
			if !asked && *of.OwnerOf() == (api.Owner{}) {
				return noOwner(op) // before a database is made
			}
			setNone(b.cmd, of.OwnerOf())
		}
	}
	if err := b.setArgs(args); err != nil {
		return err
	}
	if err := b.complete(fields); err != nil {
		return err
	}
	if of, ok := b.q.(api.Scoped); ok {
		of.ScopeOf().Lack = lackOf(b.cmd)
	}
	if of, ok := b.q.(api.Timed); ok {
		of.MadeOf().At = b.a.now()
	}
	return nil
}

// onDatabase runs an operation on the database that this process opens, or has open.
func (b *binding) onDatabase(op *api.Operation, open withDB, run func(ctx context.Context, c *caller) error) error {
	a, ctx := b.a, b.cmd.Context()
	on := func(db *engine.DB) error { return run(ctx, &caller{a: a, op: op, db: db}) }
	of, trial := b.q.(api.Trial)
	switch {
	case a.everyone:
		return on(nil)
	case open != nil:
		return open(ctx, on)
	case op.Access == api.Reads, trial && of.ReadsOnly():
		return a.read(ctx, on)
	case op.Access == api.Writes:
		return a.use(ctx, on)
	}
	return a.create(ctx, nil, on)
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
