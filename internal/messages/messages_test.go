package messages

import (
	"fmt"
	"strings"
	"testing"
)

// conversations are short conversations in the forms that programs write. Each asks one tool, and the
// depth is 04 fathoms.
var conversations = map[string]string{
	"openai": `{"role":"user","content":"Depth?"}
{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"depth","arguments":"{}"}}]}
{"role":"tool","tool_call_id":"c1","content":"depth is 04 fathoms"}`,
	"openai function": `{"role":"user","content":"Depth?"}
{"role":"assistant","content":null,"function_call":{"name":"depth","arguments":"{}"}}
{"role":"function","name":"depth","content":"depth is 04 fathoms"}`,
	"openai custom": `{"role":"user","content":[{"type":"text","text":"Depth?"}]}
{"role":"assistant","reasoning_content":"hm","tool_calls":[{"id":"c1","type":"custom","custom":{"name":"depth","input":"{}"}}]}
{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"depth is 04 fathoms"}]}`,
	"responses": `{"type":"message","role":"user","content":[{"type":"input_text","text":"Depth?"}]}
{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"x"}
{"type":"function_call","id":"fc_1","call_id":"c1","name":"depth","arguments":"{}","status":"completed"}
{"type":"function_call_output","call_id":"c1","output":"depth is 04 fathoms"}`,
	"responses custom": `{"role":"user","content":"Depth?"}
{"type":"custom_tool_call","id":"ctc_1","call_id":"c1","name":"depth","input":"{}"}
{"type":"custom_tool_call_output","call_id":"c1","output":[{"type":"output_text","text":"depth is 04 fathoms"}]}`,
	"responses shell": `{"role":"user","content":"Depth?"}
{"type":"local_shell_call","id":"lsh_1","call_id":"c1","action":{"type":"exec","command":["depth","{}"]}}
{"type":"local_shell_call_output","id":"lsh_1","output":"depth is 04 fathoms"}`,
	"responses computer": `{"role":"user","content":"Depth?"}
{"type":"computer_call","id":"cu_1","call_id":"c1","action":{"type":"depth","x":"{}"}}
{"type":"computer_call_output","call_id":"c1","output":{"type":"text","text":"depth is 04 fathoms"}}`,
	"responses of a provider's tool": `{"role":"user","content":"Depth?"}
{"type":"mcp_call","id":"mcp_1","server_label":"s","name":"depth","arguments":"{}","output":"depth is 04 fathoms"}
{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"depth"}}`,
	"anthropic": `{"role":"user","content":"Depth?"}
{"id":"msg_1","type":"message","role":"assistant","model":"claude","usage":{"input_tokens":1},"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"c1","name":"depth","input":{}}]}
{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"depth is 04 fathoms"}]}]}`,
	"anthropic server tool": `{"role":"user","content":"Depth?"}
{"role":"assistant","content":[{"type":"server_tool_use","id":"c1","name":"depth","input":{}},{"type":"web_search_tool_result","tool_use_id":"c1","content":[{"type":"web_search_result","title":"depth is 04 fathoms"}]}]}`,
	"gemini": `{"role":"user","parts":[{"text":"Depth?"}]}
{"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"id":"c1","name":"depth","args":{}},"thoughtSignature":"s"}]}
{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"depth","response":{"v":"depth is 04 fathoms"}}}]}`,
	"gemini without IDs": `{"role":"user","parts":[{"text":"Depth?"},{"inline_data":{"mime_type":"image/png","data":"AAAA"}}]}
{"role":"model","parts":[{"function_call":{"name":"depth","args":{}}}]}
{"role":"user","parts":[{"function_response":{"name":"depth","response":{"v":"depth is 04 fathoms"}}}]}`,
	"gemini code": `{"role":"user","parts":[{"text":"Depth?"}]}
{"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"depth({})"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"depth is 04 fathoms"}}]}`,
	"bedrock": `{"role":"user","content":[{"text":"Depth?"},{"cachePoint":{"type":"default"}}]}
{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}},{"toolUse":{"toolUseId":"c1","name":"depth","input":{}}}]}
{"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"text":"depth is 04 fathoms"}],"status":"success"}}]}`,
	"vercel": `{"role":"user","content":[{"type":"text","text":"Depth?"}]}
{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"tool-call","toolCallId":"c1","toolName":"depth","input":{}}]}
{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","toolName":"depth","output":{"type":"text","value":"depth is 04 fathoms"}}]}`,
	"vercel UI": `{"id":"u1","role":"user","parts":[{"type":"text","text":"Depth?"}]}
{"id":"u2","role":"assistant","parts":[{"type":"step-start"},{"type":"tool-depth","toolCallId":"c1","state":"output-available","input":{},"output":"depth is 04 fathoms"},{"type":"dynamic-tool","toolName":"wind","toolCallId":"c2","state":"output-error","input":{},"errorText":"no wind"}]}`,
	"vercel invocations": `{"role":"user","content":"Depth?"}
{"role":"assistant","content":"","toolInvocations":[{"state":"result","toolCallId":"c1","toolName":"depth","args":{},"result":"depth is 04 fathoms"}]}`,
	"langchain": `{"type":"human","content":"Depth?","additional_kwargs":{},"response_metadata":{},"example":false}
{"type":"ai","content":"","tool_calls":[{"name":"depth","args":{},"id":"c1","type":"tool_call"}],"invalid_tool_calls":[],"additional_kwargs":{"tool_calls":[{"id":"c1","type":"function","function":{"name":"depth","arguments":"{}"}}]}}
{"type":"tool","content":"depth is 04 fathoms","tool_call_id":"c1","status":"success"}`,
	"langchain dicts": `{"type":"human","data":{"content":"Depth?","type":"human"}}
{"type":"ai","data":{"content":"","type":"ai","tool_calls":[{"name":"depth","args":{},"id":"c1"}]}}
{"type":"tool","data":{"content":"depth is 04 fathoms","type":"tool","tool_call_id":"c1"}}`,
	"langchain constructors": `{"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"content":"Depth?"}}
{"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessageChunk"],"kwargs":{"content":"","tool_calls":[{"name":"depth","args":{},"id":"c1"}]}}
{"lc":1,"type":"constructor","id":["langchain","schema","messages","ToolMessage"],"kwargs":{"content":"depth is 04 fathoms","tool_call_id":"c1"}}`,
	"ollama": `{"role":"user","content":"Depth?","images":["AAAA"]}
{"role":"assistant","content":"","thinking":"hm","tool_calls":[{"function":{"name":"depth","arguments":{}}}]}
{"role":"tool","tool_name":"depth","content":"depth is 04 fathoms"}`,
	"wrapped in a transcript": `{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"Depth?"}}
{"type":"response_item","timestamp":"2026-01-02T00:00:00Z","payload":{"type":"function_call","name":"depth","arguments":"{}","call_id":"c1"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"depth is 04 fathoms"}}`,
}

