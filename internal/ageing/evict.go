package ageing

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

// turn waits until no other work on the ageing of the database runs, until release is called.
func (a *Ageing) turn(ctx context.Context, doing string) (apart context.Context, release func(), err error) {
	if apart, err = a.host.Apart(ctx, doing); err == nil {
		release, err = a.host.Turn(apart)
	}
	return apart, release, err
}

// Evict removes, in one commit, the memories that the policy does not keep: see engine.DB.Evict.
func (a *Ageing) Evict(ctx context.Context, o *EvictOptions) (report Evicted, err error) {
	if o == nil {
		o = &EvictOptions{}
	}
	report = Evicted{DryRun: o.DryRun, Reasons: map[policy.Reason]int{}}
	if err := checkOwners(doingEvict, o.Scope); err != nil {
		return report, err
	}
	if !o.DryRun {
		if err := a.host.Writable(doingEvict); err != nil {
			return report, err
		}
	}
	ctx, release, err := a.turn(ctx, doingEvict)
	if err != nil {
		return report, err
	}
	defer release()
	if a.Jumped() {
		report.Skipped, report.Policy, report.LSN = jumped, a.host.Tables().Ageing.At(state.MaxLSN).Version, a.host.LSN()
		return report, nil
	}
	began := a.Clock()
	var p policy.Policy
	var victims []victim
	var j *judge
	err = a.view(ctx, func(st *State) error {
		if p, err = o.policy(st); err != nil {
			return err
		}
		report.Policy, report.LSN = p.Version, st.LSN
		j = st.newJudge(ctx, &p)
		victims, err = st.unkept(ctx, &p, o.Scope, j)
		return err
	})
	report.Unjudged = j.end()
	if err == nil && !o.DryRun && len(victims) > 0 {
		victims, report.LSN, err = a.evictChosen(ctx, victims, &p, o.Scope)
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
	report.Millis = a.Clock().Sub(began).Milliseconds()
	if o.Visit == nil {
		return report, nil
	}
	return report, a.visitVictims(ctx, victims, o.Visit)
}

// evictChosen commits an eviction, and tells the observer of it.
func (a *Ageing) evictChosen(ctx context.Context, chosen []victim, p *policy.Policy, s memory.Scope) (victims []victim, lsn uint64, err error) {
	at := int64(0)
	err = a.host.Update(ctx, func(tx *Tx) error {
		lsn, at = tx.LSN, tx.Now
		victims, err = tx.evict(chosen, p, s, nil)
		return err
	})
	if err == nil {
		a.observe(lsn, at, p.Version, victims)
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
func (o *EvictOptions) policy(st *State) (policy.Policy, error) {
	p, err := policy.Stored(st.Part)
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
func (st *State) takeable(p *policy.Policy, s memory.Scope) (free, pinned *roaring.Bitmap, err error) {
	free = roaring.New()
	for _, k := range p.Kinds {
		of, err := selection.WithValue(st.View.State, layout.FieldKind, scalar.TextKey(k))
		if err != nil {
			return nil, nil, err
		}
		free.Or(of)
	}
	in, err := selection.ScopeSet(st.View.State, s)
	if err != nil {
		return nil, nil, err
	}
	if in != nil {
		free.And(in)
	}
	if pinned, err = selection.WithValue(st.View.State, layout.FieldPinned, scalar.BoolKey(true)); err != nil {
		return nil, nil, err
	}
	pinned.And(free)
	free.AndNot(pinned)
	return free, pinned, nil
}

// EachIn visits the rows of a set that the transaction sees, expired ones too.
func (st *State) EachIn(ctx context.Context, set *roaring.Bitmap, visit func(doc uint32, r *doctable.Row)) error {
	n := 0
	for it := set.Iterator(); it.HasNext(); {
		if n++; n%state.CancelEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		doc := it.Next()
		if r := st.Docs.Row(doc); r.Visible(st.LSN) {
			visit(doc, r)
		}
	}
	return ctx.Err()
}

// Facts are what the rules look at of a row.
func (st *State) Facts(r *doctable.Row) (policy.Facts, layout.Access) {
	a := st.Docs.Access(r.Seq)
	return policy.Facts{
		Age: st.Since(r.Created), Idle: st.Since(max(a.Last, r.Created)),
		Importance: r.Importance, Confidence: st.Confidence(r),
		Expired: r.Over(st.Now),
	}, a
}

// evicts is [policy.Policy.Evicts] with what the text of an assistant or a tool says, which counts in the preset default: what
// matters goes neither for its age nor for who said it. A text that cannot be read is kept.
func (st *State) evicts(p *policy.Policy, r *doctable.Row, f *policy.Facts) policy.Reason {
	why := p.Evicts(f)
	if why != policy.Age || !p.ReadsTexts() || !st.of.mattering.of(r.Version, func() bool {
		rec, err := st.Record(r.Version)
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
func (st *State) unkept(ctx context.Context, p *policy.Policy, s memory.Scope, j *judge) ([]victim, error) {
	free, pinned, err := st.takeable(p, s)
	if err != nil {
		return nil, err
	}
	var victims []victim
	counts := map[uint32]int64{} // of what each owner keeps so far, or each agent
	whose := st.newCapped(p)
	kept := free.Clone()
	err = st.EachIn(ctx, free, func(doc uint32, r *doctable.Row) {
		f, a := st.Facts(r)
		why, note, spared := j.of(r, st.evicts(p, r, &f))
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
		err = st.EachIn(ctx, pinned, func(_ uint32, r *doctable.Row) {
			if !r.Over(st.Now) {
				counts[whose.of(r)]++
			}
		})
	}
	if err = cmp.Or(err, whose.err); err != nil {
		return nil, err
	}
	over, err := st.overCap(ctx, p, whose, counts, kept)
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
func (st *State) overCap(ctx context.Context, p *policy.Policy, whose *capOwners, counts map[uint32]int64, kept *roaring.Bitmap) (over []victim, err error) {
	candidates := map[uint32][]capped{}
	for owner, n := range counts {
		if n > p.Cap {
			candidates[owner] = nil
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	err = st.EachIn(ctx, kept, func(_ uint32, r *doctable.Row) {
		if list, is := candidates[whose.of(r)]; is {
			candidates[whose.of(r)] = append(list, st.capped(r))
		}
	})
	for owner, list := range candidates {
		slices.SortFunc(list, func(a, b capped) int { return a.Compare(b.Place) })
		for _, c := range list[:min(int64(len(list)), counts[owner]-p.Cap)] {
			over = append(over, st.capVictim(c.row))
		}
	}
	return over, err
}

// capOwners say whose a memory is to a cap: its owner's, or its agent's, who has the number of the
// first of its owners.
type capOwners struct {
	st     *State
	owners map[uint32]uint32 // nil: each owner by itself
	agents map[string]uint32
	err    error // the first one
}

func (st *State) newCapped(p *policy.Policy) *capOwners {
	c := &capOwners{st: st}
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
	rec, err := c.st.Record(r.Version)
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

func (st *State) capped(r *doctable.Row) capped {
	return capped{policy.Place{Importance: r.Importance, Last: max(st.Docs.Access(r.Seq).Last, r.Created), Seq: r.Seq}, r}
}

func (st *State) capVictim(r *doctable.Row) victim {
	f, a := st.Facts(r)
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
	if err := tx.Writer.RoomToFree(doingEvict, size); err != nil {
		return nil, err
	}
	if err := tx.Materialise(); err != nil {
		return nil, tx.Writer.Break(err)
	}
	ranges := map[layout.Reason]*layout.DeathRange{}
	seqs := map[layout.Reason][]uint64{}
	left := chosen[:0]
	for i := range chosen {
		l, lives := tx.At(chosen[i].Seq)
		if !lives || l.Version != chosen[i].Version {
			continue // changed since
		}
		left = append(left, chosen[i])
		why := layoutReasons[chosen[i].reason]
		d := ranges[why]
		if d == nil {
			d = &layout.DeathRange{
				LSN: tx.LSN, Change: tx.Writer.Change(), Scope: s, At: tx.Now, Docs: roaring.New(), Listed: true,
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
		tx.Kill(l.Doc)
	}
	for why := range layout.Reasons {
		d := ranges[why]
		if d == nil {
			continue
		}
		value, err := d.Encode()
		if err != nil {
			return nil, tx.Writer.Break(err)
		}
		if err := tx.Writer.Set(tx.Keys.DeathRange(d), value); err != nil {
			return nil, err
		}
		tx.Ended(d, len(seqs[why]))
		tx.logEvicted(d, seqs[why])
	}
	err := tx.ForgetInGraphs(graph.Forgotten{Keep: p.Trash > 0}, func(yield func(Dying) bool) {
		for i := range left {
			if !yield(Dying{left[i].Owner, left[i].Seq, left[i].into}) {
				return
			}
		}
	})
	if err == nil && p.Trash > 0 && len(left) > 0 {
		err = tx.trash(left, p, of)
	}
	return left, err
}

// trash keeps what an eviction needs to be undone, for as long as the policy says. of has what is kept
// beside the memories; nil for nothing.
func (tx *Tx) trash(victims []victim, p *policy.Policy, of *policy.Trash) error {
	t := policy.Trash{}
	if of != nil {
		t = *of
	}
	t.LSN, t.Until = tx.LSN, tx.Now+p.Trash.Millis()
	for i := range victims {
		v := &victims[i]
		a := tx.Docs.Access(v.Seq)
		t.Things = append(t.Things, policy.Trashed{Version: v.Version, Confidence: v.confidence, Count: a.Count, Last: a.Last, Into: v.into})
	}
	tx.Applied(func(lsn uint64) error {
		tx.of.Trashed(lsn, t.Until)
		return nil
	})
	return t.Keep(tx.Writer.Part())
}

// logEvicted writes what a death range killed: its victims by Seq, which rise.
func (tx *Tx) logEvicted(d *layout.DeathRange, seqs []uint64) {
	b := append(*tx.Writer.Log(), byte(layout.LogEvict))
	b = binary.AppendUvarint(b, uint64(d.Change))
	b = append(b, byte(d.Reason))
	b = binary.AppendUvarint(b, uint64(d.Policy))
	b = binary.AppendUvarint(b, uint64(len(seqs)))
	last := uint64(0)
	for _, seq := range seqs {
		b = binary.AppendUvarint(b, seq-last)
		last = seq
	}
	*tx.Writer.Log() = b
}

// visitVictims reads the victims, whose records stay for their histories.
func (a *Ageing) visitVictims(ctx context.Context, victims []victim, visit func(Victim) error) error {
	return a.view(ctx, func(st *State) error {
		for i := range victims {
			if err := ctx.Err(); err != nil {
				return err
			}
			shown, found, err := st.shownVictim(&victims[i], st.Now)
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
func (st *State) shownVictim(v *victim, at int64) (Victim, bool, error) {
	rec, err := st.LastRecord(v.Owner, v.Seq)
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
