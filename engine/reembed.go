package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	doingReembed = "embed with another model"
	doingSwitch  = "switch to another model"
	doingDrop    = "drop the vectors of a space"

	// givenModel stands for the model of vectors that callers gave.
	givenModel = "given"
	// reembedBatch is how many texts go to the embedder, and into one commit, together.
	reembedBatch = 256
)

// BesidePrefix begins the names of the spaces that Reembed fills, and of those that hold the
// vectors of before after a switch; the model follows.
const BesidePrefix = "reembed:"

// Reembedding is what a call of Reembed has done, and what is left.
type Reembedding struct {
	Space    string `json:"space"`    // that is filled
	Before   string `json:"before"`   // the space that holds the vectors of before, after a switch
	Embedded int    `json:"embedded"` // by this call
	// Left are memories with a text that still lack a vector of the model, Refused those of
	// them whose text the embedder has refused by itself.
	Left    int `json:"left"`
	Refused int `json:"refused"`
	// Kept are memories with a vector and no text: they cannot be embedded, and only the
	// vectors of before find them.
	Kept int `json:"kept"`
}

// ReembedOptions changes what Reembed does. nil is the default.
type ReembedOptions struct {
	// Limit is how many memories are embedded; 0: all.
	Limit int
	// Progress, where it is not nil, is called after each commit.
	Progress func(Reembedding)
}

// besideSpace is the name of the space beside the default one for a model.
func besideSpace(model string) string {
	if model == "" {
		model = givenModel
	}
	return BesidePrefix + model
}

// Reembed gives memories that have a text a vector of another model, in a space beside the
// default one, which recalls go on using. It runs beside all other work, in commits of up to 256 memories, and what it has done stays: when a call ends
// early, for its limit, its context, an embedder that fails or a crash, the next one goes on.
// Where nothing is left, [DB.SwitchModel] makes the space the default one.
//
// The vectors of a text that changes meanwhile are dropped with it, and it is embedded anew. A
// text that the embedder refuses by itself is left; eight in a row are ErrEmbedder. ErrInvalid
// where the default space has that model already, or has no vectors.
func (db *DB) Reembed(ctx context.Context, e embed.Embedder, o *ReembedOptions) (Reembedding, error) {
	if o == nil {
		o = &ReembedOptions{}
	}
	if err := db.mayReembed(doingReembed); err != nil {
		return Reembedding{}, err
	}
	switch {
	case e == nil:
		return Reembedding{}, fault.Invalid(doingReembed, "there is no embedder", "give one")
	case o.Limit < 0:
		return Reembedding{}, fault.Invalid(doingReembed, "the limit is negative", "give 0 for all")
	}
	s := db.spaces.At(memory.DefaultSpace, db.LSN())
	switch {
	case s == nil:
		return Reembedding{}, fault.Invalid(doingReembed, "no memory has a vector of any model", "open the database with the embedder, and call EmbedPending")
	case s.Model == e.Model():
		return Reembedding{}, fault.Invalid(doingReembed, "the vectors are of the model "+s.Model+" already", "give another embedder")
	}
	ctx, err := db.apart(ctx, doingReembed)
	if err != nil {
		return Reembedding{}, err
	}
	if err := db.backlog.renewing.LockContext(ctx); err != nil {
		return Reembedding{}, err
	}
	defer db.backlog.renewing.Unlock()
	r := &reembedding{db: db, embedder: e, ReembedOptions: *o, result: Reembedding{Space: besideSpace(e.Model()), Before: besideSpace(s.Model)}, seen: map[uint64]bool{}}
	err = db.CreateSpace(ctx, SpaceConfig{Name: r.result.Space, Dim: e.Dim(), Model: e.Model(), Base: embed.Base(e)})
	if err == nil {
		err = r.run(ctx)
	}
	return r.result, err
}

// mayReembed refuses a database that is not to be changed in this way.
func (db *DB) mayReembed(doing string) error {
	if err := db.usable(doing); err != nil {
		return err
	}
	if db.backlog.switched.Load() {
		return switchedError(doing)
	}
	return db.writable(doing)
}

// reembedding is one call of Reembed.
type reembedding struct {
	ReembedOptions
	db       *DB
	embedder embed.Embedder
	result   Reembedding
	seen     map[uint64]bool // Seqs that this call is not to look at again
	inARow   int             // texts that were refused, one after the other
}

