package recovery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/onefile"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// DoingRemains is what an error says was being done; the name of the database follows.
const DoingRemains = "read what is left of "

// Loss is something that cannot be read.
type Loss struct {
	What   string // what was kept there
	Count  int    // of What where that is known, or else of the places that cannot be read
	Reason string
}

// Copy makes a copy of what is left of a damaged database.
type Copy struct {
	// FS and Dir are where the database is. File is what is left of a database in one file, and Damages what of it is
	// not.
	FS      vfs.FS
	Dir     string
	File    *store.File
	Damages []*onefile.Damage
	// Store is the store of the copy, which is empty. Parts are its structures beside memories, with the kinds of their
	// keys, Losses what of it cannot be read.
	Store  *store.Store
	Parts  []part.Part
	Kinds  []byte
	Merger *pebble.Merger
	Losses *Losses
	// Language and Indexed are the settings of the copy where those of the database are lost, Now is the time.
	Language string
	Indexed  []memory.IndexedField
	Now      time.Time

	// Keys is how many keys could be read, Lost what the files of the database do not have any more.
	Keys int
	Lost []Loss
}

// Identity is that of a database in a folder, or in file, nil where it cannot be read.
func Identity(fs vfs.FS, dir string, file *store.File) (*place.Identity, error) {
	if file == nil {
		return place.Read(fs, dir)
	}
	id, err := place.Decode(file.Head().Identity)
	if err == nil && id.Layout > place.Layout {
		return nil, place.NewerLayout(dir, id.Layout)
	}
	return id, err
}

// read writes all keys that can be read into the store of the copy.
func (c *Copy) read(lost func(store.Loss)) (keys int, err error) {
	if c.File == nil {
		return c.Store.Fill(&store.Remains{FS: c.FS, Dir: c.Dir, Merger: c.Merger, Lost: lost})
	}
	for _, d := range c.Damages {
		if d.From != nil || d.To != nil { // of the rest nothing depends: blocks are read without it
			lost(store.Loss{File: c.Dir, Why: d.Error(), From: d.From, To: d.To})
		}
	}
	return c.File.CopyTo(c.Store)
}

func (c *Copy) lose(what, why string) {
	c.Lost = append(c.Lost, Loss{What: what, Count: 1, Reason: why})
}

// Fill fills the store of the copy, and sets the keys that are read by in t. It returns the identity that the store fits: that of
// memdb.json, nil if it cannot be read; its copy in the store; or a new one.
func (c *Copy) Fill(ctx context.Context, t *state.Tables, id *place.Identity) (*place.Identity, error) {
	indexes := "" // why one of them cannot be read, where only that is lost
	var err error
	c.Keys, err = c.read(func(l store.Loss) {
		what, counts := Between(c.Parts, l.From, l.To)
		if counts || l.What != "" {
			c.lose(cmp.Or(l.What, what), l.Error())
		} else {
			indexes = l.Error()
		}
	})
	if err != nil {
		return nil, fault.Within(DoingRemains+c.Dir, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.Keys == 0 {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: DoingRemains + c.Dir, Why: "no key can be read", Do: "restore a backup"}
	}
	if id == nil {
		if b, err := place.CopyIn(c.Store); err == nil {
			id, _ = place.Decode(b)
		}
	}
	if id == nil {
		c.lose("the settings: the language and the indexed fields", place.Name+" and its copy cannot be read")
		if id, err = place.New(c.Language, c.Indexed, c.Now); err != nil {
			return nil, err
		}
		now := c.Now.UTC()
		id.KeysSince = &now // nothing tells that it had none
	}
	keys, err := layout.NewKeys(id.HashSeed, c.Kinds...)
	if err != nil {
		return nil, err
	}
	t.NewestKeys.Store(keys)
	if indexes != "" {
		if err := c.loseDeaths(keys, indexes); err != nil {
			return nil, err
		}
	}
	if err := c.rename(t, keys); err != nil {
		return nil, err
	}
	return id, c.loseCommits(keys)
}

// loseCommits reports the commits that the mark beside the store says were acknowledged and that are
// behind the newest one in the copy.
func (c *Copy) loseCommits(keys *layout.Keys) error {
	if c.File != nil { // one file has no mark
		return nil
	}
	_, marked, err := store.Marked(c.FS, c.Dir)
	if err != nil {
		return fault.Within(DoingRemains+c.Dir, err)
	}
	snap := c.Store.NewSnapshot()
	newest, err := shipping.Newest(keys, snap)
	if err = errors.Join(err, snap.Close()); err != nil {
		return err
	}
	if newest.LSN < marked {
		c.Lost = append(c.Lost, Loss{What: "commits", Count: int(marked - newest.LSN), Reason: MissingCommits(newest.LSN, marked)})
	}
	return nil
}

// loseDeaths tells what is lost with a part of the indexes where a delete by scope is not cleaned up
// after: it finds by them which memories died, and writes that to their histories.
func (c *Copy) loseDeaths(keys *layout.Keys, why string) error {
	lower, upper := keys.Span(layout.KindRange)
	err := kv.Scan(c.Store, lower, upper, func(_, _ []byte) error {
		c.lose("deaths of memories that were deleted by scope", why)
		return kv.ErrStop
	})
	if errors.Is(err, kv.ErrStop) {
		return nil
	}
	return err
}

// rename puts the names under the keys that the hash seed gives them, where memdb.json is not
// that of the store: its seed is lost then. IDs are found by the seed, too, but also in records.
func (c *Copy) rename(t *state.Tables, keys *layout.Keys) (err error) {
	if err := c.Losses.LoadGenerations(c.Store, keys, false); err != nil {
		return err
	}
	b := c.Store.NewBatch()
	defer func() { _ = b.Close() }()
	fit := 0
	var others []string
	lower, upper := keys.Span(layout.KindName)
	st := state.State{Tables: t, Reader: c.Store, Keys: keys, Lose: func(err error) { c.Losses.Lost("a name", err) }}
	err = st.Scan(lower, upper, func(key, value []byte) error {
		num, name, extra, err := layout.DecodeName(key, value)
		if err != nil || len(key) <= layout.KeyHeader {
			c.lose("a name", fmt.Sprintf("what lies under its key %x is damaged", key))
			return b.Delete(key, nil)
		}
		own := keys.Name(layout.NameClass(key[layout.KeyHeader]), name)
		if bytes.Equal(own, key) {
			fit++
			return nil
		}
		others = append(others, name)
		return errors.Join(b.Delete(key, nil), b.Set(own, layout.EncodeName(own, num, name, extra), nil))
	})
	if err != nil {
		return err
	}
	if fit > 0 { // it is the right seed, and what does not fit it is damaged
		for _, name := range others {
			c.lose("a name", fmt.Sprintf("%q lies under a key that is not its own", name))
		}
		return nil
	}
	lower, upper = keys.Span(layout.KindID)
	return cmp.Or(b.DeleteRange(lower, upper, nil), c.Store.Apply(b, pebble.Sync))
}

// MissingCommits says that commits are lost which were acknowledged.
func MissingCommits(newest, marked uint64) string {
	return fmt.Sprintf("the newest commit has LSN %d, and LSN %d was acknowledged: the commits in between are lost", newest, marked)
}
