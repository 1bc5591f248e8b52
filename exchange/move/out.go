package move

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

// Moved tells what was taken out.
type Moved struct {
	exchange.ExportReport
	// Written counts what the form has, by the types of the lines of an export.
	Written map[string]int
	// LeftOut counts what the form has no place for.
	LeftOut map[string]int
}

// A taker writes the lines of an export in another form. line returns false for one that the form
// has no place for.
type taker interface {
	line(typ string, raw []byte) (bool, error)
	end() error
}

// export gives a taker the lines of an export, which are of one state of the database.
func export(ctx context.Context, db *engine.DB, o *exchange.ExportOptions, to taker) (Moved, error) {
	s := &lines{to: to, moved: Moved{Written: map[string]int{}, LeftOut: map[string]int{}}}
	report, err := exchange.Export(ctx, db, s, o)
	s.moved.ExportReport = report
	if err == nil {
		err = to.end()
	}
	return s.moved, err
}

// errDerived is returned for a line of what the form has already, in the thing that it derives from.
var errDerived = errors.New("it derives from another line")

// lines cuts what an export writes into its lines.
type lines struct {
	to    taker
	moved Moved
	begun []byte // a line whose end has not come yet
}

// Write takes a piece of the export, which ends anywhere.
func (s *lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			s.begun = append(s.begun, rest...)
			break
		}
		raw := rest[:end]
		if len(s.begun) > 0 {
			raw = append(s.begun, raw...)
			s.begun = raw[:0]
		}
		if err := s.take(raw); err != nil {
			return 0, err
		}
		rest = rest[end+1:]
	}
	return len(p), nil
}

func (s *lines) take(raw []byte) error {
	var of struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &of); err != nil {
		return fmt.Errorf("a line of the export cannot be read: %w", err)
	}
	if of.Type == exchange.TypeDatabase || of.Type == exchange.TypeSpace {
		return nil // how it is searched, and nothing of what is in it
	}
	took, err := s.to.line(of.Type, raw)
	if errors.Is(err, errDerived) {
		return nil
	}
	if took {
		s.moved.Written[of.Type]++
	} else if err == nil {
		s.moved.LeftOut[of.Type]++
	}
	return err
}

// readRecord reads a line of a memory.
func readRecord(raw []byte) (r exchange.Record, err error) {
	err = json.Unmarshal(raw, &r)
	return r, err
}
