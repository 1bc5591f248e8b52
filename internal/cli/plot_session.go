package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/chart"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// mostDrawn bounds the messages of a picture: the newest.
const mostDrawn = 5_000

// drawnSession is a session as its picture has it.
type drawnSession struct {
	name     string
	messages int // of the session
	items    []drawnItem
	left     int // messages that are not drawn
}

// drawnItem is a message, or a marker.
type drawnItem struct {
	role  string
	chars int
	at    time.Time
	// marker is its archive, and summarized how many messages that was made of.
	marker     string
	summarized int
}

func talkOf(ctx context.Context, db *engine.DB, owner memory.Owner, name string) (*drawnSession, error) {
	t := &drawnSession{name: name}
	if _, err := db.Sessions().Get(ctx, owner, name); err != nil {
		return nil, err
	}
	for item, err := range db.Sessions().Items(ctx, owner, name) {
		if err != nil {
			return nil, err
		}
		t.add(item)
	}
	return t, nil
}

func (t *drawnSession) add(item sessions.Item) {
	if m := item.Marker; m != nil {
		t.items = append(t.items, drawnItem{marker: m.ArchiveName, summarized: m.Summarized, at: m.ArchivedAt})
		return
	}
	t.messages++
	chars := max(len([]rune(item.Message.Text)), len(item.Message.Parts))
	t.items = append(t.items, drawnItem{role: item.Message.Role, chars: chars, at: item.Message.At})
	if t.messages-t.left > mostDrawn {
		first := slices.IndexFunc(t.items, func(i drawnItem) bool { return i.marker == "" })
		t.items, t.left = slices.Delete(t.items, first, first+1), t.left+1
	}
}

// mostRoles bounds the colours: what comes after them is one.
const mostRoles = 5

func (t *drawnSession) chart() picture {
	c := &chart.Sequence{Title: "Session " + cut(t.name, 60), X: "messages, in their order", Y: "characters"}
	markers := 0
	for _, i := range t.items {
		if i.marker != "" {
			c.Pieces = append(c.Pieces, chart.Piece{Mark: fmt.Sprintf("%s: %s", cut(i.marker, 40), count(i.summarized, "message", "messages"))})
			markers++
			continue
		}
		role := cut(i.role, 40)
		if role == "" {
			role = "no role"
		}
		at := slices.Index(c.Series, role)
		if at < 0 && len(c.Series) >= mostRoles {
			role = "other roles"
			at = slices.Index(c.Series, role)
		}
		if at < 0 {
			c.Series, at = append(c.Series, role), len(c.Series)
		}
		c.Pieces = append(c.Pieces, chart.Piece{Series: at, Value: float64(i.chars)})
	}
	c.Notes = []string{fmt.Sprintf("%s; %s; before a marker messages are summarised", count(t.messages, "message", "messages"), count(markers, "marker", "markers"))}
	if t.left > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("the oldest %s are not drawn", number(t.left)))
	}
	return c
}

func (a *app) printTalk(t *drawnSession) error {
	n := t.left
	for _, i := range t.items {
		out := map[string]any{"type": "marker", "archive_name": i.marker, "summarized": i.summarized, "at": i.at}
		line := fmt.Sprintf("marker\t%s\t%s", escape(i.marker), count(i.summarized, "message", "messages"))
		if i.marker == "" {
			n++
			out = map[string]any{"type": "message", "number": n, "role": i.role, "characters": i.chars, "at": i.at}
			line = fmt.Sprintf("%d\t%s\t%s", n, escape(i.role), count(i.chars, "character", "characters"))
		}
		if !a.json {
			a.printf("%s\n", line)
		} else if err := a.printJSON(out); err != nil {
			return err
		}
	}
	return nil
}
