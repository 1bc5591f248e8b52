package llm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/meter"
)

// The defaults of Options.
const (
	// DefaultTimeout is long enough for a local model that is loaded first.
	DefaultTimeout = 120 * time.Second
	// DefaultConcurrency is few enough for the lowest tiers of providers.
	DefaultConcurrency = 8
	// MaxConcurrency bounds what is configured.
	MaxConcurrency = 256
	// DefaultCacheEntries is how many replies are kept.
	DefaultCacheEntries = 1000
)

// Options say how a model is asked. The zero Options are the defaults.
type Options struct {
	// Retry says when a call that failed is repeated. The waits begin with 1 s, double, and
	// follow what the provider asks for; 3 repetitions.
	Retry retry.Policy
	// Timeout bounds each try; 0: DefaultTimeout.
	Timeout time.Duration
	// Concurrency is how many calls run at once; 0: DefaultConcurrency. Waits between tries
	// don't count.
	Concurrency int
	// CacheEntries is how many replies are kept for requests that come again; 0:
	// DefaultCacheEntries, less than 0: none. Only replies of temperature 0 are kept, and
	// only within one owner.
	CacheEntries int
	// Temperature and MaxTokens are for requests that leave them 0.
	Temperature float64
	MaxTokens   int
	// Meter checks budgets before a call and records it afterwards. A reply of the cache is
	// no call. nil: neither.
	Meter *meter.Meter
}

// wrapped is a Client with all that Options say around it.
type wrapped struct {
	Client
	Options
	slots   chan struct{}
	replies *cache // nil: none
}

// Wrap makes a Client that checks requests, keeps replies, counts what is used, limits how
// many calls run at once and how long one takes, and repeats calls that may succeed later.
// ErrInvalid where an option is out of range.
func Wrap(c Client, o Options) (Client, error) {
	doing := "set up " + c.Model()
	if err := o.Retry.Check(doing); err != nil {
		return nil, err
	}
	switch {
	case o.Timeout < 0:
		return nil, fault.Invalid(doing, "the timeout is negative", "give a positive one, or 0 for the default")
	case o.Concurrency < 0 || o.Concurrency > MaxConcurrency:
		return nil, fault.Invalid(doing, fmt.Sprintf("the concurrency is %d", o.Concurrency), fmt.Sprintf("give 1 to %d, or 0 for %d", MaxConcurrency, DefaultConcurrency))
	case !(o.Temperature >= 0 && o.Temperature <= MaxTemperature) || o.MaxTokens < 0:
		return nil, fault.Invalid(doing, "the temperature or the number of tokens is out of range", "give a temperature of 0 to 2, and 1 token or more")
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	w := &wrapped{Client: c, Options: o, slots: make(chan struct{}, o.Concurrency)}
	if o.CacheEntries >= 0 {
		if o.CacheEntries == 0 {
			o.CacheEntries = DefaultCacheEntries
		}
		w.replies = newCache(o.CacheEntries)
	}
	return w, nil
}

// Generate asks the model, or the cache.
func (w *wrapped) Generate(ctx context.Context, r Request) (Reply, error) {
	if r.Temperature == 0 {
		r.Temperature = w.Temperature
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = w.MaxTokens
	}
	if err := r.Check("ask " + w.Model()); err != nil {
		return Reply{}, err
	}
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	var key cacheKey
	if w.replies != nil && r.Temperature == 0 {
		key = keyOf(&r)
		if reply, ok := w.replies.get(key); ok {
			return reply, nil
		}
	}
	reply, err := w.counted(ctx, &r)
	if err != nil {
		return Reply{}, err
	}
	if w.replies != nil && r.Temperature == 0 && worthKeeping(&r, &reply) {
		w.replies.put(key, reply)
	}
	return reply, nil
}

// counted is a call between budget and record.
func (w *wrapped) counted(ctx context.Context, r *Request) (reply Reply, err error) {
	if w.Meter == nil {
		return w.repeated(ctx, r)
	}
	err = w.Meter.Count(ctx, r.Owner, w.Model(), r.estimate(), func() (took meter.Tokens, err error) {
		reply, err = w.repeated(ctx, r)
		return meter.Tokens{Prompt: reply.PromptTokens, Completion: reply.CompletionTokens}, err
	})
	return reply, err
}

// estimate is what a call may take, for a reservation: 4 bytes are about a token.
func (r *Request) estimate() meter.Tokens {
	size := 0
	for _, m := range r.Messages {
		size += len(m.Text)
	}
	for _, t := range r.Tools {
		size += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return meter.Tokens{Prompt: int64(size/4 + 1), Completion: int64(r.Tokens())}
}

// repeated is a call with its repetitions.
func (w *wrapped) repeated(ctx context.Context, r *Request) (reply Reply, err error) {
	err = w.Retry.Do(ctx, func(ctx context.Context) error {
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-w.slots }()
		return retry.Within(ctx, w.Timeout, func(ctx context.Context) (err error) {
			reply, err = w.Client.Generate(ctx, *r)
			return err
		})
	})
	if _, late := errors.AsType[*retry.Overtime](err); late {
		err = &fault.Error{Kind: ErrModel, What: "ask " + w.Model(), Cause: err, Do: "try again later, or configure a longer timeout"}
	}
	return reply, err
}
