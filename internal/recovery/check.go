package recovery

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/recall"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/shipping"
	"github.com/seed-7aedc3ff/memdb/internal/store"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// Check reads the whole store of a database and compares each structure with the memories that it must follow from. It
// runs on one state, beside readers and writers, and reports damage as problems, not as an error. deep looks for a sample
// of each space's own vectors, too.
func Check(ctx context.Context, h Host, deep bool) (Report, error) {
	db := h.Store()
	r := Report{Problems: []Problem{}, Erasing: h.Erasing()}
	if f := db.File(); f != nil {
		if err := f.Verify(); err != nil {
			r.problem("file", "", "the file on disk: %v", err)
		}
	}
	err := h.View(ctx, func(st *State) error {
		c := &checker{State: st, store: db, of: h.Parts(), ctx: ctx, report: &r, docs: map[uint32]bool{}, rows: map[uint32]*layout.Row{}, refs: map[layout.VectorKey]uint32{}}
		if err := db.CheckLevels(nil); err != nil {
			r.problem("store", "", "store: %v", err)
		}
		for _, step := range []struct {
			what string
			run  func() error
		}{
			{"sealed documents", c.sealed},
			{"what is forgotten", c.forgets},
			{"memories", c.memories},
			{"IDs", c.ids},
			{"duplicates", c.dedup},
			{"documents", c.forward},
			{"vectors", c.vectors},
			{"statistics", c.stats},
			{"memories to be embedded", c.pending},
			{"history", c.history},
			{"parts", c.parts},
			{"names", c.names},
			{"log", c.log},
			{"settings", c.settings},
			{"searches of vectors", func() error { return c.searches(deep) }},
		} {
			c.kind = step.what
			if err := step.run(); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.problem(step.what, "", "%s: %v", step.what, err)
			}
		}
		return nil
	})
	r.OK = err == nil && len(r.Problems) == 0
	return r, err
}

// checker is one running check.
type checker struct {
	*State
	store  *store.Store
	of     []part.Part
	ctx    context.Context
	report *Report
	kind   string                      // of the problems of the step that runs
	docs   map[uint32]bool             // documents of visible memories
	rows   map[uint32]*layout.Row      // documents of sealed chunks
	refs   map[layout.VectorKey]uint32 // vectors that records refer to, and their checksums, 0 for none
	seen   int
	stated map[uint64]bool // memories by Seq that have access statistics

	line      lineage
	forgotten int64 // Unix milliseconds: what was superseded, or died, up to then may be gone
}

// problem notes damage of what the step that runs looks at; memory that of a memory.
func (c *checker) problem(format string, args ...any) {
	c.report.problem(c.kind, "", format, args...)
}

func (c *checker) memory(id, format string, args ...any) {
	c.report.problem(c.kind, id, "memory %s: "+format, append([]any{id}, args...)...)
}

// lineage is what was read of the versions of one memory, oldest first.
type lineage struct {
	of     records.Home
	last   layout.Change // the newest that is an event of the history
	broken bool          // one cannot be read, so that it is not known what it follows
}

// forgets reads up to which time histories may have been removed.
func (c *checker) forgets() (err error) {
	at, known, err := policy.Came(c.Part, policy.JobForget)
	if c.forgotten = math.MinInt64; known {
		c.forgotten = at
	}
	return err
}

// follows checks that the version is there whose place a version took. rec is nil where it
// cannot be read. What took the place of a version that is forgotten is as old; but what an
// embedding took the place of is not forgotten before the embedding itself is superseded.
func (c *checker) follows(v layout.Version, rec *layout.Record) {
	l := &c.line
	if at := (records.Home{Seq: v.Seq, Owner: v.Owner}); at != l.of {
		*l = lineage{of: at}
	}
	if l.broken = l.broken || rec == nil; l.broken {
		return
	}
	embedded := rec.Flags&layout.FlagEmbedded != 0
	if rec.Before != (layout.Change{}) && rec.Before != l.last && (embedded || rec.Updated > c.forgotten) {
		c.memory(rec.ID, "its history lacks the version of LSN %d, which that of LSN %d took the place of; the version is lost", rec.Before.Born, v.Born)
	}
	if !embedded {
		l.last = layout.Change{Born: v.Born, Number: v.Change}
	}
}

