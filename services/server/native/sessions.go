package native

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

const linesOfJSON = "application/x-ndjson"

func sessionRoutes() []route {
	line := sessions.SessionLine{}
	type MessageLine sessions.MessageLine // its named keys; other keys are allowed
	return []route{
		listRoute(api.SessionList, nil),
		opRoute(api.SessionOpenChannel),
		{at: "GET /sessions/{run}", summary: "List the newest messages of a session, starting with its newest marker", reply: server.OneOf{Name: "SessionItem", Of: []any{MessageLine{}, sessions.MarkerLine{}}}, lines: true, handle: showSession, params: ofOwner(
			param{name: "last", kind: count, summary: "the largest number of messages; the default is 20 without tokens"},
			param{name: "tokens", kind: count, summary: "the largest number of tokens of the messages, at four bytes each"},
			param{name: "all", kind: flag, summary: "return all messages, including those before a marker"},
		)},
		opRoute(api.SessionState),
		{at: "PUT /sessions/{run}", summary: "Replace the content of a session by messages of any form and markers, as JSON lines or a JSON array", takes: linesOfJSON, body: sessionItems{}, reply: saved{}, handle: saveSession, params: ofOwner(
			param{name: "channel", kind: text, summary: "the channel in which the session takes place"},
			param{name: "if_version", kind: lsn, summary: "fail unless the session has this version; 0: unless it does not exist"},
			param{name: "strict", kind: flag, summary: "refuse parts and keys that no form of messages has"},
		)},
		{at: "POST /sessions/{run}/messages", summary: "Append a message of any form to a session, and store it as a memory", body: newMessage{}, reply: sessions.Appended{}, status: http.StatusCreated, handle: appendMessage, params: ofOwner()},
		opRoute(api.SessionOpenNamed),
		opRoute(api.SessionClose),
		opRoute(api.SessionArchive),
		{at: "POST /sessions/{run}/compact", summary: "Summarise the older messages of a session", reply: sessions.Compacted{}, handle: compactSession, params: ofOwner(
			param{name: "threshold", kind: count, summary: "the number of messages from which on the session is summarised; the default is 30"},
			param{name: "keep_recent", kind: count, summary: "the number of newest messages that are not summarised; the default is 10"},
			param{name: "drop", kind: flag, summary: "remove the messages that were summarised; their memories stay"},
		)},
		{at: "POST /sessions/{run}/repair", summary: "Repair a session", reply: server.OneOf{Name: "SessionRepair", Of: []any{sessions.Repaired{}, line}}, handle: repairSession, params: ofOwner(
			param{name: "dry_run", kind: flag, summary: "change nothing, and report what would be repaired"},
			param{name: "undo", kind: flag, summary: "undo the last repair; the reply is the session"},
		)},
		opRoute(api.SessionDelete),
	}
}

