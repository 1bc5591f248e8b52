package peer

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/bench/harness"
	"github.com/seed-7aedc3ff/memdb/bench/vectorset"
)

//go:embed native/native.cc
var nativeSource []byte

// nativeLibrary is an index in C++: the program around it is built where its
// headers are installed.
type nativeLibrary struct {
	define string   // what the source wants to know
	header string   // whose presence tells
	pkg    string   // Debian's name for it
	link   []string // libraries
	// The environment variable that names a folder where the headers are, of a library
	// that Debian does not have.
	folder string
}

var (
	hnswlib = nativeLibrary{define: "WITH_HNSWLIB", header: "hnswlib/hnswlib.h", pkg: "libhnswlib-dev"}
	faiss   = nativeLibrary{define: "WITH_FAISS", header: "faiss/IndexHNSW.h", pkg: "libfaiss-dev", link: []string{"-fopenmp", "-lfaiss", "-llapack", "-lblas"}}
	// SymphonyQG, as its authors' library has it: github.com/VectorDB-NTU/RaBitQ-Library.
	symphonyQG = nativeLibrary{
		define: "WITH_SYMPHONYQG", header: "rabitqlib/index/symqg/qg_builder.hpp", folder: "MEMDB_SYMPHONYQG",
		link: []string{"-fopenmp", "-Ofast"},
	}
)

// compile builds the program for a library in a folder, unless it is there from another set
// of vectors, and returns its path.
func (l *nativeLibrary) compile(ctx context.Context, dir string) (string, error) {
	const compiler = "g++"
	program := filepath.Join(dir, "native-"+l.define)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if _, err := exec.LookPath(compiler); err != nil {
		return "", harness.Missing("it is built with g++, which is not installed")
	}
	find, advice := []string(nil), "on Debian, apt-get install "+l.pkg
	if l.folder != "" {
		advice = "set " + l.folder + " to the folder in which its source has it"
		if folder := os.Getenv(l.folder); folder != "" {
			find = []string{"-isystem", folder}
		}
	}
	probe := exec.CommandContext(ctx, compiler, append(find, "-E", "-std=c++17", "-march=native", "-x", "c++", "-")...)
	probe.Stdin = strings.NewReader("#include <" + l.header + ">\n")
	if err := probe.Run(); err != nil {
		return "", harness.Missing("the compiler does not find %s; %s", l.header, advice)
	}
	source := filepath.Join(dir, "native.cc")
	if err := os.WriteFile(source, nativeSource, 0o644); err != nil {
		return "", err
	}
	args := slices.Concat(find, []string{"-O3", "-march=native", "-std=c++17", "-D" + l.define, "-o", program, source}, l.link)
	if out, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building a program with %s: %w: %s", l.header, err, strings.TrimSpace(string(out)))
	}
	return program, nil
}

// native is a running program.
type native struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	queries int
}

// open builds the program and has it build its index.
func (l *nativeLibrary) open(ctx context.Context, w *VectorWork) (Vectors, error) {
	program, err := l.compile(ctx, w.Dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, w.BaseFile, w.QueryFile, strconv.Itoa(w.Base.Dim),
		strconv.Itoa(w.M), strconv.Itoa(w.EfConstruction), cmp.Or(w.Metric, vectorset.Cosine))
	// glibc's malloc then asks for huge pages, as memdb does.
	cmd.Env = append(os.Environ(), "GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "OMP_NUM_THREADS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &native{cmd, in, bufio.NewReaderSize(out, 1<<20), w.Queries.Len()}, nil
}

// Build waits until the program has built its index.
func (n *native) Build(context.Context) (VectorBuild, error) {
	line, err := n.out.ReadString('\n')
	if err != nil {
		return VectorBuild{}, fmt.Errorf("its program ended while building: %w", err)
	}
	var seconds float64
	var b VectorBuild
	if _, err := fmt.Sscan(line, &seconds, &b.Bytes); err != nil {
		return b, fmt.Errorf("its program said %q: %w", line, err)
	}
	b.CPU = time.Duration(seconds * float64(time.Second))
	return b, nil
}

// Ask has the program ask all queries once.
func (n *native) Ask(_ context.Context, ef, k int) (a VectorAnswers, err error) {
	if _, err := fmt.Fprintln(n.in, ef, k); err != nil {
		return a, err
	}
	for range n.queries {
		line, err := n.out.ReadString('\n')
		if err != nil {
			return a, fmt.Errorf("its program ended while searching: %w", err)
		}
		fields := strings.Fields(line)
		var numbers []int64
		for _, f := range fields {
			v, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return a, fmt.Errorf("its program said %q: %w", line, err)
			}
			numbers = append(numbers, v)
		}
		if len(numbers) == 0 {
			return a, errors.New("its program said nothing of a query")
		}
		a.Times = append(a.Times, time.Duration(numbers[0]))
		ids := make([]uint32, 0, k)
		for _, id := range numbers[1:] {
			ids = append(ids, uint32(id))
		}
		a.IDs = append(a.IDs, ids)
	}
	return a, nil
}

// Close ends the program.
func (n *native) Close() error { return errors.Join(n.in.Close(), n.cmd.Wait()) }
