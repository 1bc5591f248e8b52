package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// queryLine is a line of a file of queries.
type queryLine struct {
	ID        json.RawMessage `json:"id"`
	Query     string          `json:"query"`
	Embedding exchange.Vector `json:"embedding"`
	User      string          `json:"user"`
	Agent     string          `json:"agent"`
	Run       string          `json:"run"`
	Filter    api.FilterJSON  `json:"filter"`
	Limit     int             `json:"limit"`
	Profile   memory.Profile  `json:"profile"`
}

// answerLine is the answer to one. Its ID is the query's, as it was written
// there, or the number of the line.
type answerLine struct {
	ID     json.RawMessage `json:"id"`
	Hits   []answerHit     `json:"hits"`
	TookUs int64           `json:"took_us"`
	Plan   *memory.Plan    `json:"plan,omitempty"`
	// Unembedded is why the query was searched by its text alone.
	Unembedded string `json:"unembedded,omitempty"`
}

type answerHit struct {
	ID    string          `json:"id"`
	Score float64         `json:"score"`
	Near  bool            `json:"near,omitempty"`
	Parts *memory.Signals `json:"parts,omitempty"`
}

// recallQueries answers a file of queries, one after the other.
func (a *app) recallQueries(ctx context.Context, v *vectorModel, db *engine.DB, name string, defaults *api.RecallRequest) error {
	in, err := a.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer done(in)
	queries, err := openQueries(name, in, defaults)
	if err != nil {
		return inputError(name, err)
	}
	var took []time.Duration // a query's line is longer than its entry here
	failed := 0
	for {
		var out answerLine
		q, at, err := queries(&out.ID)
		if errors.Is(err, io.EOF) {
			break
		}
		if at == "" {
			return inputError(name, err)
		}
		if err == nil {
			var spent time.Duration
			if spent, err = a.answerOne(ctx, v, db, &q, &out); err == nil {
				took = append(took, spent)
				continue
			}
		}
		if !ofOneQuery(err) {
			return err
		}
		failed++
		a.warn("%s: %s: %s", name, at, inWords(err))
	}
	if len(took) > 0 {
		a.note("%s", speed(took))
	}
	if failed > 0 {
		return fmt.Errorf("%s: %s of %s not answered", name, number(failed), count(failed+len(took), "query was", "queries were"))
	}
	return nil
}

// queries gives one query after the other, with its ID and where it stands in the
// file; io.EOF after the last. An error without a place is one of the file.
type queries func(id *json.RawMessage) (q api.RecallRequest, at string, err error)

func openQueries(name string, in io.Reader, defaults *api.RecallRequest) (queries, error) {
	rows, vectors := vectorFormat(name)
	if !vectors {
		return lineQueries(exchange.NewLineReader(in), *defaults), nil
	}
	r, err := exchange.NewVectorReader(in, rows)
	if err != nil {
		return nil, err
	}
	return vectorQueries(r, *defaults), nil
}

func lineQueries(lines *exchange.LineReader, defaults api.RecallRequest) queries {
	return func(id *json.RawMessage) (api.RecallRequest, string, error) {
		line, err := lines.Next()
		if err != nil && !errors.Is(err, exchange.ErrLongLine) {
			return defaults, "", err
		}
		var q api.RecallRequest
		if err == nil {
			q, *id, err = parseQuery(line, lines.Line(), defaults)
		}
		return q, fmt.Sprintf("line %d", lines.Line()), err
	}
}

func vectorQueries(r *exchange.VectorReader, q api.RecallRequest) queries {
	return func(id *json.RawMessage) (api.RecallRequest, string, error) {
		row, n, err := r.Next()
		if err != nil {
			return q, "", err
		}
		*id = strconv.AppendQuote(nil, strconv.Itoa(n))
		q.Embedding, q.NoTouch = row, true
		return q, fmt.Sprintf("row %d", n), nil
	}
}

// answerOne asks and prints. Each answer is flushed, for a program that writes a
// query and waits for its answer.
func (a *app) answerOne(ctx context.Context, v *vectorModel, db *engine.DB, q *api.RecallRequest, out *answerLine) (time.Duration, error) {
	start := a.now()
	r, err := v.recall(ctx, db, q)
	spent := a.now().Sub(start)
	if err != nil {
		return 0, err
	}
	out.Hits, out.TookUs, out.Plan = make([]answerHit, len(r.Hits)), spent.Microseconds(), r.Plan
	out.Unembedded = r.Unembedded
	for i, h := range r.Hits {
		out.Hits[i] = answerHit{ID: h.ID, Score: h.Score, Near: h.Near, Parts: h.Parts}
	}
	if err := a.printJSON(out); err != nil {
		return 0, err
	}
	if err := a.stdout.Flush(); err != nil {
		return 0, outputError(err)
	}
	return spent, nil
}

// parseQuery is the query of a line, over the defaults.
func parseQuery(line []byte, number int, q api.RecallRequest) (api.RecallRequest, json.RawMessage, error) {
	var l queryLine
	if err := exchange.DecodeStrict(line, &l); err != nil {
		return q, nil, badLine{err}
	}
	if isMissing(l.ID) {
		l.ID = strconv.AppendQuote(nil, strconv.Itoa(number))
	}
	if !isMissing(json.RawMessage(l.Filter)) {
		q.Filter = l.Filter
	}
	for _, field := range []struct {
		to   **string
		from string
	}{{&q.User, l.User}, {&q.Agent, l.Agent}, {&q.Run, l.Run}} {
		if field.from != "" {
			*field.to = &field.from
		}
	}
	if l.Profile != "" {
		q.Profile = l.Profile
	}
	if l.Limit != 0 {
		q.Limit = &l.Limit
	}
	q.Query, q.Embedding, q.NoTouch = l.Query, l.Embedding, true
	return q, l.ID, nil
}

func isMissing(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// badLine is a line that is no query.
type badLine struct{ error }

// ofOneQuery tells errors of one query from those that the next one would meet
// too.
func ofOneQuery(err error) bool {
	_, bad := errors.AsType[badLine](err)
	return bad || errors.Is(err, exchange.ErrLongLine) ||
		errors.Is(err, memory.ErrInvalid) || errors.Is(err, memory.ErrScope) || errors.Is(err, memory.ErrMismatch)
}

// speed sums up the time that the recalls alone took.
func speed(took []time.Duration) string {
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	slices.Sort(took)
	return fmt.Sprintf("%s, %.0f queries a second, p50 %s, p99 %s",
		count(len(took), "query", "queries"), float64(len(took))/max(sum, 1).Seconds(),
		percentile(took, 50).Round(time.Microsecond), percentile(took, 99).Round(time.Microsecond))
}

// percentile is the nearest rank: the smallest value that p percent of the
// sorted ones do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[(len(sorted)*p+99)/100-1]
}