func showSession(a *ask) error {
	run := a.id("run")
	owner, err := a.session("show a session", run)
	if err != nil {
		return err
	}
	if value[bool](a, "all") {
		if a.given("last") || a.given("tokens") {
			return invalid("show a session", "all excludes last and tokens", "")
		}
		return a.list(func(s *stream) error {
			for i, err := range a.DB.Sessions().Items(a.Context(), owner, run) {
				if err == nil {
					err = s.item(i)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	w := sessions.Window{Last: value[int](a, "last"), Tokens: value[int](a, "tokens")}
	if a.given("last") && w.Last < 1 || a.given("tokens") && w.Tokens < 1 {
		return invalid("show a session", "last and tokens are 1 or more", "")
	}
	loaded, err := a.DB.Sessions().Load(a.Context(), owner, run, &w)
	if err != nil {
		return err
	}
	return a.list(func(s *stream) error {
		if loaded.Marker != nil {
			if err := s.item(sessions.Item{Marker: loaded.Marker}); err != nil {
				return err
			}
		}
		for i := range loaded.Messages {
			if err := s.item(sessions.Item{Message: &loaded.Messages[i]}); err != nil {
				return err
			}
		}
		return nil
	})
}

// item writes a message or a marker.
func (s *stream) item(i sessions.Item) error {
	if i.Marker != nil {
		return s.write(sessions.NewMarkerLine(i.Marker))
	}
	return s.write(sessions.NewMessageLine(i.Message))
}

// sessionItems documents what a save replaces a session by: messages in any form, and markers.
type sessionItems []json.RawMessage

type saved struct {
	Messages int `json:"messages"`
	Unknown  int `json:"unknown"` // parts and keys of no known form, which are kept
}

func saveSession(a *ask) error {
	run := a.id("run")
	owner, err := a.session("save a session", run)
	if err != nil {
		return err
	}
	body, err := a.Values()
	if err != nil {
		return err
	}
	items, err := exchange.ReadSession(bytes.NewReader(body), "save a session")
	if err != nil {
		return err
	}
	if a.sealed(memory.Scope{User: owner.User, Agent: owner.Agent}) {
		for _, i := range items {
			if i.Marker != nil || len(i.Message.MemoryIDs) > 0 {
				return server.Denied("the key is one of a run: its messages refer to no memories by ID, and have no markers")
			}
		}
	}
	n, err := a.DB.Sessions().Save(a.Context(), owner, run, items, &sessions.SaveOptions{Channel: value[string](a, "channel"), IfVersion: optional[uint64](a, "if_version"), Strict: value[bool](a, "strict")})
	return a.ok(saved{n, sessions.Unknown(items)}, err)
}

// newMessage documents the keys of an append. Those of the message may be in any form.
type newMessage struct {
	appending
	Text     string        `json:"text"`
	Role     string        `json:"role"`      // user where it is left out
	MemoryID string        `json:"memory_id"` // one that is there, or that of the one which is stored
	At       exchange.Time `json:"at"`
}

// appending are the keys of this dialect beside those of the message.
type appending struct {
	MessageID string `json:"message_id"`
	Channel   string `json:"channel"`
	NoMemory  bool   `json:"no_memory"`
	Trim      int    `json:"trim"` // remove the oldest messages beyond so many
	Strict    bool   `json:"strict"`
}

// anyMessage is a message of any form with what is to be done with it.
type anyMessage struct {
	appending
	said sessions.Message
}

// UnmarshalJSON reads the keys of this dialect, and the message from the others.
func (m *anyMessage) UnmarshalJSON(b []byte) error {
	if _, err := exchange.DecodeKnown(b, &m.appending); err != nil { // the other keys are the message's
		return err
	}
	said := []byte{'{'}
	err := rawjson.Members(b, func(key string, v []byte) error {
		switch key {
		case "message_id", "channel", "no_memory", "trim", "strict":
			return nil
		}
		name, err := json.Marshal(key)
		if len(said) > 1 {
			said = append(said, ',')
		}
		said = append(append(append(said, name...), ':'), v...)
		return err
	})
	if err == nil {
		err = m.said.UnmarshalJSON(append(said, '}'))
	}
	m.said.ID = cmp.Or(m.MessageID, m.said.ID)
	return err
}

func appendMessage(a *ask) error {
	b, err := decoded[anyMessage](a)
	if err != nil {
		return err
	}
	run := a.id("run")
	owner, err := a.session("append a message", run)
	switch {
	case err != nil:
		return err
	case len(b.said.MemoryIDs) > 0 && a.sealed(memory.Scope{User: owner.User, Agent: owner.Agent}):
		return server.Denied("the key is one of a run: its messages refer to no memories by ID")
	}
	opts := &sessions.AppendOptions{Channel: b.Channel, NoMemory: b.NoMemory, TrimRemoves: b.Trim, Strict: b.Strict}
	all, err := a.DB.Sessions().Append(a.Context(), owner, run, []sessions.Message{b.said}, opts)
	if err != nil {
		return err
	}
	return a.Reply(http.StatusCreated, all[0])
}

// compactSession stores an archive, which is a note of the owner.
func compactSession(a *ask) error {
	owner, err := a.session("compact a session", a.id("run"))
	if err != nil {
		return err
	}
	o := &sessions.CompactOptions{Threshold: value[int](a, "threshold"), KeepRecent: value[int](a, "keep_recent"), Drop: value[bool](a, "drop")}
	threshold, keep := o.Threshold, o.KeepRecent
	if !a.given("threshold") {
		threshold = sessions.DefaultThreshold
	}
	if !a.given("keep_recent") {
		keep = sessions.DefaultKeepRecent
	}
	if threshold < 1 || keep < 1 || keep >= threshold {
		return invalid("compact a session", fmt.Sprintf("threshold is %d and keep_recent %d", threshold, keep), "both are 1 or more, and the threshold is the greater one")
	}
	r, err := a.DB.Sessions().Compact(a.Context(), owner, a.id("run"), o)
	return a.ok(r, err)
}

func repairSession(a *ask) error {
	owner, err := a.session("repair a session", a.id("run"))
	if err != nil {
		return err
	}
	dry, undo := value[bool](a, "dry_run"), value[bool](a, "undo")
	switch {
	case dry && undo:
		return invalid("repair a session", "dry_run and undo exclude each other", "")
	case undo:
		if err := a.DB.Sessions().UndoRepair(a.Context(), owner, a.id("run")); err != nil {
			return err
		}
		s, err := a.DB.Sessions().Get(a.Context(), owner, a.id("run"))
		return a.ok(sessions.NewSessionLine(s), err)
	}
	r, err := a.DB.Sessions().Repair(a.Context(), owner, a.id("run"), dry)
	return a.ok(r, err)
}
