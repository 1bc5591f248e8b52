// Package meter holds the calls of models against budgets before they are made, and records
// afterwards what they took.
package meter

import (
	"context"
	"errors"
	"math/big"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// Price is what a model costs, in US dollars for a million tokens. The zero Price is free.
type Price struct {
	// Prompt is the price of what goes in, Completion that of what comes out.
	Prompt, Completion usage.USD
}

// Meter is where calls are counted.
type Meter struct {
	// Usage is that of the database: db.Usage().
	Usage usage.Usage
	// Owner is whose calls they are that name no owner.
	Owner scope.Owner
	// Price is what is recorded as cost, and reserved before a call.
	Price Price

	opened chan struct{} // closed once Usage is there, or lend; nil: it is
	lend   Lend
}

// Lend gives the Usage of a database for as long as a function runs: the database may be closed
// at other times.
type Lend func(ctx context.Context, fn func(usage.Usage) error) error

// Later makes a Meter whose Usage comes with Open: an embedder is made before the database
// that counts its calls. Until then Count waits.
func Later(o scope.Owner) *Meter { return &Meter{Owner: o, opened: make(chan struct{})} }

// Open gives the Usage to a Meter that was made by Later. It is called once.
func (m *Meter) Open(u usage.Usage) {
	m.Usage = u
	close(m.opened)
}

// OpenBy gives a Lend in place of the Usage to a Meter that was made by Later. It is called once.
func (m *Meter) OpenBy(lend Lend) {
	m.lend = lend
	close(m.opened)
}

// with calls fn with the Usage.
func (m *Meter) with(ctx context.Context, fn func(usage.Usage) error) error {
	if m.lend != nil {
		return m.lend(ctx, fn)
	}
	return fn(m.Usage)
}

// wait returns once the Usage is there.
func (m *Meter) wait(ctx context.Context) error {
	if m.opened == nil {
		return nil
	}
	select {
	case <-m.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Tokens are what a call takes.
type Tokens struct {
	Prompt, Completion int64 // what goes in, and what comes out
}

// Count makes a call between a check of the owner's budgets and the record of what it took.
// usage.ErrBudget where a budget has no room for the estimate: the call is not made. A call
// that failed leaves no record. An error of the record is the error of Count, since the next
// check would be wrong.
func (m *Meter) Count(ctx context.Context, o scope.Owner, model string, estimate Tokens, call func() (Tokens, error)) error {
	if err := m.wait(ctx); err != nil {
		return err
	}
	if o == (scope.Owner{}) {
		o = m.Owner
	}
	cost, err := m.Price.of(estimate)
	if err != nil {
		return err
	}
	ctx = part.ReadOnly(part.Apart(ctx, true), false) // the call costs what it costs, whatever becomes of the request that it is made for
	held, err := m.hold(ctx, o, cost)
	if err != nil {
		return fault.Within("ask "+model, err)
	}
	took, err := call()
	late := context.WithoutCancel(ctx) // what was paid for is recorded
	if err != nil {
		if held != nil {
			err = errors.Join(err, m.with(late, func(u usage.Usage) error { return u.Release(late, held) }))
		}
		return err
	}
	if cost, err = m.Price.of(took); err != nil {
		return err
	}
	record := usage.Record{Owner: o, Model: model, PromptTokens: took.Prompt, CompletionTokens: took.Completion, Cost: cost}
	return m.with(late, func(u usage.Usage) error {
		_, err := u.Add(late, record, &usage.AddOptions{Reservation: held})
		return err
	})
}

// hold reserves a cost. A call without one needs only that something is left.
func (m *Meter) hold(ctx context.Context, o scope.Owner, cost usage.USD) (held *usage.Reservation, err error) {
	err = m.with(ctx, func(u usage.Usage) (err error) {
		if cost.Cmp(usage.USD{}) > 0 {
			held, err = u.Reserve(ctx, o, cost, 0)
			return err
		}
		a, err := u.Check(ctx, o, nil)
		if err == nil && !a.Allowed {
			err = &fault.Error{Kind: usage.ErrBudget, What: "check the budget", Why: "nothing is left of it", Do: "wait for the next period, or set a larger budget"}
		}
		return err
	})
	return held, err
}

// of is the cost of tokens, exact.
func (p *Price) of(t Tokens) (usage.USD, error) {
	sum := new(big.Rat)
	for _, part := range []struct {
		price  usage.USD
		tokens int64
	}{{p.Prompt, t.Prompt}, {p.Completion, t.Completion}} {
		price, ok := new(big.Rat).SetString(part.price.String())
		if !ok {
			return usage.USD{}, fault.Invalid("count the cost of a call", "the price is no number", "give dollars for a million tokens")
		}
		sum.Add(sum, price.Mul(price, big.NewRat(max(part.tokens, 0), 1_000_000)))
	}
	return usage.ParseUSD(sum.FloatString(places))
}

// places is how many digits behind the point a USD has.
const places = 18
