package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// folder is the files of a database, by their path within it.
type folder map[string][]byte

// base is a database that is damaged, and what it held.
type base struct {
	name         string
	files, older folder                        // older: those of some time before
	blocks       map[string][]store.TableBlock // of its tables
	lines        []string
	answers      string
	said         []said // by the commands that read
}

// now is the time of all databases: what expires does so never or always.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const dir = "db"

func options() *engine.Options {
	return &engine.Options{MemoryBudget: 16 << 20, Clock: func() time.Time { return now }}
}

// contents are what databases hold. A step is done twice: the older files are those between.
var contents = []struct {
	name string
	fill func(f *filler) error
}{
	{"memories", func(f *filler) error { return f.memories(120, 0) }},
	{"vectors", func(f *filler) error { return f.memories(100, 16) }},
	{"entries", func(f *filler) error { return f.entries(150) }},
	{"graph", func(f *filler) error { return f.graph(60) }},
	{"sessions", func(f *filler) error { return f.sessions(12) }},
	{"notes", func(f *filler) error { return f.notes(20) }},
	{"usage", func(f *filler) error { return f.usage(60) }},
	{"history", func(f *filler) error { return f.history(40) }},
	{"sealed", func(f *filler) error { return f.sealed(90) }},
	{"all", func(f *filler) error {
		return errors.Join(f.memories(40, 8), f.entries(30), f.graph(20), f.sessions(6), f.notes(6), f.usage(20), f.history(10))
	}},
}

// newBases makes the databases.
func newBases(ctx context.Context, of []int) ([]*base, error) {
	all, errs := make([]*base, len(of)), make([]error, len(of))
	var wait sync.WaitGroup // for what is written each second
	for at, i := range of {
		wait.Go(func() {
			c := contents[i/2]
			b := &base{name: c.name + [...]string{" closed", " killed"}[i%2]}
			var err error
			caught := panics.Catch("makes a database", func() { err = b.make(ctx, c.fill, i%2 == 1, c.name == "sealed") })
			if err = errors.Join(err, caught); err != nil {
				errs[at] = fmt.Errorf("%s: %w", b.name, err)
			}
			all[at] = b
		})
	}
	wait.Wait()
	return all, errors.Join(errs...)
}

// make fills the database in two steps, with another opening of a closed one between them.
func (b *base) make(ctx context.Context, fill func(*filler) error, killed, small bool) error {
	files := vfs.NewMem()
	f := &filler{ctx: ctx, rng: rand.New(rand.NewPCG(7, 7))}
	for step := range 2 {
		o := options()
		if small {
			o.MemoryBudget = 1 << 20
		}
		db, err := engine.Open(fsys.On(files, dir), o)
		if err != nil {
			return err
		}
		f.db, f.from = db, 1000*step
		if err := fill(f); err != nil {
			return errors.Join(err, db.Close())
		}
		if err := errors.Join(db.WaitIndexed(ctx), db.FlushTouches(ctx)); err != nil {
			return errors.Join(err, db.Close())
		}
		if step == 1 && killed {
			b.files = readMarked(files)
		}
		if err := db.Close(); err != nil {
			return err
		}
		if step == 0 {
			b.older = read(files)
		}
	}
	if b.files == nil {
		b.files = read(files)
	}
	return b.remember(ctx)
}

// remember notes what a database without damage holds, and that a rescue of it holds the same.
func (b *base) remember(ctx context.Context) error {
	whole := look(ctx, write(b.files))
	if whole.said != "" {
		return fmt.Errorf("without damage: %s", whole.said)
	}
	b.lines, b.answers = whole.lines, whole.answers
	if err := b.readBlocks(); err != nil {
		return err
	}
	r := rescue(ctx, write(b.files))
	if r.said != "" || len(r.lost) > 0 || !same(r.lines, b.lines) {
		return fmt.Errorf("rescued without damage: %s, lost %v, %d lines of %d, others: %.300q", r.said, r.lost, len(r.lines), len(b.lines), missing(b.lines, r.lines))
	}
	return nil
}

// listen notes what the commands that read say of the databases without damage. Without it they are
// not asked.
func listen(ctx context.Context, bases []*base) (err error) {
	for _, b := range bases {
		if b.said, err = asked(ctx, write(b.files), func(int) bool { return true }); err != nil {
			return fmt.Errorf("%s: without damage: %w", b.name, err)
		}
	}
	return nil
}

