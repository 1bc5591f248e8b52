package mem0_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/realdata"
	"github.com/seed-7aedc3ff/memdb/internal/testdb"
)

// spec is an OpenAPI document.
type spec map[string]any

func readSpec(t *testing.T, name string) spec {
	t.Helper()
	b, err := os.ReadFile(realdata.Path(t, name))
	testdb.NoError(t, err)
	var s spec
	testdb.NoError(t, json.Unmarshal(b, &s))
	return s
}

func object(v any, keys ...string) map[string]any {
	m, _ := v.(map[string]any)
	for _, k := range keys {
		m, _ = m[k].(map[string]any)
	}
	return m
}

var parameter = regexp.MustCompile(`\\\{[^}]*\}`)

// schema is that of the answer to a request with a status, nil where the document has none. The
// path without parameters goes first.
func (s spec) schema(method, target string, status int) map[string]any {
	path, _, _ := strings.Cut(target, "?")
	var best map[string]any
	fewest := 100
	for p, item := range object(s["paths"]) {
		pattern := "^" + parameter.ReplaceAllString(regexp.QuoteMeta(p), "[^/]+") + "$"
		if n := strings.Count(p, "{"); n < fewest && regexp.MustCompile(pattern).MatchString(path) {
			if op := object(item, strings.ToLower(method)); op != nil {
				best, fewest = op, n
			}
		}
	}
	return object(best, "responses", fmt.Sprint(status), "content", "application/json", "schema")
}

// check says what of a value is not as a schema has it: types, null, required keys, words of an
// enumeration, forms of texts, one of several.
func (s spec) check(at string, schema map[string]any, v any) (wrong []string) {
	if ref, ok := schema["$ref"].(string); ok {
		parts := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		return s.check(at, object(map[string]any(s), parts...), v)
	}
	if choices, ok := schema["oneOf"].([]any); ok {
		for _, one := range choices {
			w := s.check(at, object(one), v)
			if len(w) == 0 {
				return nil
			}
			wrong = append(wrong, w...)
		}
		return wrong
	}
	if v == nil {
		if nullable, _ := schema["nullable"].(bool); nullable || schema["type"] == nil || slices.Contains(types(schema), "null") {
			return nil
		}
		return []string{at + " is null"}
	}
	if want := types(schema); len(want) > 0 && !slices.ContainsFunc(want, func(t string) bool { return isType(t, v) }) {
		return []string{fmt.Sprintf("%s is %T, not %v", at, v, want)}
	}
	if choices, ok := schema["enum"].([]any); ok && !slices.Contains(choices, v) {
		wrong = append(wrong, fmt.Sprintf("%s is %v, not one of %v", at, v, choices))
	}
	return append(wrong, s.checkParts(at, schema, v)...)
}

// checkParts checks the form of a text, and what a list or an object has.
func (s spec) checkParts(at string, schema map[string]any, v any) (wrong []string) {
	switch v := v.(type) {
	case string:
		wrong = append(wrong, checkFormat(at, schema["format"], v)...)
	case []any:
		for i, item := range v {
			wrong = append(wrong, s.check(fmt.Sprintf("%s[%d]", at, i), object(schema["items"]), item)...)
		}
	case map[string]any:
		required, _ := schema["required"].([]any)
		for _, key := range required {
			if _, ok := v[key.(string)]; !ok {
				wrong = append(wrong, fmt.Sprintf("%s has no %s", at, key))
			}
		}
		for key, of := range object(schema["properties"]) {
			if item, ok := v[key]; ok {
				wrong = append(wrong, s.check(at+"."+key, object(of), item)...)
			}
		}
	}
	return wrong
}

func types(schema map[string]any) (all []string) {
	switch t := schema["type"].(type) {
	case string:
		return []string{t}
	case []any:
		for _, one := range t {
			all = append(all, one.(string))
		}
	}
	return all
}

