package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// conversation is one of LoCoMo's (Maharana et al., 2024): the dialogue of two people over many
// sessions, with questions about it.
type conversation struct {
	ID        string // its sample_id
	Speakers  [2]string
	Turns     []turn
	Questions []question
}

// turn is one utterance.
type turn struct {
	ID      string // "<sample_id>/<dia_id>"
	Session string // "session_3"
	Speaker string
	Text    string
	Caption string    // of the picture that was shared, or empty
	Time    time.Time // of the session; zero where it is not known
}

// question is one question about a conversation.
type question struct {
	Text string
	// Category is 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial.
	Category int
	// Evidence are the IDs of the turns that hold the answer, each once; IDs that no turn has are
	// left out.
	Evidence []string
}

// turnIndexedText are the fields that are searched with the text of a turn.
func turnIndexedText() []memory.IndexedField {
	return []memory.IndexedField{
		{Field: "metadata.speaker", Weight: 1},
		{Field: "metadata.caption", Weight: 1},
		{Field: "event_time", Weight: 1},
	}
}

// Memory is the turn as it is stored: by the agent that the conversation is, in the run that the
// session is, the first speaker in the role of the user.
func (c *conversation) Memory(t turn) memory.Memory {
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

// store stores the turns in one commit; change, where it is not nil, has a say about each.
func (c *conversation) store(ctx context.Context, db *engine.DB, change func(i int, m *memory.Memory)) error {
	batch := make([]memory.Memory, len(c.Turns))
	for i, t := range c.Turns {
		batch[i] = c.Memory(t)
		if change != nil {
			change(i, &batch[i])
		}
	}
	_, err := db.Memories().StoreBatch(ctx, batch, &memory.StoreOptions{NoDedup: true})
	return err
}

// readTalks reads the conversations of LoCoMo.
func readTalks(env *harness.Env) ([]*conversation, error) {
	path, err := env.Path(locomoFile)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	talks, err := parseTalks(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return talks, nil
}

func parseTalks(text []byte) (talks []*conversation, err error) {
	var samples []locomoSample
	if err := json.Unmarshal(text, &samples); err != nil {
		return nil, err
	}
	for _, s := range samples {
		talk, err := s.read()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.SampleID, err)
		}
		talks = append(talks, talk)
	}
	return talks, nil
}

// locomoSample is a conversation in its file. Beside the speakers it has session_N and
// session_N_date_time.
type locomoSample struct {
	SampleID     string                     `json:"sample_id"`
	Conversation map[string]json.RawMessage `json:"conversation"`
	QA           []struct {
		Question string   `json:"question"`
		Category int      `json:"category"`
		Evidence []string `json:"evidence"`
	} `json:"qa"`
}

var sessionKey = regexp.MustCompile(`^session_(\d+)$`)

func (s *locomoSample) read() (*conversation, error) {
	c := &conversation{ID: s.SampleID}
	var sessions []string
	for key := range s.Conversation {
		if sessionKey.MatchString(key) {
			sessions = append(sessions, key)
		}
	}
	slices.SortFunc(sessions, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	for i, key := range []string{"speaker_a", "speaker_b"} {
		if err := s.decode(key, &c.Speakers[i]); err != nil {
			return nil, err
		}
	}
	known := map[string]string{} // ID of each turn by its normal dia_id
	for _, session := range sessions {
		if err := s.readSession(c, session, known); err != nil {
			return nil, err
		}
	}
	for _, q := range s.QA {
		var ids []string
		for _, e := range q.Evidence {
			for _, dia := range diaIDs(e) {
				if id := known[dia]; id != "" && !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		}
		c.Questions = append(c.Questions, question{q.Question, q.Category, ids})
	}
	return c, nil
}

func (s *locomoSample) readSession(c *conversation, session string, known map[string]string) error {
	// The date names no zone.
	const date = "3:04 pm on 2 January, 2006"
	var text string
	var turns []struct {
		Speaker string `json:"speaker"`
		DiaID   string `json:"dia_id"`
		Text    string `json:"text"`
		Caption string `json:"blip_caption"`
	}
	if err := s.decode(session, &turns); err != nil {
		return err
	}
	if err := s.decode(session+"_date_time", &text); err != nil {
		return err
	}
	var at time.Time
	if text != "" {
		var err error
		if at, err = time.Parse(date, text); err != nil {
			return fmt.Errorf("%s: %w", session, err)
		}
	}
	for _, t := range turns {
		id := c.ID + "/" + t.DiaID
		for _, normal := range diaIDs(t.DiaID) {
			known[normal] = id
		}
		c.Turns = append(c.Turns, turn{ID: id, Session: session, Speaker: t.Speaker, Text: t.Text, Caption: t.Caption, Time: at})
	}
	return nil
}

// decode reads the value of a key that may be missing.
func (s *locomoSample) decode(key string, v any) error {
	if s.Conversation[key] == nil {
		return nil
	}
	if err := json.Unmarshal(s.Conversation[key], v); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

var diaID = regexp.MustCompile(`D:?(\d+):(\d+)`)

// diaIDs finds the dia_ids in a piece of evidence, which may hold several ("D8:6; D9:17") and slips
// of the pen ("D:11:26", "D30:05"), in normal form.
func diaIDs(s string) []string {
	var ids []string
	for _, m := range diaID.FindAllStringSubmatch(s, -1) {
		ids = append(ids, "D"+strings.TrimLeft(m[1], "0")+":"+strings.TrimLeft(m[2], "0"))
	}
	return ids
}