// readBlocks finds what lies where in the tables.
func (b *base) readBlocks() (err error) {
	b.blocks = map[string][]store.TableBlock{}
	bad := error(nil)
	r := store.Remains{FS: write(b.files), Dir: dir, Merger: &pebble.Merger{Name: mergerName}, Lost: func(l store.Loss) { bad = &l }}
	for name := range b.files {
		if path.Ext(name) == ".sst" {
			if b.blocks[name], err = r.TableBlocks(r.FS.PathJoin(dir, name)); cmp.Or(err, bad) != nil {
				return fmt.Errorf("without damage: %w", cmp.Or(err, bad))
			}
		}
	}
	return nil
}

// mergerName is the merge operator of the store, see docs/format/keys.md.
const mergerName = "memdb.stats.v1"

// read takes the files of a file system.
func read(files vfs.FS) folder {
	all := folder{}
	var walk func(at, in string)
	walk = func(at, in string) {
		names, err := files.List(at)
		must(err)
		for _, name := range names {
			path, rel := files.PathJoin(at, name), strings.TrimPrefix(in+"/"+name, "/")
			info, err := files.Stat(path)
			must(err)
			if info.IsDir() {
				walk(path, rel)
				continue
			}
			if strings.HasSuffix(name, "LOCK") || name == "memdb.lock" || name == "memdb.holder" {
				continue
			}
			all[rel] = readFile(files, path)
		}
	}
	walk(dir, "")
	return all
}

