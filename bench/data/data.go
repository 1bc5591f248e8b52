// Package data knows the data sets of the workloads: what they are, where they come from and
// under which terms, and what their files are to contain. Where a set is not at hand, one that is
// made up stands in for it, so that each workload runs anywhere.
//
// A set that is made up has the form of the real one and about its sizes; it follows from a seed.
// What it shows of speed is near what the real one shows, and what it shows of quality is not.
package data

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Set is some files that belong together: all of them are real, or none.
type Set struct {
	Name   string
	What   string // what is in it
	Source string // where it comes from
	Terms  string // under which it may be used
	Files  []File
	// size is how many items are made up unless fewer are asked for.
	size int
	// makeUp writes the files of a set that stands in; nil: there is none.
	makeUp func(w *writer, n int)
}

// A File is one of a set.
type File struct {
	Path   string // within the data folder, with slashes
	SHA256 string // of the file that published figures are of
}

// Sets lists all sets, in the order of their names.
func Sets() []*Set {
	return []*Set{
		{
			Name:   "bge-m3",
			What:   "500 embeddings of paragraphs by bge-m3, 1,024 float32 each, little-endian; for one test of hnsw, which skips without them",
			Source: "the query vectors `unit-data-1024-paragraph` that an index builder has among its test resources",
			Terms:  "MIT",
			Files: []File{
				{"vectors/1024-paragraph.queries.vec", "15d24cbc1bbdac8ffeb1946e60107860d30d3b7abf329714f546893f77a1c255"},
			},
		},
		{
			Name:   "cisi",
			What:   "1,460 abstracts of library science with 112 queries, of which 76 are judged",
			Source: "the Information Retrieval group of Glasgow; as tab-separated lines from github.com/Damaal/MB2",
			Terms:  "a classic test collection, no licence stated",
			Files: []File{
				{"ir/cisi/docs.tsv", "bf964ea160bad809327f832277309fbfb0a13f6e5cd0233dc628000a1afec751"},
				{"ir/cisi/queries.tsv", "429c1837731615070f1c53bc5e88b5f5462ab49f2b1236f540b6112a48f4bc92"},
				{"ir/cisi/qrels.tsv", "1474ee282a602fad47488fba02282d241f09c3755b5c201fcda0293b3572fce5"},
			},
			size: 1_400, makeUp: func(w *writer, n int) { makeUpJudged(w, "cisi", 2, n) },
		},
		{
			Name:   "cranfield",
			What:   "1,400 abstracts of aerodynamics with 225 judged queries",
			Source: "the Information Retrieval group of Glasgow; as tab-separated lines from github.com/Chetan-Prasad/IR-Lucene_Cran",
			Terms:  "a classic test collection, no licence stated",
			Files: []File{
				{"ir/cranfield/docs.tsv", "38b90c2b829efb0131ffe2e292cd4406e497864603f7d9ae13da755b75510f6c"},
				{"ir/cranfield/queries.tsv", "634566882dd9e5e50ea3183cb699be421bc7b3448c9b86f04e8ac9f141dbf814"},
				{"ir/cranfield/qrels.tsv", "c93b0c571feb528f63c3d62fbb52e17964335ee179fd0ea437f19342bd43c542"},
			},
			size: 1_400, makeUp: func(w *writer, n int) { makeUpJudged(w, "cranfield", 1, n) },
		},
		{
			Name:   "fb15k237",
			What:   "FB15k-237, a graph of 310,116 relations of 237 types among 14,541 entities, with starts of walks and patterns to match",
			Source: "training triples from github.com/GKNL/SMiLE; the others, and labels of Wikidata, from github.com/villmow/datasets_knowledge_embedding",
			Terms:  "Freebase CC BY 2.5, labels CC0",
			Files: []File{
				{"kg/fb15k237/entities.tsv", "9698383065210be7c2021402385dbec345293eb6ea3585faf3d9275ecc50eaeb"},
				{"kg/fb15k237/triples.tsv", "80b04450bf04fba024909ecdfa3a140a5c5b3f6c83adff3f50ea0dcb22833af6"},
				{"kg/fb15k237/starts.txt", "76941485e0a721bf56976a7becfaeda06dcab3581d04f5937312b279bb4ac641"},
				{"kg/fb15k237/patterns.tsv", "a6c4868c1ea815c8ab31335989db4f71b36589903e2b3866ce5f3f8c7b24fad1"},
			},
			size: 300_000, makeUp: makeUpGraph,
		},
		{
			Name:   "locomo",
			What:   "five of LoCoMo's ten long conversations, with questions and the turns that answer them",
			Source: "github.com/snap-research/LoCoMo, five of its ten conversations",
			Terms:  "CC BY-NC 4.0",
			Files: []File{
				{"locomo/locomo5.json", "1c9979aed9f236d0d6700ff90f205f01c1796875da7956cf94672edd87753933"},
			},
			size: 400, makeUp: makeUpTalks,
		},
		{
			Name:   "mnist",
			What:   "60,000 and 1,000 images of digits, 784 bytes each behind their number and dimension as two uint32, little-endian; compressed",
			Source: "yann.lecun.com/exdb/mnist: the training images, and 1,000 of the test images",
			Terms:  "those of MNIST, which its mirrors give as CC BY-SA 3.0",
			Files: []File{
				{"vectors/mnist.base.u8bin.zst", "bfe22e480600a1963470aa4fc7d8293007fa905c2fd7a0525b67513e47750794"},
				{"vectors/mnist.query.u8bin.zst", "35ad8c2cfb9381caf8cd22383c359d5be5f8661ce8973feda71993b7447e3076"},
			},
			size: 60_000, makeUp: makeUpImages,
		},
		{
			Name:   "text",
			What:   "300,000 passages of books, shuffled, spread evenly over 1,000 agents (id, agent, text), compressed; 1,000 queries (source, text)",
			Source: "books in the public domain; queries of WebQuestions (500), of Cranfield (150), and taken from the passages (350)",
			Terms:  "the books are in the public domain; WebQuestions is CC BY",
			Files: []File{
				{"text/corpus.tsv.zst", "86b83006933ec2802ff628fe6f31628514d883ad3b1393c163366a88f9d86ce2"},
				{"text/queries.tsv", "d8aeaf637e7a94d8e656125d30c036f4f88580c2aaa4c35e9e7519352f233031"},
			},
			size: 300_000, makeUp: makeUpTexts,
		},
	}
}

