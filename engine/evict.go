package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/doctable"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/internal/selection"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

const doingEvict = "evict"

// EvictOptions say how Evict departs from the policy. nil is the policy.
type EvictOptions struct {
	// Scope is a user, an agent, or both, whose memories are looked at. Empty: everyone's.
	Scope memory.Scope
	// MaxAge, MinImportance and Cap take the place of the policy's.
	MaxAge        *time.Duration
	MinImportance *float64
	Cap           *int64
	// DryRun evicts nothing and reports what would be evicted.
	DryRun bool
	// Visit is called for each victim, in the order of their Seqs, after the commit; nil
	// spares the reading of the victims. An error of it ends the visits and is returned.
	Visit func(Victim) error
}

// Victim is a memory that is evicted.
type Victim struct {
	// ID is the memory's; User, Agent and Run are its scope.
	ID    string `json:"id"`
	User  string `json:"user"`
	Agent string `json:"agent"`
	Run   string `json:"run"`
	// Reason is age, confidence, cap, expired or caller; in an Eviction also pruned or merged.
	// Why is what a verdict of the program said.
	Reason       policy.Reason `json:"reason"`
	Why          string        `json:"why,omitempty"`
	Importance   float64       `json:"importance"`
	Confidence   float64       `json:"confidence"`
	AgeMillis    int64         `json:"age_ms"`
	LastAccessed *time.Time    `json:"last_accessed"` // nil: never
}

// Evicted is the report of an eviction.
type Evicted struct {
	// Evicted is how many memories went, or would go in a DryRun; Reasons counts them by reason.
	Evicted int                   `json:"evicted"`
	DryRun  bool                  `json:"dry_run"`
	Reasons map[policy.Reason]int `json:"reasons"`
	// Decayed is how many memories have lost confidence by a verdict of the program, Unjudged
	// how many were kept since there was no verdict: see Hooks.
	Decayed  int `json:"decayed,omitempty"`
	Unjudged int `json:"unjudged,omitempty"`
	// Policy is the version of the policy, LSN that of the commit, or of the state that was
	// looked at where nothing was to be evicted.
	Policy uint32 `json:"policy"`
	LSN    uint64 `json:"lsn"`
	Millis int64  `json:"duration_ms"`
	// Skipped says why nothing was done: the clock has jumped ahead. It is empty else.
	Skipped string `json:"skipped,omitempty"`
}

// victim is a memory that a rule takes.
type victim struct {
	layout.Version
	reason     policy.Reason
	why        string // what the caller said of it
	into       uint64 // the Seq of what it is merged into
	confidence float64
	importance float64
	created    int64
	access     layout.Access
	pinned     bool // of one that is merged
	auto       bool // likewise: its importance was computed
}

