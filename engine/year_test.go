package engine_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/race"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// yearFacts are what a person would miss: told once, in passing, and not spoken of again. Those with a
// second text are corrected by it later.
var yearFacts = [][2]string{
	{"My name is Ada"},
	{"Call me Addie"},
	{"My blood type is O negative"},
	{"I'm allergic to peanuts"},
	{"I am not allergic to cashews"},
	{"My son is called Tom"},
	{"Tom was born on 12 May 2019"},
	{"My daughter is called Eve"},
	{"Eve was born on 21 May 2021"},
	{"I live in Lisbon", "I moved to Porto"},
	{"My landlord's number is 7946 0958"},
	{"My dentist's number is 7946 0968"},
	{"I take 10 mg of lisinopril", "I take 20 mg of lisinopril now"},
	{"I'm left-handed"},
	{"I can't swim"},
	{"I hate cilantro"},
	{"I wear glasses"},
	{"My dog is Rex"},
	{"My cat is Mia"},
	{"I am vegan"},
	{"I speak Welsh"},
	{"My wife is a nurse"},
	{"Her name is Grace"},
	{"We married on 3 June"},
	{"My boss is Carol"},
	{"Bob manages payments"},
	{"Carol manages search"},
	{"I work at Acme", "I work at Globex since spring"},
	{"Standup is at 9"},
	{"The review is at 8"},
	{"My car is red"},
	{"The plate is 12-AB-34"},
	{"The wifi key is tulip77"},
	{"The alarm code is 4711"},
	{"The safe code is 4712"},
	{"I am diabetic"},
	{"My doctor is Dr. Silva"},
	{"I play cello"},
	{"I run on Sundays"},
	{"Tom swims on Mondays"},
	{"My mother lives in Ghent"},
	{"My father is dead"},
	{"I have no brothers"},
	{"I have two sisters"},
	{"I was born in Quito"},
	{"I turned 41"},
	{"My shoe size is 39"},
	{"I drink no alcohol"},
	{"I quit smoking"},
	{"I fear heights"},
	{"The server is 10.0.0.17"},
	{"The backup is 10.0.0.18"},
	{"Deploys are on Tuesday"},
	{"Never deploy on Friday"},
	{"我叫小明"},
	{"我不喜欢喝咖啡"},
	{"Ich wohne nicht mehr in Bern"},
	{"Soy celíaca"},
	{"J'ai deux filles"},
	{"Меня зовут Аня"},
}

// TestYear: a year of a living agent under the default policy and its schedule. Each day has chats,
// small talk, a recall, now and then a fact or a correction. At the end none of the facts that a
// person would miss is gone, and what says nothing is. MEMDB_YEAR=1 has a chat of 60 turns each day,
// the short form one of six.
func TestYear(t *testing.T) {
	race.Sequential(t)
	turns := 6
	if os.Getenv("MEMDB_YEAR") != "" {
		turns = 60
	}
	y := newYear(t)
	y.live(turns)
	missed, left, small := y.left()
	t.Logf("told %d facts and %d turns, left %d memories, %d of them small talk; missed %d", len(yearFacts), 365*turns, left, small, len(missed))
	if len(missed) > 0 {
		t.Errorf("a person would miss %q", missed)
	}
	if small > 40*turns { // what is not a month old, and what was recalled since
		t.Errorf("%d turns of small talk are left", small)
	}
	if r, err := y.Check(t.Context()); err != nil || !r.OK {
		t.Errorf("check: %+v, %v", r, err)
	}
}

// TestYearThatForgets: the same year by other rules loses what a person would miss, so that a year
// without a loss says something about the rules.
func TestYearThatForgets(t *testing.T) {
	race.Sequential(t)
	for _, tc := range []struct {
		name       string
		preset     string
		importance float64 // of each fact, 0 for that of its text
		least      int     // of the facts that are missed
	}{
		{"a short fact counts for less than the threshold", policy.PresetAgentOS, .19, 50},
		{"what is not recalled is pruned, and what is nearly the same merged", policy.PresetSubstrate, 0, 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			y := newYear(t)
			y.importance = tc.importance
			p, err := policy.Preset(tc.preset)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := y.Policies().Set(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			y.live(1)
			missed, left, _ := y.left()
			t.Logf("left %d memories, missed %d of %d facts", left, len(missed), len(yearFacts))
			if len(missed) < tc.least {
				t.Errorf("%d facts are missed, want %d at least", len(missed), tc.least)
			}
		})
	}
}

