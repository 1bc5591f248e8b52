package move

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

// object is a record of a generated document.
type object = map[string]any

// A generator makes documents of a program. Many of its objects have a key that no program has, so
// that a test can ask where it is.
type generator struct {
	*rand.Rand
	n    int
	keys map[string]string // the keys that no program has, with their values
}

func (g *generator) id(of string) string { g.n++; return fmt.Sprintf("%s-%d", of, g.n) }

func (g *generator) words() string {
	said := []string{"the kiln", "is", "cold", "a \"quoted\" word", "две печи", "line\nbreak", "{brace}", "[list]", "back\\slash", "🏺"}
	var out []string
	for range 1 + g.IntN(6) {
		out = append(out, said[g.IntN(len(said))])
	}
	return fmt.Sprintf("%s %d", strings.Join(out, " "), g.IntN(1000))
}

// with adds a key that no program has, at a level of a document.
func (g *generator) with(level string, o object) object {
	g.n++
	g.keys["zq_"+level] = fmt.Sprintf("vq-%d", g.n)
	o["zq_"+level] = g.keys["zq_"+level]
	return o
}

func (g *generator) time() string {
	return fmt.Sprintf("2026-0%d-1%dT0%d:00:00.%d00Z", 1+g.IntN(9), g.IntN(9), g.IntN(9), g.IntN(9))
}

// A program is what makes the records of a format.
type program struct {
	format   Format
	record   func(g *generator) object
	together bool // the records are one file
}

var programs = map[string]program{
	"chatgpt":         {ChatGPT, chatGPTChat, false},
	"claude":          {Claude, claudeChat, false},
	"claude memories": {Claude, claudeMemory, false},
	"claude projects": {Claude, claudeProject, false},
	"claude code":     {ClaudeCode, claudeCodeLine, true},
	"codex":           {Codex, codexLine, true},
	"gemini cli":      {GeminiCLI, geminiSession, false},
	"chats":           {Chats, openAIChat, false},
	"sharegpt":        {Chats, shareGPT, false},
	"messages":        {Chats, bareMessage, true},
	"mem0":            {Mem0, mem0Memory, false},
	"langgraph":       {LangGraph, langGraphItem, false},
	"qdrant":          {Qdrant, qdrantPoint, false},
}

// chatGPTContent is the content of a message, with who said it to whom.
func (g *generator) chatGPTContent() (role, recipient string, content object) {
	switch g.IntN(11) {
	case 0:
		return "assistant", "all", object{"content_type": "text", "parts": []any{g.words(), g.words()}}
	case 1:
		return "assistant", "all", object{"content_type": "thoughts", "thoughts": []any{object{"summary": g.words(), "content": g.words()}}}
	case 2:
		return "assistant", "all", object{"content_type": "reasoning_recap", "content": "Thought for 5s"}
	case 3:
		return "assistant", "python", object{"content_type": "code", "language": "python", "text": g.words()}
	case 4:
		return "tool", "all", object{"content_type": "execution_output", "text": g.words()}
	case 5:
		return "assistant", "bio", object{"content_type": "text", "parts": []any{"Has " + g.words()}}
	case 6:
		return "tool", "all", object{"content_type": "text", "parts": []any{"Model set context updated."}}
	case 7:
		return "user", "all", object{"content_type": "user_editable_context", "user_profile": "I am " + g.id("x"), "user_instructions": "Be brief."}
	case 8:
		return "system", "all", object{"content_type": "model_editable_context", "model_set_context": "1. [2024-05-01]. Has " + g.id("dog") + "."}
	case 9:
		return "user", "all", object{"content_type": "multimodal_text", "parts": []any{object{"content_type": "image_asset_pointer", "asset_pointer": "x"}, g.words()}}
	}
	return "user", "all", object{"content_type": "text", "parts": []any{g.words()}}
}

