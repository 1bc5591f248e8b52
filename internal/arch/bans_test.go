package arch

import (
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// A ban keeps names of one package behind their seam.
type ban struct {
	target string   // import path
	names  []string // what is banned; nil: all of it
	except []string // with nil names: what is not
	in     func(pkg string) bool
	why    string
}

// banned reports whether the ban covers a name.
func (b *ban) banned(name string) bool {
	if b.names != nil {
		return slices.Contains(b.names, name)
	}
	return !slices.Contains(b.except, name)
}

// product is every package that programs may link: not the programs themselves,
// and not what only tests use.
func product(pkg string) bool {
	rule := law[rowKey(pkg)]
	return !rule.program() && !rule.forTests
}

// outside makes a predicate: the product but for the named packages.
func outside(seams ...string) func(string) bool {
	return func(pkg string) bool { return product(pkg) && !slices.Contains(seams, pkg) }
}

// waitless is the product but for engine, lifecycle and the kinds of work on an open database,
// which own background work and so may wait, spaces, whose vectors are linked in pauses, the
// store, which bounds the waits for a disk, and retry, which waits for services.
func waitless(pkg string) bool {
	return product(pkg) && law[rowKey(pkg)].floor != works && !slices.Contains([]string{"engine", "internal/lifecycle", "internal/spaces", "internal/store", "internal/retry"}, pkg)
}

// bans are the seams of the house. They hold where in says so; tests may do
// what they need.
var bans = []ban{
	{
		target: "time", names: []string{"Now", "Since", "Until"},
		in: outside("internal/clock"), why: "time comes in as a value, or from the Clock that was given",
	},
	{
		target: "time", names: []string{"Parse", "ParseInLocation"},
		in: func(pkg string) bool {
			// backup reads the times in its own IDs.
			return law[rowKey(pkg)].floor != topmost && !slices.Contains([]string{"internal/scalar", "backup"}, pkg)
		},
		why: "internal/scalar is the one reader of times, in all forms",
	},
	{
		target: "time", names: []string{"Sleep", "After", "Tick"},
		in: product, why: "a wait must end with its context: use a timer that is stopped",
	},
	{
		target: "time", names: []string{"AfterFunc", "NewTimer", "NewTicker"},
		in: waitless, why: "engine owns background work and waiting",
	},
	{
		target: "context", names: []string{"WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause"},
		in: waitless, why: "a deadline is a clock: engine owns waiting",
	},
	{target: "os", in: outside("internal/fsys", "internal/host"), why: "files go through internal/fsys, what the machine is through internal/host"},
	{target: "os/signal", in: product, why: "signals belong to the program"},
	{target: "os/exec", in: product, why: "a library starts no process"},
	{target: "io/ioutil", in: product, why: "files go through internal/fsys"},
	{
		target: "path/filepath", names: []string{"Abs", "EvalSymlinks", "Glob", "Walk", "WalkDir"},
		in: outside("internal/fsys"), why: "it reads the file system: files go through internal/fsys",
	},
	{target: "math/rand", in: product, why: "use math/rand/v2 with a source that is given"},
	{
		target: "math/rand/v2", except: []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"},
		in: product, why: "chance comes from a source with a seed, not from the global one",
	},
	{target: "fmt", names: []string{"Print", "Printf", "Println"}, in: product, why: "a library prints nothing"},
	{target: "log", in: product, why: "a library logs through the *slog.Logger that it was given"},
	{
		target: "log/slog", names: []string{"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"},
		in: product, why: "a library logs through the *slog.Logger that it was given",
	},
}

// mayPanic are the functions whose panic is an assertion of a programmer's
// error that no caller's input can reach, as "package.Function".
var mayPanic = map[string]bool{
	"hnsw.fail":               true, // it passes a panic on that it was not to catch
	"internal/simd.Use":       true, // a test asks for kernels that Levels does not list
	"internal/simd.mustMatch": true, // a kernel would read beyond the shorter slice
}

// checkBans holds files that are no tests against the bans.
func checkBans(files []*goFile, bans []ban) []finding {
	var found []finding
	for _, f := range files {
		if f.test {
			continue
		}
		names := imported(f)
		if product(f.pkg) {
			found = append(found, dotImports(f, names)...)
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			target, ok := names[x.Name]
			if !ok {
				return true
			}
			for i := range bans {
				if b := &bans[i]; b.target == target && b.banned(sel.Sel.Name) && b.in(f.pkg) {
					found = append(found, finding{f.at(sel.Pos()), target + "." + sel.Sel.Name + ": " + b.why})
				}
			}
			return true
		})
	}
	return found
}

// dotImports refuses imports that hide where a name comes from: the bans could
// not see it.
func dotImports(f *goFile, names map[string]string) []finding {
	if target, ok := names["."]; ok {
		return []finding{{f.path, "dot import of " + target}}
	}
	return nil
}

// checkBuiltins finds panic, print and init in product code, and exceptions
// that nothing needs any more.
func checkBuiltins(files []*goFile, mayPanic map[string]bool) []finding {
	var found []finding
	unused := maps.Clone(mayPanic)
	for _, f := range files {
		if f.test || !product(f.pkg) {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			name := f.pkg + "."
			if ok {
				name += fn.Name.Name
			}
			delete(unused, name)
			if ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, finding{f.at(fn.Pos()), "init: nothing happens on import; build the value where it is declared"})
			}
			found = append(found, builtins(f, decl, mayPanic[name])...)
		}
	}
	for name := range unused {
		found = append(found, finding{name, "listed in mayPanic, and not there"})
	}
	return found
}

