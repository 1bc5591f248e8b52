package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/chart"
	"github.com/seed-7aedc3ff/memdb/internal/clock"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
)

// everyone is what a scope means, or everything where it names nobody.
func everyone(s memory.Scope) memory.ListQuery {
	q := memory.ListQuery{Scope: s, Limit: memory.MaxLimit}
	q.AllScopes = s == memory.Scope{}
	return q
}

// growth is how many memories there are, by when they were created.
type growth struct {
	created map[string][]int64 // by kind, in Unix milliseconds, rising
	all     []int64
}

func grown(ctx context.Context, db *engine.DB, s memory.Scope) (*growth, error) {
	g := &growth{created: map[string][]int64{}}
	for m, err := range db.Memories().All(ctx, everyone(s)) {
		if err != nil {
			return nil, err
		}
		at := m.CreatedAt.UnixMilli()
		g.created[string(m.Kind)] = append(g.created[string(m.Kind)], at)
		g.all = append(g.all, at)
	}
	slices.Sort(g.all)
	for _, times := range g.created {
		slices.Sort(times)
	}
	return g, nil
}

// growthPoints is how many points a curve of growth has.
const growthPoints = 240

// span is the time that the picture shows: that of all memories, and at least ten seconds.
func (g *growth) span() (from, to int64) {
	if len(g.all) == 0 {
		return 0, 10_000
	}
	from, to = g.all[0], g.all[len(g.all)-1]
	return from, max(to, from+10_000)
}

// steps are the times at which there is a point, in Unix milliseconds.
func (g *growth) steps(n int) (at []int64) {
	from, to := g.span()
	for i := range n + 1 {
		at = append(at, from+(to-from)*int64(i)/int64(n))
	}
	return at
}

// until is how many of rising times are not after one.
func until(times []int64, at int64) int {
	n, _ := slices.BinarySearch(times, at+1)
	return n
}

// kinds are those that there are, the most common first.
func (g *growth) kinds() []string {
	return slices.SortedFunc(maps.Keys(g.created), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(g.created[b]), len(g.created[a])), cmp.Compare(a, b))
	})
}

// mostKinds bounds the curves beside that of all.
const mostKinds = 5

func (g *growth) chart() picture {
	from, to := g.span()
	c := &chart.Chart{
		Title: "Memories, by when they were created", X: "time (UTC)", Y: "memories", From: float64(from), To: float64(to), Linear: true, Marks: timeMarks(from, to),
		Notes: []string{count(len(g.all), "memory", "memories") + " that live now; what was deleted is not among them"},
	}
	curve := func(name string, times []int64) {
		s := chart.Series{Name: fmt.Sprintf("%s: %s", name, number(len(times)))}
		for _, at := range g.steps(growthPoints) {
			s.Points = append(s.Points, chart.Point{X: float64(at), Y: float64(until(times, at))})
		}
		c.Series = append(c.Series, s)
	}
	curve("all", g.all)
	if kinds := g.kinds(); len(kinds) > 1 {
		for _, kind := range kinds[:min(len(kinds), mostKinds)] {
			curve(kind, g.created[kind])
		}
	}
	return c
}

// timeMarks are the names of times on an axis.
func timeMarks(from, to int64) (marks []chart.Mark) {
	form := "2006-01-02"
	switch span := time.Duration(to-from) * time.Millisecond; {
	case span < 10*time.Minute:
		form = "15:04:05"
	case span < 4*24*time.Hour:
		form = "01-02 15:04"
	}
	const parts = 5
	for i := range int64(parts + 1) {
		at := from + (to-from)*i/parts
		marks = append(marks, chart.Mark{X: float64(at), Name: clock.FromMillis(at).Format(form)})
	}
	return marks
}

// grownRows is how many rows a growth has in print.
const grownRows = 12

func (a *app) printGrown(g *growth) error {
	if len(g.all) == 0 {
		return nil
	}
	for _, at := range g.steps(grownRows) {
		kinds := map[string]int{}
		for kind, times := range g.created {
			kinds[kind] = until(times, at)
		}
		if a.json {
			if err := a.printJSON(map[string]any{"at": clock.FromMillis(at), "memories": until(g.all, at), "kinds": kinds}); err != nil {
				return err
			}
			continue
		}
		a.printf("%s\t%d\n", clock.FromMillis(at).Format(time.RFC3339), until(g.all, at))
	}
	return nil
}

// storedPoints is at how many times the log is asked: each time the keys of all records are read.
const storedPoints = 24

// stored is how many of the memories that live there were at times, by the log.
type stored struct {
	points []storedPoint
	whole  bool // the log reaches back to the first commit
}

type storedPoint struct {
	at       time.Time
	memories int64
}

