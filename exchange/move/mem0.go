package move

import (
	"hash/maphash"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// readMem0 reads the memories that mem0 lists, with the relations of its graph.
func readMem0(in *Input, w *writer) error {
	if in.IsSQLite() {
		return readMem0History(in, w)
	}
	ends := &mcpReader{writer: w, seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
	return eachUnder(in, w, "memory", []string{"results", "memories", "relations"}, func(at exchange.LineError, raw []byte) error {
		f, err := readFields(raw)
		if err != nil {
			return w.skip(at, err)
		}
		if f["relationship"] != nil {
			return ends.mem0Relation(at, f)
		}
		for _, key := range []string{"hash", "score", "event"} { // they follow from the text and from a query
			delete(f, key)
		}
		m, err := w.memoryOf(f)
		if err != nil {
			return w.skip(at, err)
		}
		m.Kind = memory.KindFact
		return w.memory(at, m)
	})
}

// mem0Relation gives a relation between two names, which are entities.
func (r *mcpReader) mem0Relation(at exchange.LineError, f fields) error {
	l := mcpLine{
		Type: "relation", From: f.text("source"), To: f.text("destination", "target"), RelationType: f.text("relationship"),
	}
	if err := l.check(); err != nil {
		return r.skip(at, err)
	}
	for key := range f {
		r.leave("of relations: "+key, 1)
	}
	return r.relation(at, &l, len(l.From)+len(l.To))
}
