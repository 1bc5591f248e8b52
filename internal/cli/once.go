package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

// attempt is a run of a command that has the ID of a request, and what the command has read.
type attempt struct {
	*engine.Attempt
	input hash.Hash
}

// requestFlag is for commands that change the database in one call of create or use, and print their
// result in it.
func (a *app) requestFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.requestID, "request-id", "", "the `ID` of this request: within 24 hours, the same command with the same ID changes nothing and prints the first result")
}

// beginAttempt begins what --request-id asks for.
func (a *app) beginAttempt(cmd *cobra.Command) error {
	if f := cmd.Flags().Lookup("request-id"); f == nil || !f.Changed {
		return nil
	}
	client := "memdbctl"
	if a.bounds != nil {
		client += " " + a.bounds.Key
	}
	of, err := engine.NewAttempt(engine.Request{ID: a.requestID, Client: client})
	if err != nil {
		return err
	}
	a.attempt = &attempt{of, sha256.New()}
	cmd.SetContext(of.Context(cmd.Context()))
	return nil
}

// heard is an input, whose bytes are part of what a request asks.
func (a *app) heard(in io.ReadCloser) io.ReadCloser {
	if a.attempt == nil {
		return in
	}
	return struct {
		io.Reader
		io.Closer
	}{io.TeeReader(in, a.attempt.input), in}
}

// once calls fn, and commits what it writes together with what it prints. Where that was done before,
// it prints what was printed then.
func (a *app) once(ctx context.Context, db *engine.DB, fn func(*engine.DB) error) error {
	if a.attempt == nil {
		return fn(db)
	}
	asks := append(askedBy(a.args), hex.EncodeToString(a.attempt.input.Sum(nil)))
	if err := a.attempt.Asks(asks); err != nil {
		return err
	}
	out := a.stdout
	defer func() { a.stdout = out }()
	printed, err := a.attempt.Do(ctx, db, func(context.Context) ([]byte, error) {
		var b bytes.Buffer
		a.stdout = bufio.NewWriter(&b)
		if err := fn(db); err != nil {
			return nil, err
		}
		err := a.stdout.Flush()
		return b.Bytes(), err
	})
	if err != nil {
		return err
	}
	if a.attempt.Repeated() {
		if !a.json {
			a.noteRepeated()
		}
		printed = exchange.Repeated(printed)
	}
	_, err = out.Write(printed)
	return err
}

// noteRepeated says that a request was done before.
func (a *app) noteRepeated() { a.note("this request was done before; nothing was changed") }

// printRepeated prints the reply to a request that was done before.
func (a *app) printRepeated(v any) error {
	out, b := a.stdout, bytes.Buffer{}
	a.stdout = bufio.NewWriter(&b)
	err := errors.Join(a.printJSON(v), a.stdout.Flush())
	if a.stdout = out; err == nil {
		_, err = out.Write(exchange.Repeated(b.Bytes()))
	}
	return err
}

// placed are the flags that say where and how a command runs, and not what it does; true for those
// with a value.
var placed = map[string]bool{"--db": true, "--wait": true, "--quiet": false, "--salvage": false, "--request-id": true}

// askedBy are the arguments of a command without those.
func askedBy(args []string) (asks []string) {
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(asks, args[i:]...)
		}
		name, _, joined := strings.Cut(args[i], "=")
		valued, skip := placed[name]
		if !skip {
			asks = append(asks, args[i])
		} else if valued && !joined {
			i++
		}
	}
	return slices.Clip(asks)
}
