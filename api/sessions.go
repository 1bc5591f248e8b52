package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// A Session is the session that a request is about. It belongs to a user and an agent.
type Session struct {
	Owner
	Run string `path:"run" arg:"RUN" help:"the session"`
}

// SessionOf implements OfSession.
func (s *Session) SessionOf() *Session { return s }

// OfSession is a request about one session. A key of the session may make it, too.
type OfSession interface {
	// SessionOf returns the session of the request, whose owner its caller sets.
	SessionOf() *Session
}

// state is the line of a session.
func (s *Session) state(ctx context.Context, db *engine.DB) (sessions.SessionLine, error) {
	found, err := db.Sessions().Get(ctx, s.owner(), s.Run)
	return sessions.NewSessionLine(found), err
}

// SessionListRequest lists sessions.
type SessionListRequest struct {
	Owner
	Channel  string `query:"channel" help:"only sessions of this channel, including archived ones"`
	Archived bool   `query:"archived" help:"list archived sessions instead of the others"`
	Page
	// Run is the only session that the caller may see; empty: all of the owner.
	Run string
}

// SessionList lists sessions.
var SessionList = &List[SessionListRequest, sessions.SessionLine]{
	Operation: Operation{Name: "session list", Route: "GET /sessions", Summary: "List sessions, most recently updated first", Doing: "list sessions"},
	Run: func(ctx context.Context, db *engine.DB, q *SessionListRequest, yield func(sessions.SessionLine) error) (End, error) {
		if q.Run != "" {
			one, err := db.Sessions().Get(ctx, q.owner(), q.Run)
			switch {
			case errors.Is(err, memory.ErrNotFound), q.Channel != "" && one.Channel != q.Channel, q.Channel == "" && one.Archived != q.Archived:
				return End{}, nil
			case err != nil:
				return End{}, err
			}
			return End{}, yield(sessions.NewSessionLine(one))
		}
		page, err := db.Sessions().List(ctx, sessions.Query{Owner: q.owner(), Channel: q.Channel, Archived: q.Archived, After: q.After, Limit: q.Limit})
		if err != nil {
			return End{}, err
		}
		return End{Next: page.Next}, each(page.Sessions, func(s sessions.Session) error { return yield(sessions.NewSessionLine(s)) })
	},
}

// SessionState shows a session without its messages.
var SessionState = &Op[Session, sessions.SessionLine]{
	Operation: Operation{Name: "session state", Route: "GET /sessions/{run}/state", Summary: "Show a session without its messages", Doing: "show a session"},
	Run: func(ctx context.Context, db *engine.DB, q *Session) (sessions.SessionLine, error) {
		return q.state(ctx, db)
	},
}

// ChannelName is the channel of a session.
type ChannelName struct {
	Channel string `json:"channel" openapi:"required" help:"the channel in which the session takes place"`
}

// SessionOpenChannelRequest opens the session of a channel.
type SessionOpenChannelRequest struct {
	Owner
	ChannelName `body:"object"`
}

// Check implements Checked.
func (q *SessionOpenChannelRequest) Check() error {
	if q.Channel == "" {
		return invalid("open a session", "there is no channel", "give it, or open a session by its name")
	}
	return nil
}

// SessionOpenChannel opens the most recent session of a channel. It is for an owner: a key of a session does not find
// the sessions of a channel.
var SessionOpenChannel = &Op[SessionOpenChannelRequest, sessions.SessionLine]{
	Operation: Operation{Name: "session open channel", Route: "POST /sessions", Summary: "Open the most recent session of a channel, or create one", Doing: "open a session", Access: Creates},
	Run: func(ctx context.Context, db *engine.DB, q *SessionOpenChannelRequest) (sessions.SessionLine, error) {
		if err := q.Check(); err != nil {
			return sessions.SessionLine{}, err
		}
		s, err := db.Sessions().OpenChannel(ctx, q.owner(), q.Channel)
		return sessions.NewSessionLine(s), err
	},
}

// SessionOpenNamedRequest opens a session by its name.
type SessionOpenNamedRequest struct {
	Session
	Channel string `query:"channel" help:"the channel in which the session takes place"`
}

// SessionOpenNamed opens a session by its name.
var SessionOpenNamed = &Op[SessionOpenNamedRequest, sessions.SessionLine]{
	Operation: Operation{Name: "session open named", Route: "POST /sessions/{run}/open", Summary: "Open a session, or create it", Doing: "open a session", Access: Creates},
	Run: func(ctx context.Context, db *engine.DB, q *SessionOpenNamedRequest) (sessions.SessionLine, error) {
		s, err := db.Sessions().Open(ctx, q.owner(), q.Run, &sessions.OpenOptions{Channel: q.Channel})
		return sessions.NewSessionLine(s), err
	},
}

// SessionOpenRequest opens a session by its name, or by its channel.
type SessionOpenRequest struct {
	Owner
	Run     string `query:"run" arg:"[RUN]" help:"the session"`
	Channel string `query:"channel" help:"the channel in which the session takes place"`
}

// Check implements Checked.
func (q *SessionOpenRequest) Check() error {
	if q.Run != "" {
		return nil
	}
	return q.byChannel().Check()
}

func (q *SessionOpenRequest) byChannel() *SessionOpenChannelRequest {
	return &SessionOpenChannelRequest{q.Owner, ChannelName{q.Channel}}
}

// SessionOpen opens a session, as SessionOpenNamed or SessionOpenChannel.
var SessionOpen = &Op[SessionOpenRequest, sessions.SessionLine]{
	Operation: Operation{Name: "session open", Summary: "Open a session, or create it", Doing: "open a session", Access: Creates},
	As: func(q *SessionOpenRequest) Call[OpRun[sessions.SessionLine]] {
		if q.Run == "" {
			return SessionOpenChannel.Call(q.byChannel())
		}
		return SessionOpenNamed.Call(&SessionOpenNamedRequest{Session{q.Owner, q.Run}, q.Channel})
	},
}