func chatGPTChat(g *generator) object {
	root := g.id("root")
	mapping := object{root: object{"id": root, "message": nil, "parent": nil, "children": []any{}}}
	parent := root
	for i := range 4 + g.IntN(12) {
		id := g.id("n")
		role, recipient, content := g.chatGPTContent()
		if i == 0 {
			role, recipient, content = "user", "all", object{"content_type": "text", "parts": []any{g.words()}}
		}
		mapping[id] = object{"id": id, "parent": parent, "children": []any{}, "message": g.with("message", object{
			"id": id, "author": g.with("author", object{"role": role, "name": nil, "metadata": object{}}), "create_time": 1767225600.5 + float64(i),
			"content": g.with("content", content), "status": "finished_successfully", "end_turn": true, "weight": 1.0,
			"metadata": g.with("metadata", object{"model_slug": "m"}), "recipient": recipient,
		})}
		parent = id
	}
	o := g.with("conversation", object{"title": g.words(), "create_time": 1767225600.25, "update_time": 1767229000.0, "mapping": mapping, "current_node": parent, "safe_urls": []any{}})
	if g.IntN(3) > 0 { // old exports have none
		o["conversation_id"] = g.id("c")
	}
	return o
}

func claudeChat(g *generator) object {
	var all []any
	for range 1 + g.IntN(6) {
		content := []any{g.with("part", object{"type": "text", "text": g.words(), "citations": []any{}})}
		if g.IntN(2) == 0 {
			content = append([]any{object{"type": "thinking", "thinking": g.words()}, object{"type": "tool_use", "name": "search", "input": object{}}}, content...)
		}
		attached := []any{}
		if g.IntN(3) == 0 {
			attached = append(attached, g.with("attachment", object{"file_name": "f.txt", "extracted_content": g.words(), "file_size": 3}))
		}
		all = append(all, g.with("message", object{
			"uuid": g.id("m"), "sender": []string{"human", "assistant"}[g.IntN(2)], "text": "", "content": content, "created_at": g.time(), "attachments": attached, "files": []any{},
		}))
	}
	o := g.with("conversation", object{"name": g.words(), "created_at": g.time(), "account": object{"uuid": "a"}, "chat_messages": all})
	if g.IntN(3) > 0 {
		o["uuid"] = g.id("c")
	}
	return o
}

func claudeMemory(g *generator) object {
	return g.with("memories", object{"conversations_memory": g.words(), "project_memories": object{g.id("p"): g.words()}, "account_uuid": g.id("a")})
}

func claudeProject(g *generator) object {
	return g.with("project", object{
		"uuid": g.id("p"), "name": g.words(), "description": g.words(), "prompt_template": g.words(), "created_at": g.time(),
		"docs": []any{g.with("document", object{"uuid": g.id("d"), "filename": "a.md", "content": g.words(), "created_at": g.time()})},
	})
}

func claudeCodeLine(g *generator) object {
	o := g.with("line", object{
		"parentUuid": nil, "isSidechain": g.IntN(4) == 0, "userType": "external", "cwd": "/x", "sessionId": "s-1", "version": "1", "uuid": g.id("u"), "timestamp": g.time(),
	})
	switch g.IntN(4) {
	case 0:
		o["type"], o["message"] = "user", object{"role": "user", "content": g.words()}
	case 1:
		call := object{"type": "tool_use", "id": g.id("t"), "name": "Bash", "input": "ls"}
		o["type"], o["message"] = "assistant", object{"role": "assistant", "content": []any{object{"type": "text", "text": g.words()}, call}}
	case 2:
		o["type"], o["message"] = "user", object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": "t", "content": g.words()}}}
	default:
		o["type"], o["content"] = "system", g.words()
	}
	return o
}

func codexLine(g *generator) object {
	line := func(typ string, payload object) object {
		return object{"timestamp": g.time(), "type": typ, "payload": payload}
	}
	if g.n == 0 {
		return line("session_meta", g.with("meta", object{"id": "rollout-1", "timestamp": g.time(), "cwd": "/x", "cli_version": "1", "instructions": g.words()}))
	}
	switch g.IntN(4) {
	case 0:
		return line("response_item", object{"type": "message", "role": "user", "content": []any{object{"type": "input_text", "text": g.words()}}})
	case 1:
		return line("response_item", object{"type": "message", "role": "assistant", "content": []any{object{"type": "output_text", "text": g.words()}}})
	case 2:
		return line("response_item", object{"type": "function_call", "name": "shell", "arguments": "{}", "call_id": g.id("call")})
	}
	return line("event_msg", object{"type": "token_count", "info": nil})
}

