package facts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/panics"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

const (
	// offeredFacts is how many facts a new one is compared with.
	offeredFacts = 5
	// alike is the likeness from which on two facts of one call are decided one after the
	// other. Statements about one person in one style have 0.2 to 0.35 in common with any
	// other such, also where an embedder knows meaning; a fact and its correction have more.
	alike = 0.35
	// maxQuery bounds the part of a fact that others are looked for with, in bytes.
	maxQuery = 4 << 10
)

// work is a fact on its way into the memory.
type work struct {
	fact string
	vec  []float32
	role memory.Role
	asIs bool // it is added, and no model is asked

	lsn     uint64            // of the state that it was compared with
	seen    map[string]string // the facts of that state, by ID, that were the nearest
	changes []*change
	lost    []Degradation // what was left out of it
}

// change is an operation on the memory that was decided on.
type change struct {
	event  Event
	target candidate // for UPDATE and DELETE, and for NONE where it is known
	text   string    // for ADD and UPDATE
	vec    []float32
	id     string // for ADD, once it is made
}

// candidate is a fact that a new one is compared with: one of the database, or one that
// this Add makes.
type candidate struct {
	id    string
	scope scope.Scope
	text  string
	score float64
	made  *change // nil for one of the database
}

// key names a candidate before it has an ID.
func (c *candidate) key() any {
	if c.made != nil {
		return c.made
	}
	return c.id
}

// overlay is what an Add has decided on and not committed: what facts of the database
// will be, and the facts that will be added.
type overlay struct {
	changed map[any]*change
	added   []*change
}

func (o *overlay) apply(w *work) {
	for _, c := range w.changes {
		switch c.event {
		case Add:
			o.added = append(o.added, c)
		case Update, Delete:
			o.changed[c.target.key()] = c
		}
	}
}

// touches reports whether a work decided about a fact that another one has changed since.
func (o *overlay) touches(w *work) bool {
	return slices.ContainsFunc(w.changes, func(c *change) bool {
		later := o.changed[c.target.key()]
		return (c.event == Update || c.event == Delete) && later != nil && later != c
	})
}

// decideAll decides about every work, several at once: those in a row that are not alike, so
// that a fact and its correction in one conversation see each other. After each such wave,
// what was decided about a fact that an earlier one changes is decided anew.
func (a *adding) decideAll(ctx context.Context) error {
	o := &overlay{changed: map[any]*change{}}
	return a.decide(ctx, o, a.works)
}

func (a *adding) decide(ctx context.Context, o *overlay, works []*work) error {
	for len(works) > 0 {
		n := a.unlike(works)
		wave := works[:n]
		works = works[n:]
		errs := make([]error, len(wave))
		var group sync.WaitGroup
		for i, w := range wave {
			group.Go(func() {
				if panicked := panics.Catch("decides about a fact", func() { errs[i] = a.decideOne(ctx, o, w) }); panicked != nil {
					errs[i] = panicked
				}
			})
		}
		group.Wait()
		for i, w := range wave {
			if errs[i] == nil && o.touches(w) {
				errs[i] = a.decideOne(ctx, o, w)
			}
			if errs[i] != nil {
				return errs[i]
			}
			o.apply(w)
		}
	}
	return nil
}

// unlike is how many of the works, from the first on, can be decided at once: none of them is
// alike to another. It is 1 to Concurrency.
func (a *adding) unlike(works []*work) int {
	most := min(len(works), a.f.Concurrency)
	for i := 1; i < most && !works[i].asIs; i++ {
		for _, before := range works[:i] {
			if before.fact == works[i].fact || a.f.likeness(works[i], before.fact, before.vec) >= alike {
				return i
			}
		}
	}
	return most
}

