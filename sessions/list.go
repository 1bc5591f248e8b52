package sessions

import (
	"context"
	"encoding/base64"
	"iter"

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
	Sessions []Session
	// Next is given as After to get the page that follows; empty after the last one. A
	// session that is updated between two pages moves to the front, and is not on the
	// second.
	Next string
}

const defaultPage = 100

// List returns a page of an owner's sessions. It reads as many as it returns.
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
		page, err = listed(v, owner, &q, after, limit)
		return err
	})
	return page, err
}

func listed(v part.View, owner uint32, q *Query, after []byte, limit int) (page Page, err error) {
	l := everyday
	switch {
	case q.Channel != "":
		l = channelList(q.Channel)
	case q.Archived:
		l = archives
	}
	lower, upper := span(list(v, owner, l))
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
		if err != nil || h == nil || q.Channel != "" && (h.channel != q.Channel || q.Archived && !h.archived()) {
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