func geminiSession(g *generator) object {
	var all []any
	for range 1 + g.IntN(5) {
		m := g.with("message", object{"id": g.id("m"), "timestamp": g.time(), "type": "user", "content": g.words()})
		if g.IntN(2) == 0 {
			result := object{"functionResponse": object{"id": "t", "name": "ls", "response": object{"output": g.words()}}}
			m["type"], m["model"], m["tokens"] = "gemini", "g", object{"input": 3}
			m["thoughts"] = []any{g.with("thought", object{"subject": "s", "description": g.words()})}
			m["toolCalls"] = []any{g.with("call", object{"id": g.id("t"), "name": "ls", "args": object{"p": "."}, "status": "success", "result": []any{result}})}
		}
		all = append(all, m)
	}
	return g.with("session", object{"sessionId": g.id("s"), "projectHash": "h", "startTime": g.time(), "lastUpdated": g.time(), "messages": all})
}

func openAIChat(g *generator) object {
	all := []any{object{"role": "system", "content": "Be brief."}}
	for range 1 + g.IntN(5) {
		all = append(all, object{"role": "user", "content": g.words()}, object{"role": "assistant", "content": g.words()})
	}
	return g.with("chat", object{"messages": all})
}

func shareGPT(g *generator) object {
	return g.with("chat", object{"conversations": []any{object{"from": "human", "value": g.words()}, object{"from": "gpt", "value": g.words()}}})
}

func bareMessage(g *generator) object {
	return object{"role": []string{"user", "assistant"}[g.IntN(2)], "content": g.words()}
}

func mem0Memory(g *generator) object {
	return g.with("memory", object{"id": g.id("m"), "memory": g.words(), "hash": "h", "user_id": "ada", "created_at": g.time()})
}

func langGraphItem(g *generator) object {
	return object{"namespace": []any{"a", "b"}, "key": g.id("k"), "value": g.with("value", object{"text": g.words()}), "created_at": g.time(), "updated_at": nil}
}

func qdrantPoint(g *generator) object {
	return object{"id": g.id("p"), "vector": []any{0.5, 1.5}, "payload": g.with("payload", object{"text": g.words()})}
}

