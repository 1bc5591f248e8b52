package exchange

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/rawjson"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// Conversation is one of LoCoMo's (Maharana et al., 2024): the dialogue of two
// people over many sessions, with questions about it.
type Conversation struct {
	ID        string // its sample_id
	Speakers  [2]string
	Turns     []Turn
	Questions []Question

	left Counts // keys that have no place here
}

// Turn is one utterance.
type Turn struct {
	ID      string // "<sample_id>/<dia_id>"
	Session string // "session_3"
	Speaker string
	Text    string
	Caption string    // of the picture that was shared, or empty
	Time    time.Time // of the session; zero where it is not known
}

// Question is one question about a conversation.
type Question struct {
	// Text is what is asked.
	Text string
	// Category is 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5
	// adversarial.
	Category int
	// Evidence are the IDs of the turns that hold the answer, each once; IDs that
	// no turn has are left out.
	Evidence []string
}

// LocomoIndexedText are the fields to be searched with the text of a turn.
func LocomoIndexedText() []memory.IndexedField {
	return []memory.IndexedField{
		{Field: "metadata.speaker", Weight: 1},
		{Field: "metadata.caption", Weight: 1},
		{Field: "event_time", Weight: 1},
	}
}

// Memory is the turn as it is stored: by the agent that the conversation is, in
// the run that the session is, the first speaker in the role of the user.
func (c *Conversation) Memory(t Turn) memory.Memory {
	m := memory.Memory{
		ID:    t.ID,
		Scope: memory.Scope{Agent: c.ID, Run: t.Session},
		Role:  memory.RoleAssistant, Kind: memory.KindMessage,
		Text: t.Text, Metadata: map[string]any{"speaker": t.Speaker}, EventTime: t.Time,
	}
	if t.Speaker == c.Speakers[0] {
		m.Role = memory.RoleUser
	}
	if t.Caption != "" {
		m.Metadata["caption"] = t.Caption
	}
	return m
}

// ImportLocomo stores the turns of all conversations. A file that is not
// LoCoMo's ends it with an error; a turn that the database refuses is treated as
// Options say. The report is valid also with an error.
func ImportLocomo(ctx context.Context, db *engine.DB, r io.Reader, o *Options) (Report, error) {
	b := newBatch(db, o)
	in := &boundedReader{r: r}
	for c, err := range readLocomo(in) {
		b.report.Bytes = in.n
		if err != nil {
			return b.finish(ctx, err)
		}
		b.report.LeftOut.AddAll(c.left)
		for _, t := range c.Turns {
			if err := b.add(ctx, LineError{Of: "turn", ID: t.ID}, c.Memory(t), len(t.Text)); err != nil {
				return b.report, err
			}
		}
	}
	return b.finish(ctx, nil)
}

// maxConversation bounds one conversation in its file, in bytes: it is read
// whole, and LoCoMo's have a few hundred KiB.
const maxConversation = 16 << 20