// run goes over the memories that lack a vector until there are no more: others may have come.
func (r *reembedding) run(ctx context.Context) error {
	for {
		var todo []uint64
		err := r.db.View(ctx, func(tx *Tx) (err error) {
			todo, err = tx.lacking(ctx, r.result.Space)
			return err
		})
		if err != nil {
			return err
		}
		todo = slices.DeleteFunc(todo, func(seq uint64) bool { return r.seen[seq] })
		r.result.Left = len(todo) + r.result.Refused
		if len(todo) == 0 {
			return nil
		}
		for len(todo) > 0 {
			if r.Limit > 0 && r.result.Embedded >= r.Limit {
				return nil
			}
			if todo, err = r.some(ctx, todo); err != nil {
				return err
			}
		}
	}
}

// some embeds the first of the memories, and returns the others.
func (r *reembedding) some(ctx context.Context, todo []uint64) ([]uint64, error) {
	most := reembedBatch
	if r.Limit > 0 {
		most = min(most, r.Limit-r.result.Embedded)
	}
	var found []awaiting
	looked := 0
	err := r.db.View(ctx, func(tx *Tx) error {
		for bytes := 0; looked < len(todo) && len(found) < most && bytes < embedBytes; looked++ {
			l, alive := tx.reader().At(todo[looked])
			if !alive || l.Expired(tx.state.Now) {
				r.result.Left--
				continue
			}
			rec, err := tx.state.Record(l.Version)
			if err != nil {
				return err
			}
			if rec.Text == "" {
				r.seen[l.Seq] = true
				r.result.Left--
				r.result.Kept++
				continue
			}
			found = append(found, awaiting{l, rec.Text})
			bytes += len(rec.Text)
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		return todo[looked:], err
	}
	return todo[looked:], r.embed(ctx, found)
}

// embed embeds memories, in halves where the embedder refuses them together, and commits.
func (r *reembedding) embed(ctx context.Context, found []awaiting) error {
	vecs, err := r.call(ctx, found)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && len(found) > 1:
		half := len(found) / 2
		return errors.Join(r.embed(ctx, found[:half]), r.embed(ctx, found[half:]))
	case err != nil:
		r.inARow++
		r.seen[found[0].Seq] = true
		r.result.Refused++
		if r.inARow >= refusalsInARow {
			return err
		}
		return nil
	}
	r.inARow = 0
	for len(found) > 0 {
		looked, n := 0, 0
		err := r.db.Update(ctx, func(tx *Tx) error {
			looked, n, err = tx.beside(ctx, r.result.Space, found, vecs)
			return err
		})
		if err != nil {
			return err
		}
		r.result.Embedded += n
		r.result.Left -= looked
		if r.Progress != nil {
			r.Progress(r.result)
		}
		found, vecs = found[looked:], vecs[looked:]
	}
	return nil
}

// call calls the embedder, and checks what it returns.
func (r *reembedding) call(ctx context.Context, found []awaiting) (vecs [][]float32, err error) {
	if r.inARow >= refusalsInARow {
		return nil, &fault.Error{Kind: fault.ErrEmbedder, What: doingReembed, Why: "it has refused several texts in a row", Do: "check the embedder"}
	}
	texts := make([]string, len(found))
	for i := range found {
		texts[i] = found[i].text
	}
	if caught := panics.Catch("embeds texts", func() { vecs, err = r.embedder.Embed(ctx, texts) }); caught != nil {
		err = caught
	}
	if err == nil && len(vecs) != len(texts) {
		err = fmt.Errorf("it returned %d vectors for %d texts", len(vecs), len(texts))
	}
	for i := 0; err == nil && i < len(vecs); i++ {
		err = hnsw.CheckVector(vecs[i], r.embedder.Dim(), hnsw.Cosine)
	}
	if err != nil {
		return nil, &fault.Error{Kind: fault.ErrEmbedder, What: fmt.Sprintf("embed %d texts with %s", len(texts), r.embedder.Model()), Cause: err, Do: "check the embedder"}
	}
	return vecs, nil
}

// lacking lists the Seqs of the memories that have no vector in a space.
func (tx *Tx) lacking(ctx context.Context, name string) (seqs []uint64, err error) {
	s := tx.reader().Space(name)
	err = tx.eachDocument(ctx, func(doc uint32, r *doctable.Row) {
		if _, has := s.Slot(doc); !has {
			seqs = append(seqs, r.Seq)
		}
	})
	return seqs, err
}

// holding lists the Seqs of the memories that have a vector in a space.
func (tx *Tx) holding(ctx context.Context, s *spaces.Space) (seqs []uint64, err error) {
	err = tx.eachDocument(ctx, func(doc uint32, r *doctable.Row) {
		if _, has := s.Slot(doc); has {
			seqs = append(seqs, r.Seq)
		}
	})
	return seqs, err
}

// eachDocument visits the documents that the transaction sees.
func (tx *Tx) eachDocument(ctx context.Context, visit func(doc uint32, r *doctable.Row)) (err error) {
	looked := 0
	tx.db.tables.Docs.Rows.Each(uint64(tx.state.Postings.Docs), func(doc uint64, r *doctable.Row) bool {
		if looked++; looked%state.CancelEvery == 0 && ctx.Err() != nil {
			err = ctx.Err()
			return false
		}
		if r.Visible(tx.state.LSN) && !r.Over(tx.state.Now) {
			visit(uint32(doc), r)
		}
		return true
	})
	return err
}

// beside gives memories vectors in a space, unless they have changed since. It returns how
// many it has looked at, and how many of those it has changed.
func (tx *Tx) beside(ctx context.Context, space string, found []awaiting, vecs [][]float32) (looked, n int, err error) {
	for i := range found {
		l, alive := tx.reader().At(found[i].Seq)
		if !alive || l.Version != found[i].Version {
			continue // the next round sees it as it is then
		}
		done, err := tx.revise(ctx, doingReembed, l, map[string][]float32{space: vecs[i]}, 0, n > 0)
		if err != nil || !done {
			return i, n, err
		}
		n++
	}
	return len(found), n, nil
}

// revise writes the next version of a memory, in which nothing but its vectors differ: it
// has others, and none in the space of the number without. Where the transaction holds no
// more, it changes nothing; that is an error unless some are changed already.
func (tx *Tx) revise(ctx context.Context, doing string, l records.Live, vectors map[string][]float32, without uint16, some bool) (bool, error) {
	rec, err := tx.state.Record(l.Version)
	if err != nil {
		return false, err
	}
	p := &records.Prepared{Rec: *rec, Vectors: vectors, Without: without, Pending: rec.Flags&layout.FlagPending != 0}
	p.Rec.Vectors = nil
	p.Rec.Flags = p.Rec.Flags&^layout.FlagPending | layout.FlagEmbedded
	if err := records.Analyse(ctx, &tx.db.tables, p); err != nil {
		return false, err
	}
	if err := tx.need(doing, p.Size()); err != nil {
		if some {
			return false, nil
		}
		return false, err
	}
	if err := tx.rec.Fits(doing, p.Vectors); err != nil {
		return false, err
	}
	return true, tx.rec.Replace(p, rec, l)
}

// SwitchModel makes the vectors that [DB.Reembed] has made with a model those of the default
// space, in one commit. The vectors of before stay in a space beside it, named "reembed:" and
// their model: SwitchModel with that model goes back, and [DB.DropSpace] drops them.
//
// The switch takes effect when the database is opened the next time, which is to be with the
// embedder of that model. Until then recalls use the vectors of before, and what is stored has
// only such vectors: EmbedPending embeds it afterwards.
//
// ErrNotFound where the database has no vectors of the model. ErrConflict where a memory with
// a text lacks such a vector; partial allows that, and leaves them pending.
func (db *DB) SwitchModel(ctx context.Context, model string, partial bool) error {
	if err := db.mayReembed(doingSwitch); err != nil {
		return err
	}
	ctx, err := db.apart(ctx, doingSwitch)
	if err != nil {
		return err
	}
	if err := db.backlog.renewing.LockContext(ctx); err != nil {
		return err
	}
	defer db.backlog.renewing.Unlock()
	err = db.Update(ctx, func(tx *Tx) error {
		err := tx.switchModel(ctx, model, partial)
		db.backlog.switched.Store(err == nil) // before anybody else can write
		return err
	})
	if err != nil {
		db.backlog.switched.Store(false)
	}
	return err
}

// maySpace refuses to make a space after a switch: its name may be that of another on disk.
func (tx *Tx) maySpace(doing string) error {
	if !tx.db.backlog.switched.Load() {
		return nil
	}
	return switchedError(doing)
}

func switchedError(doing string) error {
	return &fault.Error{Kind: fault.ErrConflict, What: doing, Why: "the model was switched since the database was opened", Do: "close it, and open it with the new embedder"}
}

func (tx *Tx) switchModel(ctx context.Context, model string, partial bool) error {
	old, next := tx.reader().Space(memory.DefaultSpace), tx.reader().Space(besideSpace(model))
	if next == nil || old == nil {
		return &fault.Error{Kind: fault.ErrNotFound, What: doingSwitch, Why: "there are no vectors of the model " + model + " beside those that are used", Do: "make them with Reembed"}
	}
	name := besideSpace(old.Model)
	if tx.reader().Space(name) != nil {
		return &fault.Error{Kind: fault.ErrConflict, What: doingSwitch, Why: "there is a space " + name + " already, which the vectors of before would be called", Do: "export the memories and import them into a new database"}
	}
	if !partial {
		if err := tx.wantWhole(ctx, next); err != nil {
			return err
		}
	}
	if err := tx.need(doingSwitch, 8<<10); err != nil {
		return err
	}
	tx.change()
	set := func(s *spaces.Space, name string) error {
		key := tx.state.Keys.Name(layout.NameSpace, name)
		return tx.set(key, layout.EncodeName(key, uint32(s.Num), name, s.Encode()))
	}
	if err := errors.Join(set(next, memory.DefaultSpace), set(old, name), tx.del(tx.state.Keys.Name(layout.NameSpace, next.Name))); err != nil {
		return tx.breaks(err)
	}
	tx.log = append(tx.log, byte(layout.LogSpace))
	return nil
}

// wantWhole refuses a space in which a memory with a text has no vector.
func (tx *Tx) wantWhole(ctx context.Context, s *spaces.Space) error {
	seqs, err := tx.lacking(ctx, s.Name)
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		l, alive := tx.reader().At(seq)
		if !alive {
			continue
		}
		rec, err := tx.state.Record(l.Version)
		if err != nil {
			return err
		}
		if rec.Text != "" {
			return &fault.Error{Kind: fault.ErrConflict, What: doingSwitch, Why: fmt.Sprintf("up to %d memories have no vector of the model %s, as %s", len(seqs), s.Model, rec.ID), Do: "call Reembed again, or allow a part"}
		}
	}
	return nil
}

