// Assistant is a chat program with a memory: memdb keeps what was said and what is so.
//
//	OPENAI_API_KEY=… go run ./examples/assistant USER
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/sessions"
)

// What a prompt has room for, in tokens: what is remembered, and the newest of this conversation.
const rememberTokens, windowTokens = 400, 1_500

func main() {
	ctx, user := context.Background(), strings.Join(os.Args[1:], " ")
	ageing := &engine.Options{Schedule: &policy.Schedule{}} // by itself, at the times of the policy
	db, models, err := config.OpenDB(ctx, "assistant.memdb", ageing, "", os.LookupEnv)
	if err != nil {
		log.Fatal(err)
	}
	model, err := models.NeedLLM()
	if err == nil {
		err = chat(ctx, db, model, user, os.Stdin, os.Stdout)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		log.Fatal(err)
	}
}

// chat answers the lines of a user. After "/forget" there is nothing left of the user.
func chat(ctx context.Context, db *engine.DB, model llm.Client, user string, in io.Reader, out io.Writer) error {
	f, err := facts.New(&facts.Config{DB: db, LLM: model})
	if err != nil {
		return err
	}
	session, err := db.Sessions().OpenChannel(ctx, scope.Owner{User: user}, "chat") // the one that is open, or a new one
	if err != nil {
		return err
	}
	a := assistant{db, f, model, scope.Scope{User: user}, session.Session}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if lines.Text() == "/forget" {
			_, err := db.DeleteUser(ctx, user)
			return err
		}
		answer, err := a.answer(ctx, lines.Text())
		if err != nil {
			return err
		}
		fmt.Fprintln(out, answer)
	}
	return nil
}

type assistant struct {
	db    *engine.DB
	facts *facts.Facts
	model llm.Client
	user  scope.Scope
	run   string // this conversation
}

// answer asks the model with what is remembered, and keeps the message, the answer and their facts.
func (a *assistant) answer(ctx context.Context, text string) (string, error) {
	known, err := a.remember(ctx, text)
	if err != nil {
		return "", err
	}
	s, owner := a.db.Sessions(), a.user.Owner()
	loaded, err := s.Load(ctx, owner, a.run, &sessions.Window{Tokens: windowTokens})
	if err != nil {
		return "", err
	}
	ask := llm.Request{Owner: owner, Messages: []llm.Message{{Role: llm.System, Text: known + loaded.Summary}}}
	for _, m := range append(loaded.Messages, sessions.Message{Role: "user", Text: text}) {
		ask.Messages = append(ask.Messages, llm.Message{Role: llm.Role(m.Role), Text: m.Text})
	}
	reply, err := a.model.Generate(ctx, ask)
	if err != nil {
		return "", err
	}
	turn := []sessions.Message{{Role: "user", Text: text}, {Role: "assistant", Text: reply.Text}}
	if _, err = s.Append(ctx, owner, a.run, turn, nil); err == nil {
		_, err = a.facts.Add(ctx, a.user, facts.Text(text), nil) // a new fact, or a known one corrected
	}
	if err == nil {
		_, err = s.Compact(ctx, owner, a.run, nil) // behind a summary, from 30 messages on
	}
	return reply.Text, err
}

// remember is what the prompt says of the past: the facts that fit come first, then what was said in
// other conversations, less what a fact has corrected since, as far as there is room.
func (a *assistant) remember(ctx context.Context, text string) (string, error) {
	found, err := a.facts.Search(ctx, a.user, text, &facts.SearchOptions{Limit: 8})
	if err != nil {
		return "", err
	}
	said, err := a.db.Memories().Recall(ctx, memory.Query{
		Scope: a.user, Text: text, Limit: 8,
		Filter: filter.And(filter.Eq("kind", "message"), filter.Ne("run", a.run)),
	})
	if err != nil {
		return "", err
	}
	lines := []string{"What is so now:"}
	var history []facts.Record
	for _, fact := range found.Results {
		lines = append(lines, "- "+fact.Memory)
		h, err := a.facts.History(ctx, a.user, fact.ID)
		if err != nil {
			return "", err
		}
		history = append(history, h...)
	}
	lines = append(lines, "What was said, and may have changed:")
	for _, hit := range said.Hits {
		if !outdated(&hit.Memory, history) {
			lines = append(lines, fmt.Sprintf("- %s, %s: %s", hit.CreatedAt.Format("2 January 2006"), hit.Role, hit.Text))
		}
	}
	kept := ""
	for _, line := range lines {
		if len(kept)+len(line) > 4*rememberTokens { // a token has about four bytes
			break
		}
		kept += line + "\n"
	}
	return kept, nil
}

// outdated reports whether a message was said before a fact was corrected, and has a word that only the
// fact of before has: "I live in Antwerp", once "lives in Antwerp" has become "lives in Bruges".
func outdated(m *memory.Memory, history []facts.Record) bool {
	for _, h := range history {
		if h.Event != facts.Update || h.Timestamp.Before(m.CreatedAt) {
			continue
		}
		now, said := words(*h.NewValue), words(m.Text)
		if slices.ContainsFunc(words(*h.OldValue), func(w string) bool { return slices.Contains(said, w) && !slices.Contains(now, w) }) {
			return true
		}
	}
	return false
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return strings.ContainsRune(" .,;:!?'\"()", r) })
}