// decideOne finds out what is to be done with a fact. What a provider fails at is in
// work.lost; an error is one of the database or of the context.
func (a *adding) decideOne(ctx context.Context, o *overlay, w *work) error {
	w.changes, w.lost = nil, nil
	if w.asIs {
		w.changes = []*change{{event: Add, text: w.fact, vec: w.vec}}
		return ctx.Err()
	}
	offered, err := a.offer(ctx, o, w)
	if err != nil {
		return err
	}
	for _, c := range offered {
		if c.text == w.fact {
			w.changes = []*change{{event: None, target: c}}
			return nil
		}
	}
	system := cmp.Or(a.f.Prompts.UpdateDecision, decisionPrompt)
	reply, err := a.generate(ctx, "decide about a fact", decisionRequest(system, w.fact, offered))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var decisions []decision
	var bad []error
	if err == nil {
		if decisions, bad, err = parseDecisions(reply.Text); err != nil {
			err = llmFailed("decide about a fact", "the reply cannot be read"+truncated(reply), err)
		}
	}
	if err != nil {
		w.lose(StepDecision, err.Error(), err)
		return nil
	}
	for _, err := range bad {
		w.lose(StepDecision, err.Error(), llmFailed("decide about a fact", "", err))
	}
	if len(decisions) == 0 && len(bad) == 0 {
		w.changes = []*change{{event: None}} // nothing is to be done
		return nil
	}
	w.take(decisions, offered)
	return a.embedChanges(ctx, w)
}

func (w *work) lose(step Step, why string, err error) {
	w.lost = append(w.lost, degradation(step, shorten(w.fact), why, err))
}

// take makes changes of decisions, and refuses those about facts that were not offered.
func (w *work) take(decisions []decision, offered []candidate) {
	targeted := map[int]bool{}
	for _, d := range decisions {
		c := &change{event: d.event, text: d.text}
		named := d.ordinal >= 1 && d.ordinal <= len(offered)
		if named {
			c.target = offered[d.ordinal-1]
		}
		switch {
		case d.event == Add || d.event == None:
		case d.event != Update && d.event != Delete:
			w.lose(StepDecision, fmt.Sprintf("the model asks for %q, which is none of ADD, UPDATE, DELETE and NONE", shorten(string(d.event))), ErrLLM)
			continue
		case !named:
			w.lose(StepDecision, fmt.Sprintf("the model's %s names the memory %q, which was not offered to it", d.event, shorten(d.named)), ErrLLM)
			continue
		case targeted[d.ordinal]:
			w.lose(StepDecision, fmt.Sprintf("the model's %s names memory %d, about which it has decided already", d.event, d.ordinal), ErrLLM)
			continue
		default:
			targeted[d.ordinal] = true
		}
		if (d.event == Add || d.event == Update) && c.text == "" {
			c.text = w.fact
		}
		if d.event == Update && slices.ContainsFunc(offered, func(o candidate) bool { return o.text == c.text && o.key() != c.target.key() }) {
			c.event = Delete // another fact has the text already, and each is there once
		}
		w.changes = append(w.changes, c)
	}
}

// embedChanges embeds the texts of changes.
func (a *adding) embedChanges(ctx context.Context, w *work) error {
	kept := w.changes[:0]
	for _, c := range w.changes {
		if c.event != Add && c.event != Update {
			kept = append(kept, c)
			continue
		}
		m := a.memory(c.text, nil, "")
		err := m.Check()
		if err == nil && c.text == w.fact {
			c.vec = w.vec
		} else if err == nil {
			c.vec, err = a.f.embedOne(ctx, c.text)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			w.lose(StepEmbedding, err.Error(), err)
			if !a.f.StoreUnembedded || ClassOf(err) != EmbeddingError {
				continue
			}
		}
		kept = append(kept, c)
	}
	w.changes = kept
	return nil
}

