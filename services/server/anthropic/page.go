package anthropic

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
)

const (
	defaultLimit = 20
	maxLimit     = 100
	// maxFull bounds a page with contents.
	maxFull = 20
)

// page is a list, a part of it at a time.
type page struct {
	Data []any   `json:"data"`
	Next *string `json:"next_page"`
}

// window is the part of a list that a request asks for: what comes after a key, in the list's order.
type window struct {
	after string
	limit int
	full  bool
}

func windowOf(q url.Values) (w window, err error) {
	w.limit = defaultLimit
	if text := q.Get("limit"); text != "" {
		if w.limit, err = strconv.Atoi(text); err != nil || w.limit < 1 || w.limit > maxLimit {
			return w, invalid("limit: give 1 to %d", maxLimit)
		}
	}
	if w.full, err = fullOf(q, false); err != nil {
		return w, err
	}
	if w.full {
		w.limit = min(w.limit, maxFull)
	}
	after, err := base64.RawURLEncoding.DecodeString(q.Get("page"))
	if err != nil {
		return w, invalid("page: it is not the next_page of an answer")
	}
	w.after = string(after)
	return w, nil
}

// fullOf reports whether a request asks for contents.
func fullOf(q url.Values, otherwise bool) (bool, error) {
	switch view := q.Get("view"); view {
	case "":
		return otherwise, nil
	case "full", "basic":
		return view == "full", nil
	default:
		return false, invalid("view: it is %.40q; give basic or full", view)
	}
}

// pageOf is the page of a list whose things are in the order of their keys.
func pageOf[T any](all []T, key func(T) string, w window, show func(T) (any, error)) (p page, err error) {
	first := 0
	for w.after != "" && first < len(all) && key(all[first]) <= w.after {
		first++
	}
	all = all[first:]
	p.Data = []any{}
	if len(all) > w.limit {
		all = all[:w.limit]
		next := base64.RawURLEncoding.EncodeToString([]byte(key(all[w.limit-1])))
		p.Next = &next
	}
	for _, of := range all {
		shown, err := show(of)
		if err != nil {
			return p, err
		}
		p.Data = append(p.Data, shown)
	}
	return p, nil
}

// newestFirst is a key whose order is that of times from the newest on, then of IDs.
func newestFirst(at time.Time, id string) string {
	return strconv.FormatInt(1<<53-at.UnixMilli(), 10) + " " + id
}

// period are the times between which something was made.
type period struct{ from, to time.Time }

func periodOf(q url.Values) (p period, err error) {
	for name, at := range map[string]*time.Time{"created_at[gte]": &p.from, "created_at[lte]": &p.to} {
		if text := q.Get(name); text != "" {
			if *at, err = clock.Parse(text); err != nil {
				return p, invalid("%s: %v", name, err)
			}
		}
	}
	return p, nil
}

func (p period) has(at time.Time) bool {
	return !at.Before(p.from) && (p.to.IsZero() || !at.After(p.to))
}
