// Package embedders turns the calls of a provider of embeddings into an embed.Embedder: in
// batches that the provider takes, repeated where a failure passes, with vectors that are
// checked and kept. Providers are packages below it.
package embedders

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/retry"
	"github.com/seed-7aedc3ff/memdb/services/httpjson"
	"github.com/seed-7aedc3ff/memdb/services/meter"
)

// Source is one provider with one model. It is safe for use by several goroutines.
type Source interface {
	// Call embeds texts that are within the Limits, in one call. Its errors are of the
	// kind ErrEmbedder and name the provider; those that may pass are retry.Transient.
	Call(ctx context.Context, texts []string) (Batch, error)
	// Model names what makes the vectors, and Dim is their length.
	Model() string
	Dim() int
	Limits() Limits
}

// Batch is what one call returned.
type Batch struct {
	// Vectors are those of the texts, in their order.
	Vectors [][]float32
	Tokens  int64 // that the provider counted; 0 if it did not
}

// Limits bound one call.
type Limits struct {
	Texts  int // most texts
	Tokens int // most tokens of all texts; 0: no bound
}

// The defaults of Options.
const (
	DefaultTimeout     = 60 * time.Second
	DefaultConcurrency = 4
	// MaxConcurrency bounds what is configured.
	MaxConcurrency = 64
	// MaxDim bounds the length of vectors: none of any known model is longer.
	MaxDim = 65_536
	// MaxText bounds a text, in bytes, as the database does.
	MaxText = 8 << 20
)

// Options say how a provider is called. The zero Options are the defaults.
type Options struct {
	// Retry says when a call that failed is repeated: 3 times, after 1, 2 and 4 s, or as
	// the provider asks.
	Retry retry.Policy
	// Timeout bounds each try; 0: DefaultTimeout.
	Timeout time.Duration
	// Concurrency is how many batches are embedded at once; 0: DefaultConcurrency.
	Concurrency int
	// CacheEntries is how many vectors are kept for texts that come again; 0: 10,000, less
	// than 0: none. A database keeps vectors of its own embedder by itself.
	CacheEntries int
	// Batch is how many texts go into one call, at most what the provider takes; 0: that.
	Batch int
	// Base is the address of the server where it is not the provider's own: a database keeps it
	// beside the model (see embed.Base).
	Base string
	// Meter checks budgets before a call and records it afterwards. Vectors of the cache
	// are no call. nil: neither.
	Meter *meter.Meter
}