// Evict removes, in one commit, the memories that the policy does not keep:
//
//   - those that have expired,
//   - those that are older than MaxAge, and less important than MinImportance; but in the
//     preset agentos only those that were not accessed for so long either; in the preset default what
//     an assistant or a tool said counts by its text, too (see [policy.Matters]),
//   - those of a confidence below MinConfidence,
//   - and of what an owner, or an agent with all its users, has more than Cap, the least
//     important, of equal ones those that were accessed longest ago, then those of the lowest
//     Seq.
//
// It looks at the policy's kinds only, and at nothing that is pinned. It chooses beside
// writers, and what was changed or deleted meanwhile stays. The history of a victim has the
// reason, and [DB.Undo] brings the victims back. While the clock seems to have jumped ahead nothing
// is evicted, and Skipped says so. ErrInvalid for options that the policy would refuse, and for a scope with a run.
func (db *DB) Evict(ctx context.Context, o *EvictOptions) (report Evicted, err error) {
	if o == nil {
		o = &EvictOptions{}
	}
	report = Evicted{DryRun: o.DryRun, Reasons: map[policy.Reason]int{}}
	if err := checkOwners(doingEvict, o.Scope); err != nil {
		return report, err
	}
	if !o.DryRun {
		if err := db.writable(doingEvict); err != nil {
			return report, err
		}
	}
	ctx, err = db.apart(ctx, doingEvict)
	if err != nil {
		return report, err
	}
	if err := db.turn.LockContext(ctx); err != nil {
		return report, err
	}
	defer db.turn.Unlock()
	if db.steady.jumped() {
		report.Skipped, report.Policy, report.LSN = clockJumped, db.tables.Ageing.At(state.MaxLSN).Version, db.LSN()
		return report, nil
	}
	began := db.clock()
	var p policy.Policy
	var victims []victim
	var j *judge
	err = db.view(ctx, nil, func(tx *Tx) error {
		if p, err = o.policy(tx); err != nil {
			return err
		}
		report.Policy, report.LSN = p.Version, tx.state.LSN
		j = tx.newJudge(ctx, &p)
		victims, err = tx.unkept(ctx, &p, o.Scope, j)
		return err
	})
	report.Unjudged = j.end()
	if err == nil && !o.DryRun && len(victims) > 0 {
		victims, report.LSN, err = db.evictChosen(ctx, victims, &p, o.Scope)
	}
	if err == nil && !o.DryRun {
		report.Decayed, err = j.decay(ctx)
	}
	if err != nil {
		return report, err
	}
	for i := range victims {
		report.Reasons[victims[i].reason]++
	}
	report.Evicted = len(victims)
	report.Millis = db.clock().Sub(began).Milliseconds()
	if o.Visit == nil {
		return report, nil
	}
	return report, db.visitVictims(ctx, victims, o.Visit)
}

// evictChosen commits an eviction, and tells the observer of it.
func (db *DB) evictChosen(ctx context.Context, chosen []victim, p *policy.Policy, s memory.Scope) (victims []victim, lsn uint64, err error) {
	at := int64(0)
	err = db.Update(ctx, func(tx *Tx) error {
		lsn, at = tx.state.LSN, tx.state.Now
		victims, err = tx.evict(chosen, p, s, nil)
		return err
	})
	if err == nil {
		db.observe(lsn, at, p.Version, victims)
	}
	return victims, lsn, err
}

// checkOwners refuses a scope that names a run: a policy is for all that an owner has.
func checkOwners(doing string, s memory.Scope) error {
	if s == (memory.Scope{}) {
		return nil
	}
	if s.Run != "" {
		return fault.Invalid(doing, fmt.Sprintf("the scope names the run %q", valid.Short(s.Run)), "name a user or an agent, or nobody for everyone")
	}
	return memory.CheckScope(doing, s, false)
}

// policy is the stored policy with the options in the place of its values.
func (o *EvictOptions) policy(tx *Tx) (policy.Policy, error) {
	p, err := policy.Stored((*partTx)(tx))
	if err != nil {
		return p, err
	}
	if o.MaxAge != nil {
		p.MaxAge = policy.Span(*o.MaxAge)
	}
	if o.MinImportance != nil {
		p.MinImportance = *o.MinImportance
	}
	if o.Cap != nil {
		p.Cap = *o.Cap
	}
	return p, p.Check()
}

// takeable is the set of documents of a scope that a rule may take, and the set of those of
// the same kinds that are pinned.
func (tx *Tx) takeable(p *policy.Policy, s memory.Scope) (free, pinned *roaring.Bitmap, err error) {
	free = roaring.New()
	for _, k := range p.Kinds {
		of, err := selection.WithValue(&tx.state, layout.FieldKind, scalar.TextKey(k))
		if err != nil {
			return nil, nil, err
		}
		free.Or(of)
	}
	in, err := selection.ScopeSet(&tx.state, s)
	if err != nil {
		return nil, nil, err
	}
	if in != nil {
		free.And(in)
	}
	if pinned, err = selection.WithValue(&tx.state, layout.FieldPinned, scalar.BoolKey(true)); err != nil {
		return nil, nil, err
	}
	pinned.And(free)
	free.AndNot(pinned)
	return free, pinned, nil
}