func storedBy(ctx context.Context, db *engine.DB, now time.Time) (*stored, error) {
	all, err := db.Memories().Count(ctx, memory.ListQuery{AllScopes: true})
	if err != nil {
		return nil, err
	}
	first, err := db.GrowthSince(ctx, db.Settings().CreatedAt)
	if err != nil {
		return nil, err
	}
	g := &stored{whole: first.Whole}
	from := min(first.Since.UnixMilli(), now.UnixMilli())
	for i := range int64(storedPoints + 1) {
		at := clock.FromMillis(from + (now.UnixMilli()-from)*i/storedPoints)
		since, err := db.GrowthSince(ctx, at.Add(time.Millisecond)) // what was stored at that time counts
		if err != nil {
			return nil, err
		}
		g.points = append(g.points, storedPoint{at, int64(all) - since.Living})
	}
	return g, nil
}

func (g *stored) chart() picture {
	from, to := g.points[0].at.UnixMilli(), g.points[len(g.points)-1].at.UnixMilli()
	to = max(to, from+10_000)
	c := &chart.Chart{
		Title: "Memories, by when they were stored", X: "time (UTC)", Y: "memories", From: float64(from), To: float64(to), Linear: true, Marks: timeMarks(from, to),
		Notes: []string{"of those that live now, by the log of the commits; what was deleted is not among them"},
	}
	if !g.whole {
		c.Notes = append(c.Notes, "the log is kept from the beginning of the curve on")
	}
	s := chart.Series{Name: "all: " + number(int(g.points[len(g.points)-1].memories))}
	for _, p := range g.points {
		s.Points = append(s.Points, chart.Point{X: float64(p.at.UnixMilli()), Y: float64(p.memories)})
	}
	c.Series = []chart.Series{s}
	return c
}

func (a *app) printStoredBy(g *stored) error {
	for _, p := range g.points {
		if !a.json {
			a.printf("%s\t%d\n", p.at.Format(time.RFC3339), p.memories)
		} else if err := a.printJSON(map[string]any{"at": p.at, "memories": p.memories}); err != nil {
			return err
		}
	}
	return nil
}

// latency is how long recalls took, by profile.
type latency struct {
	queries int
	took    map[memory.Profile][]time.Duration // rising
}

// latencyProfiles are those that are measured, by their name in the picture.
var latencyProfiles = []struct {
	profile memory.Profile
	name    string
}{{memory.ProfileBest, "best: words, vectors, importance and recency"}, {memory.ProfileText, "text: words alone"}}

// queryWords is how many words of a text are asked for.
const queryWords = 8

// recalled asks for texts of the database.
func recalled(ctx context.Context, db *engine.DB, queries int) (*latency, error) {
	asked, err := questions(ctx, db, queries)
	if err != nil {
		return nil, err
	}
	l := &latency{queries: len(asked), took: map[memory.Profile][]time.Duration{}}
	for _, p := range latencyProfiles {
		for i, q := range asked {
			q.Profile = p.profile
			if i == 0 { // what is loaded by the first recall is not what recalls take
				if _, err := db.Memories().Recall(ctx, q); err != nil {
					return nil, err
				}
			}
			began := clock.System()
			if _, err := db.Memories().Recall(ctx, q); err != nil {
				return nil, err
			}
			l.took[p.profile] = append(l.took[p.profile], clock.System().Sub(began))
		}
		slices.Sort(l.took[p.profile])
	}
	return l, nil
}

