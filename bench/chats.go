package main

import (
	"context"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/peer"
	"github.com/seed-7aedc3ff/memdb/bench/reference"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// chatPassages is how many passages of books an assistant has to answer with.
const chatPassages = 12_000

// chats makes long chats with an assistant of the conversations of locomo: each speaker in turn is
// the user, the other one the assistant, whose turns go on with the passage of a book that has the
// most of what the user has just said, as assistants do who take a topic up. What was asked of the
// speaker is asked in the first person, and nothing says who speaks but the role.
func chats() *harness.Workload {
	w := locomo()
	w.Name, w.Summary = "chats", "long chats with an assistant, made of locomo and of passages: questions in the first person"
	w.WarmUp = 0
	w.Contestants = func(env *harness.Env) ([]harness.Contestant, error) {
		talks, err := readTalks(env)
		if err != nil {
			return nil, err
		}
		books, err := env.Path(corpusFile)
		if err != nil {
			return nil, err
		}
		made, err := makeChats(talks, books)
		if err != nil {
			return nil, err
		}
		shared := &chatDB{env: env, talks: made}
		var list []harness.Contestant
		for i, c := range []struct {
			name string
			q    memory.Query
		}{
			{"memdb best", memory.Query{}},
			{"memdb best, AnySpeaker", memory.Query{Ranking: policy.Ranking{AnySpeaker: true}}},
			{"memdb best, AnyTime", memory.Query{Ranking: policy.Ranking{AnyTime: true}}},
			{"memdb best, AnySession", memory.Query{Ranking: policy.Ranking{AnySession: true}}},
			{"memdb text", memory.Query{Profile: memory.ProfileText}},
		} {
			list = append(list, harness.Contestant{Name: c.name, Baseline: i == 0, Open: func(ctx context.Context) (harness.Runner, error) {
				return shared.open(ctx, c.q)
			}})
		}
		return list, nil
	}
	return w
}

// makeChats makes the chats; their questions are those that name the user alone.
func makeChats(talks []*conversation, books string) ([]*conversation, error) {
	passages, err := somePassages(books, chatPassages)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(passages))
	for i, p := range passages {
		texts[i] = p.Text
	}
	library := reference.New(texts, reference.Document)
	var made []*conversation
	for _, talk := range talks {
		for n, user := range talk.Speakers {
			chat := &conversation{ID: talk.ID + " " + user, Speakers: [2]string{user, talk.Speakers[1-n]}}
			said := ""
			for _, t := range talk.Turns {
				t.Caption = ""
				if t.Speaker == user {
					said = t.Text
				} else if best := mostOf(library, said); best >= 0 {
					t.Text += " " + texts[best]
				}
				chat.Turns = append(chat.Turns, t)
			}
			for _, q := range talk.Questions {
				if counts(q) && strings.Contains(q.Text, user) && !strings.Contains(q.Text, talk.Speakers[1-n]) {
					q.Text = firstPerson(q.Text, user)
					chat.Questions = append(chat.Questions, q)
				}
			}
			made = append(made, chat)
		}
	}
	return made, nil
}

func somePassages(path string, n int) (docs []peer.Document, err error) {
	c, err := openCorpus(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	docs, err = c.next(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return docs, err
}

// mostOf is the document that has the most of a text, by BM25 without the commonest words; -1 for
// none.
func mostOf(library *reference.Collection, text string) int {
	var terms []string
	for _, t := range reference.Question(text) {
		if library.IDF(t) > math.Log(8) {
			terms = append(terms, t)
		}
	}
	best, most := -1, 0.0
	for i, s := range reference.Sum(library.Parts(terms), chatPassages) {
		if s > most {
			best, most = i, s
		}
	}
	return best
}

// Verbs of questions that change with the person.
var persons = strings.NewReplacer("does I ", "do I ", "has I ", "have I ", "is I ", "am I ", " I has ", " I have ", " I is ", " I am ", " I does ", " I do ",
	"Does I ", "Do I ", "Has I ", "Have I ", "Is I ", "Am I ")

// firstPerson is a question about somebody as that person asks it.
func firstPerson(question, name string) string {
	quoted := regexp.QuoteMeta(name)
	for _, change := range [][2]string{
		{`\b` + quoted + `'s\b`, "my"},
		{`\b(to|for|with|from|by|of|at|about|gave|give|helped|help) ` + quoted + `\b`, "$1 me"},
		{`\b` + quoted + `\b`, "I"},
		{`\b(his|her)\b`, "my"},
		{`\b(she|he)\b`, "I"},
		{`\bhim\b`, "me"},
	} {
		question = regexp.MustCompile(change[0]).ReplaceAllString(question, change[1])
	}
	return persons.Replace(question)
}

// chatDB is memdb with all chats, which the contestants share.
type chatDB struct {
	env   *harness.Env
	talks []*conversation
	db    *engine.DB
	users int
}

func (c *chatDB) open(ctx context.Context, q memory.Query) (harness.Runner, error) {
	if c.db == nil {
		dir, err := c.env.Fresh("chats")
		if err != nil {
			return nil, err
		}
		if c.db, err = engine.Open(dir, &engine.Options{IndexedText: []memory.IndexedField{{Field: "event_time"}}}); err != nil {
			return nil, err
		}
		for _, talk := range c.talks {
			if err := talk.store(ctx, c.db, func(_ int, m *memory.Memory) { m.Metadata = nil }); err != nil {
				return nil, errors.Join(err, c.close())
			}
		}
	}
	c.users++
	q.NoTouch = true
	return &locomoRun{c.talks, asking(c.db, q), c.close}, nil
}

// close closes the database with its last user.
func (c *chatDB) close() error {
	c.users--
	if c.users > 0 || c.db == nil {
		return nil
	}
	db := c.db
	c.db = nil
	return db.Close()
}