// readMarked is read once the database has written down that its newest log is on disk, which it
// does within a second or so. What was acknowledged since the last time can be cut off unnoticed.
func readMarked(files vfs.FS) folder {
	for {
		all := read(files)
		newest := ""
		for name := range all {
			if path.Ext(name) == ".log" {
				newest = max(newest, name)
			}
		}
		log := all[newest]
		if uint64(len(bytes.TrimRight(log, "\x00"))) <= marked(all["memdb.mark"]) {
			return all
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// marked is how much of the newest log a mark says is on disk, see internal/store.
func marked(mark []byte) (synced uint64) {
	const slot, count, bytes = 512, 8, 56
	newest := uint64(0)
	for at := 0; at+slot <= len(mark); at += slot {
		if n := binary.LittleEndian.Uint64(mark[at+count:]); n > newest {
			newest, synced = n, binary.LittleEndian.Uint64(mark[at+bytes:])
		}
	}
	return synced
}

// write makes a file system of files.
func write(all folder) vfs.FS {
	files := vfs.NewMem()
	must(files.MkdirAll(files.PathJoin(dir, "store"), 0o700))
	for name, b := range all {
		f, err := files.Create(files.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
		must(err)
		_, err = f.Write(bytes.Clone(b)) // the file system spoils what it was given where Pebble is built to check itself
		must(errors.Join(err, f.Sync(), f.Close()))
	}
	return files
}

// filler fills a database.
type filler struct {
	ctx  context.Context
	db   *engine.DB
	rng  *rand.Rand
	from int // of the numbers of this step
}

var (
	ada   = memory.Scope{User: "ada", Agent: "coach"}
	words = strings.Fields("alder birch cedar dogwood elm fir gum hazel ivy juniper kapok larch maple nutmeg oak pine quince rowan spruce teak upas viburnum willow yew zelkova river stone cloud bridge garden")
)

func (f *filler) text(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(words[f.rng.IntN(len(words))] + " ")
	}
	return b.String() + fmt.Sprint(f.rng.IntN(1_000_000))
}

func (f *filler) memories(n, dim int) error {
	for i := range n {
		m := memory.Memory{ID: fmt.Sprintf("m%d", f.from+i), Scope: ada, Text: f.text(12), Metadata: map[string]any{"n": i, "tag": words[i%7]}}
		if i%5 == 4 {
			m.ID, m.User = "", "bob"
		}
		if i%3 == 0 {
			m.Run = fmt.Sprintf("r%d", i%4)
		}
		for range dim {
			m.Embedding = append(m.Embedding, float32(f.rng.NormFloat64()))
		}
		if _, err := f.db.Memories().Store(f.ctx, m, nil); err != nil {
			return err
		}
	}
	_, err := f.db.Memories().Recall(f.ctx, memory.Query{Scope: ada, Text: "oak pine", Limit: 5})
	return err
}

func (f *filler) history(n int) error {
	ms := f.db.Memories()
	for i := range n {
		id := fmt.Sprintf("h%d", f.from+i)
		if _, err := ms.Store(f.ctx, memory.Memory{ID: id, Scope: ada, Text: f.text(9)}, nil); err != nil {
			return err
		}
		text := f.text(7)
		if _, err := ms.Update(f.ctx, ada, id, memory.Patch{Text: &text}); err != nil {
			return err
		}
		if i%4 == 0 {
			if err := ms.Delete(f.ctx, ada, id); err != nil {
				return err
			}
		}
	}
	_, err := ms.DeleteScope(f.ctx, memory.Scope{User: "ada", Agent: "coach", Run: "r1"})
	return err
}

func (f *filler) entries(n int) error {
	for i := range n {
		_, err := f.db.KV().Put(f.ctx, ada.Owner(), fmt.Sprintf("k%d", f.from+i), map[string]any{"v": f.text(5), "i": i}, &entries.PutOptions{TTL: time.Duration(i%2) * 1000 * time.Hour})
		if err != nil {
			return err
		}
	}
	return f.db.KV().Delete(f.ctx, ada.Owner(), fmt.Sprintf("k%d", f.from))
}

func (f *filler) graph(n int) error {
	id := func(i int) string { return fmt.Sprintf("e%d", f.from+i%n) }
	for i := range n {
		e := graph.Entity{ID: id(i), Type: "thing", Name: words[i%len(words)] + fmt.Sprint(f.from+i), Aliases: []string{fmt.Sprint("al", i)}, Properties: json.RawMessage(fmt.Sprintf(`{"i":%d}`, i))}
		edges := []graph.Edge{{Type: "near", Target: id(i * 7)}, {Type: "on", Target: id(i*3 + 1)}}
		if _, err := f.db.Graph().Put(f.ctx, ada.Owner(), e, edges, nil); err != nil {
			return err
		}
	}
	about := fmt.Sprintf("about%d", f.from)
	if _, err := f.db.Memories().Store(f.ctx, memory.Memory{ID: about, Scope: ada, Text: f.text(5)}, nil); err != nil {
		return err
	}
	if _, err := f.db.Graph().Link(f.ctx, ada.Owner(), id(1), about); err != nil {
		return err
	}
	_, err := f.db.Graph().Delete(f.ctx, ada.Owner(), id(5))
	return err
}

func (f *filler) sessions(n int) error {
	for i := range n {
		var ms []sessions.Message
		for j := range 5 {
			ms = append(ms, sessions.Message{Role: []string{"user", "assistant"}[j%2], Text: f.text(7)})
		}
		if _, err := f.db.Sessions().Append(f.ctx, ada.Owner(), fmt.Sprintf("s%d", i%4), ms, nil); err != nil {
			return err
		}
	}
	_, err := f.db.Sessions().Compact(f.ctx, ada.Owner(), "s1", nil)
	return err
}

func (f *filler) notes(n int) error {
	for i := range n {
		name := fmt.Sprintf("note%d", f.from+i)
		if _, err := f.db.Notes().Add(f.ctx, ada.Owner(), name, f.text(9), ""); err != nil {
			return err
		}
		if _, err := f.db.Notes().Alias(f.ctx, ada.Owner(), name, "alias of "+name); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) usage(n int) error {
	if _, err := f.db.Usage().AddAgent(f.ctx, usage.Agent{ID: fmt.Sprintf("agent%d", f.from), Name: "Coach"}); err != nil {
		return err
	}
	for i := range n {
		cost, err := usage.ParseUSD(fmt.Sprintf("0.%03d", i))
		if err != nil {
			return err
		}
		if _, err := f.db.Usage().Add(f.ctx, usage.Record{Owner: ada.Owner(), Model: fmt.Sprint("m", i%3), PromptTokens: int64(i), CompletionTokens: 3, Cost: cost}, nil); err != nil {
			return err
		}
	}
	limit, err := usage.ParseUSD("100")
	if err != nil {
		return err
	}
	return f.db.Usage().SetBudget(f.ctx, usage.Budget{Owner: scope.Owner{User: "ada"}, Limit: limit})
}

// sealed has long texts and little memory, so that chunks of the text index are closed.
func (f *filler) sealed(n int) error {
	for i := range n {
		var b strings.Builder
		for range 400 {
			fmt.Fprintf(&b, "w%d ", f.rng.IntN(20_000))
		}
		vec := []float32{float32(f.rng.NormFloat64()), float32(f.rng.NormFloat64()), 1}
		if _, err := f.db.Memories().Store(f.ctx, memory.Memory{ID: fmt.Sprintf("l%d", f.from+i), Scope: ada, Text: b.String(), Embedding: vec}, nil); err != nil {
			return err
		}
	}
	return nil
}
