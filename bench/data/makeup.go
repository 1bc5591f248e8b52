package data

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// seed is what sets that are made up follow from.
const seed = 20

// writer writes the files of a set and keeps the first error.
type writer struct {
	folder string
	err    error
}

// file writes a file, compressed where its name says so.
func (w *writer) file(path string, write func(out *bufio.Writer) error) {
	if w.err != nil {
		return
	}
	full := filepath.Join(w.folder, filepath.FromSlash(path))
	if w.err = os.MkdirAll(filepath.Dir(full), 0o755); w.err != nil {
		return
	}
	f, err := os.Create(full)
	if err != nil {
		w.err = err
		return
	}
	var out io.WriteCloser = f
	if strings.HasSuffix(path, ".zst") {
		z, err := zstd.NewWriter(f)
		if err != nil {
			w.err = errors.Join(err, f.Close())
			return
		}
		out = both{z, f}
	}
	buffer := bufio.NewWriterSize(out, 1<<20)
	w.err = errors.Join(write(buffer), buffer.Flush(), out.Close())
}

// both closes what compresses, then the file.
type both struct {
	*zstd.Encoder
	file *os.File
}

func (b both) Close() error { return errors.Join(b.Encoder.Close(), b.file.Close()) }

// language is a vocabulary whose words are as frequent as those of a natural one: the word of
// rank r comes about 1/r as often as the first.
type language struct {
	words []string
	zipf  *rand.Zipf
	rng   *rand.Rand
}

// vocabulary is how many words a language has.
const vocabulary = 40_000

func newLanguage(rng *rand.Rand) *language {
	first, last := strings.Fields("b br ch d f g gr k l m n p pr s st t tr v w z"), strings.Fields("a e i o u ai ea ou")
	l := &language{rng: rng, zipf: rand.NewZipf(rng, 1.07, 4, vocabulary-1)}
	// The most frequent words are English ones, which rankings know how to pass over.
	l.words = strings.Fields("the of and a to in he that was his it had with as for i her not be is at on but you she him they this by all from or which my")
	for seen := map[string]bool{}; len(l.words) < vocabulary; {
		var b strings.Builder
		for range 2 + rng.IntN(3) {
			b.WriteString(first[rng.IntN(len(first))] + last[rng.IntN(len(last))])
		}
		if word := b.String(); !seen[word] {
			seen[word] = true
			l.words = append(l.words, word)
		}
	}
	return l
}

// sentence is n words.
func (l *language) sentence(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = l.words[l.zipf.Uint64()]
	}
	return strings.Join(words, " ")
}

// rare is a word beyond the first few hundred.
func (l *language) rare() string { return l.words[300+l.rng.IntN(vocabulary-300)] }

func generator(of uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, of)) }

// makeUpTexts writes n passages of 40 to 160 words and 1,000 queries of 1 to 5.
func makeUpTexts(w *writer, n int) {
	l := newLanguage(generator(1))
	w.file("text/corpus.tsv.zst", func(out *bufio.Writer) error {
		for i := range n {
			fmt.Fprintf(out, "%d\ta%04d\t%s\n", i, l.rng.IntN(1_000), l.sentence(40+l.rng.IntN(120)))
		}
		return nil
	})
	w.file("text/queries.tsv", func(out *bufio.Writer) error {
		for range 1_000 {
			words := []string{l.rare()}
			for range l.rng.IntN(5) {
				words = append(words, l.words[40+int(l.zipf.Uint64())%(vocabulary-40)])
			}
			fmt.Fprintf(out, "made-up\t%s\n", strings.Join(words, " "))
		}
		return nil
	})
}

// makeUpJudged writes n documents of 50 topics, with a query for each topic.
func makeUpJudged(w *writer, name string, of uint64, n int) {
	const topics, words = 50, 12
	l := newLanguage(generator(of << 8))
	var own [topics][words]string
	for t := range own {
		for i := range own[t] {
			own[t][i] = l.rare()
		}
	}
	w.file("ir/"+name+"/docs.tsv", func(out *bufio.Writer) error {
		for i := range n {
			fmt.Fprintf(out, "%d\t%s", i+1, l.sentence(80+l.rng.IntN(60)))
			for range 6 {
				fmt.Fprint(out, " ", own[i%topics][l.rng.IntN(words)])
			}
			fmt.Fprintln(out)
		}
		return nil
	})
	w.file("ir/"+name+"/queries.tsv", func(out *bufio.Writer) error {
		for t := range own {
			fmt.Fprintf(out, "%d\t%s %s %s\n", t+1, strings.Join(own[t][:3], " "), l.sentence(4), own[(t+1)%topics][0])
		}
		return nil
	})
	w.file("ir/"+name+"/qrels.tsv", func(out *bufio.Writer) error {
		for i := range n {
			fmt.Fprintf(out, "%d\t%d\t1\n", i%topics+1, i+1)
		}
		return nil
	})
}

