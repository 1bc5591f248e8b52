package server

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	// sealWindow is by how many numbers a request may come behind a later one of its node: far more than are under
	// way at once.
	sealWindow = 1 << 16
	// maxSenders bounds how many nodes are remembered, and maxRuns whose runs are: a node that starts anew is another
	// one, and a cluster has a thousand of them at most.
	maxSenders = 4096
	maxRuns    = 4096
	// sealTries is how often a request is sealed for a node that has begun anew.
	sealTries = 3
	// runPrefix is what the header begins with by which a node says its run.
	runPrefix = "run."
)

// seals have each request that one node seals for another count once, so that who reads the network between them
// cannot send it again. A request names the run of the node that it is for, a text that this node has drawn at its
// start, and has a number that its sender gives once. No clock is asked: those of machines differ. A node says its
// run to whom seals for another one; what it refuses so was not done, and is sealed again.
type seals struct {
	from    string        // the run of this node as a sender
	numbers atomic.Uint64 // those that it has given

	mu struct {
		sync.Mutex
		run   string               // of this node as who is asked
		heard map[string]*numbered // what it was asked, by the run of the sender
		runs  map[string]string    // those of other nodes, by their addresses, as they were said last
	}
}

func newSeals() *seals {
	s := &seals{from: rand.Text()}
	s.mu.run, s.mu.heard, s.mu.runs = rand.Text(), map[string]*numbered{}, map[string]string{}
	return s
}

// numbered are the newest numbers of a sender that have come.
type numbered struct {
	newest uint64
	come   [sealWindow / 64]uint64
}

// What a number may be.
type coming int

const (
	first   coming = iota
	again          // it has come before
	unknown        // it is too far behind to know
)

// take notes that a number has come.
func (w *numbered) take(n uint64) coming {
	if n > w.newest {
		if n-w.newest >= sealWindow {
			clear(w.come[:])
		} else {
			for at := w.newest + 1; at < n; at++ {
				w.come[at%sealWindow/64] &^= 1 << (at % 64)
			}
		}
		w.newest = n
	} else if w.newest-n >= sealWindow {
		return unknown
	} else if w.come[n%sealWindow/64]&(1<<(n%64)) != 0 {
		return again
	}
	w.come[n%sealWindow/64] |= 1 << (n % 64)
	return first
}

// take notes that a request has come which is sealed as it should be.
func (s *seals) take(i *inner) coming {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.To != s.mu.run {
		return unknown
	}
	w := s.mu.heard[i.From]
	if w == nil {
		if len(s.mu.heard) == maxSenders { // what they have sealed is for a run that is over from now on
			s.mu.run = rand.Text()
			clear(s.mu.heard)
			return unknown
		}
		w = &numbered{}
		s.mu.heard[i.From] = w
	}
	return w.take(i.Number)
}

// address seals a request for a node.
func (s *seals) address(i *inner, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.To, i.From, i.Number = s.mu.runs[address], s.from, s.numbers.Add(1)
}

// said is the header by which this node says its run, as the answer to the header of a request.
func (s *seals) said(secret []byte, header string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return runPrefix + s.mu.run + "." + base64.RawURLEncoding.EncodeToString(macOf(secret, []byte(runPrefix+s.mu.run+"."+header)))
}

// learn notes the run that a node has said, as the answer to the header of a request, and reports whether it did.
func (s *seals) learn(secret []byte, address, header, answer string) bool {
	rest, ok := strings.CutPrefix(answer, runPrefix)
	run, mac, _ := strings.Cut(rest, ".")
	seal, err := base64.RawURLEncoding.DecodeString(mac)
	if !ok || err != nil || !hmac.Equal(seal, macOf(secret, []byte(runPrefix+run+"."+header))) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.runs) >= maxRuns {
		clear(s.mu.runs) // each is said again where it is asked for
	}
	s.mu.runs[address] = run
	return true
}

// ask asks a node, with what is sealed for its run. The request has a body of its own each time. ErrUnavailable where
// the node begins anew again and again.
func (s *Server) ask(ctx context.Context, address string, of inner, header http.Header, body []byte) (*http.Response, error) {
	for range sealTries {
		s.seals.address(&of, address)
		sealed, err := of.sealed(s.o.Shards.Secret())
		if err != nil {
			return nil, err
		}
		r, err := http.NewRequestWithContext(ctx, of.Method, address+of.URI, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header = header.Clone()
		r.Header.Set(innerHeader, sealed)
		reply, err := s.o.Shards.Client().Do(r)
		if err != nil || !s.seals.learn(s.o.Shards.Secret(), address, sealed, reply.Header.Get(innerHeader)) {
			return reply, err
		}
		_ = reply.Body.Close() // nothing was done
	}
	return nil, &memory.Error{
		Kind: memory.ErrUnavailable, What: "ask the node at " + address, Why: "it takes nothing that this node has sealed, and begins anew each time",
		Do: "see that no other node listens at its address, and that nothing between them answers for it",
	}
}
