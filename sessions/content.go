package sessions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// The types of parts that are text, of OpenAI's and of Anthropic's forms.
var textTypes = []string{"text", "input_text", "output_text"}

// anyPart is what is asked of a part of any form. Unknown forms have none of it.
type anyPart struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	ToolUseID string          `json:"tool_use_id"`  // of Anthropic's results
	CallID    string          `json:"tool_call_id"` // of others
	Name      string          `json:"name"`
	Text      string          `json:"text"`
	Refusal   string          `json:"refusal"`
	Thinking  string          `json:"thinking"`
	Input     json.RawMessage `json:"input"`
	Args      json.RawMessage `json:"args"`
	Content   json.RawMessage `json:"content"`
}

// isCall reports whether the part calls a tool: tool_use, server_tool_use, tool_call.
func (p *anyPart) isCall() bool {
	return strings.HasSuffix(p.Type, "tool_use") || strings.HasSuffix(p.Type, "tool_call")
}

// isResult reports whether the part is what a call of a tool returned: tool_result,
// web_search_tool_result and the like.
func (p *anyPart) isResult() bool { return strings.HasSuffix(p.Type, "tool_result") }

// rawParts are the parts of a content: the elements of a list, or what is no list.
func rawParts(content json.RawMessage) []json.RawMessage {
	if len(content) == 0 || string(content) == "null" {
		return nil
	}
	var list []json.RawMessage
	if content[0] == '[' && json.Unmarshal(content, &list) == nil {
		return list
	}
	return []json.RawMessage{content}
}

// partOf reads what is known of a part; a string is a part that is text. What has another
// type than the forms say is left out.
func partOf(raw json.RawMessage) (p anyPart) {
	if json.Unmarshal(raw, &p.Text) == nil {
		p.Type = textTypes[0]
		return p
	}
	_ = json.Unmarshal(raw, &p)
	return p
}

// toolCall is a call as OpenAI writes it, of a function or of a custom tool.
type toolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Custom struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
}

// extra is what of Message.Extra is content. The function call is of OpenAI's first form.
type extra struct {
	FunctionCall *struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function_call"`
	Refusal string `json:"refusal"`
}

func (m *Message) extra() (e extra) {
	if len(m.Extra) > 0 {
		_ = json.Unmarshal(m.Extra, &e) // a key that has another type says nothing
	}
	return e
}

// Content is all that the message says, as text: its text, its parts, the tools that it calls
// with their arguments, and the results of tools. A part that is no text, such as an image,
// is there by its type.
func (m *Message) Content() string {
	var said []string
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" {
			said = append(said, s)
		}
	}
	add(m.Text)
	for _, raw := range rawParts(m.Parts) {
		if p := partOf(raw); p.Text == "" || p.Text != m.Text {
			add(partText(raw))
		}
	}
	for _, raw := range rawParts(m.ToolCalls) {
		var c toolCall
		if json.Unmarshal(raw, &c) != nil || c.Function.Name+c.Custom.Name == "" {
			add(string(raw))
			continue
		}
		add(c.Function.Name + c.Custom.Name + " " + c.Function.Arguments + c.Custom.Input)
	}
	e := m.extra()
	if e.FunctionCall != nil {
		add(e.FunctionCall.Name + " " + e.FunctionCall.Arguments)
	}
	add(e.Refusal)
	return strings.Join(said, "\n")
}

// partText is what a part says, as text.
func partText(raw json.RawMessage) string {
	p := partOf(raw)
	switch {
	case slices.Contains(textTypes, p.Type):
		return p.Text
	case p.isCall():
		return strings.TrimSpace(p.Name + " " + string(p.Input) + string(p.Args))
	case p.isResult() && len(p.Content) > 0:
		return contentText(p.Content)
	case p.Refusal != "" || p.Thinking != "":
		return p.Refusal + p.Thinking
	case p.Type == "" || p.isResult():
		return string(raw) // of no known form: as it is
	}
	text := "[" + p.Type + "]"
	if p.Text != "" {
		text += " " + p.Text
	}
	return text
}

// contentText is what the content of a result says: a text, or parts.
func contentText(content json.RawMessage) string {
	var said []string
	for _, raw := range rawParts(content) {
		said = append(said, partText(raw))
	}
	return strings.Join(said, "\n")
}

// partsText is the text among the parts of a message: what a person or a model has said in
// words. What tools were asked and have answered is no part of it.
func (m *Message) partsText() string {
	var said []string
	for _, raw := range rawParts(m.Parts) {
		if p := partOf(raw); slices.Contains(textTypes, p.Type) && p.Text != "" {
			said = append(said, p.Text)
		}
	}
	return strings.Join(said, "\n")
}

// pieces of a message that a window counts, and a summarizer is told: as they are stored.
func (m *Message) counted() []string {
	e := m.extra()
	all := []string{m.Text, string(m.Parts), string(m.ToolCalls), e.Refusal}
	if e.FunctionCall != nil {
		all = append(all, e.FunctionCall.Name+e.FunctionCall.Arguments)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// silent reports whether the message has nothing to say: neither text, parts nor a memory,
// and no tool.
func (m *Message) silent() bool {
	return m.Text == "" && len(m.Parts) == 0 && len(m.MemoryIDs) == 0 &&
		len(m.ToolCalls) == 0 && m.ToolCallID == "" && len(m.Extra) == 0
}

// size is about how many bytes the content of the message takes.
func (m *Message) size() int {
	return len(m.Text) + len(m.Parts) + len(m.ToolCalls) + len(m.Extra) + len(m.Name) + len(m.ToolCallID)
}

// tools are the IDs of the calls of tools that the message makes, and of those that it brings
// the results of. A result without an ID has the ID "".
func (m *Message) tools() (calls, results []string) {
	for _, raw := range rawParts(m.ToolCalls) {
		var c toolCall
		_ = json.Unmarshal(raw, &c) // of an unknown form: a call without an ID
		calls = append(calls, c.ID)
	}
	if bytes.Contains(m.Parts, []byte("tool_")) {
		for _, raw := range rawParts(m.Parts) {
			switch p := partOf(raw); {
			case p.isCall():
				calls = append(calls, p.ID)
			case p.isResult():
				results = append(results, cmp.Or(p.ToolUseID, p.CallID, p.ID))
			}
		}
	}
	e := m.extra()
	switch {
	case e.FunctionCall != nil:
		calls = append(calls, "")
	case m.ToolCallID != "":
		results = append(results, m.ToolCallID)
	case m.Role == "tool" && len(results) == 0, m.Role == "function":
		results = append(results, "")
	}
	return calls, results
}
