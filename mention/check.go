package mention

import (
	"fmt"
	"slices"

	"github.com/seed-7aedc3ff/memdb/internal/valid"
)

// Refusal is why what an extractor has found cannot be stored, empty where it can: it has more
// entities or relations than one text may have, or one that is not as an extractor gives it.
func (f *Found) Refusal() string {
	switch {
	case len(f.Entities) > MaxEntities:
		return fmt.Sprintf("it returned %d entities of one text, the limit is %d", len(f.Entities), MaxEntities)
	case len(f.Relations) > MaxRelations:
		return fmt.Sprintf("it returned %d relations of one text, the limit is %d", len(f.Relations), MaxRelations)
	}
	known := make(map[string]bool, len(f.Entities))
	for i := range f.Entities {
		e := &f.Entities[i]
		switch {
		case Clean(e.Name, MaxName) != e.Name || e.Name == "" || valid.Word("", "", e.Name) != nil:
			return fmt.Sprintf("it returned the name %.80q, which is empty, longer than %d bytes, or has surplus blanks or control characters", e.Name, MaxName)
		case !slices.Contains(Types, e.Type) && e.Type != Date:
			return fmt.Sprintf("it returned %.80q of the type %.80q, which is none of the seven and no date", e.Name, e.Type)
		case len(e.Description) > MaxDescription:
			return fmt.Sprintf("it returned a description of %d bytes, the limit is %d", len(e.Description), MaxDescription)
		}
		known[Fold(e.Name)] = true
	}
	for _, t := range f.Relations {
		if !known[Fold(t.Source)] || !known[Fold(t.Target)] || t.Relation == "" || Clean(t.Relation, MaxName) != t.Relation || valid.Word("", "", t.Relation) != nil {
			return fmt.Sprintf("it returned the relation %.80q from %.80q to %.80q, which has no kind, or an end that is no entity of the text", t.Relation, t.Source, t.Target)
		}
	}
	return ""
}
