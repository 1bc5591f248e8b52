package sessions

import (
	"fmt"
	"math"
	"sort"
	"sync/atomic"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Sessions are the sessions of a database: in a transaction, or with each call as a
// transaction of its own.
type Sessions struct{ run part.Runner }

// New is Sessions whose calls a runner runs. Engine makes them: see its DB.Sessions and
// Tx.Sessions.
func New(r part.Runner) Sessions { return Sessions{r} }

// Part is the structure as the database sees it.
type Part struct {
	oldest atomic.Uint64 // nobody reads a state that is older; 0: not known yet
}

// Name is "sessions".
func (*Part) Name() string { return "sessions" }

// Kinds are those of keys.go.
func (*Part) Kinds() []part.Kind {
	return []part.Kind{kindSession, kindState, kindMessage, kindMarker, kindID, kindOrder, kindChore}
}

// Grown counts the messages that were written after an LSN.
func (*Part) Grown(v part.View, after uint64) (messages, bytes int64, err error) {
	lower := v.Key(kindMessage, 0)
	err = v.Scan(lower, layout.PrefixEnd(lower), func(key, value []byte) error {
		_, _, lsn, ok := parseItem(key)
		if ok && lsn > after && lsn <= v.LSN() {
			messages, bytes = messages+1, bytes+int64(len(key)+len(value))
		}
		return nil
	})
	return messages, bytes, err
}

// Ops are those of keys.go.
func (*Part) Ops() []part.Op {
	return []part.Op{opSession, opAppend, opWrite, opMarker, opRemove, opOwner}
}

// Figures are the number of sessions.
func (*Part) Figures(v part.View) (map[string]int64, error) {
	n := int64(0)
	err := eachOwner(v, func(owner uint32) error {
		count, _, err := v.Counter(kindSession, owner)
		n += count
		return err
	})
	return map[string]int64{"sessions": n}, err
}

// Release says which states nobody reads any more.
func (p *Part) Release(oldest uint64) { p.oldest.Store(oldest) }

// eachOwner calls visit for each owner that has or had sessions.
func eachOwner(v part.View, visit func(owner uint32) error) error {
	lower, upper := span(v.Key(kindSession, 0))
	return v.Hop(lower, upper, func(key, _ []byte) ([]byte, error) {
		p, known := parsePlace(key)
		if !known {
			return nil, layout.BadKey("session", key)
		}
		if p.owner == math.MaxUint32 {
			return nil, visit(p.owner)
		}
		return place{owner: p.owner + 1}.head(v), visit(p.owner)
	})
}

// locate is where a session lies, false for one that never was.
func locate(v part.View, o scope.Owner, name string) (p place, known bool, err error) {
	if p.owner, known, err = v.Owner(o); err != nil || !known {
		return place{}, false, err
	}
	p.run, known, err = v.Run(name)
	return p, known, err
}

// stored is a session as it is stored, living or not; nil where there never was one.
func stored(v part.View, p place) (*head, error) {
	b, found, err := v.Get(p.head(v))
	if err != nil || !found {
		return nil, err
	}
	return decodeHead(b)
}

// find is a session that a reader of a state sees, ErrNotFound where there is none.
func find(v part.View, doing string, o scope.Owner, name string) (place, *head, error) {
	p, known, err := locate(v, o, name)
	if err != nil {
		return place{}, nil, err
	}
	if known {
		h, err := seen(v, p)
		if err != nil || h != nil {
			return p, h, err
		}
	}
	return place{}, nil, notFound(doing)
}

func notFound(doing string) error {
	return &fault.Error{Kind: fault.ErrNotFound, What: doing, Why: "its owner has no such session", Do: "check the session and the owner"}
}

func named(verb, name string) string { return fmt.Sprintf("%s session %q", verb, valid.Short(name)) }

// seen is a living session as a reader of a state sees it, nil where there is none.
func seen(v part.View, p place) (*head, error) {
	h, err := stored(v, p)
	if err != nil || h == nil {
		return nil, err
	}
	if h.version > v.LSN() {
		if h, err = past(v, p); err != nil || h == nil {
			return nil, err
		}
	}
	if !h.live() {
		return nil, nil
	}
	return h, nil
}

// past is a session as it was at the LSN of a reader: its newest state of then, with the
// messages that were appended up to then.
func past(v part.View, p place) (*head, error) {
	it, err := v.Iter(p.state(v, 0), p.state(v, v.LSN()+1))
	if err != nil {
		return nil, err
	}
	var h *head
	if it.Last() {
		var b []byte
		if b, err = it.ValueAndErr(); err == nil {
			h, err = decodeHead(b)
		}
	} else {
		err = it.Error()
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	if err != nil || h == nil || !h.live() {
		return h, err
	}
	last, found, err := lastPosition(v, p, h.content)
	if err != nil || !found {
		return h, err
	}
	// Positions are given in the order of LSNs: those up to one were there.
	var failed error
	n := sort.Search(int(last+1-h.first), func(i int) bool {
		born, found, err := firstBorn(v, p, h.content, h.first+uint32(i))
		if err != nil {
			failed = err
		}
		return !found || born > v.LSN()
	})
	h.next = h.first + uint32(n)
	if n > 0 && failed == nil {
		failed = h.updatedBy(v, p)
	}
	return h, failed
}

// updatedBy has the session updated, at the latest, when its last message was said.
func (h *head) updatedBy(v part.View, p place) error {
	return eachMessage(v, p, h.content, h.next-1, h.next, func(_ uint32, m *Message) error {
		if !m.At.IsZero() {
			h.updated = max(h.updated, m.At.UnixMilli())
		}
		return nil
	})
}

// lastPosition is the last position of a content.
func lastPosition(v part.View, p place, content uint32) (position uint32, found bool, err error) {
	it, err := v.Iter(span(p.content(v, kindMessage, content)))
	if err != nil {
		return 0, false, err
	}
	if found = it.Last(); found {
		_, position, _, found = parseItem(it.Key())
	}
	err = it.Error()
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return position, found, err
}

// firstBorn is the LSN of the commit that first wrote a position.
func firstBorn(v part.View, p place, content, position uint32) (lsn uint64, found bool, err error) {
	lower, upper := span(p.at(v, kindMessage, content, position))
	err = v.Scan(lower, upper, func(key, _ []byte) error {
		if _, _, born, ok := parseItem(key); !found {
			lsn, found = born, ok
		}
		return nil
	})
	return lsn, found, err
}