// encode writes a value with the keys of its objects in any order.
func (g *generator) encode(v any) string {
	var out []string
	switch v := v.(type) {
	case object:
		keys := slices.Sorted(maps.Keys(v))
		g.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, key := range keys {
			out = append(out, fmt.Sprintf("%s:%s", jsonText(key), g.encode(v[key])))
		}
		return "{" + strings.Join(out, ",") + "}"
	case []any:
		for _, one := range v {
			out = append(out, g.encode(one))
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	raw, _ := json.Marshal(v) // of texts, numbers and nothing
	return string(raw)
}

func pretty(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "\t"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// containers are what people make of records: each gives an input that is to be read alike.
func (g *generator) containers(t *testing.T, records []any, together bool) map[string]*Input {
	t.Helper()
	var lines, several []string
	for _, r := range records {
		line := g.encode(r)
		lines, several = append(lines, line), append(several, pretty(t, line))
	}
	all := g.encode(records)
	out := map[string]*Input{
		"a list":                  input("x.json", []byte(all)),
		"a list, pretty":          input("x.json", []byte(pretty(t, all))),
		"a list behind a mark":    input("x.json", []byte("\xef\xbb\xbf \r\n"+all)),
		"a record a line":         input("x.jsonl", []byte(strings.Join(lines, "\n")+"\n")),
		"records behind another":  input("x.json", []byte(strings.Join(several, "\n"))),
		"a list of a pipe":        input("-", []byte(all)),
		"a record a line, a pipe": input("-", []byte(strings.Join(lines, "\r\n"))),
	}
	out["a list of a pipe"].File, out["a record a line, a pipe"].File = nil, nil
	for _, key := range []string{"data", "results", "items", "conversations", "memories", "anything"} {
		out["under "+key] = input("x.json", []byte(g.encode(object{key: records})))
		out["under "+key+", pretty"] = input("x.json", []byte(pretty(t, g.encode(object{key: records}))))
		out["below response."+key] = input("x.json", []byte(g.encode(object{"response": object{key: records}})))
	}
	if len(records) == 1 {
		out["one object"] = input("x.json", []byte(lines[0]))
		out["one object, pretty"] = input("x.json", []byte(several[0]))
	}
	out["a list, packed by gzip"], out["a list, packed by zstd"] = packed(t, all)
	files := []string{"export/x-000.json", all}
	if half := len(records) / 2; !together && half > 0 {
		files = []string{"export/x-000.json", g.encode(records[:half]), "export/x-001.json", g.encode(records[half:])}
	}
	files = append(files, "export/chat.html", "<html>", "user.json", `{"id":"user-1"}`)
	out["an archive"] = input("x.zip", zipped(t, files...))
	out["an archive of lines"] = input("x.zip", zipped(t, "a.jsonl", strings.Join(lines, "\n"), "photo.png", "\x89PNG"))
	out["an archive of one"] = input("x.zip", zipped(t, "a.json", pretty(t, all)))
	folder := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		folder[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	out["a folder"] = &Input{Name: "x", Folder: folder}
	return out
}

func packed(t *testing.T, text string) (byGzip, byZstd *Input) {
	t.Helper()
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, err := z.Write([]byte(text))
	s, failed := zstd.NewWriter(&zst, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<16))
	if err = errors.Join(err, z.Close(), failed); err == nil {
		_, err = s.Write([]byte(text))
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return input("x.json.gz", gz.Bytes()), input("x.json.zst", zst.Bytes())
}

// readAll are the lines of an input in their order, and what it leaves out beside whole files.
func readAll(t *testing.T, f Format, in *Input) (lines []string, left map[string]int) {
	t.Helper()
	items := Read(f, in, nil)
	for item, err := range items.All(t.Context()) {
		if err != nil || item.At.Err != nil {
			t.Errorf("%v %v", err, item.At)
			continue
		}
		v := item.Line
		if item.Memory != nil {
			v = exchange.NewRecord(*item.Memory)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, canonical(raw))
	}
	left = maps.Clone(map[string]int(items.LeftOut()))
	maps.DeleteFunc(left, func(what string, _ int) bool { return strings.HasPrefix(what, "file ") })
	return lines, left
}

// TestContainers verifies for random documents of every program that the same is read of every
// container, that a second import changes nothing, and that every key is stored or counted.
func TestContainers(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		p := programs[name]
		t.Run(name, func(t *testing.T) {
			for seed, many := range []int{1, 4} {
				g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed), 22)), keys: map[string]string{}}
				var records []any
				for range many {
					records = append(records, p.record(g))
				}
				t.Logf("seed %d", seed)
				g.alike(t, p, records)
				g.twice(t, p.format, records)
			}
		})
	}
}

