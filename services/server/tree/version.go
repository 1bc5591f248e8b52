package tree

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Operation is what a version did to its file.
type Operation string

// The operations.
const (
	Created  Operation = "created"
	Modified Operation = "modified"
	Deleted  Operation = "deleted"
)

// A Version is what a file was from one change to the next.
type Version struct {
	// ID is that of the memory that has the content; File is that of the file.
	ID        string    `json:"-"`
	File      string    `json:"file"`
	Operation Operation `json:"operation"`
	// Path is empty once the version was redacted.
	Path string `json:"path,omitempty"`
	// At is when it was stored, By who did so, empty where that is not known.
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
	// Empty: the content was empty.
	Empty bool `json:"empty,omitempty"`
	// RedactedAt is when the content was erased, nil for never, and RedactedBy who did so.
	RedactedAt *time.Time `json:"redacted_at,omitempty"`
	RedactedBy string     `json:"redacted_by,omitempty"`

	// Content is nil for a deletion, for what was redacted, and where the database keeps no history
	// of that age.
	Content *string `json:"-"`
	// Present: the file is this version.
	Present bool `json:"-"`
}

const versionsKey = "memory_versions/"

func (t *Tree) versionKey(id string) string { return versionsKey + t.store() + "/" + id }

// presentOf is the version that a file is.
func presentOf(f File) Version {
	v := Version{ID: f.Version, File: f.ID, Operation: Modified, Path: f.Path, At: f.ChangedAt, By: f.By, Empty: f.Content == "", Content: &f.Content, Present: true}
	if f.ID == f.Version {
		v.Operation = Created
	}
	return v
}

// bury keeps what is known of the version that a file is, and deletes its note.
func (e *Edit) bury(f File) error {
	v := presentOf(f)
	if err := e.keep(&v); err != nil {
		return err
	}
	return e.tx.Memories().Delete(e.ctx, f.note.Scope, f.note.ID)
}

func (e *Edit) keep(v *Version) error {
	_, err := e.tx.KV().Put(e.ctx, e.t.Owner, e.t.versionKey(v.ID), v, nil)
	return err
}

// Versions calls visit for all versions of all files that are or were in the tree, in no order, and
// without their contents but for those that are present: see [View.Content].
func (v *View) Versions(visit func(Version)) error {
	if err := v.Files("/", func(f File) { visit(presentOf(f)) }); err != nil {
		return err
	}
	prefix := v.t.versionKey("")
	for e, err := range v.tx.KV().All(v.ctx, entries.Query{Owner: v.t.Owner, Prefix: prefix}) {
		if err != nil {
			return err
		}
		old, err := parseVersion(e.Value, e.Key[len(prefix):])
		if err != nil {
			return err
		}
		visit(old)
	}
	return nil
}

func parseVersion(value json.RawMessage, id string) (Version, error) {
	v := Version{ID: id}
	if err := json.Unmarshal(value, &v); err != nil {
		return v, &memory.Error{Kind: memory.ErrCorrupt, What: "read the version " + id, Cause: err, Do: "delete the entry " + versionsKey + "…/" + id}
	}
	return v, nil
}

// Version is the version of an ID, with its content.
func (v *View) Version(id string) (found Version, is bool, err error) {
	err = v.Files("/", func(f File) {
		if f.Version == id {
			found, is = presentOf(f), true
		}
	})
	if is || err != nil {
		return found, is, err
	}
	e, is, err := v.tx.KV().Lookup(v.ctx, v.t.Owner, v.t.versionKey(id))
	if err != nil || !is {
		return found, false, err
	}
	if found, err = parseVersion(e.Value, id); err == nil {
		err = v.Content(&found)
	}
	return found, err == nil, err
}

// Content reads the content of a version.
func (v *View) Content(of *Version) error {
	if of.Content != nil || of.Operation == Deleted || of.RedactedAt != nil {
		return nil
	}
	events, err := v.tx.Memories().History(v.ctx, v.t.Owner.Scope(), of.ID)
	if errors.Is(err, memory.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.NewText != nil && e.Scope.Owner() == v.t.Owner {
			of.Content = e.NewText
		}
	}
	if of.Empty && of.Content != nil && *of.Content == products.EmptyText {
		of.Content = new(string)
	}
	return nil
}

// ErrPresent is returned for a version that cannot be redacted, since the file is it.
var ErrPresent = errors.New("the version is the present one of its file; change or delete the file first")

// Redact erases the content of a version that is not the present one: no file of the database has
// it after that, see [engine.DB.Erase], which also says how long it takes and which errors there
// are. The version stays, without its path. Called again it does what is left to do. ErrNotFound
// where there is no such version.
func (t *Tree) Redact(ctx context.Context, id string) (of Version, err error) {
	unknown := &memory.Error{Kind: memory.ErrNotFound, What: "redact the version " + id, Why: "there is none of this ID"}
	err = t.View(ctx, func(v *View) error {
		found, is, err := v.Version(id)
		switch of = found; {
		case err != nil:
			return err
		case !is:
			return unknown
		case found.Present:
			return ErrPresent
		}
		return nil
	})
	if err != nil || of.RedactedAt != nil {
		return of, err
	}
	if of.Operation != Deleted {
		// Before it is marked: what is marked is gone.
		_, err = t.DB.Erase(ctx, engine.EraseQuery{User: t.Owner.User, Agent: t.Owner.Agent, ID: id})
		if err != nil && !errors.Is(err, memory.ErrNotFound) {
			return of, err
		}
	}
	err = t.Update(ctx, func(e *Edit) error {
		found, is, err := e.Version(id)
		switch of = found; {
		case err != nil:
			return err
		case !is:
			return unknown
		}
		at := t.now().UTC()
		of.Content, of.Path, of.RedactedAt, of.RedactedBy = nil, "", &at, t.By
		return e.keep(&of)
	})
	return of, err
}

// Clear deletes all files of the tree, and what is known of all versions.
func (e *Edit) Clear() error {
	var files []File
	if err := e.Files("/", func(f File) { files = append(files, f) }); err != nil {
		return err
	}
	for _, f := range files {
		if err := e.tx.Memories().Delete(e.ctx, f.note.Scope, f.note.ID); err != nil {
			return err
		}
	}
	var keys []string
	for old, err := range e.tx.KV().All(e.ctx, entries.Query{Owner: e.t.Owner, Prefix: e.t.versionKey("")}) {
		if err != nil {
			return err
		}
		keys = append(keys, old.Key)
	}
	for _, key := range keys {
		if err := e.tx.KV().Delete(e.ctx, e.t.Owner, key); err != nil {
			return err
		}
	}
	return nil
}
