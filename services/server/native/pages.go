package native

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
)

// A list of memories of all shards is in the order of a time, then of the shards, then of seq. So a place in it is
// one in each shard: shards before that of the place go on behind its time, it goes on behind its seq, and shards
// after it go on with its time.

// A stand is the place of a memory in a list of all shards.
type stand struct {
	at    int64 // the time in milliseconds, 0: it has none, and stands behind all that have one
	shard int
	seq   uint64
}

// standOf is the place of a record that a shard has, in a list by one of two times.
func standOf(r raw, shard int, updated bool) (stand, error) {
	var of struct {
		Seq       uint64        `json:"seq"`
		CreatedAt exchange.Time `json:"created_at"`
		UpdatedAt exchange.Time `json:"updated_at"`
	}
	if err := json.Unmarshal(r, &of); err != nil {
		return stand{}, err
	}
	at := of.CreatedAt
	if updated {
		at = of.UpdatedAt
	}
	s := stand{shard: shard, seq: of.Seq}
	if !at.IsZero() {
		s.at = at.UnixMilli()
	}
	return s, nil
}

// compare is the order of two places.
func (s stand) compare(o stand, descending bool) int {
	c := cmp.Compare(s.at, o.at)
	switch {
	case (s.at == 0) != (o.at == 0):
		c = -c
	case descending:
		c = -c
	}
	return cmp.Or(c, cmp.Compare(s.shard, o.shard), cmp.Compare(s.seq, o.seq))
}

// in is the place behind which a shard goes on.
func (s stand) in(shard int) *memory.ListPlace {
	p := &memory.ListPlace{Seq: s.seq}
	if s.at != 0 {
		p.At = time.UnixMilli(s.at)
	}
	switch c := cmp.Compare(shard, s.shard); {
	case c < 0:
		p.Seq = 1<<64 - 1
	case c > 0:
		p.Seq = 0
	}
	return p
}

// What a mark of a page begins with, and its version.
const (
	markPrefix  = "shards."
	markVersion = 1
)

var markEncoding = base64.RawURLEncoding.Strict()

// An order is that of a list of all shards.
type order struct {
	updated, descending bool
	shards              int // how many there are
}

func (o order) head() []byte {
	b := []byte{markVersion, 0}
	if o.updated {
		b[1] |= 1
	}
	if o.descending {
		b[1] |= 2
	}
	return binary.AppendUvarint(b, uint64(o.shards))
}

