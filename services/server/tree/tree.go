package tree

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// A Tree is the files of a store.
type Tree struct {
	// DB has them.
	DB *engine.DB
	// Owner is whose they are.
	Owner scope.Owner
	// Store is [products.Memories], or the ID of another store. Empty is products.Memories.
	Store string
	// By is who changes them, as versions tell: the ID of a key, or empty.
	By string
	// Now tells the time of changes. nil: the system's.
	Now func() time.Time
}

// A File is a note as a file.
type File struct {
	// ID stays the same while the path and the content change; Version is that of the present
	// content and path.
	ID, Version string
	// Path begins with a slash, below the root of the tree.
	Path    string
	Content string
	// CreatedAt is when the first version was stored, ChangedAt when this one was.
	CreatedAt, ChangedAt time.Time
	// By is who stored this version; empty where that is not known.
	By string

	note memory.Memory
}

// SHA256 is the hash of the content, in hexadecimal.
func (f *File) SHA256() string { return hash(f.Content) }

func hash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// MaxFiles bounds the files of a tree: a list reads all of them.
const MaxFiles = 10_000

func (t *Tree) store() string {
	if t.Store == "" {
		return products.Memories
	}
	return t.Store
}

func (t *Tree) root() string { return products.FileRoot(t.store()) }

func (t *Tree) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// fileOf is a note as a file.
func (t *Tree) fileOf(m memory.Memory) File {
	of := products.FileOf(t.store(), &m)
	return File{
		ID: cmp.Or(of.ID, m.ID), Version: m.ID, Path: of.Path, Content: of.Content, By: of.By,
		CreatedAt: m.CreatedAt, ChangedAt: m.UpdatedAt, note: m,
	}
}

// A View reads the files of a tree in one state.
type View struct {
	t   *Tree
	ctx context.Context
	tx  *engine.Tx
}

// View runs fn on one state of the tree.
func (t *Tree) View(ctx context.Context, fn func(v *View) error) error {
	return t.DB.View(ctx, func(tx *engine.Tx) error { return fn(&View{t, ctx, tx}) })
}

// KV is the key-value store of the database as this transaction sees it.
func (v *View) KV() entries.KV { return v.tx.KV() }

// At is the file of a path.
func (v *View) At(path string) (f File, found bool, err error) {
	name := v.t.root() + path
	n, err := v.tx.Notes().Get(v.ctx, v.t.Owner, name)
	if errors.Is(err, memory.ErrNotFound) || err == nil && n.Name != name {
		return f, false, nil
	}
	if err != nil {
		return f, false, err
	}
	err = v.each(filter.Eq("id", n.MemoryID), func(got File) {
		f, found = got, true
	})
	return f, found, err
}

// Of is the file of an ID.
func (v *View) Of(id string) (f File, found bool, err error) {
	err = v.each(filter.Or(filter.Eq("id", id), filter.Eq(products.FieldFileID, id)), func(got File) {
		if got.ID == id {
			f, found = got, true
		}
	})
	return f, found, err
}

// Files calls visit for the files below a folder, which ends with a slash, in no order.
func (v *View) Files(folder string, visit func(f File)) error {
	return v.each(filter.Prefix("name", v.t.root()+folder), visit)
}

// each calls visit for the files that a filter chooses.
func (v *View) each(which filter.Filter, visit func(f File)) error {
	o := v.t.Owner
	which = filter.And(filter.In("kind", string(memory.KindNote), string(memory.KindArchive)), filter.Eq("user", o.User), filter.Eq("agent", o.Agent), which)
	for m, err := range v.tx.Memories().All(v.ctx, memory.ListQuery{Scope: o.Scope(), Filter: which}) {
		if err != nil {
			return err
		}
		if m.Run == "" && strings.HasPrefix(m.Name, v.t.root()+"/") {
			visit(v.t.fileOf(m))
		}
	}
	return nil
}

// Folder reports whether a file lies below a path.
func (v *View) Folder(path string) (is bool, err error) {
	err = v.Files(path+"/", func(File) { is = true })
	return is, err
}

// An Edit reads and changes the files of a tree: all of its changes are one commit.
type Edit struct{ View }

