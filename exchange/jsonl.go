package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// ImportJSONL stores the memories of a stream of JSON lines. The report is valid
// also with an error, and then tells what was done before it. The error is a
// LineError under Strict, the context's, the reader's, or one of the database
// that is not about one record.
func ImportJSONL(ctx context.Context, db *engine.DB, r io.Reader, o *Options) (Report, error) {
	lines, b := NewLineReader(r), newBatch(db, o)
	for {
		line, err := lines.Next()
		b.report.Bytes = lines.Bytes()
		at := LineError{Line: lines.Line(), Err: err}
		var do func() error
		switch {
		case errors.Is(err, io.EOF):
			return b.finish(ctx, nil)
		case err != nil && !errors.Is(err, ErrLongLine):
			return b.finish(ctx, fmt.Errorf("read line %d: %w", at.Line+1, err))
		case err == nil:
			do, at.Err = b.decode(ctx, at, line)
		}
		if at.Err != nil {
			err = b.refuse(ctx, at)
		} else {
			err = do()
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return b.report, err
		}
	}
}

// decode reads a line and returns what is to be done with it.
func (b *batch) decode(ctx context.Context, at LineError, line []byte) (do func() error, err error) {
	// The keys of another type may have other values, so the type goes first.
	var kind struct {
		Type string `json:"type"`
	}
	if Decode(line, &kind) == nil && kind.Type == TypeEntry {
		var e Entry
		if err := Decode(line, &e); err != nil {
			return nil, err
		}
		return func() error { return b.put(ctx, at, &e) }, nil
	}
	m, err := decodeMemory(line, kind.Type)
	return func() error { return b.add(ctx, at, m, len(line)) }, err
}

// foreign is a Record with the names that other systems give to its keys.
type foreign struct {
	Record
	UserID  string `json:"user_id"`
	AgentID string `json:"agent_id"`
	RunID   string `json:"run_id"`
	Said    string `json:"memory"`
	Content string `json:"content"`
}

func decodeMemory(line []byte, kind string) (engine.Memory, error) {
	if kind != "" && kind != TypeMemory {
		return engine.Memory{}, fmt.Errorf("type %q is not known to this version", kind)
	}
	var f foreign
	err := Decode(line, &f)
	if err == nil {
		err = cmp.Or(
			alias("user", &f.User, "user_id", f.UserID),
			alias("agent", &f.Agent, "agent_id", f.AgentID),
			alias("run", &f.Run, "run_id", f.RunID),
			alias("text", &f.Text, "memory", f.Said),
			alias("text", &f.Text, "content", f.Content),
		)
	}
	if err != nil {
		return engine.Memory{}, err
	}
	return f.Memory(), nil
}

// alias takes the value of another key for the same field.
func alias(key string, field *string, other, value string) error {
	if value == "" || value == *field {
		return nil
	}
	if *field != "" {
		return fmt.Errorf("%q and %q differ", key, other)
	}
	*field = value
	return nil
}
