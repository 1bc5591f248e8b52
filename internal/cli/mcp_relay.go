package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// A relay stands between a client of the Model Context Protocol and what serves it. When that ends
// before the client does, another goes on: it is told how the session began, and the client is told
// of the requests that have no answer.
type relay struct {
	in  io.Reader
	out io.Writer
	mu  struct {
		sync.Mutex
		pending map[string]bool // the IDs of requests without an answer, as JSON
		// began are the lines with which the session began, subscriptions those that still hold.
		began         [][]byte
		subscriptions map[string][]byte
		hidden        map[string]bool // IDs of requests that were sent again: their answers are known
	}
	lines chan []byte
	ended error         // why there are no more lines; set before lines is closed
	over  chan struct{} // closed when there are no more lines
}

// settlePoll is how often settle looks.
const settlePoll = 5 * time.Millisecond

// maxLine bounds a message of a client, in bytes.
const maxLine = 4*memory.MaxText + 1<<20

func newRelay(in io.Reader, out io.Writer) *relay {
	r := &relay{in: in, out: out, lines: make(chan []byte), over: make(chan struct{})}
	r.mu.pending, r.mu.subscriptions, r.mu.hidden = map[string]bool{}, map[string][]byte{}, map[string]bool{}
	return r
}

// run serves the client until its input ends. serve is called again whenever the program that it
// had serve has ended.
func (r *relay) run(ctx context.Context, serve func(ctx context.Context, in io.Reader, out io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // it ends with the input, or the process
		defer close(r.lines)
		defer close(r.over)
		if err := panics.Catch("reads the input", func() { r.ended = r.read(ctx) }); err != nil {
			r.ended = err
		}
	}()
	for {
		err := r.once(ctx, serve)
		if err == nil && !r.isOver() {
			err = beside.ErrGone // a program that ends in order ends its sessions first
		}
		switch {
		case ctx.Err() != nil:
			return nil // whoever has ended the process knows
		case !errors.Is(err, beside.ErrGone), r.isOver():
			return err
		}
		if err := r.apologise(); err != nil {
			return err
		}
		select { // it may be closing the database still
		case <-ctx.Done():
			return nil
		case <-time.After(lockPoll):
		}
	}
}

// isOver reports whether the input has ended.
func (r *relay) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// read reads lines until the input ends.
func (r *relay) read(ctx context.Context) error {
	lines := bufio.NewScanner(r.in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		select {
		case r.lines <- append(bytes.Clone(lines.Bytes()), '\n'):
		case <-ctx.Done():
			return nil
		}
	}
	return lines.Err()
}

// once serves the client with one program.
func (r *relay) once(ctx context.Context, serve func(ctx context.Context, in io.Reader, out io.Writer) error) error {
	in, feed := io.Pipe()
	stop := make(chan struct{})
	var fed sync.WaitGroup
	fed.Go(func() {
		if err := panics.Catch("passes the input on", func() { _ = feed.CloseWithError(r.feed(feed, stop)) }); err != nil {
			_ = feed.CloseWithError(err)
		}
	})
	out := &relayed{relay: r}
	err := serve(ctx, in, out)
	close(stop)
	_ = in.CloseWithError(beside.ErrGone) // ends a write that nobody reads
	fed.Wait()
	return errors.Join(err, out.failed)
}

// feed passes lines on, after those with which the session began. nil: the input has ended.
func (r *relay) feed(to io.Writer, stop <-chan struct{}) error {
	for _, line := range r.again() {
		if _, err := to.Write(line); err != nil {
			return err
		}
	}
	for {
		select {
		case line, more := <-r.lines:
			if !more {
				r.settle(stop)
				return r.ended
			}
			r.note(line)
			if _, err := to.Write(line); err != nil {
				return err
			}
		case <-stop:
			return nil
		}
	}
}

// settle waits for the answers of what was asked before the input ended.
func (r *relay) settle(stop <-chan struct{}) {
	for range takeOverWait / settlePoll {
		r.mu.Lock()
		left := len(r.mu.pending)
		r.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-stop:
			return
		case <-time.After(settlePoll):
		}
	}
}

// A message is what the relay looks at of one.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		URI string `json:"uri"`
	} `json:"params"`
}

// note keeps what a line of the client says about the session.
func (r *relay) note(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return // which is answered as an error
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(m.ID) > 0 && m.Method != "" {
		r.mu.pending[string(m.ID)] = true
	}
	switch m.Method {
	case "initialize":
		r.mu.began = [][]byte{line}
	case "notifications/initialized":
		if len(r.mu.began) == 1 {
			r.mu.began = append(r.mu.began, line)
		}
	case "resources/subscribe":
		r.mu.subscriptions[m.Params.URI] = line
	case "resources/unsubscribe":
		delete(r.mu.subscriptions, m.Params.URI)
	}
}

// again are the lines with which the next program begins, whose answers the client has had.
func (r *relay) again() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := append([][]byte{}, r.mu.began...)
	for _, line := range r.mu.subscriptions {
		lines = append(lines, line)
	}
	for _, line := range lines {
		var m message
		if json.Unmarshal(line, &m) == nil && len(m.ID) > 0 {
			r.mu.hidden[string(m.ID)] = true
		}
	}
	return lines
}

// answered reports whether the client is to see an answer.
func (r *relay) answered(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.pending, id)
	hidden := r.mu.hidden[id]
	delete(r.mu.hidden, id)
	return !hidden
}

// apologise answers the requests that were under way when the program ended.
func (r *relay) apologise() error {
	r.mu.Lock()
	pending := r.mu.pending
	r.mu.pending = map[string]bool{}
	maps.DeleteFunc(r.mu.subscriptions, func(_ string, line []byte) bool { return isPending(line, pending) })
	if len(r.mu.began) > 0 && isPending(r.mu.began[0], pending) {
		r.mu.began = nil
	}
	r.mu.Unlock()
	for id := range pending {
		const why = `"error":{"code":-32603,"message":"the program that holds the database has ended; look whether it was done, and try again"}}`
		if _, err := io.WriteString(r.out, `{"jsonrpc":"2.0","id":`+id+`,`+why+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func isPending(line []byte, pending map[string]bool) bool {
	var m message
	return json.Unmarshal(line, &m) == nil && pending[string(m.ID)]
}

// relayed passes the lines of a program on to the client.
type relayed struct {
	relay  *relay
	rest   bytes.Buffer
	failed error // of the client's output
}

// Write is called by one at a time.
func (w *relayed) Write(p []byte) (int, error) {
	w.rest.Write(p)
	for {
		end := bytes.IndexByte(w.rest.Bytes(), '\n')
		if end < 0 {
			return len(p), nil
		}
		line := w.rest.Next(end + 1)
		var m message
		if json.Unmarshal(line, &m) == nil && len(m.ID) > 0 && m.Method == "" && !w.relay.answered(string(m.ID)) {
			continue
		}
		if _, err := w.relay.out.Write(line); err != nil {
			w.failed = err
			return 0, err
		}
	}
}
