package chat

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// heard is what an answer says: it is written to as the answer passes through, and never fails.
type heard struct {
	streamed bool // events of a stream; else one object
	rest     []byte
	said     strings.Builder
	ended    bool // the stream said so
}

// choice is the part of an answer that matters here.
type choice struct {
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		Message      *message `json:"message"`
		FinishReason string   `json:"finish_reason"`
	} `json:"choices"`
}

// maxHeard bounds what is kept of an answer that has not been understood yet.
const maxHeard = 4 * memory.MaxText

// Write hears a part of the answer.
func (h *heard) Write(b []byte) (int, error) {
	if len(h.rest)+len(b) <= maxHeard {
		h.rest = append(h.rest, b...)
	}
	for h.streamed {
		line, rest, whole := bytes.Cut(h.rest, []byte("\n"))
		if !whole {
			break
		}
		h.rest = rest
		h.event(bytes.TrimSpace(line))
	}
	return len(b), nil
}

// event hears a line of a stream.
func (h *heard) event(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return
	}
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		h.ended = true
		return
	}
	var c choice
	if json.Unmarshal(data, &c) != nil {
		return // nothing that is known here
	}
	for _, of := range c.Choices {
		if of.Index != 0 {
			continue
		}
		if h.said.Len() < memory.MaxText {
			h.said.WriteString(of.Delta.Content)
		}
		h.ended = h.ended || of.FinishReason != ""
	}
}

// text is what the assistant said so far.
func (h *heard) text() string {
	if h.streamed {
		return h.said.String()
	}
	var c choice
	if json.Unmarshal(h.rest, &c) != nil || len(c.Choices) == 0 || c.Choices[0].Message == nil {
		return ""
	}
	h.ended = true
	return c.Choices[0].Message.text()
}

// whole reports whether the answer came to its end. It is known once the text was asked for.
func (h *heard) whole() bool { return h.ended }
