package exchange

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/ctxio"
	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/notes"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// TypeEnd is the type of the line that a server ends an export with. An import leaves it out.
const TypeEnd = "end"

// ImportJSONL stores the memories of a stream of JSON lines. The report is valid
// also with an error, and then tells what was done before it. The error is a
// LineError under Strict, the context's, the reader's, or one of the database
// that is not about one record.
func ImportJSONL(ctx context.Context, db *engine.DB, r io.Reader, o *Options) (Report, error) {
	return newBatch(db, o).all(ctx, NewLineReader(ctxio.Reader(ctx, r)), "")
}

// ImportJSON is ImportJSONL for one JSON document: a list of what are lines otherwise, or
// one of them. A LineError counts the records of the list. An error of the document itself
// ends the import, after what came before it is stored.
func ImportJSON(ctx context.Context, db *engine.DB, r io.Reader, o *Options) (Report, error) {
	return newBatch(db, o).all(ctx, NewDocumentReader(ctxio.Reader(ctx, r)), "record")
}

// source reads records, each of which is a JSON object.
type source interface {
	// Next returns the next record, io.EOF after the last, ErrLongLine for one that is left
	// out. A record is valid until the next call.
	Next() ([]byte, error)
	// Line is the number of the record that Next returned last, counted from 1.
	Line() int
	// Bytes is how much was read, up to the end of that record.
	Bytes() int64
}

// all stores all records of a source. of is what it calls them, empty: lines.
func (b *batch) all(ctx context.Context, records source, of string) (Report, error) {
	for {
		line, err := records.Next()
		b.report.Bytes = records.Bytes()
		at := LineError{Line: records.Line(), Of: of, Err: err}
		switch {
		case errors.Is(err, io.EOF):
			return b.finish(ctx, nil)
		case err != nil && !errors.Is(err, ErrLongLine):
			return b.finish(ctx, fmt.Errorf("read %s %d: %w", cmp.Or(of, "line"), at.Line+1, err))
		case err == nil:
			err = b.own(ctx, at, line)
		default:
			err = b.refuse(ctx, at)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return b.report, err
		}
	}
}

// own takes a line.
func (b *batch) own(ctx context.Context, at LineError, line []byte) error {
	do, err := b.decode(ctx, at, line)
	if err != nil {
		at.Err = err
		return b.refuse(ctx, at)
	}
	return do()
}

// decode reads a line and returns what is to be done with it.
func (b *batch) decode(ctx context.Context, at LineError, line []byte) (do func() error, err error) {
	// The keys of another type may have other values, so the type goes first.
	kind, err := typeOf(line)
	if err != nil {
		return nil, err
	}
	read := func(line []byte, v any) error { return b.read(kind, line, v) }
	switch kind {
	case "", TypeMemory:
		m, err := b.decodeMemory(line)
		withoutBeside(&m) // of an export that was made in the midst of a change of the model
		return func() error { return b.add(ctx, at, m, len(line)) }, err
	case notes.TypeNote:
		var n notes.Line
		err := read(line, &n)
		return func() error { return b.add(ctx, at, n.Memory(), len(line)) }, err
	case TypeHistory:
		var e Event
		err := read(line, &e)
		return func() error { return b.happened(ctx, at, e.entry()) }, err
	case TypeSpace:
		var s Space
		err := read(line, &s)
		return func() error { return b.space(ctx, at, &s) }, err
	case TypeDatabase:
		var d Database
		err := read(line, &d)
		return func() error { return b.database(&d) }, err
	case TypeEnd:
		return func() error { return nil }, nil
	}
	if l := b.db.NewLine(kind); l != nil {
		err := read(line, l)
		if err == nil {
			err = l.Check()
		}
		return func() error { return b.line(ctx, at, l, len(line)) }, err
	}
	return nil, fmt.Errorf("type %q is not known to this version", kind)
}

// read reads a line of a type. Keys that are not known have no place: they are counted, or under
// Strict an error.
func (b *batch) read(kind string, line []byte, v any) error {
	if b.opts.Strict && !b.opts.IgnoreUnknown {
		err := DecodeStrict(line, v)
		clock.Place(v, b.opts.Zone)
		return err
	}
	unknown, err := b.decodeKnown(kind, line, v)
	for _, m := range unknown {
		b.report.LeftOut.Add(LeftKey(kind, m.Key), 1)
	}
	return err
}

// LeftKey is the name under which the key of a record of a type is counted that has no place.
func LeftKey(kind, key string) string { return fmt.Sprintf("%q of lines of type %s", key, kind) }

// typeOf is the type of a line, and refuses one of which a part is far too large,
// before all of it is read.
func typeOf(line []byte) (kind string, err error) {
	err = rawjson.Members(line, func(key string, value []byte) error {
		switch key {
		case "type":
			if Decode(value, &kind) == nil {
				return nil
			}
			return Decode(line, new(struct { // whose error names the key
				Type string `json:"type"`
			}))
		case "metadata":
			return atMost(key, value, 6*memory.MaxMetadata, fmt.Sprintf("the limit is %d", memory.MaxMetadata)) // with all escaped
		case "aliases":
			return atMost(key, value, memory.MaxAliases*(6*memory.MaxID+len(`"",`)), fmt.Sprintf("there may be %d of them", memory.MaxAliases))
		case "embedding":
			return fewComponents(key, value)
		case "vectors":
			err := rawjson.Members(value, fewComponents)
			if errors.Is(err, rawjson.ErrMalformed) {
				return nil // which is said when it is read
			}
			return err
		}
		return nil
	})
	if errors.Is(err, rawjson.ErrMalformed) {
		err = Decode(line, new(json.RawMessage))
	}
	return kind, err
}

