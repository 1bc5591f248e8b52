package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// The classes of what a database makes of a damage.
const (
	found, named, harmless, silent = "found", "named", "harmless", "silent"
)

// verdict is what became of a damage.
type verdict struct {
	class   string
	rescued bool
	failure string // why it is a failure, empty for none
}

// view is what can be seen of a database.
type view struct {
	refused bool     // opening returns an error
	said    string   // what opening, check or export say is wrong
	lines   []string // of an export, sorted
	answers string
	lost    []exchange.RescueLoss
}

// judge does one damage, by its seed.
func judge(ctx context.Context, bases []*base, seed uint64) (what string, v verdict) {
	rng := rand.New(rand.NewPCG(seed, 11))
	b := bases[rng.IntN(len(bases))]
	files, h := b.damage(rng)
	seen := look(ctx, write(files))
	switch {
	case seen.refused:
		v.class = found
	case seen.said != "":
		v.class = named
	case same(seen.lines, b.lines) && seen.answers == b.answers:
		v.class = harmless
	default:
		v.class = silent
		v.failure = fmt.Sprintf("nothing is said, and %d lines of %d are there; answers as before: %t; missing: %.400q", len(seen.lines), len(b.lines), seen.answers == b.answers, missing(b.lines, seen.lines))
	}
	if strings.HasPrefix(seen.said, "PANIC") {
		v.failure = seen.said
	}
	if b.said != nil {
		if short, _ := b.shortAnswers(ctx, files); len(short) > 0 && v.failure == "" {
			v.failure = fmt.Sprintf("%d short answers: %.600s", len(short), strings.Join(short, "; "))
		}
	}
	left := rescue(ctx, write(files))
	why := b.rescueFails(h, &seen, &left)
	if v.rescued = why == ""; !v.rescued {
		v.failure = strings.TrimPrefix(v.failure+"; rescue: "+why, "; ")
	}
	return fmt.Sprintf("%s: %s (%s)", b.name, h.what, seen.said), v
}

// rescueFails says in what a rescue falls short.
func (b *base) rescueFails(h harm, seen, r *view) string {
	gone := missing(b.lines, r.lines)
	switch {
	case r.refused && len(b.files) > 0 && (!holdsData(h.file) || !h.gone):
		return "it is refused: " + r.said
	case r.refused:
		return ""
	case r.said != "":
		return r.said
	case len(gone) > 0 && len(r.lost) == 0:
		return fmt.Sprintf("it lacks %d lines and does not say so: %.1800q; has instead %.1800q", len(gone), gone, missing(r.lines, b.lines))
	case len(gone) > 0 && !holdsData(h.file):
		return fmt.Sprintf("it lacks %d lines that lie in other files, says %v: %.600q", len(gone), r.lost, gone)
	case !h.gone && len(gone) > h.costs:
		return fmt.Sprintf("it lacks %d of %d lines, where the damage may cost %d, says %.1000s: %.1000s", len(gone), len(b.lines), h.costs, fmt.Sprint(r.lost), fmt.Sprintf("%.80q", gone))
	case seen.refused:
		return ""
	}
	// Where the death of a memory is lost, a rescue has a living memory, and no history of it.
	ofLiving := func(line string) bool { return strings.HasPrefix(line, `{"type":"history"`) }
	if less := slices.DeleteFunc(missing(intersection(seen.lines, b.lines), r.lines), ofLiving); len(less) > 0 {
		return fmt.Sprintf("it lacks %d lines that an export of the damaged database has: %.400q", len(less), less)
	}
	return ""
}

// look opens a database and reads all of it.
func look(ctx context.Context, files vfs.FS) (v view) {
	defer func() {
		if p := recover(); p != nil {
			v.said = fmt.Sprintf("PANIC: %v\n%s", p, debug.Stack())
		}
	}()
	db, err := engine.Open(fsys.On(files, dir), options())
	if err != nil {
		return view{refused: true, said: err.Error()}
	}
	v = see(ctx, db)
	if err := db.Close(); err != nil && v.said == "" {
		v.said = "close: " + err.Error()
	}
	return v
}

