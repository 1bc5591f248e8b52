package sessions

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// OpenOptions changes what Open does. nil is the default.
type OpenOptions struct {
	// Channel is that of a new session; one that is there under another is ErrConflict.
	Channel string
	// Metadata is a JSON object, of a new session only.
	Metadata json.RawMessage
}

// sizes of what a change of a session writes, in bytes, about.
const stateBytes = 1024

// Open returns a session, which is made if there is none. One that is closed is open again.
func (s Sessions) Open(ctx context.Context, o scope.Owner, name string, opts *OpenOptions) (Session, error) {
	if opts == nil {
		opts = &OpenOptions{}
	}
	doing := named("open", name)
	if err := checkName(doing, o, name); err != nil {
		return Session{}, err
	}
	if err := valid.Word(doing, "channel", opts.Channel); err != nil {
		return Session{}, err
	}
	metadata, err := checkObject(doing, opts.Metadata)
	if err != nil {
		return Session{}, err
	}
	var out Session
	err = s.run.Append(ctx, doing, stateBytes+len(metadata), func(t part.Tx) error {
		out, err = open(t, doing, o, name, opts.Channel, metadata)
		return err
	})
	if err != nil {
		return Session{}, err
	}
	return out, nil
}

func open(t part.Tx, doing string, o scope.Owner, name, channel string, metadata []byte) (Session, error) {
	if err := t.Need(doing, stateBytes+len(metadata)); err != nil {
		return Session{}, err
	}
	c, err := begin(t, o, name)
	if err != nil {
		return Session{}, err
	}
	if c.fresh() {
		c.channel = channel
	} else {
		if err := c.sameChannel(doing, channel); err != nil {
			return Session{}, err
		}
		if metadata, err = c.metadata(); err != nil {
			return Session{}, err
		}
		if !c.closed() {
			return c.session(metadata), nil
		}
		c.flags &^= flagClosed | flagArchived
		c.updated = max(c.updated, t.Now())
	}
	if err := c.settle(); err != nil {
		return Session{}, err
	}
	return c.session(metadata), c.saveState(metadata)
}

// sameChannel refuses another channel than the session has.
func (c *change) sameChannel(doing, channel string) error {
	if channel == "" || channel == c.channel {
		return nil
	}
	why := "its channel is " + c.channel
	if c.channel == "" {
		why = "it has no channel"
	}
	return &fault.Error{Kind: fault.ErrConflict, What: doing, Why: why + ", not " + valid.Short(channel), Do: "name another session, or leave the channel out"}
}

// OpenChannel returns the open session of a channel that was updated last. If there is none,
// it makes one, whose name is a UUID.
func (s Sessions) OpenChannel(ctx context.Context, o scope.Owner, channel string) (Session, error) {
	const doing = "open a session of a channel"
	if err := scope.Check(doing, o.Scope()); err != nil {
		return Session{}, err
	}
	if channel == "" {
		return Session{}, fault.Invalid(doing, "the channel is empty", "name one")
	}
	if err := valid.Word(doing, "channel", channel); err != nil {
		return Session{}, err
	}
	id, err := newID(doing)
	if err != nil {
		return Session{}, err
	}
	var out Session
	err = s.run.Append(ctx, doing, stateBytes, func(t part.Tx) error {
		owner, known, err := t.Owner(o)
		if err != nil {
			return err
		}
		if known {
			h, p, err := newestOf(t, owner, channel)
			if err != nil {
				return err
			}
			if h != nil {
				metadata, err := metadataOf(t, p, h)
				out = h.session(metadata)
				return err
			}
		}
		out, err = open(t, doing, o, id, channel, nil)
		return err
	})
	if err != nil {
		return Session{}, err
	}
	return out, nil
}

// newestOf is the open session of a channel that was updated last, nil where there is none.
func newestOf(v part.View, owner uint32, channel string) (h *head, p place, err error) {
	lower, upper := span(list(v, owner, channelList(channel)))
	err = v.Scan(lower, upper, func(key, _ []byte) error {
		at, _, _, ok := parseOrder(key)
		if !ok {
			return layout.BadKey("session list", key)
		}
		found, err := seen(v, at)
		if err != nil || found == nil || found.closed() || found.channel != channel {
			return err
		}
		h, p = found, at
		return kv.ErrStop
	})
	return h, p, err
}

func newID(doing string) (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", &fault.Error{Kind: fault.ErrFailed, What: doing, Why: "the system gives no random bytes", Cause: err}
	}
	return id.String(), nil
}

// Get returns a session, ErrNotFound where there is none.
func (s Sessions) Get(ctx context.Context, o scope.Owner, name string) (out Session, err error) {
	doing := named("get", name)
	if err := checkName(doing, o, name); err != nil {
		return Session{}, err
	}
	err = s.run.View(ctx, doing, func(v part.View) error {
		p, h, err := find(v, doing, o, name)
		if err != nil {
			return err
		}
		metadata, err := metadataOf(v, p, h)
		out = h.session(metadata)
		return err
	})
	if err != nil {
		return Session{}, err
	}
	return out, nil
}

// SetMetadata replaces the metadata of a session: a JSON object, or nothing. ErrNotFound
// where there is no such session.
func (s Sessions) SetMetadata(ctx context.Context, o scope.Owner, name string, metadata json.RawMessage) error {
	doing := named("change the metadata of", name)
	b, err := checkObject(doing, metadata)
	if err != nil {
		return err
	}
	return s.alter(ctx, doing, o, name, func(_ *change, now *[]byte) { *now = b })
}

// Close closes a session: nothing is appended until it is opened again. ErrNotFound where
// there is no such session; closing one that is closed changes nothing.
func (s Sessions) Close(ctx context.Context, o scope.Owner, name string) error {
	return s.alter(ctx, named("close", name), o, name, func(c *change, _ *[]byte) { c.flags |= flagClosed })
}

// Archive closes a session, and has a list leave it out. It can be read, exported and
// opened again. ErrNotFound where there is no such session.
func (s Sessions) Archive(ctx context.Context, o scope.Owner, name string) error {
	return s.alter(ctx, named("archive", name), o, name, func(c *change, _ *[]byte) { c.flags |= flagClosed | flagArchived })
}

// alter changes a session itself, not its messages.
func (s Sessions) alter(ctx context.Context, doing string, o scope.Owner, name string, fn func(c *change, metadata *[]byte)) error {
	if err := checkName(doing, o, name); err != nil {
		return err
	}
	return s.run.Append(ctx, doing, stateBytes+MaxMetadata, func(t part.Tx) error {
		if err := t.Need(doing, stateBytes+MaxMetadata); err != nil {
			return err
		}
		c, err := beginKnown(t, doing, o, name)
		if err != nil {
			return err
		}
		metadata, err := c.metadata()
		if err != nil {
			return err
		}
		before := string(metadata)
		fn(c, &metadata)
		if c.flags == c.was.flags && before == string(metadata) {
			return nil
		}
		c.updated = max(c.updated, t.Now())
		return c.saveState(metadata)
	})
}
