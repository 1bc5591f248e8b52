package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys/crashfs"
	"github.com/seed-7aedc3ff/memdb/internal/race"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/sessions"
	"github.com/seed-7aedc3ff/memdb/usage"
)

// crashing wraps a file system that can lose what is not synced. note is called before about
// one in so many changes of files, and then the file system is cloned as a crash would leave
// it; at most so many times.
func crashing[S any](rng *rand.Rand, oneIn, most int, note func() S) (fs vfs.FS, states func() []crashed[S]) {
	mem := crashfs.NewDisk()
	var mu sync.Mutex
	var all []crashed[S]
	return crashfs.Wrap(mem, func(crashfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if len(all) < most && rng.IntN(oneIn) == 0 {
				at := note() // before the clone: it has all that this says
				all = append(all, crashed[S]{at, mem.Lose(rng.IntN(101), rng)})
			}
			return nil
		}), func() []crashed[S] {
			mu.Lock()
			defer mu.Unlock()
			return all
		}
}

// crashed is what a crash has left, and what was known right before it.
type crashed[S any] struct {
	known S
	fs    *crashfs.Disk
}

// contentOf is all that a database says: its memories, and the lines of its parts.
func contentOf(t *testing.T, db *DB) string {
	t.Helper()
	var b strings.Builder
	write := func(l Line) error {
		line, err := json.Marshal(l)
		fmt.Fprintf(&b, "%s\n", line)
		return err
	}
	err := db.View(t.Context(), func(tx *Tx) error {
		for m, err := range tx.Memories().All(t.Context(), memory.ListQuery{AllScopes: true}) {
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%d %s %s %s %s %q %d %q\n", m.Seq, m.ID, m.Agent, m.Run, m.Kind, m.Text, m.NoteID, m.Name)
		}
		if err := tx.LinesAhead(memory.Scope{}, nil, write); err != nil {
			return err
		}
		return tx.Lines(memory.Scope{}, nil, write)
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// besides makes random changes of sessions, notes, usage and agents.
type besides struct {
	db    *DB
	rng   *rand.Rand
	clk   *testClock
	count int
}

func (w *besides) owner() memory.Owner { return memory.Owner{Agent: fmt.Sprint("a", w.rng.IntN(3))} }
func (w *besides) run() string         { return fmt.Sprint("s", w.rng.IntN(3)) }

// step makes one change, which one commit shows.
func (w *besides) step(ctx context.Context, t *testing.T) error {
	w.count++
	w.clk.advance(time.Minute)
	o, run, text := w.owner(), w.run(), fmt.Sprint("text ", w.count)
	s, n, u := w.db.Sessions(), w.db.Notes(), w.db.Usage()
	name := fmt.Sprint("n", w.rng.IntN(12))
	switch w.rng.IntN(16) {
	case 0:
		return second(n.Add(ctx, o, name, text, ""))
	case 1:
		return second(n.Rename(ctx, o, name, fmt.Sprint("n", w.rng.IntN(12)), w.rng.IntN(2) == 0))
	case 2:
		return second(n.Alias(ctx, o, name, fmt.Sprint("n", w.rng.IntN(12))))
	case 3:
		return second(n.Write(ctx, o, name, text))
	case 4:
		return n.Remove(ctx, o, name)
	case 5:
		return u.SetBudget(ctx, usage.Budget{Owner: o, Per: usage.PerDay, Limit: usd(t, fmt.Sprint(w.count))})
	case 6:
		return u.RollUp(ctx, o, w.clk.now().Add(-time.Hour))
	case 7:
		_, err := w.db.Usage().AddAgent(ctx, usage.Agent{ID: o.Agent, Name: text})
		return err
	case 8:
		return second(s.Repair(ctx, o, run, false))
	case 9:
		return second(s.Compact(ctx, o, run, &sessions.CompactOptions{Threshold: 6, KeepRecent: 2, Drop: w.rng.IntN(2) == 0}))
	case 10:
		return second(s.Save(ctx, o, run, w.items(), nil))
	case 11:
		if w.rng.IntN(4) == 0 {
			return second(w.db.DeleteAgent(ctx, o.Agent))
		}
		return w.db.Update(ctx, func(tx *Tx) error { // by itself it takes several commits
			return second(tx.Sessions().Delete(ctx, o, run, &sessions.DeleteOptions{Memories: true}))
		})
	case 12, 13:
		return second(u.Add(ctx, usage.Record{Owner: o, Model: fmt.Sprint("m", w.rng.IntN(3)), PromptTokens: int64(w.count), Cost: usd(t, "0.0125")}, nil))
	default:
		return second(s.Append(ctx, o, run, []sessions.Message{{Text: text}, {Role: "assistant", Text: "answer " + text}}, &sessions.AppendOptions{NoMemory: w.rng.IntN(3) == 0}))
	}
}

// items are more than one commit writes aside, at times.
func (w *besides) items() (items []sessions.Item) {
	for i := range 1 + w.rng.IntN(1200) {
		items = append(items, sessions.Item{Message: &sessions.Message{ID: fmt.Sprint(i), Role: "user", Text: fmt.Sprint("save ", w.count)}})
	}
	return items
}

// TestPartsAfterCrashes crashes at changes of files while sessions, notes, usage, budgets and
// agents are written. What a crash leaves is, to the byte, the state after the last change
// that was acknowledged, or that after the change that was being made; its check is clean.
func TestPartsAfterCrashes(t *testing.T) {
	race.Sequential(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var done atomic.Int64 // states that were acknowledged
	most := race.Times(40)
	fs, states := crashing(rand.New(rand.NewPCG(seed, 2)), 12, most, func() int { return int(done.Load()) })
	w := &besides{rng: rng, clk: newTestClock()}
	o := setup{Options: Options{Clock: w.clk.now}, tuning: tuning{hotBytes: 30 << 10, lookLeast: 1}}
	w.db = openTest(t, fs, o)
	after := []string{contentOf(t, w.db)}
	for i := 0; i < max(race.Times(200), 60) || len(states()) < most/2; i++ {
		if err := w.step(t.Context(), t); err != nil && !isExpected(err) {
			t.Fatal(err)
		}
		after = append(after, contentOf(t, w.db))
		done.Add(1)
	}
	closeTest(t, w.db)
	for i, at := range states() {
		db := openTest(t, at.fs, o)
		if r, err := db.Check(t.Context()); err != nil || !r.OK {
			t.Errorf("check: %v, %v", r.Problems, err)
		}
		got := contentOf(t, db)
		if next := min(at.known+1, len(after)-1); got != after[at.known] && got != after[next] {
			t.Errorf("after %d changes: %s", at.known, difference(got, after[at.known], after[next]))
		}
		closeTest(t, db)
		if t.Failed() {
			t.Fatalf("crash %d", i)
		}
	}
}

// isExpected reports whether a random change may be refused so.
func isExpected(err error) bool {
	return errors.Is(err, memory.ErrExists) || errors.Is(err, memory.ErrNotFound) || errors.Is(err, memory.ErrConflict) || errors.Is(err, memory.ErrInvalid)
}

// difference is the first line in which a state differs from both that it may be.
func difference(got string, may ...string) string {
	lines := strings.Split(got, "\n")
	for i, line := range lines {
		same := false
		for _, m := range may {
			of := strings.Split(m, "\n")
			same = same || i < len(of) && of[i] == line
		}
		if !same {
			return fmt.Sprintf("line %d: %s", i, line)
		}
	}
	return fmt.Sprintf("%d lines", len(lines))
}

// TestGroupedPartsAfterCrashes crashes while many writers append messages with their memories
// and record usage, in commits that they share. Of each writer all is there that it was told
// of, and at most the one call more that it was in; sums of usage are those of the records.
func TestGroupedPartsAfterCrashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const writers, each = 16, 25
	type told struct{ said, spent [writers]int }
	var said, spent [writers]atomic.Int64
	most := race.Times(40)
	fs, states := crashing(rand.New(rand.NewPCG(seed, 1)), 6, most, func() (now told) {
		for w := range writers {
			now.said[w], now.spent[w] = int(said[w].Load()), int(spent[w].Load())
		}
		return now
	})
	db, ctx := openTest(t, fs, Options{}), t.Context()
	price := usd(t, "0.0125")
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			o := memory.Owner{Agent: fmt.Sprint("w", w)}
			for i := range each {
				if _, err := db.Sessions().Append(ctx, o, "talk", []sessions.Message{{Text: fmt.Sprint("text ", i)}}, nil); err != nil {
					t.Error(err)
					return
				}
				said[w].Add(1)
				if _, err := db.Usage().Add(ctx, usage.Record{Owner: o, Model: "m", PromptTokens: 10, Cost: price}, nil); err != nil {
					t.Error(err)
					return
				}
				spent[w].Add(1)
			}
		})
	}
	all.Wait()
	closeTest(t, db)
	if got := len(states()); got < most/2 {
		t.Fatalf("%d crashes", got)
	}
	for i, at := range states() {
		db := openTest(t, at.fs, Options{})
		if r, err := db.Check(ctx); err != nil || !r.OK {
			t.Errorf("check: %v, %v", r.Problems, err)
		}
		for w := range writers {
			verifyWriter(t, db, memory.Owner{Agent: fmt.Sprint("w", w)}, at.known.said[w], at.known.spent[w], price)
		}
		closeTest(t, db)
		if t.Failed() {
			t.Fatalf("crash %d: %v", i, at.known)
		}
	}
}

