// Package local makes vectors by a transformer of the BERT family that runs in the program
// itself: all-MiniLM, BGE, E5, GTE and the like, as sentence-transformers has them. Nothing is
// downloaded, and no other program or library takes part.
//
// # Files
//
// A model is a folder as Hugging Face has it:
//
//	config.json            the sizes; model_type is bert
//	tokenizer.json         WordPiece with the rules of BERT
//	model.safetensors      the weights, as F32, F16 or BF16
//	1_Pooling/config.json  mean or first token; may be missing: mean
//	sentence_bert_config.json  max_seq_length; may be missing
//
// # Vectors
//
// A text becomes WordPieces between [CLS] and [SEP], cut at the longest input of the model. Each
// layer is multi-head self-attention and a feed-forward network, each with a residual and a
// normalisation after it (Devlin et al., 2019). The vector is the mean of the last states, or
// the first, scaled to the length 1. Sums are in float32 by the kernels of the database.
//
// What stands for a special token in a text, such as "[SEP]", is text.
package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path/filepath"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/embedders"
	"github.com/seed-7aedc3ff/memdb/services/providers"
)

const (
	// batchTexts is how many texts are one call: few enough for the time limit of a call.
	batchTexts = 16
	// The bounds of files, in bytes.
	maxConfig    = 1 << 20
	maxTokenizer = 64 << 20
	maxWeights   = 4 << 30
)

// Provider is what a program gives to config.Register, so that configurations can name it.
var Provider = providers.Provider{Name: config.Local, Open: func(c providers.Config) (embedders.Source, error) {
	if c.Key != "" || c.BaseURL != "" {
		return nil, fault.Invalid("set up local", "it calls nobody, and a key or a base_url is given", "leave it out, and give model as the path of a folder")
	}
	return New(Config{Dir: c.Model, Dimensions: c.Dimensions})
}}

// Config says where the model is.
type Config struct {
	Dir        string // the folder of the model
	Dimensions int    // 0, or what the model has: it cannot make shorter vectors
}

// source is a model in memory.
type source struct {
	tokens *tokenizer
	bert   *bert
	first  bool // the vector is the first state, not the mean
	most   int  // tokens of an input
	name   string
}

// New loads a model, whose weights take four bytes each. ErrInvalid where a file is missing,
// damaged, or of another kind; the error names it. Its name is made of what the files hold, so
// that it is the same wherever the folder lies, and another for another model.
func New(c Config) (embedders.Source, error) {
	if c.Dir == "" {
		return nil, fault.Invalid("load a model", "no folder is named", "give model as the path of a folder with config.json, tokenizer.json and model.safetensors")
	}
	l := &loader{dir: c.Dir, sum: sha256.New()}
	s, err := l.load()
	if err != nil {
		return nil, err
	}
	if c.Dimensions != 0 && c.Dimensions != s.Dim() {
		return nil, l.bad("config.json", fmt.Sprintf("the model makes vectors of %d dimensions, and dimensions is %d", s.Dim(), c.Dimensions), "leave dimensions out")
	}
	return s, nil
}

// loader reads the files of a folder.
type loader struct {
	dir string
	sum hash.Hash // of all that was read
}

// bad is an error about a file.
func (l *loader) bad(file, why, do string) error {
	return fault.Invalid("load the model of "+l.dir, file+": "+why, do)
}

// read reads a file. One that may be missing is then empty.
func (l *loader) read(file string, most int64, optional bool) ([]byte, error) {
	b, err := fsys.ReadFile(filepath.Join(l.dir, filepath.FromSlash(file)), most)
	switch {
	case optional && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, &fault.Error{Kind: fault.ErrInvalid, What: "load the model of " + l.dir, Why: file + " cannot be read", Cause: err, Do: "give the folder of a model with config.json, tokenizer.json and model.safetensors"}
	}
	fmt.Fprintf(l.sum, "%s %d\n", file, len(b))
	l.sum.Write(b)
	return b, nil
}

// decode reads a file of JSON; keys that are not known are of no matter.
func (l *loader) decode(file string, most int64, optional bool, into any) error {
	b, err := l.read(file, most, optional)
	if err != nil || b == nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return &fault.Error{Kind: fault.ErrInvalid, What: "load the model of " + l.dir, Why: file + " is not the JSON that was expected", Cause: err, Do: "get the file again"}
	}
	return nil
}

func (l *loader) load() (*source, error) {
	var sizes sizes
	if err := l.decode("config.json", maxConfig, false, &sizes); err != nil {
		return nil, err
	}
	if why := sizes.check(); why != "" {
		return nil, l.bad("config.json", why, "give a model of the type bert, such as all-MiniLM-L6-v2")
	}
	s := &source{most: sizes.Positions}
	if err := l.pooling(s); err != nil {
		return nil, err
	}
	var err error
	if s.tokens, err = l.tokenizer(sizes.Vocabulary); err != nil {
		return nil, err
	}
	if most := s.tokens.most; most > 0 {
		s.most = min(s.most, most)
	}
	if s.most < 3 {
		return nil, l.bad("tokenizer.json", fmt.Sprintf("an input has at most %d tokens", s.most), "get the file again")
	}
	weights, err := l.weights()
	if err != nil {
		return nil, err
	}
	if s.bert, err = newBert(sizes, weights); err != nil {
		return nil, l.bad(weightsFile, err.Error(), "get the file again, or the config.json that belongs to it")
	}
	s.name = fmt.Sprintf("local/bert-%d-%s", sizes.Hidden, hex.EncodeToString(l.sum.Sum(nil)[:6]))
	return s, nil
}

// pooling reads how states become a vector, and how long an input may be.
func (l *loader) pooling(s *source) error {
	var how struct {
		First bool `json:"pooling_mode_cls_token"`
		Mean  bool `json:"pooling_mode_mean_tokens"`
		Max   bool `json:"pooling_mode_max_tokens"`
		Root  bool `json:"pooling_mode_mean_sqrt_len_tokens"`
		Last  bool `json:"pooling_mode_lasttoken"`
		Heavy bool `json:"pooling_mode_weightedmean_tokens"`
	}
	const file = "1_Pooling/config.json"
	if err := l.decode(file, maxConfig, true, &how); err != nil {
		return err
	}
	if how.Max || how.Root || how.Last || how.Heavy || how.First && how.Mean {
		return l.bad(file, "it pools in a way other than by the mean or by the first token", "use another model")
	}
	s.first = how.First
	var limit struct {
		Most int `json:"max_seq_length"`
	}
	if err := l.decode("sentence_bert_config.json", maxConfig, true, &limit); err != nil {
		return err
	}
	if limit.Most > 0 {
		s.most = min(s.most, limit.Most)
	}
	return nil
}

// Model names the model by what its files hold.
func (s *source) Model() string { return s.name }

// Dim is the length of the vectors.
func (s *source) Dim() int { return s.bert.Hidden }

// Limits bound one call.
func (s *source) Limits() embedders.Limits { return embedders.Limits{Texts: batchTexts} }

// Call makes a vector of each text, one after the other. Between layers it stops when ctx
// ends.
func (s *source) Call(ctx context.Context, texts []string) (embedders.Batch, error) {
	b := embedders.Batch{Vectors: make([][]float32, len(texts))}
	for i, text := range texts {
		ids := s.tokens.encode(text, s.most)
		states, err := s.bert.run(ctx, ids)
		if err != nil {
			return embedders.Batch{}, cmp.Or(ctx.Err(), err)
		}
		b.Vectors[i] = pool(states, s.bert.Hidden, s.first)
		b.Tokens += int64(len(ids))
	}
	return b, nil
}
