package messages

import "testing"

// BenchmarkUse reads what a message has to do with tools: 256 of them are read for each window.
func BenchmarkUse(b *testing.B) {
	for name, line := range map[string]string{
		"text":   `{"role":"user","content":"Depth?"}`,
		"openai": `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"depth","arguments":"{}"}}]}`,
		"gemini": `{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"depth","response":{"v":"04 fathoms"}}}]}`,
	} {
		m, err := Read([]byte(line), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				m.Use()
			}
		})
	}
}
