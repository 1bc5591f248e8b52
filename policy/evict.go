package policy

import (
	"cmp"
	"time"
)

// Reason is why a rule takes a memory.
type Reason string

// The reasons.
const (
	Age           Reason = "age"        // older than MaxAge, not accessed for so long, and less important than MinImportance
	LowConfidence Reason = "confidence" // a confidence below MinConfidence
	Cap           Reason = "cap"        // its owner has more than Cap
	Expired       Reason = "expired"    // its time is over
	Pruned        Reason = "pruned"     // a decayed importance below PruneBelow
	Merged        Reason = "merged"
	Caller        Reason = "caller" // a verdict of the program
)

// Facts are what the rules look at of a memory.
type Facts struct {
	Age        time.Duration // since its creation
	Idle       time.Duration // since its last access, or its creation
	Importance float64       // stored
	Confidence float64       // now
	Expired    bool
}

// Evicts returns why a memory is to be evicted by itself, empty where it is not. The first of these holds: it has
// expired; its age; its confidence. Whether its kind is one of Kinds, and whether it is pinned, the caller has looked at.
func (p *Policy) Evicts(f *Facts) Reason {
	switch {
	case f.Expired:
		return Expired
	case p.old(f) && f.Importance < p.MinImportance:
		return Age
	case f.Confidence < p.MinConfidence:
		return LowConfidence
	}
	return ""
}

// old reports whether a memory is older than MaxAge and, but in the preset agentos, was not accessed for so long.
func (p *Policy) old(f *Facts) bool {
	return f.Age > time.Duration(p.MaxAge) && (p.Preset == PresetAgentOS || f.Idle > time.Duration(p.MaxAge))
}

// ReadsTexts reports whether what a text says counts for its importance when it is old: in the preset default, unless
// MinImportance asks for more than any text has by that.
func (p *Policy) ReadsTexts() bool {
	return p.Preset == PresetDefault && p.MinImportance <= ImportanceWithContent
}

// MayEvict reports whether Evicts may take one of many memories, for its age or its confidence, of whom is known the
// greatest age, and the least importance and confidence now.
func (p *Policy) MayEvict(age time.Duration, importance, confidence float64) bool {
	return age > time.Duration(p.MaxAge) && importance < p.MinImportance || confidence < p.MinConfidence
}

// Prunes reports whether the importance of a memory has decayed below PruneBelow.
func (p *Policy) Prunes(f *Facts) bool {
	return p.PruneBelow > 0 && DecayedImportance(f.Importance, p.DailyRetention, f.Idle) < p.PruneBelow
}

// Place is what decides which memories of an owner go first where there are too many.
type Place struct {
	// Importance is what the least of goes first.
	Importance float64
	Last       int64 // the last access, or the creation, in Unix milliseconds
	Seq        uint64
}

// Compare orders memories by who goes first: the less important, then those accessed longer ago, then the lower Seq.
func (a Place) Compare(b Place) int {
	return cmp.Or(cmp.Compare(a.Importance, b.Importance), cmp.Compare(a.Last, b.Last), cmp.Compare(a.Seq, b.Seq))
}