// scan visits the keys of a kind.
func (c *checker) scan(kind byte, visit func(key, value []byte) error) error {
	lower, upper := c.Keys.Span(kind)
	return kv.Scan(c.Reader, lower, upper, func(key, value []byte) error {
		if c.seen++; c.seen%1024 == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		return visit(key, value)
	})
}

// memories reads every version; the newest of each live memory must be what the
// tables say, with its ID, dedup, forward and vector keys.
func (c *checker) memories() error {
	newest := versions{visit: c.placed}
	err := c.scan(layout.KindRecord, func(key, value []byte) error {
		v, ok := layout.ParseRecordKey(key)
		if !ok {
			c.problem("malformed record key %x", key)
			return nil
		}
		if err := newest.key(key); err != nil {
			return err
		}
		rec, err := layout.DecodeRecord(value)
		if err != nil {
			c.problem("memory number %d, its version of LSN %d: %v", v.Seq, v.Born, err)
			c.follows(v, nil)
			return nil
		}
		c.follows(v, rec)
		for _, ref := range rec.Vectors {
			c.refs[layout.VectorKeyOf(v, ref)] = ref.Sum
		}
		l, lives := c.At(v.Seq)
		if known := c.Keys.Cipher.Says(rec.ID, v.Owner, v.Seq); !known && !c.has(c.Keys.ID(rec.ID, v.Owner, v.Seq)) {
			c.memory(rec.ID, "its ID is not in the ID index")
		}
		if !lives || l.Version != v {
			return nil
		}
		c.report.Memories++
		c.docs[l.Doc] = true
		if rec.Flags&layout.FlagPast != 0 {
			c.memory(rec.ID, "what is there is a version that was imported for its history")
		}
		c.live(rec, l)
		return nil
	})
	return cmp.Or(err, newest.end())
}

// placed checks that a memory which lives by its record is in the indexes.
func (c *checker) placed(v layout.Version) error {
	if v.Born > c.LSN {
		return nil
	}
	if l, lives := c.At(v.Seq); lives && l.Owner == v.Owner && l.Born < v.Born {
		c.problem("memory number %d: its version of LSN %d is found, and it has one of LSN %d, which nothing finds", v.Seq, l.Born, v.Born)
	}
	lost, err := c.placeless(v)
	if store.Unreadable(err) { // other checks report the record
		return nil
	}
	if lost {
		c.problem("memory number %d: it has a record, and no place in the indexes, so that nothing finds it; opening the database to write makes it one", v.Seq)
	}
	return err
}

// live checks the derived keys of a live version.
func (c *checker) live(rec *layout.Record, l records.Live) {
	row := c.Docs.Row(l.Doc)
	if d, ok := records.DedupKeyOf(c.Keys, rec, l.Owner, row.Run); ok && !c.has(c.Keys.Dedup(d, l.Seq)) {
		c.memory(rec.ID, "it is not in the dedup index")
	}
	if f := c.rows[l.Doc]; f != nil {
		c.sameRow(rec, l.Doc, f)
	} else if !c.has(c.Keys.Doc(layout.KindForward, l.Doc)) {
		c.report.problem("documents", rec.ID, "memory %s: its document %d has no forward record", rec.ID, l.Doc)
	}
	if c.has(c.Keys.Doc(layout.KindTombstone, l.Doc)) {
		c.memory(rec.ID, "its document %d has a tombstone, and will be gone once it is opened again", l.Doc)
	}
	if rec.Flags&layout.FlagPending != 0 && !c.has(c.Keys.Pending(layout.PendingSpace, l.Owner, l.Seq)) {
		c.memory(rec.ID, "it is to be embedded and not on the list")
	}
	for _, ref := range rec.Vectors {
		if !c.has(c.Keys.Vector(ref.Space, ref.Of(l.Version))) {
			c.memory(rec.ID, "its vector in space number %d is missing", ref.Space)
		} else if s := c.Spaces.Numbered(ref.Space); s != nil {
			if _, indexed := s.Former(l.Doc); !indexed {
				c.memory(rec.ID, "its vector in the space %s is in no index", s.Name)
			}
		}
	}
	owner, ok, err := c.Lookup(layout.Name{Class: layout.NameOwner, Text: scope.Key(rec.Scope.Owner())})
	if err != nil || !ok || owner != l.Owner {
		c.memory(rec.ID, "it lies under owner number %d, its scope is that of %d", l.Owner, owner)
	}
	c.run(rec, row.Run)
}

