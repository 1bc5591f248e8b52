package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/simd"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
)

func open(t testing.TB, dir string) embed.Embedder {
	t.Helper()
	s, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	e, err := embedders.New(s, embedders.Options{CacheEntries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestReference: the vectors of a model of random weights are those of the formulas in float64,
// for all kinds of files, by every kernel.
func TestReference(t *testing.T) {
	texts := map[string][]int{ // with the tokens that they are, without the first and the last
		"UNwantéd,running":              {9, 6, 7, 12, 10, 11},
		"The cats want the lowest dog!": {15, 16, 18, 5, 15, 14, 17, 19},
		"nothing":                       {1}, "a": {21}, "推": {23}, "?": {20}, " ": {},
		strings.Repeat("cat ", 40): slices.Repeat([]int{16}, 30),
	}
	for name, change := range map[string]func(*tiny){
		"plain": func(*tiny) {}, "first token": func(m *tiny) { m.first = true }, "F16": func(m *tiny) { m.kind = "F16" }, "BF16": func(m *tiny) { m.kind = "BF16" },
		"prefix": func(m *tiny) { m.prefix = "bert." }, "gelu_new": func(m *tiny) { m.Activation = "gelu_new" }, "relu": func(m *tiny) { m.Activation = "relu" },
		"one head": func(m *tiny) { m.Heads = 1 }, "odd sizes": func(m *tiny) { m.Hidden, m.Heads, m.Intermediate = 21, 7, 13 }, "one layer": func(m *tiny) { m.Layers, m.Epsilon = 1, 1e-5 },
	} {
		t.Run(name, func(t *testing.T) {
			m := newTiny()
			change(m)
			dir := m.write(t)
			for _, level := range simd.Levels() {
				restore := simd.Use(level)
				e := open(t, dir)
				for text, ids := range texts {
					ids = slices.Concat([]int{2}, ids, []int{3})
					vectors, err := e.Embed(t.Context(), []string{text})
					if err != nil {
						t.Fatal(err)
					}
					want := m.reference(ids)
					for i, v := range vectors[0] {
						if math.Abs(float64(v)-want[i]) > 2e-6 {
							t.Fatalf("%s, %.20q: component %d is %g, and %g by the formulas (seed %d)", level, text, i, v, want[i], m.seed)
						}
					}
				}
				restore()
			}
		})
	}
}

// TestTokenizer has the words and pieces of texts.
func TestTokenizer(t *testing.T) {
	m := newTiny()
	for _, c := range []struct {
		text             string
		keepCase, accent bool
		want             []string
	}{
		{" \tHeLLo!how  \n Are yoU?  ", false, false, []string{"hello", "!", "how", "are", "you", "?"}},
		{"HeLLo!how", true, true, []string{"HeLLo", "!", "how"}},
		{"H\u00e9llo", false, false, []string{"hello"}},
		{"H\u00e9llo", false, true, []string{"h\u00e9llo"}},
		{"ah\u535a\u63a8zz", false, false, []string{"ah", "\u535a", "\u63a8", "zz"}},
		{"a\u0000b\ufffdc\u200dd\u007fe", false, false, []string{"abcde"}},
		{"$5.00+x^2\u2014y \u00a1", false, false, []string{"$", "5", ".", "00", "+", "x", "^", "2", "\u2014", "y", "\u00a1"}},
		{"a\u00a0b\u3000c\u2028d", false, false, []string{"a", "b", "c", "d"}},
		{"\u0130stanbul", false, false, []string{"istanbul"}},
		{"[SEP] it", false, false, []string{"[", "sep", "]", "it"}},
		{"", false, false, nil},
		{"\xff\xfe bad", false, false, []string{"bad"}},
	} {
		m.lowercase = !c.keepCase
		l := &loader{dir: m.write(t), sum: noSum{}}
		tok, err := l.tokenizer(m.Vocabulary)
		if err != nil {
			t.Fatal(err)
		}
		tok.strip = !c.accent
		if got := slices.Collect(tok.words(c.text)); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	l := &loader{dir: newTiny().write(t), sum: noSum{}}
	tok, err := l.tokenizer(m.Vocabulary)
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string][]int{
		"unwanted": {9, 6, 7}, "unwantedx": {1}, "lowest": {14}, "lows": {13, 18}, "ab": {21, 22}, "b": {1}, "": nil,
		strings.Repeat("a", 101): {1}, "推推": {1}, "a" + strings.Repeat("b", 99): append([]int{21}, slices.Repeat([]int{22}, 99)...),
	} {
		if got := tok.pieces(nil, word); !slices.Equal(got, want) {
			t.Errorf("%.20q: %v, want %v", word, got, want)
		}
	}
}

// noSum is a hash that nobody reads.
type noSum struct{}

func (noSum) Write(b []byte) (int, error) { return len(b), nil }
func (noSum) Sum(b []byte) []byte         { return b }
func (noSum) Reset()                      {}
func (noSum) Size() int                   { return 0 }
func (noSum) BlockSize() int              { return 1 }

// TestLongest cuts a text at the shortest of the bounds that the files name.
func TestLongest(t *testing.T) {
	m := newTiny()
	m.maxLength = 6
	e := open(t, m.write(t))
	long, err := e.Embed(t.Context(), []string{"the cat the dog the cat", "the cat the dog", strings.Repeat("the cat the dog ", 1<<16)})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(long[0], long[1]) || !reflect.DeepEqual(long[1], long[2]) {
		t.Error("what is beyond the longest input counts")
	}
	want := m.reference([]int{2, 15, 16, 15, 17, 3})
	if math.Abs(float64(long[0][0])-want[0]) > 2e-6 {
		t.Errorf("%g, want %g", long[0][0], want[0])
	}
}

// TestName: the name of a model follows from its files, not from its folder.
func TestName(t *testing.T) {
	names := map[string]bool{}
	for _, change := range []func(*tiny){func(*tiny) {}, func(m *tiny) { m.seed++ }, func(m *tiny) { m.first = true }, func(m *tiny) { m.lowercase = false }} {
		m := newTiny()
		change(m)
		one, other := open(t, m.write(t)).Model(), open(t, m.write(t)).Model()
		if one != other || names[one] || !strings.HasPrefix(one, "local/bert-24-") {
			t.Errorf("%s and %s", one, other)
		}
		names[one] = true
	}
}

// TestDatabase opens a database with a model, stores and recalls by it; another model is
// refused.
func TestDatabase(t *testing.T) {
	m := newTiny()
	dir, where := m.write(t), filepath.Join(t.TempDir(), "db")
	db, err := engine.Open(where, &engine.Options{Embedder: open(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	ada := scope.Scope{User: "ada"}
	for _, text := range []string{"the cat", "the lowest dog!", "unwanted running"} {
		if s, err := db.Memories().Store(t.Context(), memory.Memory{Scope: ada, Text: text}, nil); err != nil || s.Pending {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	r, err := db.Memories().Recall(t.Context(), memory.Query{Scope: ada, Text: "UNwantéd running", Profile: memory.ProfileVector, Limit: 1})
	if err != nil || len(r.Hits) != 1 || r.Hits[0].Text != "unwanted running" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	m.seed++
	if _, err := engine.Open(where, &engine.Options{Embedder: open(t, m.write(t))}); !errors.Is(err, memory.ErrMismatch) {
		t.Errorf("another model: %v", err)
	}
}

// TestTogether: many goroutines, and texts in any company, get the same vectors.
func TestTogether(t *testing.T) {
	e := open(t, newTiny().write(t))
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = strings.Repeat("the cat ", i%9+1) + "!"
	}
	want, err := e.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			got, err := e.Embed(context.Background(), texts[i*10:i*10+10])
			if err != nil || !reflect.DeepEqual(got, want[i*10:i*10+10]) {
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := e.Embed(ctx, texts); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestBadFiles: each error names the folder, the file and what is wrong with it.
func TestBadFiles(t *testing.T) {
	text := func(file, from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, filepath.FromSlash(file))
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(b), from, to, 1)
			if changed == string(b) {
				t.Fatalf("%s has no %s", file, from)
			}
			if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	bytes := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, weightsFile)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	without := func(file string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for want, damage := range map[string]func(*testing.T, string){
		"config.json cannot be read":                                    without("config.json"),
		"tokenizer.json cannot be read":                                 without("tokenizer.json"),
		"model.safetensors cannot be read":                              without(weightsFile),
		"config.json is not the JSON":                                   text("config.json", "{", "["),
		"config.json is not the JSON that":                              text("config.json", `"hidden_size":24`, `"hidden_size":"24"`),
		`config.json: model_type is "gpt2"`:                             text("config.json", `"bert"`, `"gpt2"`),
		`config.json: hidden_act is "swish"`:                            text("config.json", `"gelu"`, `"swish"`),
		`position_embedding_type is "relative_key"`:                     text("config.json", `"position_embedding_type":""`, `"position_embedding_type":"relative_key"`),
		"hidden_size is no multiple":                                    text("config.json", `"num_attention_heads":4`, `"num_attention_heads":5`),
		"one of its sizes is out of range":                              text("config.json", `"num_hidden_layers":3`, `"num_hidden_layers":-3`),
		"sizes is out of range":                                         text("config.json", `"num_attention_heads":4`, `"num_attention_heads":0`),
		"range, or hidden_size":                                         text("config.json", `"vocab_size":24`, `"vocab_size":1000000000000`),
		`has the number 23, and config.json has 20 tokens`:              text("config.json", `"vocab_size":24`, `"vocab_size":20`),
		`tokenizer.json: its model is "BPE", not WordPiece`:             text("tokenizer.json", `"WordPiece"`, `"BPE"`),
		`its normalizer is "Lowercase", not BertNormalizer`:             text("tokenizer.json", `"BertNormalizer"`, `"Lowercase"`),
		`its vocabulary has no token "[SEP]"`:                           text("tokenizer.json", `"[SEP]"`, `"[END]"`),
		"at most 2 tokens":                                              text("tokenizer.json", `"truncation":null`, `"truncation":{"max_length":2}`),
		"1_Pooling/config.json: it pools in a way":                      text("1_Pooling/config.json", `"pooling_mode_cls_token":false`, `"pooling_mode_cls_token":true`),
		"1_Pooling/config.json is not the JSON":                         text("1_Pooling/config.json", `{`, `{{`),
		`there is no tensor "encoder.layer.3.attention.self.query.weig`: text("config.json", `"num_hidden_layers":3`, `"num_hidden_layers":4`),
		`"embeddings.position_embeddings.weight" has the shape [32 24]`: text("config.json", `"max_position_embeddings":32`, `"max_position_embeddings":33`),
		"model.safetensors: it has 3 bytes":                             bytes(func(b []byte) []byte { return b[:3] }),
		"its head would have":                                           bytes(func(b []byte) []byte { return b[:100] }),
		"lies outside of the file":                                      bytes(func(b []byte) []byte { return b[:len(b)-1] }),
		"its head is no JSON object":                                    bytes(func(b []byte) []byte { b[8] = 'x'; return b }),
		"its head would have 18446744073709551615 bytes":                bytes(func(b []byte) []byte { binary.LittleEndian.PutUint64(b, math.MaxUint64); return b }),
		`is of the type "F64", not F32, F16 or BF16`:                    bytes(func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), `"F32"`, `"F64"`)) }),
		"holds a number that is infinite or none": bytes(func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[len(b)-4:], math.Float32bits(float32(math.NaN())))
			return b
		}),
	} {
		t.Run(want, func(t *testing.T) {
			dir := newTiny().write(t)
			damage(t, dir)
			_, err := New(Config{Dir: dir})
			if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v, want %q", err, want)
			}
			if e, ok := errors.AsType[*fault.Error](err); !ok || e.Do == "" {
				t.Errorf("no next step: %v", err)
			}
		})
	}
	if _, err := New(Config{Dir: newTiny().write(t), Dimensions: 12}); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "24 dimensions, and dimensions is 12") {
		t.Errorf("other dimensions: %v", err)
	}
	if _, err := New(Config{}); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("no folder: %v", err)
	}
}