// DropSpace drops the vectors of a space that is not the default one, in commits of bounded
// size, and returns how many memories had one. A memory without a text keeps its last vector.
// The name of the space stays. When a call ends early, the next one goes on.
func (db *DB) DropSpace(ctx context.Context, name string) (int, error) {
	if err := db.mayReembed(doingDrop); err != nil {
		return 0, err
	}
	s := db.spaces.At(name, db.LSN())
	switch {
	case name == memory.DefaultSpace:
		return 0, fault.Invalid(doingDrop, "default is the space that recalls use", "name another")
	case s == nil:
		return 0, &fault.Error{Kind: fault.ErrNotFound, What: doingDrop, Why: "there is no such space", Do: "look at the spaces of Stats"}
	}
	ctx, err := db.apart(ctx, doingDrop)
	if err != nil {
		return 0, err
	}
	if err := db.backlog.renewing.LockContext(ctx); err != nil {
		return 0, err
	}
	defer db.backlog.renewing.Unlock()
	var seqs []uint64
	err = db.View(ctx, func(tx *Tx) (err error) {
		seqs, err = tx.holding(ctx, s)
		return err
	})
	dropped := 0
	for err == nil && len(seqs) > 0 {
		looked, n := 0, 0
		err = db.Update(ctx, func(tx *Tx) error {
			looked, n, err = tx.drop(ctx, s, seqs[:min(reembedBatch, len(seqs))])
			return err
		})
		if err == nil {
			dropped += n
			seqs = seqs[looked:]
		}
	}
	return dropped, err
}

// drop takes the vectors of a space from memories. It returns how many it has looked at, and
// how many of those it has changed.
func (tx *Tx) drop(ctx context.Context, s *spaces.Space, seqs []uint64) (looked, n int, err error) {
	for i, seq := range seqs {
		l, alive := tx.reader().At(seq)
		if !alive {
			continue
		}
		rec, err := tx.state.Record(l.Version)
		if err != nil {
			return i, n, err
		}
		has := slices.ContainsFunc(rec.Vectors, func(r layout.VectorRef) bool { return r.Space == s.Num })
		if !has || rec.Text == "" && len(rec.Vectors) == 1 {
			continue
		}
		done, err := tx.revise(ctx, doingDrop, l, map[string][]float32{}, s.Num, n > 0)
		if err != nil || !done {
			return i, n, err
		}
		n++
	}
	return len(seqs), n, nil
}
