package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
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
	turns := 6
	if os.Getenv("MEMDB_YEAR") != "" {
		turns = 60
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	y := &year{seedDB: newSeedDB(t, engine.Options{}), rng: rand.New(rand.NewPCG(seed, 12)), who: engine.Scope{User: "ada", Agent: "coach"}}
	stored := 0
	for d := range 365 {
		if d%6 == 0 && d/6 < len(yearFacts) {
			y.ids = append(y.ids, y.say(yearFacts[d/6][0]))
		}
		for i, f := range yearFacts {
			if f[1] != "" && d == 6*i+60 {
				if _, err := y.Memories().Update(t.Context(), y.who, y.ids[i], engine.Patch{Text: &f[1]}); err != nil {
					t.Fatal(err)
				}
			}
		}
		y.chat(d, turns)
		stored += turns
		for range 4 {
			y.advance(6 * time.Hour)
			if err := engine.KeepSchedule(y.DB, policy.Schedule{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var missed []string
	for i, f := range yearFacts {
		m, err := y.Memories().Get(t.Context(), y.who, y.ids[i])
		want := f[0]
		if f[1] != "" {
			want = f[1]
		}
		if err != nil || m.Text != want {
			missed = append(missed, fmt.Sprintf("%s (%v)", want, err))
		}
	}
	left, small := 0, 0
	for m, err := range y.Memories().All(t.Context(), engine.ListQuery{Scope: y.who}) {
		if err != nil {
			t.Fatal(err)
		}
		left++
		if slices.ContainsFunc(smallTalk, func(s string) bool { return strings.HasPrefix(m.Text, s) }) {
			small++
		}
	}
	t.Logf("told %d facts and %d turns, left %d memories, %d of them small talk; missed %d", len(yearFacts), stored, left, small, len(missed))
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

// year is an agent that lives.
type year struct {
	*seedDB
	rng *rand.Rand
	who engine.Scope
	ids []string // of the facts
}

var smallTalk = []string{"ok thanks", "haha", "sounds good", "good morning", "got it", "see you tomorrow", "how are you?"}

func (y *year) say(text string) string {
	y.t.Helper()
	s, err := y.Memories().Store(y.t.Context(), engine.Memory{Scope: y.who, Text: text, CreatedAt: y.now()}, nil)
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
		m := engine.Memory{Scope: s, Text: text, Role: []engine.Role{engine.RoleUser, engine.RoleAssistant}[i%2]}
		if _, _, err := y.Sessions().StoreMemory(y.t.Context(), m, nil, sessions.Message{}, nil); err != nil {
			y.t.Fatal(err)
		}
	}
	if _, err := y.Memories().Recall(y.t.Context(), engine.Query{Scope: y.who, Text: "what do I weigh", Limit: 3}); err != nil {
		y.t.Fatal(err)
	}
}
