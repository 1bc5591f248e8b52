package hnsw

// Told is what a search says of its answer.
type Told struct {
	// Way is how the answer was found: by Sweep or Within, which walk over the graph, by
	// Cascade, or by Flat.
	Way Strategy
	// Certain: no better row was missed.
	Certain bool
	// Miss is the chance at most that a certain one of the best rows was missed, where it is
	// known: by Cascade.
	Miss float64
	// Unsure: a walk ended although it could not tell whether there are better rows.
	Unsure bool
}

// tell fills in what a search that has ended says of its answer.
func (r *searcher) tell(s *Search) {
	switch r.told.Way {
	case Flat:
		// By sketches one hit in ten millions is given up.
		r.told.Certain = r.beam.sketches == nil
	case Cascade:
		r.told.Miss = CellMiss
	}
	if s.Told != nil {
		*s.Told = r.told
	}
}