// boundedReader counts what it reads and fails at a limit.
type boundedReader struct {
	r        io.Reader
	n, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.n > b.limit {
		return 0, fmt.Errorf("longer than %d MiB", maxConversation>>20)
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	return n, err
}

// ReadLocomo reads the conversations of a file of LoCoMo, one at a time; it ends
// after the first error.
func ReadLocomo(r io.Reader) iter.Seq2[*Conversation, error] {
	return readLocomo(&boundedReader{r: r})
}

func readLocomo(in *boundedReader) iter.Seq2[*Conversation, error] {
	return func(yield func(*Conversation, error) bool) {
		d := json.NewDecoder(in)
		in.limit = maxConversation
		if err := expect(d, '['); err != nil {
			yield(nil, err)
			return
		}
		for n := 1; d.More(); n++ {
			in.limit = d.InputOffset() + maxConversation
			c, err := nextConversation(d)
			if err != nil {
				yield(nil, fmt.Errorf("conversation %d: %w", n, err))
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		if err := expect(d, ']'); err != nil {
			yield(nil, err)
		}
	}
}

func nextConversation(d *json.Decoder) (*Conversation, error) {
	var raw json.RawMessage
	err := d.Decode(&raw)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("the file ends in the middle of it")
	}
	if err != nil {
		return nil, err
	}
	return decodeConversation(raw)
}

// expect reads the bracket that the list of conversations begins or ends with.
func expect(d *json.Decoder, bracket json.Delim) error {
	t, err := d.Token()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the file ends before the %q of its list of conversations", rune(bracket))
	}
	if _, malformed := errors.AsType[*json.SyntaxError](err); malformed || err == nil && t != bracket {
		return errors.New("the file is no JSON list of conversations")
	}
	return err
}

// The parts of LoCoMo's JSON that are read. Beside the speakers, a conversation
// holds session_N and session_N_date_time.
type (
	locomoSample struct {
		SampleID     string                     `json:"sample_id"`
		Conversation map[string]json.RawMessage `json:"conversation"`
		QA           []locomoQuestion           `json:"qa"`
	}
	locomoTurn struct {
		Speaker string `json:"speaker"`
		DiaID   string `json:"dia_id"`
		Text    string `json:"text"`
		Caption string `json:"blip_caption"`
	}
	locomoQuestion struct {
		Question string   `json:"question"`
		Category int      `json:"category"`
		Evidence []string `json:"evidence"`
	}
)

// sessionDate is how LoCoMo writes "1:56 pm on 8 May, 2023". It names no zone.
const sessionDate = "3:04 pm on 2 January, 2006"

func decodeConversation(raw []byte) (*Conversation, error) {
	var s locomoSample
	if err := Decode(raw, &s); err != nil {
		return nil, err
	}
	if s.SampleID == "" {
		return nil, errors.New("it has no sample_id, as those of LoCoMo have; memories stand one object a line, in no list")
	}
	c := &Conversation{ID: s.SampleID, left: Counts{}}
	c.leave("conversations", raw, "sample_id", "conversation")
	for key := range s.Conversation {
		if session := strings.TrimSuffix(key, "_date_time"); key != "speaker_a" && key != "speaker_b" && (!sessionKey.MatchString(session) || s.Conversation[session] == nil) {
			c.left.Add(fmt.Sprintf("%q of conversations", key), 1)
		}
	}
	for i, key := range []string{"speaker_a", "speaker_b"} {
		if err := decodeKey(s.Conversation, key, &c.Speakers[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
	}
	known := map[string]string{} // ID of each turn by its normal dia_id
	for _, session := range sessionsOf(s.Conversation) {
		turns, err := decodeSession(s.Conversation, session)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.ID, session, err)
		}
		_ = rawjson.Elements(s.Conversation[session], func(turn []byte) error { // it was read
			c.leave("turns", turn, "speaker", "dia_id", "text", "blip_caption")
			return nil
		})
		for _, t := range turns {
			dia := t.ID
			t.ID = c.ID + "/" + dia
			for _, normal := range diaIDs(dia) {
				known[normal] = t.ID
			}
			c.Turns = append(c.Turns, t)
		}
	}
	for _, q := range s.QA {
		c.Questions = append(c.Questions, Question{q.Question, q.Category, evidenceIn(known, q.Evidence)})
	}
	return c, nil
}

// leave counts the keys of an object that are not known.
func (c *Conversation) leave(of string, object []byte, known ...string) {
	_ = rawjson.Members(object, func(key string, _ []byte) error { // it was read
		if !slices.Contains(known, key) {
			c.left.Add(fmt.Sprintf("%q of %s", key, of), 1)
		}
		return nil
	})
}

var sessionKey = regexp.MustCompile(`^session_(\d+)$`)

// sessionsOf lists the keys of the sessions in the order of their numbers.
func sessionsOf(conversation map[string]json.RawMessage) []string {
	var keys []string
	for key := range conversation {
		if sessionKey.MatchString(key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return keys
}

func decodeSession(conversation map[string]json.RawMessage, session string) ([]Turn, error) {
	var date string
	if err := decodeKey(conversation, session+"_date_time", &date); err != nil {
		return nil, err
	}
	var at time.Time
	if date != "" {
		var err error
		if at, err = time.Parse(sessionDate, date); err != nil {
			return nil, fmt.Errorf("its date %q has not the form %q", date, sessionDate)
		}
	}
	var raw []locomoTurn
	if err := decodeKey(conversation, session, &raw); err != nil {
		return nil, err
	}
	turns := make([]Turn, len(raw))
	for i, t := range raw {
		if t.DiaID == "" {
			return nil, fmt.Errorf("turn %d has no dia_id", i+1)
		}
		turns[i] = Turn{ID: t.DiaID, Session: session, Speaker: t.Speaker, Text: t.Text, Caption: t.Caption, Time: at}
	}
	return turns, nil
}

// decodeKey reads the value of a key that may be missing.
func decodeKey(m map[string]json.RawMessage, key string, v any) error {
	raw, ok := m[key]
	if !ok {
		return nil
	}
	if err := Decode(raw, v); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// evidenceIn turns evidence into IDs of turns.
func evidenceIn(known map[string]string, evidence []string) []string {
	var ids []string
	for _, e := range evidence {
		for _, dia := range diaIDs(e) {
			if id, ok := known[dia]; ok && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

var diaID = regexp.MustCompile(`D:?(\d+):(\d+)`)

// diaIDs finds the dia_ids in a piece of evidence, which may hold several
// ("D8:6; D9:17") and slips of the pen ("D:11:26", "D30:05"), in normal form.
func diaIDs(s string) []string {
	var ids []string
	for _, m := range diaID.FindAllStringSubmatch(s, -1) {
		ids = append(ids, "D"+strings.TrimLeft(m[1], "0")+":"+strings.TrimLeft(m[2], "0"))
	}
	return ids
}