// year is an agent that lives.
type year struct {
	*publicDB
	rng *rand.Rand
	who memory.Scope
	ids []string // of the facts

	importance float64 // of a fact, 0 for that of its text
}

func newYear(t *testing.T) *year {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &year{publicDB: newPublicDB(t, engine.Options{}), rng: rand.New(rand.NewPCG(seed, 12)), who: memory.Scope{User: "ada", Agent: "coach"}}
}

// live lets a year pass.
func (y *year) live(turns int) {
	y.t.Helper()
	for d := range 365 {
		if d%6 == 0 && d/6 < len(yearFacts) {
			y.ids = append(y.ids, y.tell(yearFacts[d/6][0]))
		}
		for i, f := range yearFacts {
			if f[1] == "" || d != 6*i+60 {
				continue
			}
			_, err := y.Memories().Update(y.t.Context(), y.who, y.ids[i], memory.Patch{Text: &f[1]})
			if err != nil && !errors.Is(err, memory.ErrNotFound) { // forgotten: it is missed at the end
				y.t.Fatal(err)
			}
		}
		y.chat(d, turns)
		for range 4 {
			y.advance(6 * time.Hour)
			if err := engine.KeepSchedule(y.DB, policy.Schedule{}); err != nil {
				y.t.Fatal(err)
			}
		}
	}
}

// left is which facts a person would miss, how many memories there are, and how many of them are
// small talk.
func (y *year) left() (missed []string, left, small int) {
	y.t.Helper()
	for i, f := range yearFacts {
		m, err := y.Memories().Get(y.t.Context(), y.who, y.ids[i])
		want := cmp.Or(f[1], f[0])
		if err != nil || m.Text != want {
			missed = append(missed, fmt.Sprintf("%s (%v)", want, err))
		}
	}
	for m, err := range y.Memories().All(y.t.Context(), memory.ListQuery{Scope: y.who}) {
		if err != nil {
			y.t.Fatal(err)
		}
		left++
		if slices.ContainsFunc(smallTalk, func(s string) bool { return strings.HasPrefix(m.Text, s) }) {
			small++
		}
	}
	return missed, left, small
}

var smallTalk = []string{"ok thanks", "haha", "sounds good", "good morning", "got it", "see you tomorrow", "how are you?"}

// tell stores a fact.
func (y *year) tell(text string) string {
	y.t.Helper()
	m := memory.Memory{Scope: y.who, Text: text, CreatedAt: y.now()}
	if y.importance > 0 {
		m.Importance = &y.importance
	}
	s, err := y.Memories().Store(y.t.Context(), m, nil)
	if err != nil {
		y.t.Fatal(err)
	}
	return s.ID
}

// chat is the talk of a day: in a session of its own, mostly small, with lines that only a weight tells apart.
func (y *year) chat(day, turns int) {
	y.t.Helper()
	run := fmt.Sprint("day-", day)
	s := y.who
	s.Run = run
	for i := range turns {
		text := fmt.Sprint(smallTalk[y.rng.IntN(len(smallTalk))], strings.Repeat("!", y.rng.IntN(3)))
		if i == 0 {
			text = fmt.Sprintf("This morning I weigh %d.%d kg", 60+day/30, day%10)
		}
		m := memory.Memory{Scope: s, Text: text, Role: []memory.Role{memory.RoleUser, memory.RoleAssistant}[i%2]}
		if _, _, err := y.Sessions().StoreMemory(y.t.Context(), m, nil, sessions.Message{}, nil); err != nil {
			y.t.Fatal(err)
		}
	}
	if _, err := y.Memories().Recall(y.t.Context(), memory.Query{Scope: y.who, Text: "what do I weigh", Limit: 3}); err != nil {
		y.t.Fatal(err)
	}
}