// run checks that the run of a live memory has its name and its number.
func (c *checker) run(rec *layout.Record, number uint32) {
	if rec.Scope.Run == "" && number == 0 {
		return
	}
	named, ok, err := c.Lookup(layout.Name{Class: layout.NameRun, Text: rec.Scope.Run})
	if err != nil || !ok || named != number {
		c.memory(rec.ID, "it lies in run number %d, its scope is that of %d", number, named)
	}
}

func (c *checker) has(key []byte) bool {
	_, closer, err := c.Reader.Get(key)
	if err != nil {
		if !errors.Is(err, kv.ErrNotFound) {
			c.problem("key %x: %v", key, err)
		}
		return false
	}
	return closer.Close() == nil
}

// ids: every ID key belongs to a memory that is or was.
func (c *checker) ids() error {
	return c.scan(layout.KindID, func(key, _ []byte) error {
		owner, seq, ok := layout.ParseIDKey(key)
		if !ok {
			c.problem("malformed ID key %x", key)
			return nil
		}
		if l, lives := c.At(seq); lives && l.Owner != owner {
			c.problem("ID index: memory number %d is under owner %d and belongs to %d", seq, owner, l.Owner)
			return nil
		}
		return c.known("ID index", owner, seq)
	})
}

// known checks that there is, or was, a memory.
func (c *checker) known(index string, owner uint32, seq uint64) error {
	prefix, found := c.Keys.Records(owner, seq), false
	err := kv.Scan(c.Reader, prefix, layout.PrefixEnd(prefix), func(_, _ []byte) error {
		found = true
		return kv.ErrStop
	})
	if err != nil && !errors.Is(err, kv.ErrStop) {
		return err
	}
	if !found {
		c.problem("%s: owner number %d has no memory number %d", index, owner, seq)
	}
	return nil
}

// lives checks that a memory lives, or died of a death range that is not cleaned up.
func (c *checker) lives(index string, owner uint32, seq uint64) {
	switch l, lives := c.At(seq); {
	case lives && l.Owner != owner:
		c.problem("%s: memory number %d is under owner %d and belongs to %d", index, seq, owner, l.Owner)
	case !lives && !c.ofRange(seq):
		c.problem("%s: memory number %d is dead", index, seq)
	}
}

// pending: what is to be embedded lives.
func (c *checker) pending() error {
	return c.scan(layout.KindPending, func(key, _ []byte) error {
		_, owner, seq, ok := layout.ParsePendingKey(key)
		if !ok {
			c.problem("malformed key of what is to be embedded %x", key)
			return nil
		}
		c.lives("the list of what is to be embedded", owner, seq)
		return nil
	})
}

// dedup: every key belongs to a live memory, or to one of an unfinished death
// range.
func (c *checker) dedup() error {
	return c.scan(layout.KindDedup, func(key, _ []byte) error {
		const size = layout.KeyHeader + 9 + layout.HashSize + 8
		if len(key) != size {
			c.problem("malformed dedup key %x", key)
			return nil
		}
		seq := binary.BigEndian.Uint64(key[size-8:])
		if _, lives := c.At(seq); !lives && !c.ofRange(seq) {
			c.problem("dedup index: memory number %d is dead", seq)
		}
		return nil
	})
}

