package sessions

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/internal/valid"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// CompactOptions changes what Compact does. nil is the default.
type CompactOptions struct {
	// Threshold is from how many messages behind the newest marker on a session is
	// compacted. 0: DefaultThreshold.
	Threshold int
	// KeepRecent is how many of them are not summarised, and the call of a tool of which a
	// result is among them; less than Threshold. 0: DefaultKeepRecent.
	KeepRecent int
	// Drop removes the messages that were summarised. Their memories stay.
	Drop bool
	// Summarizer makes the summary. nil: Extractive.
	Summarizer Summarizer
}

const (
	// DefaultThreshold and DefaultKeepRecent are those of CompactOptions.
	DefaultThreshold  = 30
	DefaultKeepRecent = 10

	// chunkChars bounds what a Summarizer gets at once, in characters.
	chunkChars = 80_000
	// maxSummary bounds a summary, in bytes: what takes the place of messages is shorter.
	maxSummary = 1 << 20
	// archiveImportance is that of an archive.
	archiveImportance = 0.9
	// compactTries is how often a compaction is begun anew where another one, or a repair,
	// came between.
	compactTries = 4
)

// Compacted is what Compact has done.
type Compacted struct {
	// Compacted: there was something to do. Summarized and Kept count messages.
	Compacted  bool `json:"compacted"`
	Summarized int  `json:"summarized"`
	Kept       int  `json:"kept"`
	// SummaryID is the memory that holds the summary, ArchiveName its name.
	SummaryID   string `json:"summary_id"`
	ArchiveName string `json:"archive_name"`
}

func (o *CompactOptions) check(doing string) (CompactOptions, error) {
	full := CompactOptions{}
	if o != nil {
		full = *o
	}
	if full.Threshold == 0 {
		full.Threshold = DefaultThreshold
	}
	if full.KeepRecent == 0 {
		full.KeepRecent = DefaultKeepRecent
	}
	if full.Summarizer == nil {
		full.Summarizer = Extractive{}
	}
	switch {
	case full.Threshold < 0 || full.KeepRecent < 0:
		return full, fault.Invalid(doing, "the threshold or the number of messages to keep is negative", "give 1 or more")
	case full.KeepRecent >= full.Threshold:
		return full, fault.Invalid(doing, fmt.Sprintf("it would keep %d messages, with a threshold of %d", full.KeepRecent, full.Threshold), "keep less than the threshold")
	}
	return full, nil
}

// Compact summarises the messages of a session behind its newest marker, but for the most
// recent, if there are as many as the threshold says. The summary is a memory, of the kind
// archive; a marker stands behind what was summarised. The two are one commit. A Summarizer
// that fails changes nothing: ErrSummarizer, or the error of the context. ErrNotFound where
// there is no such session.
func (s Sessions) Compact(ctx context.Context, o scope.Owner, name string, opts *CompactOptions) (Compacted, error) {
	doing := named("compact", name)
	if err := checkName(doing, o, name); err != nil {
		return Compacted{}, err
	}
	full, err := opts.check(doing)
	if err != nil {
		return Compacted{}, err
	}
	for range compactTries {
		out, again, err := s.compactOnce(ctx, doing, o, name, &full)
		if err != nil {
			return Compacted{}, err
		}
		if !again {
			return out, nil
		}
	}
	return Compacted{}, &fault.Error{Kind: fault.ErrConflict, What: doing, Why: "others have changed it meanwhile, each time", Do: "try again"}
}

// prefix is what a compaction summarises.
type prefix struct {
	content, from, to uint32
	version           uint64
	markers           uint32
	now               int64
	previous          string
	messages          []Message
	kept              int
}

// compactOnce summarises what there is now. again says that the session was changed before
// the commit.
func (s Sessions) compactOnce(ctx context.Context, doing string, o scope.Owner, name string, opts *CompactOptions) (out Compacted, again bool, err error) {
	var of prefix
	err = s.run.View(ctx, doing, func(v part.View) error {
		p, h, err := find(v, doing, o, name)
		if err == nil {
			of, err = prefixOf(ctx, v, p, h, opts)
		}
		return err
	})
	if err != nil || len(of.messages) == 0 {
		return Compacted{Kept: of.kept}, false, err
	}
	summary, err := summarise(ctx, doing, opts.Summarizer, of.previous, of.messages)
	if err != nil {
		return Compacted{}, false, err
	}
	m := Marker{ArchiveName: archiveName(name, of.now, of.markers+1), ArchivedAt: clock.FromMillis(of.now), Summarized: len(of.messages)}
	importance := archiveImportance
	memory, err := s.run.Prepare(ctx, part.NewMemory{
		Scope: scope.Scope{User: o.User, Agent: o.Agent, Run: name}, Role: "system", Kind: "archive", Name: m.ArchiveName,
		Text: summary, Created: of.now, Importance: &importance,
	})
	if err != nil {
		return Compacted{}, false, err
	}
	err = s.run.Append(ctx, doing, memory.Bytes()+messageBytes+2*stateBytes+MaxMetadata, func(t part.Tx) error {
		again, err = of.commit(t, doing, o, name, memory, &m, opts.Drop)
		return err
	})
	return Compacted{Compacted: true, Summarized: m.Summarized, Kept: of.kept, SummaryID: m.ArchiveID, ArchiveName: m.ArchiveName}, again, err
}

