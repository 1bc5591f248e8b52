package recovery

import (
	"fmt"
	"slices"
)

// maxProblems bounds a report: what is wrong a thousand times has one cause.
const maxProblems = 100

// Report is the result of a check.
type Report struct {
	// OK: there are no problems. Memories is how many are alive.
	OK       bool      `json:"ok"`
	Memories int       `json:"memories"`
	Problems []Problem `json:"problems"`
	// Erasing: an erasure has begun and is not done; what it deletes is in the files.
	Erasing bool `json:"erasing,omitempty"`
	// Spaces says what searches of each vector space find, in a deep check.
	Spaces []SpaceRecall `json:"spaces,omitempty"`
}

// SpaceRecall is what searches of a vector space find of its own vectors.
type SpaceRecall struct {
	// Name is that of the space.
	Name string `json:"name"`
	// Sampled vectors were looked for.
	Sampled int `json:"sampled"`
	// Recall is which share of the ten vectors closest to each the graph of the index finds, 0
	// to 1.
	Recall float64 `json:"recall"`
	// Asked is what a recall finds that chooses its way: for vectors that are stored, for
	// others away from them, for what lies half-way between two, and for the rarest ones.
	Asked []AskedRecall `json:"asked"`
}

// AskedRecall is what recalls of some kind find in a vector space.
type AskedRecall struct {
	// Kind is "stored", "away", "between" or "rare".
	Kind string `json:"kind"`
	// Sampled is how many queries were asked.
	Sampled int `json:"sampled"`
	// Recall is which share of the ten closest vectors they find, First how many of them find
	// the closest, 0 to 1.
	Recall float64 `json:"recall"`
	First  float64 `json:"first"`
}

// Problem is something that a check has found wrong.
type Problem struct {
	// Kind is what it is about, such as "memories" or "text index".
	Kind string `json:"kind"`
	What string `json:"what"`
	// ID is that of the memory, empty where it is about no memory or the ID is not known.
	ID string `json:"id"`
	// Remedy is the verb of memdbctl that mends it: "rebuild text", "rebuild vectors", "rebuild
	// graph", or "rescue", which makes a new database of all that is whole.
	Remedy string `json:"remedy"`
}

// String is what is wrong, and the remedy.
func (p Problem) String() string { return p.What }

// The indexes that can be made again.
const (
	IndexText    = "text"
	IndexVectors = "vectors"
	IndexGraph   = "graph"
)

const doingRebuild = "rebuild"

// The remedies.
const (
	RemedyRescue  = "rescue"
	RemedyRebuild = remedyRebuild + IndexText
)

// remedyRebuild begins the remedies that make an index anew.
const remedyRebuild = "rebuild "

// rebuilt are the kinds of problems that a rebuild of the text index mends.
var rebuilt = []string{"text index", "documents", "words", "filter values"}

func (r *Report) problem(kind, id, format string, args ...any) {
	remedy := RemedyRescue
	if slices.Contains(rebuilt, kind) {
		remedy = RemedyRebuild
	}
	r.add(remedy, kind, id, format, args...)
}

func (r *Report) add(remedy, kind, id, format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{Kind: kind, What: fmt.Sprintf(format, args...), ID: id, Remedy: remedy})
	}
}