// SessionClose closes a session.
var SessionClose = &Op[Session, sessions.SessionLine]{
	Operation: Operation{Name: "session close", Route: "POST /sessions/{run}/close", Summary: "Close a session: nothing is appended until it is opened again", Doing: "close a session", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *Session) (sessions.SessionLine, error) {
		if err := db.Sessions().Close(ctx, q.owner(), q.Run); err != nil {
			return sessions.SessionLine{}, err
		}
		return q.state(ctx, db)
	},
}

// SessionArchive archives a session.
var SessionArchive = &Op[Session, sessions.SessionLine]{
	Operation: Operation{Name: "session archive", Route: "POST /sessions/{run}/archive", Summary: "Archive a session: close it and hide it from lists", Doing: "archive a session", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *Session) (sessions.SessionLine, error) {
		if err := db.Sessions().Archive(ctx, q.owner(), q.Run); err != nil {
			return sessions.SessionLine{}, err
		}
		return q.state(ctx, db)
	},
}

// SessionDeleteRequest deletes a session.
type SessionDeleteRequest struct {
	Session
	WithMemories bool `query:"with_memories" help:"also delete the memories of the session"`
}

// SessionDelete deletes a session.
var SessionDelete = &Op[SessionDeleteRequest, sessions.Deleted]{
	Operation: Operation{Name: "session delete", Route: "DELETE /sessions/{run}", Summary: "Delete a session", Doing: "delete a session", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *SessionDeleteRequest) (sessions.Deleted, error) {
		return db.Sessions().Delete(ctx, q.owner(), q.Run, &sessions.DeleteOptions{Memories: q.WithMemories})
	},
}

// SessionCompactRequest summarises the older messages of a session.
type SessionCompactRequest struct {
	Session
	Threshold  int  `query:"threshold" default:"30" help:"the number of messages from which on the session is summarised"`
	KeepRecent int  `query:"keep_recent" default:"10" help:"the number of newest messages that are not summarised"`
	Drop       bool `query:"drop" help:"remove the messages that were summarised; their memories stay"`
	// Summarizer writes the summary; nil: it is an extract.
	Summarizer sessions.Summarizer
}

// Check implements Checked.
func (q *SessionCompactRequest) Check() error {
	if q.Threshold < 1 || q.KeepRecent < 1 || q.KeepRecent >= q.Threshold {
		return invalid("compact a session", fmt.Sprintf("threshold is %d and keep_recent %d", q.Threshold, q.KeepRecent), "both are 1 or more, and the threshold is the greater one")
	}
	return nil
}

// SessionCompact summarises the older messages of a session. The summary is an archive, which is a note of the owner.
var SessionCompact = &Op[SessionCompactRequest, sessions.Compacted]{
	Operation: Operation{Name: "session compact", Route: "POST /sessions/{run}/compact", Summary: "Summarise the older messages of a session", Doing: "compact a session", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *SessionCompactRequest) (sessions.Compacted, error) {
		if err := q.Check(); err != nil {
			return sessions.Compacted{}, err
		}
		o := &sessions.CompactOptions{Threshold: q.Threshold, KeepRecent: q.KeepRecent, Drop: q.Drop, Summarizer: q.Summarizer}
		return db.Sessions().Compact(ctx, q.owner(), q.Run, o)
	},
}

// SessionRepairRequest repairs a session.
type SessionRepairRequest struct {
	Session
	DryRun bool `query:"dry_run" help:"change nothing, and report what would be repaired"`
	Undo   bool `query:"undo" help:"undo the last repair; the reply is the session"`
}

// Check implements Checked.
func (q *SessionRepairRequest) Check() error {
	if q.DryRun && q.Undo {
		return invalid("repair a session", "dry_run and undo exclude each other", "")
	}
	return nil
}

// ReadsOnly implements Trial.
func (q *SessionRepairRequest) ReadsOnly() bool { return q.DryRun }

// A SessionRepairReply is what a repair has done, or the session if a repair was undone.
type SessionRepairReply struct {
	// Repaired is what was repaired, or would be.
	Repaired *sessions.Repaired `has:"repaired"`
	// Session is the session, where that was undone.
	Session *sessions.SessionLine
}

// OneOf returns an empty value of each form.
func (SessionRepairReply) OneOf() []any { return []any{sessions.Repaired{}, sessions.SessionLine{}} }

// MarshalJSON writes what there is of the two.
func (r SessionRepairReply) MarshalJSON() ([]byte, error) { return writeOne(r) }

// UnmarshalJSON reads one of the two.
func (r *SessionRepairReply) UnmarshalJSON(b []byte) error { return readOne(b, r) }

// SessionRepair repairs a session, or undoes that.
var SessionRepair = &Op[SessionRepairRequest, SessionRepairReply]{
	Operation: Operation{Name: "session repair", Route: "POST /sessions/{run}/repair", Summary: "Repair a session", Doing: "repair a session", Access: Writes},
	Run: func(ctx context.Context, db *engine.DB, q *SessionRepairRequest) (SessionRepairReply, error) {
		if err := q.Check(); err != nil {
			return SessionRepairReply{}, err
		}
		if !q.Undo {
			r, err := db.Sessions().Repair(ctx, q.owner(), q.Run, q.DryRun)
			return SessionRepairReply{Repaired: &r}, err
		}
		if err := db.Sessions().UndoRepair(ctx, q.owner(), q.Run); err != nil {
			return SessionRepairReply{}, err
		}
		s, err := q.state(ctx, db)
		return SessionRepairReply{Session: &s}, err
	},
}
