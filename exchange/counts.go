package exchange

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/scope"
)

const (
	// mostNames bounds the names of Counts and Mapped: the file of a stranger may have any number.
	mostNames = 100
	// otherNames has what came after so many.
	otherNames = "others"
)

// Counts are numbers by name. Names beyond the first hundred are counted together.
type Counts map[string]int

// Add adds n, which may be 0, to a name.
func (c Counts) Add(name string, n int) {
	if n == 0 {
		return
	}
	if _, ok := c[name]; !ok && len(c) >= mostNames {
		name = otherNames
	}
	c[name] += n
}

// AddAll adds other counts.
func (c Counts) AddAll(of Counts) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		c.Add(name, of[name])
	}
}

// Mapped says which field of a memory the keys of records became, such as "body": "text" and
// "mood": "metadata.mood". A key that became several has them all, with commas between.
type Mapped map[string]string

// Add notes what a key became. A field of the same name goes without saying.
func (m Mapped) Add(key, field string) {
	was, ok := m[key]
	if key == field || was == field {
		return
	}
	switch {
	case ok && slices.Contains(strings.Split(was, ", "), field):
	case ok:
		m[key] = was + ", " + field
	case len(m) < mostNames:
		m[key] = field
	default:
		m[otherNames] = "metadata"
	}
}

// Sample is a record that an import has read, as a line of an export.
type Sample struct {
	Kind  string // the type of its line
	Owner scope.Owner
	Line  any // the line, or a Record
}

// Whose names the owner of the record: "user/agent".
func (s *Sample) Whose() string { return s.Owner.User + "/" + s.Owner.Agent }

// kind counts a record that could be read, and keeps it if it is one of the first of its kind.
func (b *batch) kind(kind string, of scope.Owner, line func() any) {
	if b.report.Kinds[kind]++; b.report.Kinds[kind] > b.opts.Samples {
		return
	}
	text, err := json.Marshal(line()) // as it is now
	if err == nil {
		b.report.Samples = append(b.report.Samples, Sample{kind, of, json.RawMessage(text)})
	}
}