// prefixOf is what is to be summarised, without messages where it is too little.
func prefixOf(ctx context.Context, v part.View, p place, h *head, opts *CompactOptions) (prefix, error) {
	marker, from, err := newestMarker(v, p, h)
	if err != nil {
		return prefix{}, err
	}
	n := int(h.next - from)
	of := prefix{content: h.content, from: from, version: h.version, markers: h.markers, now: v.Now(), kept: n}
	if n < opts.Threshold {
		return of, nil
	}
	if of.to, err = wholeFrom(v, p, h, from, h.next-uint32(opts.KeepRecent)); err != nil {
		return prefix{}, err
	}
	of.kept = int(h.next - of.to)
	if marker != nil {
		if of.previous, err = summaryOf(v, h.of, marker); err != nil {
			return prefix{}, err
		}
	}
	of.messages, err = read(ctx, v, p, h, of.from, of.to)
	return of, err
}

// commit stores the archive and the marker, if what was summarised is still there.
func (of *prefix) commit(t part.Tx, doing string, o scope.Owner, name string, memory part.Prepared, m *Marker, drop bool) (again bool, err error) {
	if err := t.Need(doing, memory.Bytes()+messageBytes+2*stateBytes+MaxMetadata); err != nil {
		return false, err
	}
	c, err := beginKnown(t, doing, o, name)
	if err != nil {
		return false, err
	}
	_, from, err := newestMarker(c, c.at, c.head)
	if err != nil || c.content != of.content || from != of.from || c.first > of.from {
		return err == nil, err
	}
	metadata, err := c.metadata()
	if err != nil {
		return false, err
	}
	stored, err := c.StoreMemory(memory)
	if err != nil {
		return false, err
	}
	m.ArchiveID = stored.ID
	if err := c.mark(of.to, m, c.markers+1); err != nil {
		return false, err
	}
	if drop {
		c.first = of.to
		if err := c.later(c.content, c.first); err != nil {
			return false, err
		}
	}
	c.updated = max(c.updated, c.Now())
	return false, c.saveState(metadata)
}

// archiveName names an archive: the session, the time, and the how-manieth of it it is.
func archiveName(name string, now int64, n uint32) string {
	const most = valid.MaxID - 64
	for i := range name {
		if i > most {
			name = name[:i]
			break
		}
	}
	return fmt.Sprintf("%s/%s/%d", name, clock.Instant{Time: clock.FromMillis(now)}, n)
}

// summarise has chunk after chunk summarised, each with the summary of those before.
func summarise(ctx context.Context, doing string, by Summarizer, previous string, messages []Message) (string, error) {
	parts := chunks(messages, chunkChars)
	for i, chunk := range parts {
		failed := func(why string, cause error) error {
			return &fault.Error{
				Kind: fault.ErrSummarizer, What: fmt.Sprintf("%s: summarise chunk %d of %d", doing, i+1, len(parts)), Why: why, Cause: cause,
				Do: "nothing was changed; try again, or use another summarizer",
			}
		}
		summary, err := by.Summarize(ctx, previous, chunk)
		switch {
		case ctx.Err() != nil:
			return "", failed("it was not done in time", ctx.Err())
		case err != nil:
			return "", failed("the summarizer failed", err)
		case strings.TrimSpace(summary) == "":
			return "", failed("the summarizer returned nothing", nil)
		case len(summary) > maxSummary:
			return "", failed(fmt.Sprintf("the summarizer returned %d bytes, the limit is %d", len(summary), maxSummary), nil)
		case !utf8.ValidString(summary):
			return "", failed("what the summarizer returned is no UTF-8", nil)
		}
		previous = summary
	}
	return previous, nil
}

// chunks cuts messages into lists of at most so many characters, at the borders of messages.
// A message that is longer by itself is cut into several.
func chunks(messages []Message, limit int) (all [][]Message) {
	var chunk []Message
	room := limit
	for _, m := range messages {
		for _, piece := range cuts(m, limit) {
			n := chars(&piece)
			if n > room && len(chunk) > 0 {
				all = append(all, chunk)
				chunk, room = nil, limit
			}
			chunk = append(chunk, piece)
			room -= n
		}
	}
	if len(chunk) > 0 {
		all = append(all, chunk)
	}
	return all
}

// chars is how many characters a message counts.
func chars(m *Message) int {
	return utf8.RuneCountInString(m.Text) + utf8.RuneCount(m.Parts) + utf8.RuneCount(m.ToolCalls) + utf8.RuneCount(m.Extra)
}

// cuts is a message, or, where it is too long, several of its text, its parts, and its calls
// as text.
func cuts(m Message, limit int) []Message {
	if chars(&m) <= limit {
		return []Message{m}
	}
	var all []Message
	for _, text := range []string{m.Text, string(m.Parts), string(m.ToolCalls), string(m.Extra)} {
		for text != "" {
			end, n := len(text), 0
			for i := range text {
				if n == limit {
					end = i
					break
				}
				n++
			}
			cut := m
			cut.Text, cut.Parts, cut.ToolCalls, cut.Extra = text[:end], nil, nil, nil
			all, text = append(all, cut), text[end:]
		}
	}
	return all
}