// Of is the set that a file belongs to, or nil.
func Of(path string) *Set {
	for _, s := range Sets() {
		if slices.ContainsFunc(s.Files, func(f File) bool { return f.Path == path }) {
			return s
		}
	}
	return nil
}

// In reports whether a folder has all files of the set.
func (s *Set) In(folder string) bool {
	if folder == "" {
		return false
	}
	for _, f := range s.Files {
		if info, err := os.Stat(filepath.Join(folder, filepath.FromSlash(f.Path))); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// MakeUp makes the set up in a folder, with at most n items (0: as many as the real one has),
// and returns the folder in it that then holds its files. What an earlier call has made stays.
func (s *Set) MakeUp(folder string, n int) (_ string, err error) {
	if s.makeUp == nil {
		return "", fmt.Errorf("nothing stands in for the set %s", s.Name)
	}
	if n == 0 || n > s.size {
		n = s.size
	}
	done := filepath.Join(folder, fmt.Sprintf("%s-%d", s.Name, n))
	if s.In(done) {
		return done, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(folder, s.Name+".part-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	w := &writer{folder: temporary}
	s.makeUp(w, n)
	if w.err != nil {
		return "", fmt.Errorf("making the set %s up: %w", s.Name, w.err)
	}
	if err := os.Rename(temporary, done); err != nil && !s.In(done) { // another process may have been faster
		return "", err
	}
	return done, nil
}

// State says what a folder has of a file.
type State string

// What a folder may have of a file.
const (
	Good    State = "as published"
	Other   State = "differs from the published one"
	Missing State = "not there"
)

// Look compares a file of a folder with the published one.
func (f File) Look(folder string) (_ State, err error) {
	in, err := os.Open(filepath.Join(folder, filepath.FromSlash(f.Path)))
	if errors.Is(err, os.ErrNotExist) {
		return Missing, nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return Other, nil
	}
	return Good, nil
}

// WriteTable prints the sets for a terminal, with what a folder has of each; "" is no folder.
func WriteTable(out io.Writer, folder string) error {
	w := bufio.NewWriter(out)
	for _, s := range Sets() {
		fmt.Fprintf(w, "%s: %s\n  from   %s\n  terms  %s\n", s.Name, s.What, s.Source, s.Terms)
		for _, f := range s.Files {
			state := Missing
			if folder != "" {
				var err error
				if state, err = f.Look(folder); err != nil {
					return err
				}
			}
			fmt.Fprintf(w, "  file   %s, %s\n         sha256 %s\n", f.Path, state, f.SHA256)
		}
	}
	return w.Flush()
}

// WriteMarkdown prints the sets as the page README.md of this folder.
func WriteMarkdown(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprint(w, `# Data sets

The workloads of `+"`bench`"+` look for these files in the folder that `+"`MEMDB_DATA`"+` or `+"`-data`"+` names. The
repository has none of them. Where a set is not there, bench makes one up that has its form and about its
sizes, says so above the table and in the report, and keeps it in `+"`bench/out/made-up`"+`: speeds are near those of the
real set, recall and nDCG are not. `+"`go -C bench run . data`"+` prints this list with what the folder has.
`)
	for _, s := range Sets() {
		fmt.Fprintf(w, "\n## %s\n\n%s.\n\n- From: %s.\n- Terms: %s.\n", s.Name, strings.ToUpper(s.What[:1])+s.What[1:], s.Source, s.Terms)
		if s.makeUp == nil {
			fmt.Fprintln(w, "- Nothing stands in for it.")
		}
		fmt.Fprint(w, "\n| file | SHA-256 |\n|---|---|\n")
		for _, f := range s.Files {
			fmt.Fprintf(w, "| `%s` | `%s` |\n", f.Path, f.SHA256)
		}
	}
	return w.Flush()
}