// verifyWriter compares what one writer has left with what it was told.
func verifyWriter(t *testing.T, db *DB, o memory.Owner, said, spent int, price usage.USD) {
	t.Helper()
	n := 0
	for i, err := range db.Sessions().Items(t.Context(), o, "talk") {
		if err != nil && n == 0 && said == 0 {
			break // there is no session yet
		}
		if err != nil {
			t.Errorf("%s: %v", o.Agent, err)
			break
		}
		if i.Message.Text != fmt.Sprint("text ", n) || i.Message.Orphan || i.Message.MemoryID() == "" {
			t.Errorf("%s: message %d: %+v", o.Agent, n, i.Message)
		}
		n++
	}
	total, err := db.Usage().Total(t.Context(), usage.Query{Owner: o})
	if err != nil {
		t.Error(err)
	}
	want := usage.USD{}
	for range total.Records {
		want = want.Add(price)
	}
	if n < said || n > said+1 || int(total.Records) < spent || int(total.Records) > spent+1 {
		t.Errorf("%s: %d messages and %d records, told of %d and %d", o.Agent, n, total.Records, said, spent)
	}
	if total.Cost.Cmp(want) != 0 || total.PromptTokens != 10*total.Records {
		t.Errorf("%s: %+v of %d records", o.Agent, total, total.Records)
	}
}
