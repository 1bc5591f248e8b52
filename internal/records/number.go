package records

import (
	"context"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Number is the number of a name, newly given if it has none.
func (w *Writer) Number(k layout.Name) (uint32, error) {
	num, known, err := w.Lookup(k)
	if err != nil {
		return 0, err
	}
	if err := w.Admit(k, num); err != nil {
		return num, err
	}
	if !known {
		if num, err = w.NewNumber(k, nil); err != nil {
			return num, err
		}
	}
	if k.Class == layout.NameOwner {
		w.Concerns(num)
	}
	return num, nil
}

// NewNumber gives a name its number; extra is what is stored beside it.
func (w *Writer) NewNumber(k layout.Name, extra []byte) (uint32, error) {
	w.Own.Given.Names[k.Class]++
	num := w.Own.Given.Names[k.Class]
	w.Own.Names[k] = num
	key := w.Keys.Name(k.Class, k.Text)
	return num, w.Set(key, layout.EncodeName(key, num, k.Text, extra))
}

// ScopeNumbers are the numbers of the owner and the run of a scope, newly given if they have none.
func (w *Writer) ScopeNumbers(s memory.Scope) (owner, run uint32, err error) {
	if owner, err = w.Number(layout.Name{Class: layout.NameOwner, Text: scope.Key(s.Owner())}); err != nil {
		return 0, 0, err
	}
	if s.Run != "" {
		run, err = w.Number(layout.Name{Class: layout.NameRun, Text: s.Run})
	}
	return owner, run, err
}

// giveNumber is the number of a name, newly given if it has none and there is room.
func (w *Writer) giveNumber(k layout.Name) (uint32, bool, error) {
	if k.Class == layout.NameField {
		return w.fieldNumber(k.Text)
	}
	num, err := w.Number(k)
	return num, err == nil, err
}

// fieldNumber registers a metadata path for the filter index, while there is room.
func (w *Writer) fieldNumber(path string) (uint32, bool, error) {
	k := layout.Name{Class: layout.NameField, Text: path}
	num, ok := w.Fields.Number(path)
	if ok {
		return num, true, nil
	}
	if num, ok = w.Own.Names[k]; ok {
		return num, true, nil
	}
	if w.Own.Given.Names[layout.NameField] >= memory.MaxIndexedPaths {
		return 0, false, nil
	}
	num, err := w.NewNumber(k, nil)
	return num, err == nil, err
}

// Space is a vector space as the transaction sees it, nil if there is none.
func (view View) Space(name string) *spaces.Space {
	if view.Changes != nil {
		if s := view.Changes.Spaces[name]; s != nil {
			return s
		}
	}
	return view.Spaces.Named(name)
}

// SpaceNumbered is a space by its number, nil if there is none.
func (view View) SpaceNumbered(num uint16) *spaces.Space {
	if view.Changes != nil {
		for _, s := range view.Changes.Spaces {
			if s.Num == num {
				return s
			}
		}
	}
	return view.Spaces.Numbered(num)
}

// EachOwner visits all that ever were owners, also those of this transaction.
func (view View) EachOwner(ctx context.Context, visit func(number uint32, o scope.Owner)) error {
	lower := append(view.Keys.Header(layout.KindName, 1), byte(layout.NameOwner))
	return kv.Scan(view.Reader, lower, layout.PrefixEnd(lower), func(key, value []byte) error {
		number, name, _, err := layout.DecodeName(key, value)
		if err != nil {
			return err
		}
		r := codec.NewReader([]byte(name))
		visit(number, scope.Owner{User: r.String(), Agent: string(r.Rest())})
		return ctx.Err()
	})
}