// ofRange reports whether a memory died of a death range that is not cleaned up.
func (c *checker) ofRange(seq uint64) bool {
	d, _, _, err := c.RangeDeath(seq)
	return err == nil && d != nil
}

// forward: every record is a document of a live memory, or dead and waiting to
// be reclaimed, and what it says of the memory is so.
func (c *checker) forward() error {
	return c.scan(layout.KindForward, func(key, value []byte) error {
		doc, ok := layout.ParseDocKey(key)
		if !ok {
			c.problem("malformed forward key %x", key)
			return nil
		}
		f, err := records.DecodeForward(value)
		if err != nil {
			c.problem("document %d: %v", doc, err)
			return nil
		}
		if !c.docs[doc] {
			if !c.has(c.Keys.Doc(layout.KindTombstone, doc)) && !c.ofRange(f.Seq) {
				c.problem("document %d of memory number %d is neither live nor marked dead", doc, f.Seq)
			}
			return nil
		}
		return c.sameDoc(doc, f)
	})
}

// sameTerms reports whether two documents have the same terms. Layouts 1 and 2 wrote
// them in the order of their bytes, later ones in the order in which they come.
func sameTerms(a, b []invindex.Term) bool {
	if slices.Equal(a, b) {
		return true
	}
	byText := func(a, b invindex.Term) int { return strings.Compare(a.Text, b.Text) }
	return slices.Equal(slices.SortedFunc(slices.Values(a), byText), slices.SortedFunc(slices.Values(b), byText))
}

// sameDoc analyses the memory again and compares.
func (c *checker) sameDoc(doc uint32, f *records.Forward) error {
	rec, err := c.ReadRecord(f.Version)
	if err != nil {
		return store.Error("read a memory", err)
	}
	p := &records.Prepared{Rec: *rec, Unnamed: !slices.ContainsFunc(f.Index.Values, func(v invindex.Value) bool { return v.Field == layout.FieldNoteName })}
	if err := records.Analyse(c.ctx, c.Tables, p); err != nil {
		return err
	}
	idx, err := records.IndexedDoc(p, f.Run, c.Number)
	if err != nil {
		return err
	}
	if !sameTerms(idx.Terms, f.Index.Terms) || idx.Length != f.Index.Length {
		c.report.problem("words", rec.ID, "memory %s: its document %d does not hold the words of its text; rebuild the text index", rec.ID, doc)
	}
	if !slices.Equal(idx.Values, f.Index.Values) || f.Index.Numbered && !slices.Equal(idx.Numbers, f.Index.Numbers) {
		c.report.problem("filter values", rec.ID, "memory %s: its document %d does not hold its filter values; rebuild the text index", rec.ID, doc)
	}
	c.sameRow(rec, doc, &f.Row)
	return nil
}

// sameRow compares what the tables hold of a memory with it.
func (c *checker) sameRow(rec *layout.Record, doc uint32, f *layout.Row) {
	if f.Created != rec.Created || f.Expires != rec.Expires || f.Importance != rec.Importance || f.Confidence != rec.Confidence {
		c.memory(rec.ID, "its document %d does not agree with it", doc)
	}
}