// alike verifies that the same is read of every container.
func (g *generator) alike(t *testing.T, p program, records []any) {
	t.Helper()
	var want []string
	var wantLeft map[string]int
	containers := g.containers(t, records, p.together)
	for _, container := range slices.Sorted(maps.Keys(containers)) {
		in := containers[container]
		closer, err := in.Unpack()
		if err != nil {
			t.Fatalf("%s: %v", container, err)
		}
		f, ok, err := Recognise(t.Context(), in)
		if f != p.format || !ok || err != nil {
			t.Errorf("%s: it is taken for %q, error %v", container, f, err)
			continue
		}
		lines, left := readAll(t, f, in)
		if want == nil {
			want, wantLeft = lines, left
			g.accounted(t, want, left)
		}
		if !slices.Equal(lines, want) || !maps.Equal(left, wantLeft) {
			t.Errorf("%s:\n%s\nleft out %v, want\n%s\nleft out %v", container, strings.Join(lines, "\n"), left, strings.Join(want, "\n"), wantLeft)
		}
		if closer != nil {
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// accounted verifies that each key that no program has is stored, or counted by its name.
func (g *generator) accounted(t *testing.T, lines []string, left map[string]int) {
	t.Helper()
	all := strings.Join(lines, "\n")
	for key, value := range g.keys {
		counted := strings.Contains(all, value)
		for what := range left {
			counted = counted || strings.HasSuffix(what, key)
		}
		if !counted {
			t.Errorf("the key %s is neither stored nor counted: %v\n%s", key, left, all)
		}
	}
}

// twice verifies that an import that is repeated changes nothing, and that more records add theirs.
func (g *generator) twice(t *testing.T, f Format, records []any) {
	t.Helper()
	db, err := engine.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var texts []string
	for _, r := range records {
		texts = append(texts, g.encode(r))
	}
	for i, part := range [][]string{texts[:(len(texts)+1)/2], texts, texts} {
		lsn := db.LSN()
		r, err := importSample(t.Context(), db, f, input("x.json", []byte("["+strings.Join(part, ", ")+"]")))
		if err != nil || r.Skipped > 0 || i == 2 && (r.Stored != 0 || db.LSN() != lsn) {
			t.Errorf("import %d: %+v, error %v", i, r, err)
		}
	}
}

// TestOneRule verifies what of conversations of ChatGPT and Claude is a memory: what user and assistant
// said. The rest is a message of the session, or a fact that the program has kept of its user.
func TestOneRule(t *testing.T) {
	node := func(id, parent, role, recipient, content string) string {
		return fmt.Sprintf(`%q:{"id":%q,"parent":%q,"message":{"id":%q,"author":{"role":%q},"recipient":%q,"content":%s}}`, id, id, parent, id, role, recipient, content)
	}
	chat := `[{"id":"c","current_node":"i","mapping":{` + strings.Join([]string{
		node("a", "", "system", "all", `{"content_type":"model_editable_context","model_set_context":"1. [2024-05-01]. Has a dog."}`),
		node("b", "a", "user", "all", `{"content_type":"user_editable_context","user_profile":"I sail.","user_instructions":"Be brief."}`),
		node("c", "b", "user", "all", `{"content_type":"text","parts":["My boat is Ida."]}`),
		node("d", "c", "assistant", "all", `{"content_type":"thoughts","thoughts":[{"summary":"s","content":"a boat"}]}`),
		node("e", "d", "assistant", "all", `{"content_type":"reasoning_recap","content":"Thought for 5s"}`),
		node("f", "e", "assistant", "bio", `{"content_type":"text","parts":["Has a boat."]}`),
		node("g", "f", "tool", "all", `{"content_type":"text","parts":["Model set context updated."]}`),
		node("h", "g", "assistant", "python", `{"content_type":"code","text":"1+1"}`),
		node("i", "h", "assistant", "all", `{"content_type":"text","parts":["Noted."]}`),
	}, ",") + `}}]`
	claude := `[{"uuid":"c","chat_messages":[{"uuid":"a","sender":"human","content":[{"type":"text","text":"My boat is Ida."}]},
		{"uuid":"b","sender":"assistant","content":[{"type":"thinking","thinking":"a boat"},{"type":"tool_use","name":"x","input":{}},{"type":"tool_result","content":"2"},{"type":"text","text":"Noted."}]}]},
		{"conversations_memory":"Has a boat.","project_memories":{"p":"It sails."}}]`
	for _, c := range []struct {
		format          Format
		text            string
		memories, facts []string
		messages        int
		holds           []string
	}{
		{ChatGPT, chat, []string{"My boat is Ida.", "Noted."}, []string{"Has a dog.", "I sail.", "Be brief.", "Has a boat."}, 9, []string{"a boat", "Thought for 5s", "Model set context updated.", "1+1"}},
		{Claude, claude, []string{"My boat is Ida.", "Noted."}, []string{"Has a boat.", "It sails."}, 2, []string{`{"type":"thinking","thinking":"a boat"}`, "tool_use", "tool_result"}},
	} {
		var memories, facts []string
		messages, all := 0, ""
		for item, err := range Read(c.format, input("x.json", []byte(c.text)), nil).All(t.Context()) {
			switch {
			case err != nil || item.At.Err != nil:
				t.Errorf("%s: %v %v", c.format, err, item.At)
			case item.Memory != nil && item.Memory.Kind == "fact":
				facts = append(facts, item.Memory.Text)
			case item.Memory != nil:
				memories = append(memories, item.Memory.Text)
			case item.Type == "message":
				raw, _ := json.Marshal(item.Line)
				messages, all = messages+1, all+string(raw)
			}
		}
		if !slices.Equal(memories, c.memories) || !slices.Equal(facts, c.facts) || messages != c.messages {
			t.Errorf("%s: memories %q, facts %q, %d messages", c.format, memories, facts, messages)
		}
		for _, part := range c.holds {
			if !strings.Contains(all, part) {
				t.Errorf("%s: the session lacks %s: %s", c.format, part, all)
			}
		}
	}
}