// atMost bounds the JSON of a part of a line, without blanks.
func atMost(key string, value []byte, most int, limit string) error {
	if len(value) <= most {
		return nil
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) == nil && compact.Len() > most {
		return fmt.Errorf("%q is %d bytes of JSON; %s", key, compact.Len(), limit)
	}
	return nil
}

func fewComponents(key string, value []byte) error {
	if n := bytes.Count(value, []byte(",")) + 1; n > memory.MaxDim {
		return fmt.Errorf("%q has %d components, the limit is %d", key, n, memory.MaxDim)
	}
	return nil
}

// foreign is a Record with the names that other systems give to its keys.
type foreign struct {
	Record
	UserID  string `json:"user_id"`
	AgentID string `json:"agent_id"`
	RunID   string `json:"run_id"`
	Said    string `json:"memory"`
	Content string `json:"content"`
}

// ofHits lists the keys that a hit has in addition to its memory. Derived lists the keys of a memory that
// follow from other keys, or that the database sets.
var (
	ofHits  = []string{"score", "parts", "spans", "near", "asked"}
	Derived = []string{"seq", "hash", "note_id", "stored_confidence", "decayed_importance"}
)

// OwnKeys are the keys of a memory in memdb's own form.
var OwnKeys = keysOf(reflect.TypeFor[foreign]())

// ownTypes are the types of the lines of an export, with keys of which each such line has one.
var ownTypes = map[string][]string{
	TypeMemory:           {"text", "memory", "content", "embedding", "vectors"},
	TypeHistory:          {"memory_id"},
	TypeSpace:            {"dim"},
	TypeDatabase:         {"language", "indexed_text"},
	TypeEnd:              {"end"},
	notes.TypeNote:       {"memory_id", "content"},
	entries.TypeLine:     {"key"},
	sessions.TypeSession: {"session"},
	sessions.TypeMessage: {"session"},
	sessions.TypeMarker:  {"session"},
	graph.TypeEntity:     {"id", "entity_type"},
	graph.TypeRelation:   {"relation"},
	graph.TypeLink:       {"memory"},
	graph.TypeMerge:      {"into"},
	typeAgent:            {"id"},
	"budget":             {"limit_usd"},
	"usage":              {"model", "prompt_tokens", "completion_tokens", "total_tokens", "cost_usd"},
	"policy":             nil,
}

// OwnType is the type that an object says it has, and whether it is a line of memdb's own: it has a
// type of memdb, and keys of that. An object that is malformed behind such a type is one, too.
func OwnType(object []byte) (typ string, own bool) {
	var keys []string
	err := rawjson.Members(object, func(key string, value []byte) error {
		if key != "type" {
			keys = append(keys, key)
		} else if typ == "" && Decode(value, &typ) != nil {
			typ = ""
		}
		return nil
	})
	needs, own := ownTypes[typ]
	if own && err == nil && needs != nil {
		own = slices.ContainsFunc(needs, func(key string) bool { return slices.Contains(keys, key) })
		if typ == TypeMemory && !own { // one that lacks them, or the record of a stranger
			own = !slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(OwnKeys, key) })
		}
	}
	return typ, own
}

// decodeMemory reads the line of a memory. A key that is not known goes to the metadata, unless a key
// of that name is there, or it is one of a hit.
func (b *batch) decodeMemory(line []byte) (memory.Memory, error) {
	var f foreign
	var unknown []Member
	var err error
	if b.opts.Strict && !b.opts.IgnoreUnknown {
		err = DecodeStrict(line, &f)
		clock.Place(&f, b.opts.Zone)
	} else {
		unknown, err = b.decodeKnown(TypeMemory, line, &f)
	}
	for _, m := range unknown {
		if err == nil {
			err = b.keep(&f.Record, m)
		}
	}
	if err == nil {
		err = cmp.Or(
			alias("user", &f.User, "user_id", f.UserID),
			alias("agent", &f.Agent, "agent_id", f.AgentID),
			alias("run", &f.Run, "run_id", f.RunID),
			alias("text", &f.Text, "memory", f.Said),
			alias("text", &f.Text, "content", f.Content),
		)
	}
	if err != nil {
		return memory.Memory{}, err
	}
	return f.Memory(), nil
}

// keep puts a key that is not known into the metadata of a memory.
func (b *batch) keep(r *Record, m Member) error {
	_, there := r.Metadata[m.Key]
	if there || slices.Contains(ofHits, m.Key) {
		b.report.LeftOut.Add(LeftKey(TypeMemory, m.Key), 1)
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(m.Value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	if r.Metadata == nil {
		r.Metadata = Object{}
	}
	r.Metadata[m.Key] = v
	b.report.Mapped.Add(m.Key, "metadata."+m.Key)
	return nil
}

// alias takes the value of another key for the same field.
func alias(key string, field *string, other, value string) error {
	if value == "" || value == *field {
		return nil
	}
	if *field != "" {
		return fmt.Errorf("%q and %q differ", key, other)
	}
	*field = value
	return nil
}
