package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-7aedc3ff/memdb/internal/messages"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/llm"
)

// Message is a turn of a conversation.
type Message struct {
	Role    llm.Role `json:"role"` // system, user, assistant or tool
	Content string   `json:"content"`
}

// roleTool is the role of the result of a tool.
const roleTool llm.Role = "tool"

// UnmarshalJSON reads a message in any form of chat messages. Its content is what it says: texts,
// calls of tools and their results, and what no form has as it is. What a model thinks is left out.
func (m *Message) UnmarshalJSON(b []byte) error {
	read, err := messages.Read(b, nil)
	if err != nil {
		return err
	}
	speaker, _ := messages.Speaker(read.Role)
	*m = Message{llm.Role(speaker), read.Text}
	if len(read.Parts)+len(read.ToolCalls)+len(read.Extra) > 0 {
		m.Content = read.Said()
	}
	return nil
}

// Messages are a conversation. In JSON they are a list of objects, or a text, which is
// what one user said.
type Messages []Message

// Text is the conversation in which a user says a text and nobody anything else.
func Text(s string) Messages { return Messages{{Role: llm.User, Content: s}} }

// UnmarshalJSON reads a text or a list.
func (m *Messages) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*m = Text(s)
		return nil
	}
	if len(b) > 0 && b[0] == '{' { // one message
		*m = make(Messages, 1)
		return json.Unmarshal(b, &(*m)[0])
	}
	return json.Unmarshal(b, (*[]Message)(m))
}

const (
	doingAdd  = "add facts"
	doingRead = "read messages"
	// maxFile bounds a file of messages, in bytes.
	maxFile = 64 << 20
)

// ReadMessages reads a conversation as JSON: a list of messages, messages one after the
// other, or a text that one user said. ErrInvalid where it is none of these, or more than
// 64 MiB, or a conversation that Add would refuse.
func ReadMessages(r io.Reader) (Messages, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	const do = `give a JSON list of {"role","content"}, or one such object a line`
	if len(b) > maxFile {
		return nil, invalid(doingRead, fmt.Sprintf("there are more than %d bytes", maxFile), "split the conversation")
	}
	var m Messages
	d := json.NewDecoder(bytes.NewReader(b))
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		if err := d.Decode(&m); err != nil {
			return nil, invalid(doingRead, plainJSONError(err), do)
		}
		if d.More() {
			return nil, invalid(doingRead, "something follows the list", do)
		}
		return m, m.check()
	}
	for d.More() {
		var one Message
		if err := d.Decode(&one); err != nil {
			return nil, invalid(doingRead, fmt.Sprintf("message %d: %s", len(m)+1, plainJSONError(err)), do)
		}
		m = append(m, one)
	}
	return m, m.check()
}

// plainJSONError says what is wrong with JSON, without the names of Go.
func plainJSONError(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	if of, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if of.Field == "" {
			return fmt.Sprintf("there is a JSON %s in its place", of.Value)
		}
		return fmt.Sprintf("its %s is a JSON %s", of.Field, of.Value)
	}
	return err.Error()
}

// check refuses a conversation that has nothing to read or more than can be.
func (m Messages) check() error {
	if len(m) == 0 {
		return invalid(doingAdd, "there are no messages", "give at least one")
	}
	if len(m) > MaxMessages {
		return invalid(doingAdd, fmt.Sprintf("there are %d messages", len(m)), fmt.Sprintf("give at most %d at once", MaxMessages))
	}
	for i, one := range m {
		switch one.Role {
		case llm.System, llm.User, llm.Assistant, roleTool:
		default:
			return invalid(doingAdd, fmt.Sprintf("message %d has the role %q", i+1, shorten(string(one.Role))), "give user, assistant, system or tool")
		}
		if len(one.Content) > memory.MaxText {
			return invalid(doingAdd, fmt.Sprintf("message %d has %d bytes", i+1, len(one.Content)), fmt.Sprintf("give at most %d in a message", memory.MaxText))
		}
	}
	return nil
}

// blank reports whether nobody says anything.
func (m Messages) blank() bool {
	return !slices.ContainsFunc(m, func(one Message) bool { return strings.TrimSpace(one.Content) != "" })
}