// Update runs fn in a transaction, which commits unless fn returns an error.
func (t *Tree) Update(ctx context.Context, fn func(e *Edit) error) error {
	return t.DB.Update(ctx, func(tx *engine.Tx) error { return fn(&Edit{View{t, ctx, tx}}) })
}

// Create makes a file. ErrExists where there is a file or a folder at the path, or a file at what
// would be a folder of it.
func (e *Edit) Create(path, content string) (File, error) {
	if err := e.free(path, ""); err != nil {
		return File{}, err
	}
	n := 0
	if err := e.Files("/", func(File) { n++ }); err != nil {
		return File{}, err
	}
	if n >= MaxFiles {
		return File{}, &memory.Error{Kind: memory.ErrFull, What: fmt.Sprintf("create %q", path), Why: fmt.Sprintf("there are %d files", n), Do: "delete some, or use another store"}
	}
	return e.put(memory.Memory{Scope: e.t.Owner.Scope(), Kind: memory.KindNote}, path, content, "")
}

// Change gives a file another path, another content or both. What is the same stays one version.
func (e *Edit) Change(f File, path, content string) (File, error) {
	if path == f.Path && content == f.Content {
		return f, nil
	}
	if path != f.Path {
		if err := e.free(path, f.Path); err != nil {
			return File{}, err
		}
	}
	if err := e.bury(f); err != nil {
		return File{}, err
	}
	return e.put(f.note, path, content, f.ID)
}

// Delete removes a file. Its versions stay, and one more tells that it is gone.
func (e *Edit) Delete(f File) error {
	if err := e.bury(f); err != nil {
		return err
	}
	gone := Version{ID: rand.Text(), File: f.ID, Operation: Deleted, Path: f.Path, At: e.t.now(), By: e.t.By}
	return e.keep(&gone)
}

// Taken is that a path cannot be used, since a file has it or lies above or below it. Its kind is
// ErrExists.
type Taken struct {
	// Path is that of the file in the way, File its ID.
	Path, File string
	asked      string
}

// Error says what was asked, and what is in the way.
func (t *Taken) Error() string { return t.Unwrap().Error() }

// Unwrap returns the error as a *memory.Error.
func (t *Taken) Unwrap() error {
	return &memory.Error{Kind: memory.ErrExists, What: fmt.Sprintf("use the path %q", t.asked), Why: "there is a file at " + t.Path, Do: "choose another path, or move or delete that file"}
}

// free returns a [Taken] where a path is taken, by another file than the one at the path from.
func (e *Edit) free(path, from string) error {
	if err := products.CheckPath(e.t.store(), path); err != nil {
		return err
	}
	var taken *Taken
	if err := e.Files(path+"/", func(f File) {
		if f.Path != from {
			taken = &Taken{f.Path, f.ID, path}
		}
	}); err != nil {
		return err
	}
	if taken != nil {
		return taken
	}
	for i := len(path); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if path[:i] == from {
			continue
		}
		switch f, found, err := e.At(path[:i]); {
		case err != nil:
			return err
		case found:
			return &Taken{f.Path, f.ID, path}
		}
	}
	return nil
}

// put stores a version of a file, with what else the note of the version before had.
func (e *Edit) put(m memory.Memory, path, content, id string) (File, error) {
	m.ID, m.Seq, m.NoteID, m.Hash = rand.Text(), 0, 0, ""
	m.Embedding, m.Vectors = nil, nil
	if m.AutoImportance {
		m.Importance, m.AutoImportance = nil, false
	}
	m.UpdatedAt = e.t.now()
	if id == "" {
		m.CreatedAt = m.UpdatedAt
	}
	(&products.File{Store: e.t.store(), Path: path, Content: content, ID: id, By: e.t.By}).Keep(&m)
	if _, err := e.tx.Memories().Store(e.ctx, m, &memory.StoreOptions{NoDedup: true}); err != nil {
		return File{}, err
	}
	f, found, err := e.At(path)
	if err == nil && !found {
		err = &memory.Error{Kind: memory.ErrFailed, What: fmt.Sprintf("read %q after it was stored", path)}
	}
	return f, err
}
