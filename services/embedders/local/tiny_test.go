package local

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tiny is the recipe of a model for tests: random weights of a seed, in the files of a model.
type tiny struct {
	sizes
	pieces    []string // of the vocabulary; the number of a piece is its place
	lowercase bool
	first     bool   // it pools by the first token
	maxLength int    // of sentence_bert_config.json; 0: no such file
	kind      string // of numbers
	prefix    string // of the names of tensors
	seed      uint64

	tensors map[string][]float32 // as a reader sees them
	shapes  map[string][]int
}

var pieces = []string{
	"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "want", "##want", "##ed", "wa", "un", "runn", "##ing", ",", "low", "lowest", "the", "cat", "dog", "##s", "!", "?", "a", "##b", "推",
}

func newTiny() *tiny {
	return &tiny{
		sizes:  sizes{Type: "bert", Vocabulary: len(pieces), Hidden: 24, Layers: 3, Heads: 4, Intermediate: 40, Positions: 32, Types: 2, Activation: "gelu", Epsilon: 1e-12},
		pieces: pieces, lowercase: true, kind: "F32", seed: 7,
	}
}

// write writes the files of the model.
func (m *tiny) write(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	m.make()
	vocabulary := map[string]int{}
	for i, p := range m.pieces {
		vocabulary[p] = i
	}
	m.file(t, dir, "config.json", m.sizes)
	m.file(t, dir, "tokenizer.json", map[string]any{
		"version": "1.0", "truncation": nil, "added_tokens": []any{},
		"normalizer":    map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": m.lowercase},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"model":         map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
	})
	m.file(t, dir, "1_Pooling/config.json", map[string]any{"word_embedding_dimension": m.Hidden, "pooling_mode_cls_token": m.first, "pooling_mode_mean_tokens": !m.first})
	if m.maxLength > 0 {
		m.file(t, dir, "sentence_bert_config.json", map[string]any{"max_seq_length": m.maxLength, "do_lower_case": false})
	}
	m.put(t, dir, weightsFile, m.safetensors())
	return dir
}

func (m *tiny) file(t testing.TB, dir, name string, value any) {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	m.put(t, dir, name, b)
}

func (m *tiny) put(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// make fills the tensors.
func (m *tiny) make() {
	rng := rand.New(rand.NewPCG(m.seed, 1))
	m.tensors, m.shapes = map[string][]float32{}, map[string][]int{}
	put := func(name string, mean, spread float64, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = m.round(float32(mean + spread*rng.NormFloat64()))
		}
		m.tensors[name], m.shapes[name] = v, shape
	}
	linear := func(name string, in, out int) {
		put(name+".weight", 0, 1/math.Sqrt(float64(in)), out, in)
		put(name+".bias", 0, .1, out)
	}
	norm := func(name string) {
		put(name+".weight", 1, .1, m.Hidden)
		put(name+".bias", 0, .1, m.Hidden)
	}
	put("embeddings.word_embeddings.weight", 0, 1, m.Vocabulary, m.Hidden)
	put("embeddings.position_embeddings.weight", 0, .3, m.Positions, m.Hidden)
	put("embeddings.token_type_embeddings.weight", 0, .3, m.Types, m.Hidden)
	norm("embeddings.LayerNorm")
	for i := range m.Layers {
		at := fmt.Sprintf("encoder.layer.%d.", i)
		for _, part := range []string{"query", "key", "value"} {
			linear(at+"attention.self."+part, m.Hidden, m.Hidden)
		}
		linear(at+"attention.output.dense", m.Hidden, m.Hidden)
		norm(at + "attention.output.LayerNorm")
		linear(at+"intermediate.dense", m.Hidden, m.Intermediate)
		linear(at+"output.dense", m.Intermediate, m.Hidden)
		norm(at + "output.LayerNorm")
	}
}

// round is a number as the type of the file keeps it.
func (m *tiny) round(v float32) float32 {
	switch m.kind {
	case "BF16":
		return math.Float32frombits(math.Float32bits(v) &^ 0xffff)
	case "F16":
		return half(halfOf(v))
	}
	return v
}

// halfOf is a number in 16 bits, cut; those that are too small are 0.
func halfOf(v float32) uint16 {
	bits := math.Float32bits(v)
	exponent := int(bits>>23&0xff) - 127 + 15
	if exponent <= 0 {
		return 0
	}
	return uint16(bits>>16&0x8000) | uint16(exponent)<<10 | uint16(bits>>13&0x3ff)
}