// conversation is the messages as the model reads them. One message of a user is its text
// alone.
func (m Messages) conversation() (string, error) {
	text := m[0].Content
	if len(m) > 1 || m[0].Role != llm.User {
		lines := make([]string, len(m))
		for i, one := range m {
			lines[i] = string(one.Role) + ": " + one.Content
		}
		text = strings.Join(lines, "\n")
	}
	if len(text) > MaxConversation {
		return "", invalid(doingAdd, fmt.Sprintf("the conversation has %d bytes", len(text)), fmt.Sprintf("give at most %d at once", MaxConversation))
	}
	return text, nil
}

// statement is a message as a fact.
type statement struct {
	text string
	role memory.Role
}

// statements are the messages that stand for facts without a model: what users said, or
// assistants where no user said anything, but for small talk. all: every message of
// either, small talk too.
func (m Messages) statements(all bool) []statement {
	users := slices.ContainsFunc(m, func(one Message) bool { return one.Role == llm.User })
	var found []statement
	for _, one := range m {
		text := strings.TrimSpace(one.Content)
		if one.Role == llm.System || text == "" || !all && (one.Role == roleTool || users && one.Role != llm.User || smallTalk(text)) {
			continue
		}
		if !slices.ContainsFunc(found, func(s statement) bool { return s.text == text }) {
			found = append(found, statement{text, memory.Role(one.Role)})
		}
	}
	return found
}

// greetings may be followed by a name.
var greetings = phrases("hi", "hello", "hey", "hiya", "howdy", "greetings", "good morning", "good afternoon", "good evening", "good night",
	"bye", "goodbye", "bye bye", "see you", "see you later", "see you soon", "see ya", "take care", "thanks", "thank you", "cheers", "welcome", "nice to meet you")

// pleasantries stand alone.
var pleasantries = phrases("how are you", "how are you doing", "how is it going", "how s it going", "hows it going", "what s up", "whats up", "sup",
	"i am fine", "i m fine", "im fine", "fine", "i am good", "i m good", "im good", "good", "great", "nice", "cool", "awesome", "perfect", "excellent", "wonderful", "lovely",
	"ok", "okay", "k", "alright", "all right", "right", "sure", "yes", "yeah", "yep", "yup", "no", "nope", "maybe", "please", "sorry", "of course", "absolutely", "exactly", "indeed",
	"got it", "i see", "understood", "makes sense", "sounds good", "no problem", "no worries", "you re welcome", "you are welcome", "youre welcome", "my pleasure",
	"have a nice day", "have a good day", "have a great day", "have a good one", "talk to you later", "talk soon", "catch you later", "later", "lol", "haha", "hmm", "well", "oh", "wow",
	"nice talking to you", "that s great", "thats great", "that is great", "what can i do for you", "how can i help you", "how can i help", "how may i help you")

// fillers go with both.
var fillers = phrases("there", "everyone", "all", "again", "so much", "very much", "a lot", "today", "and", "you", "too", "so", "then", "now", "for your help", "for the help", "for that", "to you", "as well", "my friend", "and you", "a bunch", "many")

func phrases(list ...string) (split [][]string) {
	for _, p := range list {
		split = append(split, strings.Fields(p))
	}
	slices.SortFunc(split, func(a, b []string) int { return len(b) - len(a) }) // the longest is tried first
	return split
}

// smallTalkWords bounds what small talk is looked for in: what is longer says something.
const smallTalkWords = 24

// smallTalk reports whether a text is made of greetings, thanks and assent alone.
func smallTalk(text string) bool {
	if len(text) > 16*smallTalkWords {
		return false
	}
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(words) > smallTalkWords {
		return false
	}
	for greeted := false; len(words) > 0; {
		n := prefixOf(words, greetings)
		if n > 0 {
			greeted, words = true, words[n:]
			continue
		}
		if n = max(prefixOf(words, pleasantries), prefixOf(words, fillers)); n > 0 {
			words = words[n:]
			continue
		}
		if !greeted {
			return false
		}
		greeted, words = false, words[1:] // whom the greeting is for
	}
	return true
}

// prefixOf is how many words the longest phrase has that the words begin with, or 0.
func prefixOf(words []string, list [][]string) int {
	for _, p := range list {
		if len(p) <= len(words) && slices.Equal(p, words[:len(p)]) {
			return len(p)
		}
	}
	return 0
}

// shorten is a text for a message to people.
func shorten(s string) string { return cutTo(s, 60) }

// cutTo is a text of at most so many characters, with an ellipsis for what is gone.
func cutTo(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