func readAll(t *testing.T, lines string) (all []*Message, uses []Use) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		m, err := Read([]byte(line), nil)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all, uses = append(all, m), append(uses, m.Use())
	}
	return all, uses
}

// TestForms verifies that each form is understood: who speaks, what is said, which call a result
// answers, and that nothing is unknown.
func TestForms(t *testing.T) {
	for name, lines := range conversations {
		t.Run(name, func(t *testing.T) {
			all, uses := readAll(t, lines)
			for i, m := range all {
				if got := m.Unknown(); got != nil {
					t.Errorf("message %d has unknown parts: %q", i, got)
				}
			}
			if speaker, _ := Speaker(all[0].Role); speaker != "user" || all[0].Words() != "Depth?" {
				t.Errorf("%s says %q", all[0].Role, all[0].Words())
			}
			var said strings.Builder
			last, paired := all[len(all)-1], false
			for _, m := range all {
				said.WriteString(m.Content() + "\n")
				speaker, _ := Speaker(m.Role)
				paired = paired || speaker == "assistant"
			}
			if got := said.String(); !strings.Contains(got, "depth is 04 fathoms") || !strings.Contains(got, "{}") || !paired || strings.Contains(got, "AAAA") {
				t.Errorf("the conversation says %q", got)
			}
			p := Pairs(uses)
			if p.Unanswered+p.Orphans+p.Doubled != 0 {
				t.Errorf("%+v", p)
			}
			if speaker, _ := Speaker(last.Role); speaker != "assistant" && (len(p.Pairs) != 1 || p.Pairs[0] != Pair{len(all) - 2, len(all) - 1}) {
				t.Errorf("the pairs are %v", p.Pairs)
			}
			// Without its call a result is an orphan, and without its result a call is unanswered.
			if len(p.Pairs) > 0 {
				if p := Pairs(uses[:len(uses)-1]); p.Unanswered != 1 {
					t.Errorf("without the result: %+v", p)
				}
				if p := Pairs(uses[len(uses)-1:]); p.Orphans != 1 && !uses[len(uses)-1].steps[0].byRole {
					t.Errorf("without the call: %+v", p)
				}
			}
		})
	}
}

