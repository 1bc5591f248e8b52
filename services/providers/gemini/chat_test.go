package gemini

import (
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/wiretest"
	"github.com/seed-7aedc3ff/memdb/services/providers"
	"github.com/seed-7aedc3ff/memdb/services/providers/providertest"
)

func candidate(parts, finish string) string {
	return `{"candidates":[{"index":0,"finishReason":"` + finish + `","content":{"role":"model","parts":` + parts + `}}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":1,"thoughtsTokenCount":2,"totalTokenCount":14},"modelVersion":"m-1-dated","responseId":"r"}`
}

func TestChat(t *testing.T) {
	(&providertest.Chat{
		Endpoint: providertest.Endpoint{
			Provider: &Provider, Config: providers.Config{Model: "models/m-1"},
			URI: "/v1beta/models/m-1:generateContent", Header: "X-Goog-Api-Key", Value: wiretest.Key,
			Schema: func(t testing.TB) *wiretest.Schema {
				return wiretest.Request(t, "gemini/openapi.json", "/v1beta/{model}:generateContent")
			},
			// The description, made of that of another protocol, wants the model, which stands in the
			// path, in the body, too. The official client leaves it out.
			Complete: func(body map[string]any) { body["model"] = "models/m-1" },
			Refuse:   refuse,
		},
		Text: candidate(`[{"text":"Hm.","thought":true},{"text":"Ye"},{"text":"s."}]`, "STOP"),
		Cut:  candidate(`[{"text":"Ye"}]`, "MAX_TOKENS"),
		Call: candidate(`[{"functionCall":{"name":"note","args":{ "text": "a" }}}]`, "STOP"),
		Unusable: map[string]string{
			`{"promptFeedback":{"blockReason":"SAFETY"}}`: "SAFETY",
			`{"candidates":[]}`:                           "no candidate",
			candidate(`[]`, "PROHIBITED_CONTENT"):         "PROHIBITED_CONTENT",
			candidate(`[]`, "MALFORMED_FUNCTION_CALL"):    "no JSON",
		},
		Sends: map[string][]string{
			"text":  {`"systemInstruction":{"parts":[{"text":"Be brief."}]}`, `"temperature":0,`, `"maxOutputTokens":2000`},
			"JSON":  {`"responseMimeType":"application/json"`},
			"long":  {`"role":"model"`, `{"text":"Be kind."}`, `"temperature":0.5`, `"maxOutputTokens":77`},
			"tools": {`"parametersJsonSchema":{"type":"object"`, `"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`},
		},
	}).Run(t)
}

func refuse(m string) string {
	return `{"error":{"code":400,"message":"` + m + `","status":"INVALID_ARGUMENT","details":[]}}`
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]providers.Config{"GOOGLE_API_KEY": {}, "model is": {Key: wiretest.Key, Model: "a/../b"}} {
		_, err := Provider.NewChat(c)
		providertest.Refused(t, err, want)
	}
	for want, c := range map[string]providers.Config{
		"GOOGLE_API_KEY": {}, "RETRIEVAL_QUERY": {Key: wiretest.Key, InputType: "query"},
		"give dimensions": {Key: wiretest.Key, Model: "new"}, "the model is": {Key: wiretest.Key, Model: "a/b", Dimensions: 3},
	} {
		_, err := Provider.NewSource(c)
		providertest.Refused(t, err, want)
	}
	if c, err := Provider.NewChat(providers.Config{Key: wiretest.Key}); err != nil || c.Model() != "gemini-2.5-flash" {
		t.Errorf("%v, error %v", c, err)
	}
	if s, err := Provider.NewSource(providers.Config{Key: wiretest.Key}); err != nil || s.Dim() != 3072 {
		t.Errorf("%v, error %v", s, err)
	}
}