// offer finds the facts that a new one is compared with, as they will be after what the
// overlay holds, and notes what the database has.
func (a *adding) offer(ctx context.Context, o *overlay, w *work) ([]candidate, error) {
	var found []candidate
	err := a.lend(ctx, func(db *engine.DB) (err error) {
		w.lsn = db.LSN()
		found, err = a.nearest(ctx, db.Memories(), w)
		return err
	})
	if err != nil {
		return nil, err
	}
	w.seen = make(map[string]string, len(found))
	offered := make([]candidate, 0, len(found)+len(o.added))
	for _, c := range found {
		w.seen[c.id] = c.text
		offered = o.append(offered, c)
	}
	for _, made := range o.added {
		c := candidate{scope: a.scope, text: made.text, made: made, score: a.f.likeness(w, made.text, made.vec)}
		offered = o.append(offered, c)
	}
	slices.SortStableFunc(offered, func(x, y candidate) int { return cmp.Compare(y.score, x.score) })
	return offered[:min(len(offered), offeredFacts)], nil
}

// append appends a candidate as it will be, or not at all where it will be gone.
func (o *overlay) append(list []candidate, c candidate) []candidate {
	if later := o.changed[c.key()]; later != nil {
		if later.event == Delete {
			return list
		}
		c.text = later.text
	}
	return append(list, c)
}

// likeness is how near a fact is to another text of this Add, 0 to 1.
func (f *Facts) likeness(w *work, text string, vec []float32) float64 {
	if f.Embedder != nil {
		return max(0, cosine(w.vec, vec))
	}
	lexical := embed.NewLexical()
	return max(0, cosine(lexical.Document(head(w.fact)), lexical.Document(head(text))))
}

// nearest finds the facts of the database that a work is compared with.
func (a *adding) nearest(ctx context.Context, m engine.Memories, w *work) ([]candidate, error) {
	exact := a.f.ExactScope == nil || *a.f.ExactScope
	found, err := a.f.rank(ctx, m, a.scope, head(w.fact), w.vec, offeredFacts, within(a.scope, exact, a.o.Filter))
	if err != nil {
		return nil, err
	}
	list := make([]candidate, len(found))
	for i := range found {
		list[i] = candidate{id: found[i].ID, scope: found[i].Memory.Scope, text: found[i].Text, score: found[i].score}
	}
	return list, nil
}

// head is the beginning of a text that is looked for.
func head(text string) string {
	if len(text) <= maxQuery {
		return text
	}
	cut := maxQuery
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.ToValidUTF8(text[:cut], "")
}

// ranked is a fact and how well it fits.
type ranked struct {
	memory.Memory
	score float64
}

// The weights of the parts of a score in ProfileHybrid, which gives both of a fact.
const (
	hybridCosine   = 0.5
	hybridKeywords = 0.25
	// byWords is how much of a score words alone can make.
	byWords = 0.5
)

// rank finds the facts of a scope, among those that only lets through, that fit a text best, with
// a score above 0: see Item.Score.
func (f *Facts) rank(ctx context.Context, m engine.Memories, s scope.Scope, text string, vec []float32, limit int, only filter.Filter) ([]ranked, error) {
	const wider = 4 // the database ranks by age and importance, too: its best are more than ours
	r, err := m.Recall(ctx, memory.Query{
		Scope: s, Text: text, Embedding: vec, Filter: only,
		Profile: memory.ProfileHybrid, Limit: min(max(wider*limit, DefaultLimit), memory.MaxLimit), NoTouch: true,
	})
	if err != nil {
		return nil, err
	}
	found := make([]ranked, 0, len(r.Hits))
	for i := range r.Hits {
		h := &r.Hits[i]
		if score := either(h.Parts.Cosine/hybridCosine, byWords*h.Parts.Keywords/hybridKeywords); score > 0 {
			found = append(found, ranked{h.Memory, score})
		}
	}
	sortRanked(found)
	return found[:min(len(found), limit)], nil
}

func sortRanked(list []ranked) {
	slices.SortStableFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.Seq, b.Seq))
	})
}

// either joins two signals of 0 to 1: 1 − (1−a)(1−b).
func either(a, b float64) float64 {
	a, b = min(max(a, 0), 1), min(max(b, 0), 1)
	return 1 - (1-a)*(1-b)
}
