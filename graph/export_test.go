package graph

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Work does the work that the database has the part do now and then.
func Work(ctx context.Context, g Graph) error { return g.part.Work(ctx, g.run) }

// DeleteOwner deletes what an owner has in the part alone.
func DeleteOwner(ctx context.Context, g Graph, o scope.Owner) error {
	return g.run.Update(ctx, "delete", func(tx part.Tx) error {
		num, _, err := tx.Owner(o)
		if err == nil {
			_, err = g.part.DeleteOwner(tx, num)
		}
		return err
	})
}

// CleanFirst cleans up after the first entity that an owner has deleted, once meanwhile has run.
func CleanFirst(ctx context.Context, g Graph, o scope.Owner, meanwhile func()) error {
	var owner, first uint32
	err := g.run.View(ctx, "find what was deleted", func(v part.View) (err error) {
		if owner, _, err = v.Owner(o); err != nil {
			return err
		}
		r := &reader{View: v, owner: owner}
		return r.eachDoomed(func(num uint32) { first = cmp.Or(first, num) })
	})
	if err != nil {
		return err
	}
	meanwhile()
	return g.run.Update(ctx, "clean up", func(tx part.Tx) error {
		_, err := clean(tx, owner, first)
		return err
	})
}

// WithoutBirth is the record of an owner without the LSN of the first change of its graph.
func WithoutBirth(value []byte) []byte {
	o, err := decodeOwned(value)
	if err != nil {
		return value
	}
	o.born = 0
	return o.encode()
}

// Keys are all keys of the part with their values.
func Keys(ctx context.Context, g Graph) (keys, values [][]byte, err error) {
	err = g.run.View(ctx, "read keys", func(v part.View) error {
		for _, kind := range g.part.Kinds() {
			err := v.Scan(v.Key(byte(kind), 0), v.Key(byte(kind)+1, 0), func(key, value []byte) error {
				keys, values = append(keys, bytes.Clone(key)), append(values, bytes.Clone(value))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return keys, values, err
}

// Damage writes keys behind the back of the part, which forgets what it holds in RAM.
func Damage(ctx context.Context, g Graph, write func(tx part.Tx) error) error {
	err := g.run.Update(ctx, "damage", func(tx part.Tx) error {
		tx.Log(opMend, nil)
		return write(tx)
	})
	return errors.Join(err, g.part.Load(nil, part.Opening{Budget: 2 << 20}))
}

// Measured is a graph of which the bytes of the keys and values are counted that it writes.
func Measured(g Graph, bytes *int) Graph { return Graph{measuredRunner{g.run, bytes}, g.part} }

type measuredRunner struct {
	part.Runner
	bytes *int
}

func (r measuredRunner) Update(ctx context.Context, doing string, fn func(part.Tx) error) error {
	return r.Runner.Update(ctx, doing, func(tx part.Tx) error { return fn(measuredTx{tx, r.bytes}) })
}

type measuredTx struct {
	part.Tx
	bytes *int
}

func (tx measuredTx) Set(key, value []byte) error {
	*tx.bytes += len(key) + len(value)
	return tx.Tx.Set(key, value)
}

func (tx measuredTx) Delete(key []byte) error {
	*tx.bytes += len(key)
	return tx.Tx.Delete(key)
}

func (tx measuredTx) DeleteRange(lower, upper []byte) error {
	*tx.bytes += len(lower) + len(upper)
	return tx.Tx.DeleteRange(lower, upper)
}
