package memory

import "time"

// WhyReason is why a recall finds a memory, or does not.
type WhyReason string

// The reasons.
const (
	WhyFound WhyReason = "found"
	// WhyDeleted, WhyExpired: nobody remembers it any more.
	WhyDeleted WhyReason = "deleted"
	WhyExpired WhyReason = "expired"
	// WhyFilter: the filter does not hold for it.
	WhyFilter WhyReason = "filter"
	// WhyDemanded: the operators of the query demand what it lacks, or exclude it.
	WhyDemanded WhyReason = "demanded"
	// WhyNoWords: the query has no word to look for, and nothing else that ranks.
	WhyNoWords WhyReason = "no_words"
	// WhyNoMatch: nothing of the query speaks for it.
	WhyNoMatch WhyReason = "no_match"
	// WhyNoVector: the profile ranks by vectors, and it has none to compare with.
	WhyNoVector WhyReason = "no_vector"
	// WhyNoCandidate: something speaks for it, but neither its text nor its vector is among the
	// best, which alone are ranked: see docs/recall.md.
	WhyNoCandidate WhyReason = "no_candidate"
	// WhyMissed: it is among the first, and the walk over the graph of the vectors has missed it.
	WhyMissed WhyReason = "missed"
	// WhyMinScore: its score is below the least one of the query.
	WhyMinScore WhyReason = "min_score"
	// WhyLimit: at least as many as the limit stand before it.
	WhyLimit WhyReason = "limit"
)

// Why says why a recall finds a memory, or does not.
type Why struct {
	// ID is that of the memory, and Memory what is known of it.
	ID     string    `json:"id"`
	Memory WhyMemory `json:"memory"`
	// Found: the recall finds it. Reason is why, or why not.
	Found  bool      `json:"found"`
	Reason WhyReason `json:"reason"`
	// Filter are the conditions of the filter that do not hold for it.
	Filter []string `json:"filter,omitempty"`
	// Terms are those that the query looks for, each with what it gives the  Languages
	// are those in which the query was read, as codes of ISO 639-1.
	Terms     []WhyTerm `json:"terms"`
	Languages []string  `json:"languages"`
	// Vector is what the profile makes of the memory's vector, nil where it looks at none.
	Vector *WhyVector `json:"vector,omitempty"`
	// Rank is the place of the memory, from 1 on, and Score what it has; 0 where it is not ranked.
	// Ranked is how many memories are.
	Rank   int     `json:"rank"`
	Score  float64 `json:"score"`
	Ranked int     `json:"ranked"`
	// Near: words near those of the query alone speak for it.
	Near     bool    `json:"near,omitempty"`
	Limit    int     `json:"limit"`
	MinScore float64 `json:"min_score,omitempty"`
	// Parts are those of its score, and where each alone would rank it.
	Parts []WhyPart `json:"parts"`
	// Before are the first of those that stand before it, up to the limit: of a memory that is not
	// ranked what the recall finds in its place.
	Before []WhyHit `json:"before"`
	// Plan is that of the recall, nil where it was not asked.
	Plan *Plan `json:"plan,omitempty"`
}

// WhyMemory is the memory that is asked about.
type WhyMemory struct {
	Scope
	// Kind, CreatedAt and ExpiresAt are as in the memory; nil where it does not expire.
	Kind      Kind       `json:"kind"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// DeletedAt is when it was deleted, DeletedFor the reason where nobody named the memory, and
	// Into the memory that it was merged into.
	DeletedAt  *time.Time `json:"deleted_at,omitempty"`
	DeletedFor Reason     `json:"deleted_for,omitempty"`
	Into       string     `json:"into,omitempty"`
	// Languages are those of its text, as codes of ISO 639-1, and Terms those that it is found by,
	// the first 100 in their order; TermCount is how many there are.
	Languages []string `json:"languages"`
	Terms     []string `json:"terms"`
	TermCount int      `json:"term_count"`
}

// WhyTerm is a term of the query.
type WhyTerm struct {
	// Term is as the text index holds it.
	Term string `json:"term"`
	// Near: it is none of the query's, but near one.
	Near bool `json:"near,omitempty"`
	// Memories is how many of those in scope have it.
	Memories int64 `json:"memories"`
	// Has: the memory has it, and BM25 is what the term gives it.
	Has  bool    `json:"has"`
	BM25 float64 `json:"bm25"`
}

// WhyVector is a vector beside that of the query.
type WhyVector struct {
	// Space is the one that is searched.
	Space string `json:"space,omitempty"`
	// Similarity is what the profile ranks by; nil where the memory has no vector to compare with.
	Similarity *float64 `json:"similarity"`
	// Pending: its text is still to be embedded.
	Pending bool `json:"pending,omitempty"`
}

// WhyPart is a part of a score, by its name in JSON.
type WhyPart struct {
	// Part is its name.
	Part string `json:"part"`
	// Value is what the memory has of it, Most the most that a memory has.
	Value float64 `json:"value"`
	Most  float64 `json:"most"`
	// Rank is the place that the part alone would give the memory: 1 + how many have more.
	Rank int `json:"rank"`
}

// WhyHit is a memory that stands before another one.
type WhyHit struct {
	// ID and Text are of the memory, Score and Parts what the query gives it. Near is as in a Hit.
	ID    string  `json:"id"`
	Text  string  `json:"text"`
	Score float64 `json:"score"`
	Near  bool    `json:"near,omitempty"`
	Parts Signals `json:"parts"`
}