// TestUnknownForms verifies that messages of no known form are kept byte for byte, shown and counted,
// and that calls and results pair by the IDs that they share, whatever the keys are called.
func TestUnknownForms(t *testing.T) {
	for lines, want := range map[string]string{
		`{"role":"pilot","body":[{"kind":"invoke","handle":"h-17","verb":"depth"}]}
{"role":"deck","body":[{"kind":"outcome","handle":"h-17","said":"04 fathoms"}]}`: "[{0 1}]",
		`{"role":"assistant","content":[{"kind":"ask","ticket":7,"verb":"depth"}]}
{"role":"user","content":[{"kind":"tell","ticket":7,"said":"04 fathoms"}]}`: "[{0 1}]",
		`{"type":"probe","probe_id":"p1","args":{}}
{"type":"probe_reading","probe_id":"p1","value":"04 fathoms"}`: "[{0 1}]",
		`{"role":"assistant","content":[{"ask":{"n":"x-1"}}]}
{"role":"user","content":[{"tell":{"of":"x-1","said":"04 fathoms"}}]}`: "[{0 1}]",
		`{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"depth","input":{}}]}
{"role":"user","content":[{"kind":"outcome","ref":"t1","said":"04 fathoms"}]}`: "[{0 1}]",
	} {
		all, uses := readAll(t, lines)
		var said strings.Builder
		for i, m := range all {
			said.WriteString(m.Content())
			line := strings.Split(lines, "\n")[i]
			kept := string(m.Parts) + string(m.Extra)
			for _, word := range []string{"handle", "ticket", "probe_id", "ask", "tell", "said", "ref"} {
				if strings.Contains(line, `"`+word+`"`) && !strings.Contains(kept, `"`+word+`"`) {
					t.Errorf("%s lost %s: %s", line, word, kept)
				}
			}
		}
		p := Pairs(uses)
		if got := fmt.Sprint(p.Pairs); got != want || !strings.Contains(said.String(), "04 fathoms") || p.Unanswered+p.Orphans > 0 || len(all[1].Unknown()) == 0 {
			t.Errorf("%s\npairs %s, %+v, says %q", lines, got, p, said.String())
		}
	}
}

// TestSharedIDs verifies that the IDs of a conversation, which all of its messages have, do not make
// pairs of them.
func TestSharedIDs(t *testing.T) {
	for _, form := range []string{
		`{"role":"user","content":[{"kind":"say","dialogue_id":"d1","words":"w%d"}]}`,
		`{"role":"user","dialogue_id":"d1","saying":"w%d"}`,
		`{"role":"user","conversation_id":"d1","saying":"w%d"}`,
		`{"role":"user","content":"w%d","dialogue_id":"d1"}`,
	} {
		var lines strings.Builder
		for i := range 40 {
			fmt.Fprintf(&lines, form+"\n", i)
		}
		lines.WriteString(`{"role":"assistant","content":[{"kind":"ask","dialogue_id":"d1","ask_id":"a1"}]}
{"role":"user","content":[{"kind":"told","dialogue_id":"d1","ask_id":"a1"}]}`)
		_, uses := readAll(t, lines.String())
		if p := Pairs(uses); fmt.Sprint(p.Pairs) != "[{40 41}]" {
			t.Errorf("%s: %v", form, p.Pairs)
		}
	}
}

