package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// help is what the help of a command says beside what its operation does.
type help struct{ long, example string }

// shown is how a command shows the reply of its operation.
type shown[Q, R any] struct {
	help
	// print shows the reply to people.
	print func(q *Q, r R)
	// fail changes an error of the operation, and end fails for a reply. nil: neither does.
	fail func(q *Q, err error) error
	end  func(r R) error
}

// opCmd is the command of an operation.
func opCmd[Q, R any](a *app, op *api.Op[Q, R], s shown[Q, R]) *cobra.Command {
	q := new(Q)
	return a.operation(&op.Operation, op.Fields(), q, s.help, func(ctx context.Context, db *engine.DB) error {
		r, err := op.Run(ctx, db, q)
		switch {
		case err != nil && s.fail != nil:
			return s.fail(q, err)
		case err != nil:
			return err
		case a.json:
			err = a.printJSON(r)
		default:
			s.print(q, r)
		}
		if err == nil && s.end != nil {
			err = s.end(r)
		}
		return err
	})
}

// listShown is how a command shows the items of a list: by columns.
type listShown[Q, L any] struct {
	help
	columns func(q *Q) []string
	cells   func(l L) []any
	// cursor is what --after takes to continue behind an item. nil: the list has one page.
	cursor func(l L) string
}

// listCmd is the command of an operation that answers a list.
func listCmd[Q, L any](a *app, op *api.List[Q, L], s listShown[Q, L]) *cobra.Command {
	q := new(Q)
	return a.operation(&op.Operation, op.Fields(), q, s.help, func(ctx context.Context, db *engine.DB) error {
		t := a.rows(s.columns(q)...)
		after := ""
		next, err := op.Run(ctx, db, q, func(l L) error {
			if s.cursor != nil {
				after = s.cursor(l)
			}
			return t.add(l, s.cells(l)...)
		})
		if err != nil {
			return err
		}
		if err := t.end(); err != nil || next == "" {
			return err
		}
		return a.printNext(after)
	})
}

// columns are the same columns for every request.
func columns[Q any](names ...string) func(*Q) []string {
	return func(*Q) []string { return names }
}

// operation is a command that sets the fields of a request from its flags and arguments, and runs an operation on the
// database.
func (a *app) operation(op *api.Operation, fields []api.Field, q any, h help, run func(ctx context.Context, db *engine.DB) error) *cobra.Command {
	b := &binding{a: a, q: q}
	use := op.Name[strings.LastIndexByte(op.Name, ' ')+1:]
	for i := range fields {
		if f := &fields[i]; f.Arg != "" {
			b.args = append(b.args, f)
			use += " " + f.Arg
		}
	}
	cmd := newCmd("", use, op.Summary, h.example)
	cmd.Long = h.long
	b.cmd = cmd
	for i := range fields {
		b.bind(&fields[i])
	}
	if op.Once {
		a.requestFlag(cmd)
	}
	_, owned := q.(api.Owned)
	_, owners := q.(api.OwnedByMany)
	if owned || owners {
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
		ctx := cmd.Context()
		on := func(db *engine.DB) error { return run(ctx, db) }
		switch op.Access {
		case api.Reads:
			return a.read(ctx, on)
		case api.Writes:
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

// complete sets the fields whose flags are left out, or refuses to.
func (b *binding) complete(fields []api.Field) error {
	for i := range fields {
		f := &fields[i]
		switch {
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

// set sets a field to what was written on the command line.
func (b *binding) set(f *api.Field, text string) error {
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
	if len(args) >= least && len(args) <= len(b.args) {
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
	for i, text := range args {
		f, named := b.args[i], b.args[i].Arg+":"
		if f.Kind == api.Value {
			named = f.Help // not the value: it may be a secret
		}
		if f.Kind == api.Value && text == "-" {
			named = "the input"
			var err error
			if text, err = b.a.readBounded(b.cmd.Context(), f.Help, entries.MaxValue, "shorten it, or split it under several keys"); err != nil {
				return err
			}
		}
		if err := b.set(f, text); err != nil {
			return usagef(b.cmd, "%s %v", named, err)
		}
	}
	return nil
}