// safetensors is the file of the weights.
func (m *tiny) safetensors() []byte {
	heads, data := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(m.tensors)) {
		begin := len(data)
		for _, v := range m.tensors[name] {
			switch m.kind {
			case "BF16":
				data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(v)>>16))
			case "F16":
				data = binary.LittleEndian.AppendUint16(data, halfOf(v))
			default:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			}
		}
		heads[m.prefix+name] = map[string]any{"dtype": m.kind, "shape": m.shapes[name], "data_offsets": []int{begin, len(data)}}
	}
	head, _ := json.Marshal(heads)
	head = append(head, strings.Repeat(" ", (8-len(head)%8)%8)...)
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head, data)
}

// reference is the forward pass by its formulas, in float64, with a matrix as rows: nothing of it
// is shared with the product.
func (m *tiny) reference(ids []int) []float64 {
	matrix := func(name string) [][]float64 {
		shape, flat := m.shapes[name], m.tensors[name]
		if len(shape) == 1 {
			shape = []int{1, shape[0]}
		}
		rows := make([][]float64, shape[0])
		for i := range rows {
			for j := range shape[1] {
				rows[i] = append(rows[i], float64(flat[i*shape[1]+j]))
			}
		}
		return rows
	}
	affine := func(x [][]float64, name string) (y [][]float64) {
		weight, bias := matrix(name+".weight"), matrix(name + ".bias")[0]
		for _, row := range x {
			out := slices.Clone(bias)
			for o := range weight {
				for i := range row {
					out[o] += weight[o][i] * row[i]
				}
			}
			y = append(y, out)
		}
		return y
	}
	normalise := func(x [][]float64, name string) {
		weight, bias := matrix(name + ".weight")[0], matrix(name + ".bias")[0]
		for _, row := range x {
			n, sum, squares := float64(len(row)), 0.0, 0.0
			for _, v := range row {
				sum += v
				squares += v * v
			}
			mean := sum / n
			deviation := math.Sqrt(squares/n - mean*mean + m.Epsilon)
			for i := range row {
				row[i] = (row[i]-mean)/deviation*weight[i] + bias[i]
			}
		}
	}
	plus := func(x, y [][]float64) {
		for i := range x {
			for j := range x[i] {
				x[i][j] += y[i][j]
			}
		}
	}
	word, position, kind := matrix("embeddings.word_embeddings.weight"), matrix("embeddings.position_embeddings.weight"), matrix("embeddings.token_type_embeddings.weight")
	var x [][]float64
	for i, id := range ids {
		row := make([]float64, m.Hidden)
		for j := range row {
			row[j] = word[id][j] + position[i][j] + kind[0][j]
		}
		x = append(x, row)
	}
	normalise(x, "embeddings.LayerNorm")
	for l := range m.Layers {
		at := fmt.Sprintf("encoder.layer.%d.", l)
		q, k, v := affine(x, at+"attention.self.query"), affine(x, at+"attention.self.key"), affine(x, at+"attention.self.value")
		context := make([][]float64, len(ids))
		width := m.Hidden / m.Heads
		for i := range ids {
			context[i] = make([]float64, m.Hidden)
			for head := range m.Heads {
				scores, sum := make([]float64, len(ids)), 0.0
				for j := range ids {
					for d := head * width; d < (head+1)*width; d++ {
						scores[j] += q[i][d] * k[j][d]
					}
					scores[j] = math.Exp(scores[j] / math.Sqrt(float64(width)))
					sum += scores[j]
				}
				for j := range ids {
					for d := head * width; d < (head+1)*width; d++ {
						context[i][d] += scores[j] / sum * v[j][d]
					}
				}
			}
		}
		plus(x, affine(context, at+"attention.output.dense"))
		normalise(x, at+"attention.output.LayerNorm")
		wide := affine(x, at+"intermediate.dense")
		for _, row := range wide {
			for i, z := range row {
				switch m.Activation {
				case "gelu":
					row[i] = z * 0.5 * math.Erfc(-z/math.Sqrt2)
				case "gelu_new":
					row[i] = 0.5 * z * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(z+0.044715*z*z*z)))
				default:
					row[i] = math.Max(0, z)
				}
			}
		}
		plus(x, affine(wide, at+"output.dense"))
		normalise(x, at+"output.LayerNorm")
	}
	pooled, length := make([]float64, m.Hidden), 0.0
	for j := range pooled {
		for i := range x {
			if !m.first || i == 0 {
				pooled[j] += x[i][j]
			}
		}
		length += pooled[j] * pooled[j]
	}
	for j := range pooled {
		pooled[j] /= math.Sqrt(length)
	}
	return pooled
}