// sealed reads the rows of the sealed chunks: each is of a document that lives, or
// is marked dead.
func (c *checker) sealed() error {
	err := c.Index.Verify(c.ctx, c.Postings, func(err error) { c.report.problem("text index", "", "text index: %v; rebuild it", err) })
	if err != nil {
		return err
	}
	return c.scan(layout.KindRows, func(key, value []byte) error {
		first, ok := layout.ParseRowsKey(key)
		if !ok {
			c.problem("malformed key of rows %x", key)
			return nil
		}
		p, err := layout.DecodeRows(first, value)
		if err != nil {
			c.problem("%v", err)
			return nil
		}
		for i, doc := range p.Docs {
			c.rows[doc] = &p.Rows[i]
			row := c.Docs.Row(doc)
			if row.Visible(c.LSN) && row.Version != p.Rows[i].Version {
				c.problem("document %d is of memory number %d, and its row of %d", doc, row.Seq, p.Rows[i].Seq)
			}
			if !row.Visible(c.LSN) && !c.has(c.Keys.Doc(layout.KindTombstone, doc)) && !c.ofRange(p.Rows[i].Seq) {
				c.problem("document %d of memory number %d is neither live nor marked dead", doc, p.Rows[i].Seq)
			}
		}
		return nil
	})
}

// vectors: every one is referred to and has its space's dimension.
func (c *checker) vectors() error {
	return c.scan(layout.KindVector, func(key, value []byte) error {
		v, ok := layout.ParseVectorKey(key)
		if !ok {
			c.problem("malformed vector key %x", key)
			return nil
		}
		b := layout.VectorKey{Space: binary.BigEndian.Uint16(key[layout.KeyHeader:]), Born: v.Born, Change: v.Change, Seq: v.Seq}
		sum, referred := c.refs[b]
		if !referred {
			c.problem("a vector of memory number %d belongs to no version", b.Seq)
		}
		vec, err := codec.Floats(value)
		s := c.Spaces.Numbered(b.Space)
		if err != nil || s == nil || hnsw.CheckVector(vec, s.Dim, s.Metric) != nil {
			c.problem("a vector of memory number %d does not fit its space number %d", b.Seq, b.Space)
		} else if sum != 0 && sum != layout.VectorSum(value) {
			c.problem("a vector of memory number %d in the space %s is not the one that was stored: its checksum is that of another; store the memory's vector again", b.Seq, s.Name)
		}
		return nil
	})
}

const (
	recallSample = 200 // vectors of a space that a deep check looks for
	askedSample  = 50  // queries of each kind that it makes of others
	recallHits   = 10
	// leastRecall is the share of what is closest below which an index is damaged: the
	// hardest sets of vectors known have .95.
	leastRecall = .8
)

// searches looks for vectors of each space as a recall does, and exactly.
func (c *checker) searches(deep bool) error {
	if !deep {
		return nil
	}
	for _, s := range c.Spaces.All() {
		if s.Born > c.LSN {
			continue
		}
		visible := func(slot uint32) bool { return s.Doc(&c.Docs, slot, c.LSN) != doctable.None }
		search := hnsw.Search{
			K: recallHits, Ef: recall.Ef(s, recallHits), Slots: s.Index.Len(), Truth: s.Truth(c.View.State), Visible: visible,
		}
		graph, err := s.Index.Recall(c.ctx, search, hnsw.AskStored, recallSample)
		if err != nil {
			return err
		}
		found, least := SpaceRecall{Name: s.Name, Sampled: graph.Sampled, Recall: graph.Recall}, graph.Recall
		search.Sure = true
		for _, asked := range hnsw.Asks() {
			r, err := s.Index.Recall(c.ctx, search, asked, askedSample)
			if err != nil {
				return err
			}
			found.Asked = append(found.Asked, AskedRecall{Kind: asked.String(), Sampled: r.Sampled, Recall: r.Recall, First: r.First})
			if asked == hnsw.AskStored {
				least = min(least, r.Recall)
			}
		}
		c.report.Spaces = append(c.report.Spaces, found)
		if least < leastRecall {
			c.report.add(remedyRebuild+IndexVectors, c.kind, "", "vector space %q: its index finds %.2f of the vectors that are closest", s.Name, least)
		}
	}
	return nil
}