// makeUpTalks writes five conversations of n turns, with questions in the four categories.
func makeUpTalks(w *writer, n int) {
	const perSession = 20
	l := newLanguage(generator(3))
	var talks []map[string]any
	for t := range 5 {
		a, b := fmt.Sprint("Ilse", t), fmt.Sprint("Bram", t)
		conversation := map[string]any{"speaker_a": a, "speaker_b": b}
		var questions []map[string]any
		for s := range (n + perSession - 1) / perSession {
			var turns []map[string]any
			for i := range min(perSession, n-s*perSession) {
				speaker, thing, place := []string{a, b}[i%2], l.rare(), l.rare()
				id := fmt.Sprintf("D%d:%d", s+1, i+1)
				turns = append(turns, map[string]any{
					"speaker": speaker, "dia_id": id,
					"text": fmt.Sprintf("I have found a %s near %s, %s.", thing, place, l.sentence(3+l.rng.IntN(20))),
				})
				if i%4 == 0 {
					questions = append(questions, map[string]any{
						"question": fmt.Sprintf("Where has %s seen the %s, %s?", speaker, thing, l.sentence(3)),
						"evidence": []string{id}, "category": 1 + (i/4)%4,
					})
				}
			}
			conversation[fmt.Sprintf("session_%d", s+1)] = turns
			conversation[fmt.Sprintf("session_%d_date_time", s+1)] = fmt.Sprintf("1:56 pm on %d May, 2023", s%28+1)
		}
		talks = append(talks, map[string]any{"sample_id": fmt.Sprintf("made-up-%d", t+1), "conversation": conversation, "qa": questions})
	}
	w.file("locomo/locomo5.json", func(out *bufio.Writer) error { return json.NewEncoder(out).Encode(talks) })
}

// makeUpGraph writes n distinct relations: few entities and types have many of them.
func makeUpGraph(w *writer, n int) {
	const types, relations, asked = 40, 237, 200
	entities := max(n/20, 20)
	rng := generator(4)
	byDegree, byType := rand.NewZipf(rng, 1.2, 30, uint64(entities-1)), rand.NewZipf(rng, 1.3, 5, relations-1)
	typeOf := func(entity int) string { return fmt.Sprintf("made/type%d", entity%types) }
	w.file("kg/fb15k237/entities.tsv", func(out *bufio.Writer) error {
		for i := range entities {
			fmt.Fprintf(out, "%d\t/m/%x\t%s\tName %d\tmade up\n", i, i, typeOf(i), i)
		}
		return nil
	})
	type triple struct{ head, relation, tail int }
	seen := map[triple]bool{}
	var some []triple
	w.file("kg/fb15k237/triples.tsv", func(out *bufio.Writer) error {
		for len(seen) < n {
			t := triple{rng.IntN(entities), int(byType.Uint64()), int(byDegree.Uint64())}
			if t.head == t.tail || seen[t] {
				continue
			}
			seen[t] = true
			if len(some) < asked {
				some = append(some, t)
			}
			fmt.Fprintf(out, "%d\t%d\t%d\n", t.head, t.relation, t.tail)
		}
		return nil
	})
	w.file("kg/fb15k237/starts.txt", func(out *bufio.Writer) error {
		for _, t := range some {
			fmt.Fprintln(out, t.head)
		}
		return nil
	})
	w.file("kg/fb15k237/patterns.tsv", func(out *bufio.Writer) error {
		for _, t := range some {
			fmt.Fprintf(out, "%s\t%d\t%s\t1\n", typeOf(t.head), t.relation, typeOf(t.tail))
		}
		return nil
	})
}

// makeUpImages writes n vectors and 1,000 queries of 784 bytes: each is a mixture of two of 200
// drawings with noise, and most of it is empty, as images of digits are.
func makeUpImages(w *writer, n int) {
	const side, drawings = 28, 200
	rng := generator(5)
	var drawn [drawings][side * side]float64
	for d := range drawn {
		x, y, angle := 8+12*rng.Float64(), 8+12*rng.Float64(), 2*math.Pi*rng.Float64()
		for range 60 { // a line that bends
			angle += rng.NormFloat64() / 3
			x, y = min(max(x+math.Cos(angle), 4), side-5), min(max(y+math.Sin(angle), 4), side-5)
			for dx := -1; dx <= 1; dx++ {
				for dy := -1; dy <= 1; dy++ {
					drawn[d][(int(y)+dy)*side+int(x)+dx] += 120 / float64(1+dx*dx+dy*dy)
				}
			}
		}
	}
	for path, count := range map[string]int{"vectors/mnist.base.u8bin.zst": n, "vectors/mnist.query.u8bin.zst": 1_000} {
		own := generator(uint64(6 + len(path)))
		w.file(path, func(out *bufio.Writer) error {
			if err := binary.Write(out, binary.LittleEndian, []uint32{uint32(count), side * side}); err != nil {
				return err
			}
			for range count {
				a, b, share := &drawn[own.IntN(drawings)], &drawn[own.IntN(drawings)], own.Float64()
				for i := range a {
					v := a[i]*share + b[i]*(1-share)
					if v > 0 {
						v += 25 * own.NormFloat64()
					}
					if err := out.WriteByte(byte(min(max(v, 0), 255))); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
}