// mark is the value of after for the page behind a place.
func (o order) mark(s stand) string {
	b := binary.AppendVarint(o.head(), s.at)
	b = binary.AppendUvarint(b, uint64(s.shard))
	b = binary.AppendUvarint(b, s.seq)
	return markPrefix + markEncoding.EncodeToString(binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// marked reads a mark.
func (o order) marked(mark string) (s stand, err error) {
	bad := func(why string) (stand, error) {
		return stand{}, invalid(doingAll, "the mark in after "+why, "give next of a page of this list, or begin without after")
	}
	text, ok := strings.CutPrefix(mark, markPrefix)
	b, err := markEncoding.DecodeString(text)
	n := len(b) - crc32.Size
	if !ok || err != nil || n < 0 || binary.LittleEndian.Uint32(b[n:]) != crc32.ChecksumIEEE(b[:n]) {
		return bad("is none of a list of all shards")
	}
	head := o.head()
	if n < len(head) || string(b[:len(head)]) != string(head) {
		return bad("is of a list in another order, or of another cluster")
	}
	b = b[len(head):n]
	var shard uint64
	var sizes [3]int
	s.at, sizes[0] = binary.Varint(b)
	if sizes[0] > 0 {
		shard, sizes[1] = binary.Uvarint(b[sizes[0]:])
	}
	if sizes[1] > 0 {
		s.seq, sizes[2] = binary.Uvarint(b[sizes[0]+sizes[1]:])
	}
	if sizes[2] <= 0 || shard >= uint64(o.shards) {
		return bad("is damaged")
	}
	s.shard = int(shard)
	return s, nil
}

const doingAll = "list memories of all shards"

// orderOf is the order that is asked for, of which order_by is a parameter.
func orderOf(by string, descending bool, shards int) (order, error) {
	if by != "created_at" && by != "updated_at" {
		return order{}, invalid(doingAll, "the shards are merged by created_at and updated_at alone", "leave order_by out, or name the user")
	}
	return order{updated: by == "updated_at", descending: descending, shards: shards}, nil
}

// goOn has the list of a shard go on where a page of all shards has ended.
func (a *ask) goOn(q *api.MemoryListRequest) error {
	q.Behind = nil
	if !a.Part() || !strings.HasPrefix(q.After, markPrefix) {
		return nil
	}
	o, err := orderOf(q.OrderBy, q.Descending, a.Shards())
	if err != nil {
		return err
	}
	s, err := o.marked(q.After)
	if err != nil {
		return err
	}
	q.After, q.Behind = "", s.in(a.Shard())
	return nil
}

// A line is a memory and its place.
type line struct {
	raw
	stand
}

// mergeMemories answers a list of memories in the order of their creation, or of their last change, page by page.
func mergeMemories(c *server.Call, p *server.Parts) error {
	q := c.R.URL.Query()
	if q.Get("order_by") == "" {
		q.Set("order_by", "created_at") // the order of storing is that of one database
	}
	o, err := orderOf(q.Get("order_by"), q.Get("descending") == "true", c.Shards())
	if err != nil {
		return err
	}
	if q.Get("after") != "" {
		if _, err := o.marked(q.Get("after")); err != nil {
			return err
		}
	}
	limit, err := (&ask{Call: c, params: []param{upTo}, values: countIn(q.Get("limit"))}).limit(defaultPage)
	if err != nil {
		return err
	}
	p.Query(q)
	lists, err := listsOf[raw](p)
	if err != nil {
		return err
	}
	all, unreadable, more, err := o.merge(lists)
	if err != nil {
		return err
	}
	if q.Get("all") != "true" && len(all) > limit {
		all, more = all[:limit], true
	}
	a := &ask{Call: c}
	return a.list(func(s *stream) error {
		s.end.Unreadable = unreadable
		if more {
			s.end.Next = o.mark(all[len(all)-1].stand)
		}
		for _, l := range all {
			if err := s.write(json.RawMessage(l.raw)); err != nil {
				return err
			}
		}
		return nil
	})
}

// merge joins what the shards have listed, up to where the first of them has ended that has more. A page of a shard
// may be short: it ends with its bytes, too.
func (o order) merge(lists []partList[raw]) (all []line, unreadable int, more bool, _ error) {
	var horizon *stand
	for _, l := range lists {
		unreadable += l.Unreadable
		for _, r := range l.lines {
			s, err := standOf(r, l.shard, o.updated)
			if err != nil {
				return nil, 0, false, err
			}
			all = append(all, line{r, s})
		}
		if l.Next == "" {
			continue
		}
		if len(l.lines) == 0 {
			return nil, 0, false, server.Fail(http.StatusBadGateway, "failed", "a whole page of shard %d is damaged; name the user, and see memdbctl check", l.shard)
		}
		if last := all[len(all)-1].stand; horizon == nil || last.compare(*horizon, o.descending) < 0 {
			horizon = &last
		}
	}
	slices.SortFunc(all, func(a, b line) int { return a.compare(b.stand, o.descending) })
	if horizon == nil {
		return all, unreadable, false, nil
	}
	n, found := slices.BinarySearchFunc(all, *horizon, func(l line, s stand) int { return l.compare(s, o.descending) })
	if !found {
		return nil, 0, false, fmt.Errorf("the end of the list of shard %d is not in it", horizon.shard)
	}
	return all[:n+1], unreadable, true, nil
}