func isType(name string, v any) bool {
	switch v := v.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func checkFormat(at string, format any, v string) []string {
	ok := true
	switch format {
	case "uuid":
		ok = uuid.MatchString(v)
	case "date-time":
		_, err := time.Parse(time.RFC3339, v)
		ok = err == nil
	case "date":
		_, err := time.Parse(time.DateOnly, v)
		ok = err == nil
	}
	if !ok {
		return []string{fmt.Sprintf("%s is no %s: %q", at, format, v)}
	}
	return nil
}

// exchange is a request of a script, and the status that it gets.
type exchange struct {
	method, target, body string
	status               int
}

// fit asks each request and checks the answers against a document, which must have those that are
// told to be in it.
func (s *site) fit(doc spec, covered bool, headers []string, script []exchange) {
	s.t.Helper()
	for _, e := range script {
		r := s.ask(e.method, e.target, e.body, headers...)
		if r.status != e.status {
			s.t.Errorf("%s %s: status %d, want %d: %s", e.method, e.target, r.status, e.status, r.body)
			continue
		}
		schema := doc.schema(e.method, e.target, e.status)
		if schema == nil && covered {
			s.t.Errorf("%s %s: the document has no answer of status %d", e.method, e.target, e.status)
		}
		for _, wrong := range doc.check("the answer", schema, r.json) {
			s.t.Errorf("%s %s: %s in %.300s", e.method, e.target, wrong, r.body)
		}
	}
}

func TestAnswersFitThePlatformsDocument(t *testing.T) {
	doc := readSpec(t, "specs/mem0-openapi.json")
	s := newSite(t, nil)
	one := s.add("I live in Berlin", `"user_id":"alice","agent_id":"bot","metadata":{"categories":["home"]}`)
	two := s.add("I like tea", `"user_id":"alice","run_id":"r","app_id":"shop","expiration_date":"2026-05-01"`)
	s.platform(200, "PUT", "/v1/memories/"+one+"/", `{"text":"I live in Bonn"}`)
	event := s.platform(200, "POST", "/v3/memories/add/", `{"messages":"I like milk","user_id":"alice"}`).at("event_id").(string)
	s.fit(doc, true, []string{"Authorization", "Token x"}, []exchange{
		{"GET", "/v1/ping/", "", 200},
		{"POST", "/v3/memories/add/", `{"messages":[{"role":"user","content":"x"}],"user_id":"alice","infer":false}`, 200},
		{"POST", "/v3/memories/add/", `{"messages":[{"role":"user","content":"y"}],"user_id":"alice"}`, 200},
		{"POST", "/v1/memories/", `{"messages":[{"role":"user","content":"z"}],"user_id":"alice"}`, 200},
		{"POST", "/v1/memories/", `{"messages":[{"role":"user","content":"a"}],"user_id":"alice","version":"v2","output_format":"v1.1"}`, 200},
		{"POST", "/v3/memories/?page=1&page_size=2", `{"filters":{"user_id":"alice"}}`, 200},
		{"POST", "/v3/memories/search/", `{"query":"where do I live","filters":{"user_id":"alice"},"threshold":0}`, 200},
		{"POST", "/v2/memories/", `{"filters":{"user_id":"alice"}}`, 200},
		{"POST", "/v2/memories/search/", `{"query":"tea","filters":{"user_id":"alice"},"threshold":0}`, 200},
		{"POST", "/v1/memories/search/", `{"query":"tea","user_id":"alice","threshold":0}`, 200},
		{"POST", "/v1/memories/search/", `{"query":"tea","user_id":"alice","output_format":"v1.1","threshold":0}`, 200},
		{"GET", "/v1/memories/?user_id=alice", "", 200},
		{"GET", "/v1/memories/?user_id=alice&page=1&page_size=1", "", 200},
		{"GET", "/v1/memories/user/alice/", "", 200},
		{"GET", "/v1/memories/planet/alice/", "", 400},
		{"GET", "/v1/memories/user/alice/?page=7", "", 404},
		{"GET", "/v1/memories/" + one + "/", "", 200},
		{"GET", "/v1/memories/" + two + "/", "", 200},
		{"GET", "/v1/memories/00000000-0000-4000-8000-000000000000/", "", 404},
		{"PUT", "/v1/memories/" + one + "/", `{"text":"I live in Ulm"}`, 200},
		{"GET", "/v1/memories/" + one + "/history/", "", 200},
		{"GET", "/v1/event/" + event + "/", "", 200},
		{"GET", "/v1/event/00000000-0000-4000-8000-000000000000/", "", 404},
		{"GET", "/v1/entities/", "", 200},
		{"GET", "/v2/entities/user/alice/", "", 200},
		{"GET", "/v1/stats/", "", 200},
		{"POST", "/v1/feedback/", `{"memory_id":"` + one + `","feedback":"POSITIVE","feedback_reason":"so it is"}`, 200},
		{"PUT", "/v1/batch/", `{"memories":[{"memory_id":"` + one + `","text":"I live in Trier"}]}`, 200},
		{"PUT", "/v1/batch/", `{"memories":[]}`, 400},
		{"DELETE", "/v1/batch/", `{"memories":[{"memory_id":"` + one + `"}]}`, 200},
		{"DELETE", "/v1/memories/" + two + "/", "", 200},
		{"DELETE", "/v1/memories/" + two + "/", "", 404},
		{"DELETE", "/v1/memories/?user_id=alice", "", 200},
		{"DELETE", "/v2/entities/user/alice/", "", 200},
		{"DELETE", "/v2/entities/planet/earth/", "", 400},
		{"DELETE", "/v1/entities/user/alice/", "", 200},
	})
}

func TestAnswersFitTheOpenServersDocument(t *testing.T) {
	doc := readSpec(t, "specs/mem0/oss-server-openapi.json")
	s := newSite(t, nil)
	admin := s.key()
	headers := []string{"X-API-Key", admin}
	ask := func(body string) string {
		r := s.ask("POST", "/memories", body, headers...)
		id, _ := r.at("results", 0, "id").(string)
		return id
	}
	one := ask(`{"messages":[{"role":"user","content":"I live in Berlin"}],"user_id":"alice"}`)
	s.fit(doc, true, headers, []exchange{
		{"POST", "/memories", `{"messages":[{"role":"user","content":"I like tea"}],"user_id":"alice"}`, 200},
		{"POST", "/memories", `{"messages":[{"role":"user","content":"I like tea"}]}`, 400},
		{"POST", "/memories", `{"user_id":"alice"}`, 422},
		{"GET", "/memories", "", 200},
		{"GET", "/memories?user_id=alice&top_k=1", "", 200},
		{"GET", "/memories/" + one, "", 200},
		{"GET", "/memories/nobody", "", 200},
		{"PUT", "/memories/" + one, `{"text":"I live in Bonn"}`, 200},
		{"PUT", "/memories/" + one, `{}`, 422},
		{"PUT", "/memories/nobody", `{"text":"x"}`, 404},
		{"GET", "/memories/" + one + "/history", "", 200},
		{"GET", "/memories/nobody/history", "", 200},
		{"POST", "/search", `{"query":"tea","filters":{"user_id":"alice"}}`, 200},
		{"POST", "/search", `{"query":"tea","user_id":"alice"}`, 200},
		{"POST", "/search", `{"query":"tea"}`, 400},
		{"POST", "/search", `{"user_id":"alice"}`, 422},
		{"GET", "/configure", "", 200},
		{"GET", "/entities", "", 200},
		{"DELETE", "/memories/" + one, "", 200},
		{"DELETE", "/memories/" + one, "", 404},
		{"DELETE", "/memories", "", 400},
		{"DELETE", "/memories?user_id=alice", "", 200},
		{"DELETE", "/entities/user/alice", "", 200},
		{"POST", "/reset", "", 200},
	})
	s.fit(doc, true, nil, []exchange{{"GET", "/memories", "", 401}, {"POST", "/reset", "", 401}})
	s.fit(doc, false, headers, []exchange{{"POST", "/configure", `{}`, 501}, {"POST", "/generate-instructions", `{"use_case":"x"}`, 501}, {"GET", "/memories/", "", 404}})
}

// The client's requests, as they were recorded, in their order; the ID is that of a memory here.
func TestRecordedClient(t *testing.T) {
	b, err := os.ReadFile(realdata.Path(t, "specs/mem0ai-3.3.1-wire-recording.json"))
	testdb.NoError(t, err)
	var steps []struct {
		Method, URL string
		Headers     map[string]string
		Body        json.RawMessage
	}
	testdb.NoError(t, json.Unmarshal(b, &steps))
	s := newSite(t, nil)
	asked := 0
	for _, step := range steps {
		if step.URL == "" {
			continue
		}
		id := s.add("I live in Berlin", `"user_id":"alice"`)
		target := strings.ReplaceAll(step.URL, "/memories/1/", "/memories/"+id+"/")
		body := ""
		if string(step.Body) != "null" {
			body = strings.ReplaceAll(string(step.Body), `"memory_id": "1"`, `"memory_id": "`+id+`"`)
			body = strings.ReplaceAll(body, `"memory_id":"1"`, `"memory_id":"`+id+`"`)
		}
		var headers []string
		for k, v := range step.Headers {
			headers = append(headers, k, v)
		}
		if r := s.ask(step.Method, target, body, headers...); r.status != 200 {
			t.Errorf("%s %s: status %d: %s", step.Method, target, r.status, r.body)
		}
		asked++
	}
	if asked < 14 {
		t.Errorf("%d requests in the recording", asked)
	}
}

func TestTheCheckFindsWhatIsWrong(t *testing.T) {
	var schema map[string]any
	testdb.NoError(t, json.Unmarshal([]byte(`{"type":"object","required":["id"],"properties":{"id":{"type":"string","format":"uuid"},"n":{"type":"integer"},"e":{"enum":["A"]},"d":{"type":"string","nullable":true},"l":{"type":"array","items":{"type":"string"}}}}`), &schema))
	for body, want := range map[string]int{
		`{"id":"00000000-0000-4000-8000-000000000000","n":1,"e":"A","d":null,"l":["x"]}`: 0,
		`{}`: 1, `{"id":null}`: 1, `{"id":"x","n":1.5,"e":"B","l":[1]}`: 4, `[]`: 1,
	} {
		var v any
		testdb.NoError(t, json.Unmarshal([]byte(body), &v))
		if got := (spec{}).check("it", schema, v); len(got) != want {
			t.Errorf("%s: %q, want %d", body, got, want)
		}
	}
}
