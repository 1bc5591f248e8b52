package sessions

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Query selects sessions of an owner, those that were updated last first.
type Query struct {
	scope.Owner
	// Channel selects those of a channel, archived ones included.
	Channel string
	// Archived selects those that are archived, instead of those that are not.
	Archived bool
	// After is Next of the page before.
	After string
	// Limit is the size of a page: 0 is 100, at most MaxLimit of package engine.
	Limit int
}

// Page is a part of the sessions of a query.
type Page struct {
	// Sessions are those of the page.
	Sessions []Session
	// Next is given as After to get the page that follows; empty after the last one. A
	// session that is updated between two pages moves to the front, and is not on the
	// second.
	Next string
}

const defaultPage = 100

// List returns a page of an owner's sessions. It reads as many as it returns; in a View of a
// past state, which the lists are not those of, it reads all that the owner has.
func (s Sessions) List(ctx context.Context, q Query) (page Page, err error) {
	const doing = "list sessions"
	limit, err := valid.Limit(doing, q.Limit, defaultPage)
	if err != nil {
		return Page{}, err
	}
	if err := scope.Check(doing, q.Scope()); err != nil {
		return Page{}, err
	}
	if err := valid.Word(doing, "channel", q.Channel); err != nil {
		return Page{}, err
	}
	after, err := base64.RawURLEncoding.DecodeString(q.After)
	if err != nil || len(after) > 0 && len(after) != orderSize-keyHeader {
		return Page{}, fault.Invalid(doing, "After is not the Next of a page", "give it as it was")
	}
	err = s.run.View(ctx, doing, func(v part.View) error {
		owner, known, err := v.Owner(q.Owner)
		if err != nil || !known {
			return err
		}
		if v.Past() {
			page, err = listedThen(v, owner, &q, after, limit)
		} else {
			page, err = listed(v, owner, &q, after, limit)
		}
		return err
	})
	return page, err
}

// list is the one that the query reads.
func (q *Query) list() listID {
	switch {
	case q.Channel != "":
		return channelList(q.Channel)
	case q.Archived:
		return archives
	}
	return everyday
}

// has reports whether a session of the list is one of the query.
func (q *Query) has(h *head) bool {
	if q.Channel != "" {
		return h.channel == q.Channel && (!q.Archived || h.archived())
	}
	return h.archived() == q.Archived
}

func listed(v part.View, owner uint32, q *Query, after []byte, limit int) (page Page, err error) {
	lower, upper := span(list(v, owner, q.list()))
	if len(after) > 0 {
		lower = append(append(lower[:keyHeader:keyHeader], after...), 0)
	}
	var last []byte
	err = v.Scan(lower, upper, func(key, _ []byte) error {
		p, _, _, ok := parseOrder(key)
		if !ok {
			return layout.BadKey("session list", key)
		}
		h, err := seen(v, p)
		if err != nil || h == nil || !q.has(h) {
			return err
		}
		if len(page.Sessions) == limit {
			page.Next = base64.RawURLEncoding.EncodeToString(last)
			return kv.ErrStop
		}
		metadata, err := metadataOf(v, p, h)
		page.Sessions = append(page.Sessions, h.session(metadata))
		last = append(last[:0], key[keyHeader:]...)
		return err
	})
	return page, err
}

// listedThen is listed for a state of the past. It looks at each session of the owner as it
// was, and keeps a page of those that come first.
func listedThen(v part.View, owner uint32, q *Query, after []byte, limit int) (page Page, err error) {
	type then struct {
		place
		*head
		key []byte // its place in the list, without the header
	}
	var first []then // at most one more than the page has
	lower, upper := place{owner: owner}.head(v), layout.PrefixEnd(binary.BigEndian.AppendUint32(v.Key(kindSession, numberSize), owner))
	err = v.Scan(lower, upper, func(key, _ []byte) error {
		p, ok := parsePlace(key)
		if !ok {
			return layout.BadKey("session", key)
		}
		h, err := seen(v, p)
		if err != nil || h == nil || !q.has(h) {
			return err
		}
		t := then{p, h, order(v, p, q.list(), h.updated)[keyHeader:]}
		if len(after) > 0 && bytes.Compare(t.key, after) <= 0 {
			return nil
		}
		at, _ := slices.BinarySearchFunc(first, t, func(a, b then) int { return bytes.Compare(a.key, b.key) })
		if at > limit {
			return nil
		}
		first = slices.Insert(first, at, t)
		first = first[:min(len(first), limit+1)]
		return nil
	})
	if err != nil {
		return Page{}, err
	}
	if len(first) > limit {
		first = first[:limit]
		page.Next = base64.RawURLEncoding.EncodeToString(first[limit-1].key)
	}
	for _, t := range first {
		metadata, err := metadataOf(v, t.place, t.head)
		if err != nil {
			return Page{}, err
		}
		page.Sessions = append(page.Sessions, t.session(metadata))
	}
	return page, nil
}

// All iterates over an owner's sessions, a page at a time. Outside a transaction the pages
// are of different states.
func (s Sessions) All(ctx context.Context, q Query) iter.Seq2[Session, error] {
	return func(yield func(Session, error) bool) {
		for {
			page, err := s.List(ctx, q)
			if err != nil {
				yield(Session{}, err)
				return
			}
			for _, of := range page.Sessions {
				if !yield(of, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.After = page.Next
		}
	}
}
