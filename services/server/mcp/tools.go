package mcp

import (
	"context"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// instructions are for a model that has the tools of the database.
const instructions = `This is your long-term memory. It outlives the conversation.
Call recall before you answer what may depend on earlier conversations, on what the user likes, or on what was decided.
Call remember for what will still matter later: one statement that can be understood by itself, not a transcript.
Correct what has changed: forget what is no longer so, and remember what is.`

// about is what a client is told of a tool beside its schemas.
type about struct {
	name, title, text string
	actions           []string // of the argument "action"
	reads, deletes    bool
	repeats           bool // a second equal call changes nothing
}

// add adds a tool. Arguments that its schema does not have are refused.
func add[In, Out any](h *host, a about, fn func(ctx context.Context, in In) (Out, error)) {
	in, err := jsonschema.For[In](nil)
	if err != nil { // a type of this package that no schema is made of
		h.Logger.Error("a tool has no schema", "tool", a.name, "error", err)
		return
	}
	if action := in.Properties["action"]; action != nil {
		for _, name := range a.actions {
			action.Enum = append(action.Enum, name)
		}
	}
	no := false
	sdk.AddTool(h.sdk, &sdk.Tool{
		Name: a.name, Title: a.title, Description: a.text, InputSchema: in,
		Annotations: &sdk.ToolAnnotations{Title: a.title, ReadOnlyHint: a.reads, DestructiveHint: &a.deletes, IdempotentHint: a.reads || a.repeats, OpenWorldHint: &no},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
		out, err := fn(ctx, in)
		if err != nil {
			err = h.told(err)
		}
		return nil, out, err
	})
}

// addMemoryTools adds the tools of the database that the scope has a place for.
func (h *host) addMemoryTools() {
	add(h, about{
		name: "remember", title: "Remember", repeats: true,
		text: "Store something for later conversations: a preference, a decision, a fact, an event. Write one statement that can be understood by itself, with names instead of pronouns. The same text is not stored twice.",
	}, h.remember)
	add(h, about{
		name: "recall", title: "Recall", reads: true,
		text: "Find what was stored before, by words and by meaning, the best first. Ask in the words in which the answer may have been written.",
	}, h.recall)
	add(h, about{
		name: "forget", title: "Forget", deletes: true, repeats: true,
		text: "Delete memories by their IDs, which recall gives. Use it for what is wrong, what is no longer so, and what the user does not want to be kept.",
	}, h.forget)
	add(h, about{
		name: "facts", title: "Facts", deletes: true, actions: []string{"add", "search", "list", "get", "update", "delete", "history"},
		text: "Keep facts that change. add takes a text or what a user said and brings the facts up to date; update and delete correct one by its ID; history tells what one said before.",
	}, h.facts)
	if !h.hasOwner() {
		return
	}
	add(h, about{
		name: "notes", title: "Notes", deletes: true, actions: []string{"list", "read", "search", "write", "rename", "delete"},
		text: "Keep longer texts by name: plans, summaries, instructions. write makes a note or replaces its content; read it first if it is there.",
	}, h.notes)
	add(h, about{
		name: "graph", title: "Graph", deletes: true, actions: []string{"put", "relate", "get", "find", "path", "delete", "unrelate"},
		text: "Keep who and what there is, and how they relate. put adds an entity or changes it; relate connects two; find looks entities up by name; get shows one with its relations; path connects two that are far apart.",
	}, h.graph)
	add(h, about{
		name: "session", title: "Session", actions: []string{"append", "read", "list"},
		text: "Keep the messages of a conversation in their order. append adds one, read returns the newest of them, list names the conversations.",
	}, h.session)
}

// A remembered memory is one that was found.
type remembered struct {
	ID        string         `json:"id"`
	Text      string         `json:"text"`
	Kind      string         `json:"kind"`
	Score     float64        `json:"score" jsonschema:"comparable within one answer alone"`
	Near      bool           `json:"near,omitempty" jsonschema:"it has none of the words, but words like them"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	CreatedAt time.Time      `json:"created_at"`
	EventTime *time.Time     `json:"event_time,omitempty"`
}

type rememberIn struct {
	Text       string         `json:"text" jsonschema:"the statement"`
	Kind       string         `json:"kind,omitempty" jsonschema:"message, fragment or fact; default fragment"`
	Importance *float64       `json:"importance,omitempty" jsonschema:"how much it matters, 0 to 1; judged by the text where it is left out"`
	EventTime  *string        `json:"event_time,omitempty" jsonschema:"when it happened, where that is not now (RFC 3339)"`
	ExpiresAt  *string        `json:"expires_at,omitempty" jsonschema:"from when on it is of no use (RFC 3339, or the last day on which it is)"`
	Metadata   map[string]any `json:"metadata,omitempty" jsonschema:"keys and values to filter by later"`
}

type rememberOut struct {
	ID           string `json:"id"`
	Stored       bool   `json:"stored" jsonschema:"false: it was known already"`
	Deduplicated bool   `json:"deduplicated"`
}

func (h *host) remember(ctx context.Context, in rememberIn) (out rememberOut, err error) {
	kind := memory.Kind(in.Kind)
	switch kind {
	case "":
		kind = memory.KindFragment
	case memory.KindMessage, memory.KindFragment, memory.KindFact:
	default:
		return out, &memory.Error{Kind: memory.ErrInvalid, What: "remember", Why: "the kind is none of message, fragment and fact", Do: "leave it out, or keep notes with the tool notes"}
	}
	m := memory.Memory{Scope: h.Scope, Text: in.Text, Kind: kind, Importance: in.Importance, Metadata: in.Metadata}
	for _, t := range []struct {
		in   *string
		what string
		to   *time.Time
		read func(string) (time.Time, error)
	}{
		{in.EventTime, "event_time", &m.EventTime, clock.Parse},
		{in.ExpiresAt, "expires_at", &m.ExpiresAt, clock.ParseExpiry},
	} {
		if t.in == nil || *t.in == "" {
			continue
		}
		if *t.to, err = t.read(*t.in); err != nil {
			return out, &memory.Error{Kind: memory.ErrInvalid, What: "remember", Why: t.what + ": " + err.Error(), Do: "leave it out if it has no time"}
		}
	}
	stored, err := h.db.Memories().Store(ctx, m, nil)
	return rememberOut{stored.ID, stored.Stored, stored.Deduplicated}, err
}

type recallIn struct {
	Query string `json:"query" jsonschema:"what to look for"`
	Limit int    `json:"limit,omitempty" jsonschema:"at most so many; default 10, up to 100"`
	Kind  string `json:"kind,omitempty" jsonschema:"only memories of this kind"`
}

type recallOut struct {
	Memories []remembered `json:"memories"`
}

// maxHits bounds what a model is given at once.
const maxHits = 100

// limited is a limit that was asked for, within bounds.
func limited(asked, otherwise int) (int, error) {
	if asked < 0 || asked > maxHits {
		return 0, &memory.Error{Kind: memory.ErrInvalid, What: "look", Why: "the limit is not from 1 to 100", Do: "leave it out, or narrow the query"}
	}
	if asked == 0 {
		return otherwise, nil
	}
	return asked, nil
}

func (h *host) recall(ctx context.Context, in recallIn) (out recallOut, err error) {
	out.Memories = []remembered{}
	q := memory.Query{Scope: h.Scope, Text: in.Query}
	if q.Limit, err = limited(in.Limit, 10); err != nil {
		return out, err
	}
	if q.Filter, err = ofKind(in.Kind); err != nil {
		return out, err
	}
	found, err := h.db.Memories().Recall(ctx, q)
	for i := range found.Hits {
		hit := &found.Hits[i]
		r := remembered{ID: hit.ID, Text: hit.Text, Kind: string(hit.Kind), Score: hit.Score, Near: hit.Near, Metadata: hit.Metadata, CreatedAt: hit.CreatedAt}
		if !hit.EventTime.IsZero() {
			r.EventTime = &hit.EventTime
		}
		out.Memories = append(out.Memories, r)
	}
	return out, err
}

type forgetIn struct {
	IDs []string `json:"ids" jsonschema:"the IDs of the memories"`
}

type forgetOut struct {
	Deleted []string `json:"deleted"`
	Unknown []string `json:"unknown" jsonschema:"IDs of no memory"`
}
