package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-7aedc3ff/memdb/bench/peer"
)

// corpusFile holds passages, a line each: id, agent and text, apart by tabs.
const corpusFile = "text/corpus.tsv.zst"

// maxPassage bounds a line of the corpus, in bytes.
const maxPassage = 1 << 20

// corpus reads passages in order.
type corpus struct {
	name  string
	file  *os.File
	zstd  *zstd.Decoder
	lines *bufio.Scanner
	line  int
	bytes int64 // of the texts read so far
}

// openCorpus decompresses in the calling goroutine and in little memory, so that
// what is measured beside it is not disturbed.
func openCorpus(path string) (*corpus, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	lines := bufio.NewScanner(d)
	lines.Buffer(nil, maxPassage)
	return &corpus{name: filepath.Base(path), file: f, zstd: d, lines: lines}, nil
}

// next reads up to n passages; io.EOF follows the last.
func (c *corpus) next(n int) ([]peer.Document, error) {
	docs := make([]peer.Document, 0, n)
	for len(docs) < n && c.lines.Scan() {
		c.line++
		id, rest, _ := strings.Cut(c.lines.Text(), "\t")
		agent, text, ok := strings.Cut(rest, "\t")
		if !ok {
			return nil, fmt.Errorf("%s: line %d has not the form id, agent, text", c.name, c.line)
		}
		c.bytes += int64(len(text))
		docs = append(docs, peer.Document{ID: id, Scope: agent, Text: text})
	}
	if err := c.lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: after line %d: %w", c.name, c.line, err)
	}
	if len(docs) == 0 {
		return nil, io.EOF
	}
	return docs, nil
}

func (c *corpus) close() error {
	c.zstd.Close()
	return c.file.Close()
}
