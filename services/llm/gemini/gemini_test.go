package gemini

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/llm"
	"github.com/seed-7aedc3ff/memdb/services/llm/modeltest"
)

func candidate(parts, finish string) string {
	return `{"candidates":[{"index":0,"finishReason":"` + finish + `","content":{"role":"model","parts":` + parts + `}}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":1,"thoughtsTokenCount":2,"totalTokenCount":14},"modelVersion":"m-1-dated","responseId":"r"}`
}

func TestAdapter(t *testing.T) {
	modeltest.Run(t, modeltest.Adapter{
		Provider: "google", Variable: Variable,
		New: func(base string) (llm.Client, error) {
			return New(Config{Model: "models/m-1", Key: wiretest.Key, BaseURL: base})
		},
		URI: "/v1beta/models/m-1:generateContent", Header: "X-Goog-Api-Key", Value: wiretest.Key,
		Schema: func(t testing.TB) *wiretest.Schema {
			return wiretest.Request(t, "gemini/openapi.json", "/v1beta/{model}:generateContent")
		},
		// The description, made of that of another protocol, wants the model, which stands in the
		// path, in the body, too. The official client leaves it out.
		Complete: func(body map[string]any) { body["model"] = "models/m-1" },
		Text:     candidate(`[{"text":"Hm.","thought":true},{"text":"Ye"},{"text":"s."}]`, "STOP"),
		Cut:      candidate(`[{"text":"Ye"}]`, "MAX_TOKENS"),
		Call:     candidate(`[{"functionCall":{"name":"note","args":{ "text": "a" }}}]`, "STOP"),
		Unusable: map[string]string{
			`{"promptFeedback":{"blockReason":"SAFETY"}}`: "SAFETY",
			`{"candidates":[]}`:                           "no candidate",
			candidate(`[]`, "PROHIBITED_CONTENT"):         "PROHIBITED_CONTENT",
			candidate(`[]`, "MALFORMED_FUNCTION_CALL"):    "no JSON",
		},
		Refuse: func(m string) string {
			return `{"error":{"code":400,"message":"` + m + `","status":"INVALID_ARGUMENT","details":[]}}`
		},
		Sends: map[string][]string{
			"text":  {`"systemInstruction":{"parts":[{"text":"Be brief."}]}`, `"temperature":0,`, `"maxOutputTokens":2000`},
			"JSON":  {`"responseMimeType":"application/json"`},
			"long":  {`"role":"model"`, `{"text":"Be kind."}`, `"temperature":0.5`, `"maxOutputTokens":77`},
			"tools": {`"parametersJsonSchema":{"type":"object"`, `"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`},
		},
	})
}

func TestConfig(t *testing.T) {
	c, err := New(Config{})
	modeltest.Refused(t, c, err, Variable)
	c, err = New(Config{Key: wiretest.Key, Model: "a/../b"})
	modeltest.Refused(t, c, err, "model is")
	if c, err = New(Config{Key: wiretest.Key}); err != nil || c.Model() != DefaultModel {
		t.Errorf("%v, error %v", c, err)
	}
}