// eachIn visits the rows of a set that the transaction sees, expired ones too.
func (tx *Tx) eachIn(ctx context.Context, set *roaring.Bitmap, visit func(doc uint32, r *doctable.Row)) error {
	n := 0
	for it := set.Iterator(); it.HasNext(); {
		if n++; n%state.CancelEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		doc := it.Next()
		if r := tx.db.tables.Docs.Row(doc); r.Visible(tx.state.LSN) {
			visit(doc, r)
		}
	}
	return ctx.Err()
}

// facts are what the rules look at of a row.
func (tx *Tx) facts(r *doctable.Row) (policy.Facts, layout.Access) {
	a := tx.db.tables.Docs.Access(r.Seq)
	return policy.Facts{
		Age: tx.state.Since(r.Created), Idle: tx.state.Since(max(a.Last, r.Created)),
		Importance: r.Importance, Confidence: tx.state.Confidence(r),
		Expired: r.Over(tx.state.Now),
	}, a
}

// evicts is [policy.Policy.Evicts] with what the text of an assistant or a tool says, which counts in the preset default: what
// matters goes neither for its age nor for who said it. A text that cannot be read is kept.
func (tx *Tx) evicts(p *policy.Policy, r *doctable.Row, f *policy.Facts) policy.Reason {
	why := p.Evicts(f)
	if why != policy.Age || !p.ReadsTexts() || !tx.db.due.mattering.of(r.Version, func() bool {
		rec, err := tx.state.Record(r.Version)
		return err != nil || rec.Flags&layout.FlagAutoImportance != 0 && policy.Matters(rec.Text)
	}) {
		return why
	}
	of := *f
	of.Importance = max(of.Importance, policy.ImportanceWithContent)
	return p.Evicts(&of)
}

// mattering are versions of memories whose texts were found to matter, so that they are read once and not by each
// eviction. The zero value is ready for use.
type mattering struct {
	mu   sync.Mutex
	seen map[layout.Version]struct{}
}

// mostMattering bounds the versions that are remembered: some 5 MB.
const mostMattering = 100_000