func (c *checker) stats() error {
	c.stated = map[uint64]bool{}
	return c.scan(layout.KindStats, func(key, value []byte) error {
		owner, seq, ok := layout.ParseStatsKey(key)
		if !ok {
			c.problem("malformed statistics key %x", key)
			return nil
		}
		if _, err := records.DecodeAccess(key, value); err != nil {
			c.problem("statistics of memory number %d: %v", seq, err)
		}
		c.stated[seq] = true
		c.lives("statistics", owner, seq)
		return nil
	})
}

// accessed checks that a memory which was accessed by what the log says has statistics.
func (c *checker) accessed(owner uint32, seq uint64) {
	if l, lives := c.At(seq); lives && l.Owner == owner && !c.stated[seq] {
		c.report.problem("statistics", "", "statistics of memory number %d: they are lost; the log says that it was accessed", seq)
		c.stated[seq] = true // said once
	}
}

func (c *checker) history() error {
	return c.scan(layout.KindHistory, func(key, value []byte) error {
		if _, _, ok := layout.ParseHistoryKey(key); !ok {
			c.problem("malformed history key %x", key)
			return nil
		}
		d, err := layout.DecodeDeath(value)
		if err != nil {
			c.problem("history: %v", err)
			return nil
		}
		v := layout.Version{Owner: binary.BigEndian.Uint32(key[layout.KeyHeader:]), Seq: binary.BigEndian.Uint64(key[layout.KeyHeader+4:]), Born: d.Born, Change: d.Change}
		switch {
		case !d.Kept:
			return c.known("history", v.Owner, v.Seq)
		case d.At > c.forgotten && !c.has(c.Keys.Record(v)):
			c.problem("memory number %d: its history lacks the version of LSN %d, as which it died; the version is lost", v.Seq, v.Born)
		}
		return nil
	})
}

// names: each lies under its own key, and no other of its class has its number.
func (c *checker) names() error {
	type number struct {
		class byte
		num   uint32
	}
	of := map[number]string{}
	return c.scan(layout.KindName, func(key, value []byte) error {
		num, name, _, err := layout.DecodeName(key, value)
		if err != nil {
			c.problem("name %x: %v", key, err)
			return nil
		}
		if len(key) != layout.KeyHeader+1+layout.HashSize || string(c.Keys.Name(layout.NameClass(key[layout.KeyHeader]), name)) != string(key) {
			c.problem("the name %q lies under a key that is not its own", name)
			return nil
		}
		n := number{key[layout.KeyHeader], num}
		if other, twice := of[n]; twice {
			c.problem("the names %q and %q have the same number, %d", other, name, num)
		}
		of[n] = name
		return nil
	})
}

// settings: the copy of memdb.json can be read, where there is one. Without one, there is the file,
// by which the database was opened. So can the mark of the log.
func (c *checker) settings() error {
	if _, err := shipping.Mark(c.store); err != nil {
		c.problem("the mark of the log in the store: %v", err)
	}
	b, err := place.CopyIn(c.store)
	if err != nil {
		return nil
	}
	if _, err := place.Decode(b); err != nil {
		c.problem("the copy of %s in the store: %v", place.Name, err)
	}
	return nil
}

// log: the numbers rise, none is missing since the oldest, and the newest is that
// of the state.
func (c *checker) log() error {
	var last uint64
	err := c.scan(layout.KindLog, func(key, value []byte) error {
		lsn, ok := layout.ParseLSNKey(key)
		if !ok {
			c.problem("malformed log key %x", key)
			return nil
		}
		if last != 0 && lsn != last+1 {
			c.problem("log: record %d follows %d", lsn, last)
		}
		last = lsn
		if _, err := layout.DecodeLogHead(value); err != nil {
			c.problem("log record %d: %v", lsn, err)
			return nil
		}
		layout.LoggedAccesses(value, c.accessed)
		return nil
	})
	if err == nil && last != c.LSN {
		c.problem("log: its newest record is %d, the state is that of %d", last, c.LSN)
	}
	return err
}