// TestPairs verifies what is reported of calls and results that do not fit.
func TestPairs(t *testing.T) {
	for lines, want := range map[string]string{
		// parallel calls, answered in another order
		`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]}
{"role":"tool","tool_call_id":"b","content":"1"}
{"role":"tool","tool_call_id":"a","content":"2"}`: "[{0 1} {0 2}], 0 unanswered, 0 orphans, 0 doubled",
		// one unanswered, an orphan, and a doubled result
		`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]}
{"role":"tool","tool_call_id":"a","content":"1"}
{"role":"user","content":"Thanks"}
{"role":"tool","tool_call_id":"z","content":"2"}
{"role":"tool","tool_call_id":"a","content":"1"}`: "[{0 1} {0 4}], 1 unanswered, 1 orphans, 1 doubled",
		// IDs that are used again
		`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}]}
{"role":"tool","tool_call_id":"a","content":"1"}
{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}]}
{"role":"tool","tool_call_id":"a","content":"2"}`: "[{0 1} {2 3}], 0 unanswered, 0 orphans, 0 doubled",
		// no IDs: by order, and by the name of the tool
		`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{}}}]}
{"role":"tool","tool_name":"g","content":"1"}
{"role":"tool","tool_name":"f","content":"2"}
{"role":"user","content":"Thanks"}
{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}
{"role":"model","parts":[{"functionCall":{"name":"g","args":{}}}]}
{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}
{"role":"user","parts":[{"functionResponse":{"name":"g","response":{}}}]}`: "[{0 1} {0 2} {4 6} {5 7}], 0 unanswered, 0 orphans, 0 doubled",
	} {
		_, uses := readAll(t, lines)
		p := Pairs(uses)
		if got := fmt.Sprintf("%v, %d unanswered, %d orphans, %d doubled", p.Pairs, p.Unanswered, p.Orphans, p.Doubled); got != want {
			t.Errorf("%s\n%s, want\n%s", lines, got, want)
		}
	}
}

// TestEmpty verifies every spelling of a message that says nothing, and that what says something in
// any form is not taken for empty.
func TestEmpty(t *testing.T) {
	for line, want := range map[string]string{
		`{"role":"assistant","content":""}`:                                                 "empty",
		`{"role":"assistant","content":" \n"}`:                                              "empty",
		`{"role":"assistant","content":null}`:                                               "empty",
		`{"role":"assistant","content":[]}`:                                                 "empty",
		`{"role":"assistant"}`:                                                              "empty",
		`{"role":"model","parts":[]}`:                                                       "empty",
		`{"role":"model","parts":[{"text":""}]}`:                                            "empty",
		`{"role":"model","parts":[{}]}`:                                                     "empty",
		`{"role":"assistant","content":[{"type":"text","text":""}]}`:                        "empty",
		`{"role":"assistant","content":"","tool_calls":[],"refusal":null,"annotations":[]}`: "empty",
		`{"id":"m","type":"message","role":"assistant","content":[],"model":"x","stop_reason":"end_turn","usage":{"output_tokens":1}}`: "empty",
		`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"}]}`:                                         "thinks",
		`{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]}`:                                                     "thinks",
		`{"role":"assistant","content":"","reasoning_content":"hm"}`:                                                                   "thinks",
		`{"role":"assistant","content":[{"reasoningContent":{"redactedContent":"x"}}]}`:                                                "thinks",
		`{"role":"model","parts":[{"text":"hm","thought":true}]}`:                                                                      "thinks",
		`{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"text","text":""}]}`:                                  "thinks",
		`{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"x"}`:                                                          "thinks",
		`{"role":"assistant","content":[{"type":"step-start"}]}`:                                                                       "empty",
		`{"role":"assistant","content":"x"}`:                                                                                           "says",
		`{"role":"tool","tool_call_id":"c","content":""}`:                                                                              "says",
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}`:                                                         "says",
		`{"role":"assistant","content":"","refusal":"no"}`:                                                                             "says",
		`{"role":"assistant","content":"","audio":{"id":"a"}}`:                                                                         "says",
		`{"role":"assistant","content":"","colour":"red"}`:                                                                             "says",
		`{"role":"user","content":[{"type":"text","body":"hello"}]}`:                                                                   "says",
		`{"role":"user","content":[{"type":"image","source":{}}]}`:                                                                     "says",
		`{"role":"assistant","content":"","function_call":{"name":"f","arguments":""}}`:                                                "says",
	} {
		m, err := Read([]byte(line), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := "says"
		switch empty, thinks := m.Empty(); {
		case thinks:
			got = "thinks"
		case empty:
			got = "empty"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