// of reports whether a version matters, and asks where that is not known.
func (m *mattering) of(v layout.Version, ask func() bool) bool {
	m.mu.Lock()
	_, known := m.seen[v]
	m.mu.Unlock()
	if known || !ask() {
		return known
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil || len(m.seen) >= mostMattering {
		m.seen = map[layout.Version]struct{}{}
	}
	m.seen[v] = struct{}{}
	return true
}

// unkept are the memories that a policy does not keep, by Seq, with what a judge says of each.
func (tx *Tx) unkept(ctx context.Context, p *policy.Policy, s memory.Scope, j *judge) ([]victim, error) {
	free, pinned, err := tx.takeable(p, s)
	if err != nil {
		return nil, err
	}
	var victims []victim
	counts := map[uint32]int64{} // of what each owner keeps so far, or each agent
	whose := tx.newCapped(p)
	kept := free.Clone()
	err = tx.eachIn(ctx, free, func(doc uint32, r *doctable.Row) {
		f, a := tx.facts(r)
		why, note, spared := j.of(r, tx.evicts(p, r, &f))
		if why != "" {
			kept.Remove(doc)
			v := newVictim(r, why, &f, a)
			v.why = note
			victims = append(victims, v)
			return
		}
		if spared {
			kept.Remove(doc)
		}
		counts[whose.of(r)]++
	})
	if err == nil {
		err = tx.eachIn(ctx, pinned, func(_ uint32, r *doctable.Row) {
			if !r.Over(tx.state.Now) {
				counts[whose.of(r)]++
			}
		})
	}
	if err = cmp.Or(err, whose.err); err != nil {
		return nil, err
	}
	over, err := tx.overCap(ctx, p, whose, counts, kept)
	victims = append(victims, over...)
	sortVictims(victims)
	return victims, err
}

func sortVictims(victims []victim) {
	slices.SortFunc(victims, func(a, b victim) int { return compareSeq(&a, &b) })
}

func compareSeq(a, b *victim) int { return cmp.Compare(a.Seq, b.Seq) }

func newVictim(r *doctable.Row, why policy.Reason, f *policy.Facts, a layout.Access) victim {
	return victim{Version: r.Version, reason: why, confidence: f.Confidence, importance: r.Importance, created: r.Created, access: a}
}

// overCap are, of the owners or agents that have more than the cap, the memories that go first.
func (tx *Tx) overCap(ctx context.Context, p *policy.Policy, whose *capOwners, counts map[uint32]int64, kept *roaring.Bitmap) (over []victim, err error) {
	candidates := map[uint32][]capped{}
	for owner, n := range counts {
		if n > p.Cap {
			candidates[owner] = nil
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	err = tx.eachIn(ctx, kept, func(_ uint32, r *doctable.Row) {
		if list, is := candidates[whose.of(r)]; is {
			candidates[whose.of(r)] = append(list, tx.capped(r))
		}
	})
	for owner, list := range candidates {
		slices.SortFunc(list, func(a, b capped) int { return a.Compare(b.Place) })
		for _, c := range list[:min(int64(len(list)), counts[owner]-p.Cap)] {
			over = append(over, tx.capVictim(c.row))
		}
	}
	return over, err
}

// capOwners say whose a memory is to a cap: its owner's, or its agent's, who has the number of the
// first of its owners.
type capOwners struct {
	tx     *Tx
	owners map[uint32]uint32 // nil: each owner by itself
	agents map[string]uint32
	err    error // the first one
}

func (tx *Tx) newCapped(p *policy.Policy) *capOwners {
	c := &capOwners{tx: tx}
	if p.CapPer == policy.PerAgent {
		c.owners, c.agents = map[uint32]uint32{}, map[string]uint32{}
	}
	return c
}

func (c *capOwners) of(r *doctable.Row) uint32 {
	if c.owners == nil {
		return r.Owner
	}
	first, known := c.owners[r.Owner]
	if known {
		return first
	}
	first = r.Owner
	rec, err := c.tx.state.Record(r.Version)
	switch {
	case err != nil:
		c.err = cmp.Or(c.err, err)
	case rec.Scope.Agent != "":
		if has, known := c.agents[rec.Scope.Agent]; known {
			first = has
		}
		c.agents[rec.Scope.Agent] = first
	}
	c.owners[r.Owner] = first
	return first
}

// capped is a memory that the cap may take, and its place among others.
type capped struct {
	policy.Place
	row *doctable.Row
}

func (tx *Tx) capped(r *doctable.Row) capped {
	return capped{policy.Place{Importance: r.Importance, Last: max(tx.db.tables.Docs.Access(r.Seq).Last, r.Created), Seq: r.Seq}, r}
}

func (tx *Tx) capVictim(r *doctable.Row) victim {
	f, a := tx.facts(r)
	return newVictim(r, policy.Cap, &f, a)
}

// layoutReasons are the reasons as they are stored.
var layoutReasons = map[policy.Reason]layout.Reason{
	policy.Age: layout.ReasonAge, policy.LowConfidence: layout.ReasonConfidence, policy.Cap: layout.ReasonCap,
	policy.Expired: layout.ReasonExpired, policy.Pruned: layout.ReasonPruned,
	policy.Merged: layout.ReasonMerged, policy.Caller: layout.ReasonCaller,
}

// evict ends the memories that are still what they were when they were chosen, and returns
// them: by a death range for each reason. of is what the trash is to have beside them; nil for
// nothing.
func (tx *Tx) evict(chosen []victim, p *policy.Policy, s memory.Scope, of *policy.Trash) ([]victim, error) {
	size := 4*valid.MaxID + len(chosen)*8
	if p.Trash > 0 {
		size += policy.TrashBytes(len(chosen))
	}
	if err := tx.needToFree(doingEvict, size); err != nil {
		return nil, err
	}
	if err := tx.materialise(); err != nil {
		return nil, tx.breaks(err)
	}
	ranges := map[layout.Reason]*layout.DeathRange{}
	seqs := map[layout.Reason][]uint64{}
	left := chosen[:0]
	for i := range chosen {
		l, lives := tx.reader().At(chosen[i].Seq)
		if !lives || l.Version != chosen[i].Version {
			continue // changed since
		}
		left = append(left, chosen[i])
		why := layoutReasons[chosen[i].reason]
		d := ranges[why]
		if d == nil {
			d = &layout.DeathRange{
				LSN: tx.state.LSN, Change: tx.change(), Scope: s, At: tx.state.Now, Docs: roaring.New(), Listed: true,
				Reason: why, Policy: p.Version, Trash: p.Trash > 0,
			}
			ranges[why] = d
		}
		d.Docs.Add(l.Doc)
		if into := chosen[i].into; into != 0 {
			if d.Into == nil {
				d.Into = map[uint32]uint64{}
			}
			d.Into[l.Doc] = into
		}
		seqs[why] = append(seqs[why], l.Seq)
		tx.db.tables.Docs.Kill(l.Doc, tx.state.LSN)
		tx.undo = append(tx.undo, undo{doc: l.Doc})
	}
	for why := range layout.Reasons {
		d := ranges[why]
		if d == nil {
			continue
		}
		value, err := d.Encode()
		if err != nil {
			return nil, tx.breaks(err)
		}
		if err := tx.set(tx.state.Keys.DeathRange(d), value); err != nil {
			return nil, err
		}
		tx.ranges = append(tx.ranges, *d)
		tx.wentFor(why, len(seqs[why]))
		tx.logEvicted(d, seqs[why])
	}
	err := tx.forgetInGraphs(graph.Forgotten{Keep: p.Trash > 0}, func(yield func(dying) bool) {
		for i := range left {
			if !yield(dying{left[i].Owner, left[i].Seq, left[i].into}) {
				return
			}
		}
	})
	if err == nil && p.Trash > 0 && len(left) > 0 {
		err = tx.trash(left, p, of)
	}
	return left, err
}

// logEvicted writes what a death range killed: its victims by Seq, which rise.
func (tx *Tx) logEvicted(d *layout.DeathRange, seqs []uint64) {
	tx.log = append(tx.log, byte(layout.LogEvict))
	tx.log = binary.AppendUvarint(tx.log, uint64(d.Change))
	tx.log = append(tx.log, byte(d.Reason))
	tx.log = binary.AppendUvarint(tx.log, uint64(d.Policy))
	tx.log = binary.AppendUvarint(tx.log, uint64(len(seqs)))
	last := uint64(0)
	for _, seq := range seqs {
		tx.log = binary.AppendUvarint(tx.log, seq-last)
		last = seq
	}
}

// visitVictims reads the victims, whose records stay for their histories.
func (db *DB) visitVictims(ctx context.Context, victims []victim, visit func(Victim) error) error {
	return db.view(ctx, nil, func(tx *Tx) error {
		for i := range victims {
			if err := ctx.Err(); err != nil {
				return err
			}
			shown, found, err := tx.shownVictim(&victims[i], tx.state.Now)
			if err != nil {
				return err
			}
			if !found {
				continue // a reset came between
			}
			if err := visit(shown); err != nil {
				return err
			}
		}
		return nil
	})
}

// shownVictim is a victim as a caller sees it, with its age at a time; false where nothing
// is known of it any more.
func (tx *Tx) shownVictim(v *victim, at int64) (Victim, bool, error) {
	rec, err := tx.state.LastRecord(v.Owner, v.Seq)
	if err != nil || rec == nil {
		return Victim{}, false, err
	}
	shown := Victim{
		ID: rec.ID, User: rec.Scope.User, Agent: rec.Scope.Agent, Run: rec.Scope.Run, Reason: v.reason, Why: v.why,
		Importance: v.importance, Confidence: v.confidence, AgeMillis: at - v.created,
	}
	if v.access.Last != 0 {
		shown.LastAccessed = new(clock.FromMillis(v.access.Last))
	}
	return shown, true, nil
}