// New makes an Embedder of a Source. ErrInvalid where an option is out of range. The vectors
// that it returns are as many as the texts, of Dim numbers each, none of which is infinite or
// no number.
func New(s Source, o Options) (embed.Embedder, error) {
	doing := "set up " + s.Model()
	if err := o.Retry.Check(doing); err != nil {
		return nil, err
	}
	limits := s.Limits()
	switch {
	case s.Dim() < 1 || s.Dim() > MaxDim:
		return nil, fault.Invalid(doing, fmt.Sprintf("its vectors have %d dimensions", s.Dim()), fmt.Sprintf("give dimensions, 1 to %d", MaxDim))
	case o.Timeout < 0:
		return nil, fault.Invalid(doing, "the timeout is negative", "give a positive one, or 0 for the default")
	case o.Concurrency < 0 || o.Concurrency > MaxConcurrency:
		return nil, fault.Invalid(doing, fmt.Sprintf("the concurrency is %d", o.Concurrency), fmt.Sprintf("give 1 to %d, or 0 for %d", MaxConcurrency, DefaultConcurrency))
	case o.Batch < 0 || o.Batch > limits.Texts:
		return nil, fault.Invalid(doing, fmt.Sprintf("the batch is %d", o.Batch), fmt.Sprintf("give 1 to %d, or 0 for that", limits.Texts))
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Batch > 0 {
		limits.Texts = o.Batch
	}
	limits.Texts = max(1, min(limits.Texts, httpjson.MaxReply/(s.Dim()*NumberBytes)))
	c := &client{Source: s, Options: o, limits: limits, slots: make(chan struct{}, o.Concurrency)}
	if o.CacheEntries < 0 {
		return c, nil
	}
	return embed.NewCache(c, o.CacheEntries, 0), nil
}

const (
	// NumberBytes is what a number of a vector takes in JSON, at most: all digits of a
	// float64, its exponent and a line with spaces.
	NumberBytes = 32
	// replyOverhead is what a reply may hold beside vectors.
	replyOverhead = 1 << 20
)

// ReplyLimit bounds the reply to a call for so many vectors, in bytes.
func ReplyLimit(vectors, dim int) int64 {
	return int64(vectors)*int64(dim)*NumberBytes + replyOverhead
}

// client is the Embedder that New makes.
type client struct {
	Source
	Options
	limits Limits
	slots  chan struct{}
}

// Base is that of the Options.
func (c *client) Base() string { return c.Options.Base }

// Embed embeds the texts batch by batch, several at once.
func (c *client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	for i, text := range texts {
		switch {
		case text == "":
			return nil, fault.Invalid(c.doing(), fmt.Sprintf("text %d of %d is empty", i+1, len(texts)), "leave it out: most providers refuse it")
		case len(text) > MaxText:
			return nil, fault.Invalid(c.doing(), fmt.Sprintf("text %d of %d has %d bytes", i+1, len(texts), len(text)), fmt.Sprintf("give up to %d", MaxText))
		}
	}
	vectors := make([][]float32, len(texts))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	for begin := 0; begin < len(texts) && ctx.Err() == nil; {
		end := begin + c.fit(texts[begin:])
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		part, into := texts[begin:end], vectors[begin:end]
		running.Go(func() {
			var err error
			if caught := panics.Catch("embeds", func() { err = c.part(ctx, part, into) }); caught != nil {
				err = &fault.Error{Kind: fault.ErrEmbedder, What: c.doing(), Cause: caught}
			}
			<-c.slots
			if err != nil {
				stop(err) // the others are of no use
			}
		})
		begin = end
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return vectors, nil
}

func (c *client) doing() string { return "embed with " + c.Model() }

// fit is how many of the texts go into one call, 1 at least.
func (c *client) fit(texts []string) int {
	tokens := 0
	for i, text := range texts {
		tokens += tokensOf(text)
		if i > 0 && (i == c.limits.Texts || c.limits.Tokens > 0 && tokens > c.limits.Tokens) {
			return i
		}
	}
	return len(texts)
}

// tokensOf estimates from above: English has about four bytes in a token, Chinese about two.
func tokensOf(text string) int { return len(text)/2 + 1 }

// part embeds the texts of one call. What a server refuses as too much goes in halves:
// text-embeddings-inference says nothing else of its limit.
func (c *client) part(ctx context.Context, texts []string, into [][]float32) error {
	b, err := c.counted(ctx, texts)
	if status := httpjson.StatusOf(err); len(texts) > 1 && (status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity) {
		half := len(texts) / 2
		if err := c.part(ctx, texts[:half], into[:half]); err != nil {
			return err
		}
		return c.part(ctx, texts[half:], into[half:])
	}
	if err != nil {
		return err
	}
	copy(into, b.Vectors)
	return nil
}

// counted is a call between budget and record.
func (c *client) counted(ctx context.Context, texts []string) (b Batch, err error) {
	if c.Meter == nil {
		return c.repeated(ctx, texts)
	}
	var estimate meter.Tokens
	for _, text := range texts {
		estimate.Prompt += int64(len(text)/4 + 1)
	}
	err = c.Meter.Count(ctx, c.Meter.Owner, c.Model(), estimate, func() (took meter.Tokens, err error) {
		b, err = c.repeated(ctx, texts)
		return meter.Tokens{Prompt: b.Tokens}, err
	})
	return b, err
}

// repeated is a call with its repetitions.
func (c *client) repeated(ctx context.Context, texts []string) (b Batch, err error) {
	err = c.Retry.Do(ctx, func(ctx context.Context) error {
		return retry.Within(ctx, c.Timeout, func(ctx context.Context) (err error) {
			if b, err = c.Call(ctx, texts); err == nil {
				err = c.check(&b, len(texts))
			}
			return err
		})
	})
	if _, late := errors.AsType[*retry.Overtime](err); late {
		err = &fault.Error{Kind: fault.ErrEmbedder, What: c.doing(), Cause: err, Do: "try again later, or configure a longer timeout"}
	}
	return b, err
}

// check refuses vectors that cannot be used.
func (c *client) check(b *Batch, want int) error {
	bad := func(why, do string) error {
		return &fault.Error{Kind: fault.ErrEmbedder, What: c.doing(), Why: why, Do: do}
	}
	if len(b.Vectors) != want {
		return bad(fmt.Sprintf("it returned %d vectors for %d texts", len(b.Vectors), want), "check base_url and the server")
	}
	for i, v := range b.Vectors {
		if len(v) != c.Dim() {
			return bad(fmt.Sprintf("vector %d has %d dimensions, not %d", i+1, len(v), c.Dim()), "configure dimensions as the model has them")
		}
		zero := true
		for _, x := range v {
			if x-x != 0 {
				return bad(fmt.Sprintf("vector %d holds a number that is infinite or none", i+1), "check the model and the server")
			}
			zero = zero && x == 0
		}
		if zero {
			return bad(fmt.Sprintf("vector %d is zero, and points nowhere", i+1), "check the model and the server")
		}
	}
	return nil
}