// builtins finds the calls of panic, print and println in one declaration.
func builtins(f *goFile, decl ast.Decl, asserts bool) []finding {
	var found []finding
	ast.Inspect(decl, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fn, ok := call.Fun.(*ast.Ident)
		if !ok {
			return true
		}
		switch {
		case fn.Name == "panic" && !asserts:
			found = append(found, finding{f.at(call.Pos()), "panic: return an error, or list the assertion in mayPanic"})
		case fn.Name == "print" || fn.Name == "println":
			found = append(found, finding{f.at(call.Pos()), fn.Name + ": left from debugging"})
		}
		return true
	})
	return found
}

func TestBans(t *testing.T) {
	files := goFiles(t)
	report(t, checkBans(files, bans))
	report(t, checkBuiltins(files, mayPanic))
}

func TestCheckBans(t *testing.T) {
	for _, c := range []struct{ file, imports, body, want string }{
		{"engine/db.go", `"time"`, "var _ = time.Now()", "time.Now"},
		{"engine/db.go", `"time"`, "var now = time.Now", "time.Now"},
		{"engine/db.go", `clock "time"`, "var _ = clock.Since(t)", "time.Since"},
		{"engine/db.go", `"time"`, "var _ = time.Unix(0, 0)", ""},
		{"engine/db.go", `"time"`, "var _ = time.NewTicker(1)", ""},
		{"engine/db.go", `"time"`, "func f() { <-time.After(1) }", "time.After"},
		{"engine/db_test.go", `"time"`, "var _ = time.Now()", ""},
		{"wal/wal.go", `"time"`, "var _ = time.NewTicker(1)", "time.NewTicker"},
		{"wal/wal.go", `"context"`, "var _, _ = context.WithTimeout(nil, 1)", "context.WithTimeout"},
		{"wal/wal.go", `"context"`, "var _, _ = context.WithCancel(nil)", ""},
		{"internal/clock/clock.go", `"time"`, "var _ = time.Now()", ""},
		{"cmd/memdbctl/main.go", `"time"`, "var _ = time.Now()", ""},
		{"cmd/memdbctl/main.go", `"os"`, "var _ = os.Args", ""},
		{"engine/db.go", `"os"`, "var _ = os.Args", "os.Args"},
		{"engine/db.go", `. "os"`, "var _ = Args", "dot import"},
		{"internal/fsys/fs.go", `"os"`, "var _ = os.Args", ""},
		{"exchange/io.go", `"os"`, `var _, _ = os.Open("x")`, "os.Open"},
		{"exchange/io.go", `"path/filepath"`, `var _ = filepath.Base("x")`, ""},
		{"exchange/io.go", `"path/filepath"`, `var _, _ = filepath.Glob("x")`, "filepath.Glob"},
		{"hnsw/h.go", `"math/rand/v2"`, "var _ = rand.IntN(3)", "rand/v2.IntN"},
		{"hnsw/h.go", `"math/rand/v2"`, "var _ = rand.New(rand.NewPCG(1, 2)).IntN(3)", ""},
		{"hnsw/h.go", `"math/rand"`, "var _ = rand.New(nil)", "math/rand.New"},
		{"hnsw/h_test.go", `"math/rand/v2"`, "var _ = rand.IntN(3)", ""},
		{"policy/p.go", `"fmt"`, `func f() { fmt.Println() }`, "prints nothing"},
		{"policy/p.go", `"fmt"`, `var _ = fmt.Sprint()`, ""},
		{"policy/p.go", `"log"`, `func f() { log.Printf("") }`, "slog"},
		{"policy/p.go", `"log/slog"`, `func f(l *slog.Logger) { l.Info("") }`, ""},
		{"policy/p.go", `"log/slog"`, `func f() { slog.Info("") }`, "slog"},
		{"bench/main.go", `"math/rand/v2"`, "var _ = rand.IntN(3)", ""},
	} {
		f, err := parse(c.file, "package p\nimport "+c.imports+"\n"+c.body)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.file+": "+c.body, checkBans([]*goFile{f}, bans), c.want)
	}
}

func TestCheckBuiltins(t *testing.T) {
	mayPanic := map[string]bool{"internal/must.That": true}
	for _, c := range []struct{ file, body, want string }{
		{"engine/db.go", `func f() { panic("no") }`, "panic"},
		{"engine/db.go", `var f = func() { panic("no") }`, "panic"},
		{"engine/db.go", `func f() { x.panic("a method of that name") }`, ""},
		{"engine/db_test.go", `func f() { panic("no") }`, ""},
		{"cmd/memdbctl/main.go", `func f() { panic("no") }`, ""},
		{"internal/must/must.go", `func That() { panic("no") }`, ""},
		{"internal/must/must.go", `func That() {}; func Other() { panic("no") }`, "panic"},
		{"engine/db.go", `func init() {}`, "init"},
		{"engine/db.go", `func (T) init() {}`, ""},
		{"engine/db.go", `func f() { println(1) }`, "println"},
	} {
		f, err := parse(c.file, "package p\n"+c.body)
		if err != nil {
			t.Fatal(err)
		}
		allowed := mayPanic
		if f.pkg != "internal/must" {
			allowed = nil
		}
		expect(t, c.file+": "+c.body, checkBuiltins([]*goFile{f}, allowed), c.want)
	}
	expect(t, "an exception for nothing", checkBuiltins(nil, mayPanic), "not there")
}