var ofMessages = regexp.MustCompile(`"messages":\d+,"compactions":\d+,"created_at":"[^"]*","updated_at":"[^"]*"`)

func see(ctx context.Context, db *engine.DB) (v view) {
	var b bytes.Buffer
	report, err := exchange.Export(ctx, db, &b, nil)
	for line := range strings.Lines(b.String()) {
		// How much a session has follows from its messages.
		v.lines = append(v.lines, ofMessages.ReplaceAllString(line, ""))
	}
	slices.Sort(v.lines)
	check, cerr := db.Check(ctx)
	answers, aerr := ask(ctx, db)
	v.answers = answers
	if err = errors.Join(err, cerr, aerr); err != nil {
		v.said = err.Error()
	}
	if !check.OK && cerr == nil {
		v.said += " check: " + fmt.Sprint(check.Problems[0])
	}
	if report.Lost > 0 {
		v.said += " export: " + report.Problems[0].Error()
	}
	v.said += db.Salvaged()
	return v
}

// ask are the answers of a few recalls.
func ask(ctx context.Context, db *engine.DB) (string, error) {
	var b strings.Builder
	for i := range 6 {
		r, err := db.Memories().Recall(ctx, memory.Query{Scope: ada, Text: words[4*i] + " " + words[4*i+1], NoTouch: true, Limit: 10, Profile: memory.ProfileText})
		if err != nil {
			return "", err
		}
		for _, hit := range r.Hits {
			fmt.Fprintf(&b, "%s %.4f\n", hit.ID, hit.Score)
		}
	}
	return b.String(), nil
}

// rescue rescues a database, and looks at what became of it.
func rescue(ctx context.Context, files vfs.FS) (v view) {
	defer func() {
		if p := recover(); p != nil {
			v.said = fmt.Sprintf("PANIC: %v\n%s", p, debug.Stack())
		}
	}()
	before := read(files)
	db, report, err := rescueOn(ctx, files)
	if err != nil {
		return view{refused: true, said: err.Error()}
	}
	v = see(ctx, db)
	v.lost = report.Lost
	if err := db.Close(); err != nil {
		v.said += err.Error()
	}
	after := read(files)
	for name, content := range before {
		if !bytes.Equal(after[name], content) {
			v.said += " it has changed " + name
		}
	}
	if len(after) != len(before) {
		v.said += " it has made or removed files"
	}
	return v
}

const rescuedDir = "rescued"

func rescueOn(ctx context.Context, files vfs.FS) (*engine.DB, exchange.RescueReport, error) {
	left, err := engine.OpenRemains(ctx, fsys.On(files, dir), fsys.On(files, rescuedDir), options())
	if err != nil {
		return nil, exchange.RescueReport{}, err
	}
	o := exchange.NewDatabase(left.Settings())
	opts := o.Options()
	opts.MemoryBudget, opts.Clock = options().MemoryBudget, options().Clock
	db, err := engine.Open(fsys.On(files, rescuedDir), opts)
	if err != nil {
		return nil, exchange.RescueReport{}, errors.Join(err, left.Close())
	}
	report, err := exchange.RescueInto(ctx, left, db)
	if err = errors.Join(err, left.Close()); err != nil {
		return nil, report, errors.Join(err, db.Close())
	}
	return db, report, nil
}

func same(a, b []string) bool { return slices.Equal(a, b) }

// missing are the lines of a that b has not. Both are sorted.
func missing(a, b []string) (out []string) {
	for _, line := range a {
		if _, ok := slices.BinarySearch(b, line); !ok {
			out = append(out, line)
		}
	}
	return out
}

func intersection(a, b []string) (out []string) {
	for _, line := range a {
		if _, ok := slices.BinarySearch(b, line); ok {
			out = append(out, line)
		}
	}
	return out
}

func readFile(files vfs.FS, path string) []byte {
	f, err := files.Open(path)
	must(err)
	b, err := io.ReadAll(f)
	must(errors.Join(err, f.Close()))
	return b
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