// questions are the first words of texts, chosen evenly among all.
func questions(ctx context.Context, db *engine.DB, most int) (asked []memory.Query, err error) {
	all, err := db.Memories().Count(ctx, memory.ListQuery{AllScopes: true})
	if err != nil {
		return nil, err
	}
	step := max(all/most, 1)
	n := 0
	for m, err := range db.Memories().All(ctx, everyone(memory.Scope{})) {
		if err != nil {
			return nil, err
		}
		if n++; (n-1)%step != 0 || len(asked) == most {
			continue
		}
		words := strings.Fields(m.Text)
		if len(words) == 0 {
			continue
		}
		asked = append(asked, memory.Query{Scope: m.Scope, Text: strings.Join(words[:min(len(words), queryWords)], " "), NoTouch: true, Limit: 10})
	}
	if len(asked) == 0 {
		return nil, &memory.Error{Kind: memory.ErrNotFound, What: "plot the latency", Why: "the database has no texts to ask for", Do: "store or import something"}
	}
	return asked, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (l *latency) chart() picture {
	c := &chart.Chart{
		Title: "How long recalls take", X: "percent of the recalls", Y: "ms", From: 0, To: 100, Step: 10,
		Notes: []string{count(l.queries, "query", "queries") + " of the first words of texts in the database, each within its user, agent and run; ten hits"},
	}
	for _, p := range latencyProfiles {
		took := l.took[p.profile]
		s := chart.Series{Name: fmt.Sprintf("%s; median %.2f ms, 99th percentile %.2f ms", p.name, millis(percentile(took, 50)), millis(percentile(took, 99)))}
		for percent := 1; percent <= 100; percent++ {
			s.Points = append(s.Points, chart.Point{X: float64(percent), Y: millis(percentile(took, percent))})
		}
		c.Series = append(c.Series, s)
	}
	return c
}

func (a *app) printRecalled(l *latency) error {
	for _, p := range latencyProfiles {
		took := l.took[p.profile]
		figures := map[string]any{"profile": p.profile, "queries": l.queries}
		for _, percent := range []int{50, 90, 99, 100} {
			figures[fmt.Sprintf("p%d_ms", percent)] = millis(percentile(took, percent))
		}
		if a.json {
			if err := a.printJSON(figures); err != nil {
				return err
			}
			continue
		}
		a.printf("%s\t%s\tp50 %.2f ms\tp90 %.2f ms\tp99 %.2f ms\tmax %.2f ms\n", p.profile, count(l.queries, "query", "queries"),
			figures["p50_ms"], figures["p90_ms"], figures["p99_ms"], figures["p100_ms"])
	}
	return nil
}

// ages are memories by their age, and which of them go.
type ages struct {
	rows    []ageRow
	reasons []policy.Reason // in the order of their names
	all     int
	gone    int
}

type ageRow struct {
	name  string
	below time.Duration // the age is less; 0: any
	stay  int
	goes  map[policy.Reason]int
}

const day = 24 * time.Hour

// agedBy counts memories by age, and asks the policy which of them go.
func agedBy(ctx context.Context, db *engine.DB, s memory.Scope, now time.Time) (*ages, error) {
	victims := map[memory.Scope]map[string]policy.Reason{}
	report, err := db.Evict(ctx, &engine.EvictOptions{Scope: s, DryRun: true, Visit: func(v engine.Victim) error {
		of := memory.Scope{User: v.User, Agent: v.Agent}
		if victims[of] == nil {
			victims[of] = map[string]policy.Reason{}
		}
		victims[of][v.ID] = v.Reason
		return nil
	}})
	if err != nil {
		return nil, err
	}
	g := &ages{gone: report.Evicted, reasons: slices.Sorted(maps.Keys(report.Reasons)), rows: []ageRow{
		{name: "less than a day", below: day},
		{name: "1 to 7 days", below: 7 * day},
		{name: "7 to 30 days", below: 30 * day},
		{name: "30 to 90 days", below: 90 * day},
		{name: "90 to 365 days", below: 365 * day},
		{name: "365 days and more"},
	}}
	for m, err := range db.Memories().All(ctx, everyone(s)) {
		if err != nil {
			return nil, err
		}
		g.all++
		age := now.Sub(m.CreatedAt)
		row := &g.rows[slices.IndexFunc(g.rows, func(r ageRow) bool { return r.below == 0 || age < r.below })]
		if reason, ok := victims[memory.Scope{User: m.Scope.User, Agent: m.Scope.Agent}][m.ID]; ok {
			if row.goes == nil {
				row.goes = map[policy.Reason]int{}
			}
			row.goes[reason]++
		} else {
			row.stay++
		}
	}
	return g, nil
}

func (g *ages) chart() picture {
	c := &chart.Bars{Title: "What the next eviction takes, by age", X: "memories", Series: []string{"stay"}, Notes: []string{
		fmt.Sprintf("%s of %s would go by the policy of now", number(g.gone), count(g.all, "memory", "memories")),
	}}
	for _, r := range g.reasons {
		c.Series = append(c.Series, "go: "+string(r))
	}
	for _, row := range g.rows {
		values := []float64{float64(row.stay)}
		for _, r := range g.reasons {
			values = append(values, float64(row.goes[r]))
		}
		c.Rows = append(c.Rows, chart.Row{Name: row.name, Values: values})
	}
	return c
}

func (a *app) printAged(g *ages) error {
	for _, row := range g.rows {
		goes := 0
		for _, n := range row.goes {
			goes += n
		}
		if a.json {
			reasons := row.goes
			if reasons == nil {
				reasons = map[policy.Reason]int{}
			}
			if err := a.printJSON(map[string]any{"age": row.name, "stay": row.stay, "go": goes, "reasons": reasons}); err != nil {
				return err
			}
			continue
		}
		a.printf("%s\t%d stay\t%d go\n", row.name, row.stay, goes)
	}
	return nil
}
