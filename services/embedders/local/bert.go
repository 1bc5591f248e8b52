package local

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/seed-7aedc3ff/memdb/internal/simd"
)

// sizes is what of config.json counts.
type sizes struct {
	Type         string  `json:"model_type"`
	Vocabulary   int     `json:"vocab_size"`
	Hidden       int     `json:"hidden_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	Intermediate int     `json:"intermediate_size"`
	Positions    int     `json:"max_position_embeddings"`
	Types        int     `json:"type_vocab_size"`
	Activation   string  `json:"hidden_act"`
	Epsilon      float64 `json:"layer_norm_eps"`
	Position     string  `json:"position_embedding_type"`
}

// The bounds of sizes: no known model of this kind has more.
const (
	maxHidden     = 8_192
	maxLayers     = 256
	maxPositions  = 65_536
	maxVocabulary = 4 << 20
)

// check says why a model cannot be run, or nothing.
func (s *sizes) check() string {
	within := func(n, most int) bool { return n >= 1 && n <= most }
	switch {
	case s.Type != "bert":
		return fmt.Sprintf("model_type is %.40q", s.Type)
	case s.Position != "" && s.Position != "absolute":
		return fmt.Sprintf("position_embedding_type is %.40q", s.Position)
	case activations[s.Activation] == nil:
		return fmt.Sprintf("hidden_act is %.40q", s.Activation)
	case !within(s.Hidden, maxHidden) || !within(s.Layers, maxLayers) || !within(s.Heads, s.Hidden) || s.Hidden%max(s.Heads, 1) != 0,
		!within(s.Intermediate, 8*maxHidden), !within(s.Positions, maxPositions), !within(s.Vocabulary, maxVocabulary), !within(s.Types, maxPositions):
		return "one of its sizes is out of range, or hidden_size is no multiple of num_attention_heads"
	case s.Epsilon < 0 || s.Epsilon > 1:
		return fmt.Sprintf("layer_norm_eps is %g", s.Epsilon)
	}
	return ""
}

// activations are the functions between the two halves of a feed-forward network.
var activations = map[string]func(float64) float64{
	"gelu": func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) },
	"gelu_new": func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	},
	"relu": func(x float64) float64 { return max(x, 0) },
}

// bert is a model in memory. Matrices of states have a row for each token.
type bert struct {
	sizes
	words, positions, kind []float32 // kind is the row of the first type of tokens
	norm                   normal
	layers                 []layer
}

// layer is one of the model.
type layer struct {
	query, key, value, mixed linear
	attended                 normal
	wide, narrow             linear
	out                      normal
}

// linear is a matrix with a row for each component of its result, and a bias.
type linear struct {
	weights, bias []float32
	in            int
	rows          simd.Rows
	ids           []uint32 // 0, 1, 2, for all rows
}

// normal scales and shifts a vector of mean 0 and variance 1.
type normal struct{ scale, shift []float32 }

// taker takes tensors until one is missing.
type taker struct {
	from *tensors
	err  error
}

func (t *taker) take(name string, shape ...int) []float32 {
	if t.err != nil {
		return nil
	}
	var v []float32
	v, t.err = t.from.take(name, shape...)
	return v
}

func (t *taker) linear(name string, in, out int) linear {
	l := linear{weights: t.take(name+".weight", out, in), bias: t.take(name+".bias", out), in: in}
	if t.err == nil {
		l.rows, l.ids = rowsOf(l.weights, in), numbers(out)
	}
	return l
}

func (t *taker) normal(name string, n int) normal {
	return normal{t.take(name+".weight", n), t.take(name+".bias", n)}
}

// rowsOf are the rows of a matrix, from the beginning of a slice, with so many numbers from one
// row to the next.
func rowsOf(matrix []float32, stride int) simd.Rows {
	const onePage = 31
	return simd.Rows{Pages: []unsafe.Pointer{unsafe.Pointer(&matrix[0])}, Shift: onePage, Stride: uintptr(stride) * unsafe.Sizeof(matrix[0])}
}

func numbers(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(i)
	}
	return ids
}

// newBert takes the weights of a model.
func newBert(s sizes, from *tensors) (*bert, error) {
	t := &taker{from: from}
	m := &bert{sizes: s}
	m.words = t.take("embeddings.word_embeddings.weight", s.Vocabulary, s.Hidden)
	m.positions = t.take("embeddings.position_embeddings.weight", s.Positions, s.Hidden)
	if kinds := t.take("embeddings.token_type_embeddings.weight", s.Types, s.Hidden); t.err == nil {
		m.kind = kinds[:s.Hidden]
	}
	m.norm = t.normal("embeddings.LayerNorm", s.Hidden)
	for i := 0; i < s.Layers && t.err == nil; i++ {
		at := fmt.Sprintf("encoder.layer.%d.", i)
		m.layers = append(m.layers, layer{
			query: t.linear(at+"attention.self.query", s.Hidden, s.Hidden), key: t.linear(at+"attention.self.key", s.Hidden, s.Hidden),
			value: t.linear(at+"attention.self.value", s.Hidden, s.Hidden), mixed: t.linear(at+"attention.output.dense", s.Hidden, s.Hidden),
			attended: t.normal(at+"attention.output.LayerNorm", s.Hidden),
			wide:     t.linear(at+"intermediate.dense", s.Hidden, s.Intermediate), narrow: t.linear(at+"output.dense", s.Intermediate, s.Hidden),
			out: t.normal(at+"output.LayerNorm", s.Hidden),
		})
	}
	return m, t.err
}

// run makes the last states of tokens.
func (m *bert) run(ctx context.Context, ids []int) ([]float32, error) {
	n, h := len(ids), m.Hidden
	states := make([]float32, n*h)
	for i, id := range ids {
		row := states[i*h : (i+1)*h]
		word, position := m.words[id*h:(id+1)*h], m.positions[i*h:(i+1)*h]
		for j := range row {
			row[j] = word[j] + position[j] + m.kind[j]
		}
	}
	m.norm.apply(states, m.Epsilon)
	w := &work{
		query: make([]float32, n*h), key: make([]float32, n*h), value: make([]float32, n*h), mixed: make([]float32, n*h),
		added: make([]float32, n*h), wide: make([]float32, n*m.Intermediate), shares: make([]float32, n), ids: numbers(n),
	}
	activate := activations[m.Activation]
	for i := range m.layers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l := &m.layers[i]
		l.query.apply(states, w.query)
		l.key.apply(states, w.key)
		l.value.apply(states, w.value)
		m.attend(w, n)
		l.mixed.apply(w.mixed, w.added)
		add(states, w.added)
		l.attended.apply(states, m.Epsilon)
		l.wide.apply(states, w.wide)
		for j, x := range w.wide {
			w.wide[j] = float32(activate(float64(x)))
		}
		l.narrow.apply(w.wide, w.added)
		add(states, w.added)
		l.out.apply(states, m.Epsilon)
	}
	return states, nil
}

// work is what a run writes to.
type work struct {
	query, key, value, mixed, added, wide []float32
	shares                                []float32 // of the tokens in one state
	ids                                   []uint32
}

// attend mixes, for each head and token, the values of all tokens by the softmax of the products
// of the token's query and their keys.
func (m *bert) attend(w *work, n int) {
	h, size := m.Hidden, m.Hidden/m.Heads
	scale := 1 / math.Sqrt(float64(size))
	clear(w.mixed)
	for head := range m.Heads {
		at := head * size
		keys := rowsOf(w.key[at:], h)
		for i := range n {
			simd.DotRows(w.query[i*h+at:i*h+at+size], &keys, w.ids, w.shares)
			softmax(w.shares, scale)
			into := w.mixed[i*h+at : i*h+at+size]
			for j, share := range w.shares {
				for k, v := range w.value[j*h+at : j*h+at+size] {
					into[k] += share * v
				}
			}
		}
	}
}

// softmax makes shares, which sum to 1, of scores times scale.
func softmax(scores []float32, scale float64) {
	most := math.Inf(-1)
	for _, s := range scores {
		most = max(most, float64(s)*scale)
	}
	sum := 0.0
	for i, s := range scores {
		e := math.Exp(float64(s)*scale - most)
		scores[i] = float32(e)
		sum += e
	}
	for i := range scores {
		scores[i] = float32(float64(scores[i]) / sum)
	}
}

// apply sets each row of y to the product of the matrix with a row of x, plus the bias.
func (l *linear) apply(x, y []float32) {
	out := len(l.bias)
	for i := 0; i*l.in < len(x); i++ {
		row := y[i*out : (i+1)*out]
		simd.DotRows(x[i*l.in:(i+1)*l.in], &l.rows, l.ids, row)
		add(row, l.bias)
	}
}

// apply normalises each row of x (Ba, Kiros and Hinton, 2016).
func (n *normal) apply(x []float32, epsilon float64) {
	size := len(n.scale)
	for ; len(x) > 0; x = x[size:] {
		row := x[:size]
		mean, variance := 0.0, 0.0
		for _, v := range row {
			mean += float64(v)
		}
		mean /= float64(size)
		for _, v := range row {
			variance += (float64(v) - mean) * (float64(v) - mean)
		}
		by := 1 / math.Sqrt(variance/float64(size)+epsilon)
		for i, v := range row {
			row[i] = float32((float64(v)-mean)*by)*n.scale[i] + n.shift[i]
		}
	}
}

func add(to, v []float32) {
	for i, x := range v {
		to[i] += x
	}
}

// pool makes a vector of the length 1 of states: of the first, or of their mean.
func pool(states []float32, hidden int, first bool) []float32 {
	sums := make([]float64, hidden)
	for i, v := range states {
		if !first || i < hidden {
			sums[i%hidden] += float64(v)
		}
	}
	length := 0.0
	for _, v := range sums {
		length += v * v
	}
	length = math.Sqrt(length)
	out := make([]float32, hidden)
	for i, v := range sums {
		if length > 0 {
			out[i] = float32(v / length)
		}
	}
	return out
}