// TestDamage flips bytes of each file: a model loads or is an error, and nothing panics.
func TestDamage(t *testing.T) {
	m := newTiny()
	dir := m.write(t)
	for _, file := range []string{"config.json", "tokenizer.json", "1_Pooling/config.json", weightsFile} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < min(len(whole), 3_000); at += 7 {
			b := slices.Clone(whole)
			b[at] ^= 0x15
			m.put(t, dir, file, b)
			if s, err := New(Config{Dir: dir}); err == nil {
				if _, err := s.Call(t.Context(), []string{"the cat unwanted!"}); err != nil {
					t.Errorf("%s, byte %d: %v", file, at, err)
				}
			}
		}
		m.put(t, dir, file, whole)
	}
}

// TestHalf reads numbers of 16 bits.
func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float32{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 5.9604645e-08, 0x0400: 6.1035156e-05, 0x3555: 0.33325195, 0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1))} {
		if got := half(bits); got != want {
			t.Errorf("%#04x: %g, want %g", bits, got, want)
		}
	}
	if got := half(0x7e00); got == got {
		t.Errorf("%g is a number", got)
	}
}

// BenchmarkEmbed embeds texts with a model of the size of all-MiniLM-L6, of random weights.
func BenchmarkEmbed(b *testing.B) {
	m := newTiny()
	m.Hidden, m.Layers, m.Heads, m.Intermediate, m.Positions = 384, 6, 12, 1536, 512
	s, err := New(Config{Dir: m.write(b)})
	if err != nil {
		b.Fatal(err)
	}
	for _, words := range []int{14, 126} {
		text := strings.Repeat("cat ", words)
		b.Run(fmt.Sprint(words+2, " tokens"), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Call(b.Context(), []string{text}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
