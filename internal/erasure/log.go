package erasure

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/graph"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/kv"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

// The changes in a record of the log have no lengths, and some end where the next begins. So a
// record is read by the forms of its changes: each way in which it may be read is tried until one
// has as many changes as the head says, and nothing left over.

// The forms of the operations, by what stands in their bodies: o an owner, s a Seq, u another
// uvarint, v a varint, b a byte, i 8 bytes, f 16 bytes, t a string, j a JSON value, r a run, and a
// list in parentheses, behind its length. An operation may have several forms.
var logForms = map[byte][]string{
	1: {"osu"}, 2: {"osuuu"}, 3: {"osuu"}, 4: {"u"}, 5: {"(osuv)"}, 8: {""}, 9: {"osu"}, 10: {""}, 11: {"(u)"}, 12: {""},
	43: {"(osuvvu)"}, 44: {"ubu(u)"}, 47: {"(u)(u)"}, 48: {""},
	6: {"ott"}, 7: {"ot"}, 15: {"o"}, 16: {"o"},
	20: {"ouhj", "ouh"}, 21: {"ouuuu"}, 22: {"ouuuu"}, 23: {"ouuu"}, 24: {"ouuu", "ou"}, 25: {"o"},
	41: {"bj"}, 42: {"r"}, 45: {"bbv", "bbvu"}, 46: {"ibvbuu(buuuuii)", "ibvbu", "ib", "i"},
	60: {"out"}, 61: {"obut"}, 62: {"o(uuuut)"}, 63: {"ou"}, 64: {"of"}, 65: {"ou"}, 66: {"ous"}, 67: {"ous"}, 68: {"o"}, 69: {"oft"},
	70: {"ouu(f)b(ub)"}, 71: {"ouu(f)b(ub)"}, 72: {"ous"}, 73: {"ouut"}, 74: {"ofs"}, 75: {"ofs"}, 76: {"of"}, 77: {"os"}, 78: {"o"}, 79: {"out"},
	80: {"ott"}, 81: {"o"}, 82: {"ott", "ot"}, 83: {"ott", "ot"}, 84: {"ott"}, 85: {"ot"},
}

// Change is a change in a record of the log.
type Change struct {
	op     byte
	body   []byte
	owners []uint32
	seqs   []uint64 // of each owner, 0 where the form has none
}

// Op is the operation of the change.
func (c *Change) Op() byte { return c.op }

// logParser reads the changes of a record.
type logParser struct {
	steps int
	found []Change
}

// mostLogSteps bounds the ways that are tried, for each change of a record.
const mostLogSteps = 64

// changes reads a body of so many changes, and reports whether it could.
func (p *logParser) changes(b []byte, n uint64) bool {
	if n > uint64(len(b)) {
		return false
	}
	p.steps = mostLogSteps * (int(n) + 1)
	return p.from(b, n)
}

func (p *logParser) from(b []byte, n uint64) bool {
	if p.steps--; p.steps < 0 {
		return false
	}
	if n == 0 || len(b) == 0 {
		return n == 0 && len(b) == 0
	}
	at := len(p.found)
	for _, form := range logForms[b[0]] {
		c := Change{op: b[0]}
		r := codec.NewReader(b[1:])
		if !c.read(r, form) {
			continue
		}
		c.body = b[1 : len(b)-r.Len()]
		p.found = append(p.found[:at], c)
		if p.from(r.Rest(), n-1) {
			return true
		}
	}
	return false
}

// read reads a body of a form, and reports whether it has it.
func (c *Change) read(r *codec.Reader, form string) bool {
	for len(form) > 0 && r.Err() == nil {
		if form[0] == '(' {
			end := strings.IndexByte(form, ')')
			for range r.Count() {
				if !c.read(r, form[1:end]) {
					return false
				}
			}
			form = form[end+1:]
			continue
		}
		c.field(r, form[0])
		form = form[1:]
	}
	return r.Err() == nil
}

func (c *Change) field(r *codec.Reader, kind byte) {
	switch kind {
	case 'o':
		c.owners, c.seqs = append(c.owners, r.Uint32()), append(c.seqs, 0)
	case 's':
		c.seqs[len(c.seqs)-1] = r.Uvarint()
	case 'u':
		r.Uvarint()
	case 'v':
		r.Varint()
	case 'b':
		r.Byte()
	case 'i':
		r.Float64() // 8 bytes
	case 'f':
		r.Float64()
		r.Float64()
	case 't':
		r.Bytes()
	case 'h': // the head of a session
		r.Byte()
		for range 4 {
			r.Bytes()
		}
		r.Uvarint()
		for range 3 {
			r.Varint()
		}
		for range 2 + 5 + 5 {
			r.Uvarint()
		}
	case 'r': // a consolidation
		r.Byte()
		r.Varint()
		r.Float64()
		r.Varint()
		r.Float64()
		r.Uvarint()
		r.Bytes()
		r.Bytes()
		last := uint32(0)
		for range r.Count() {
			last += r.Uint32()
			c.owners, c.seqs = append(c.owners, last), append(c.seqs, 0)
		}
	case 'j':
		d := json.NewDecoder(strings.NewReader(string(r.Rest())))
		var v json.RawMessage
		if d.Decode(&v) != nil {
			r.Skip(r.Len() + 1) // fails
			return
		}
		r.Skip(int(d.InputOffset()))
	}
}

// ReadLog visits the records of the log, as far as their changes can be told apart.
func ReadLog(ctx context.Context, r kv.Reader, keys *layout.Keys, visit func(lsn uint64, changes []Change)) error {
	lower, upper := keys.Span(layout.KindLog)
	return kv.Scan(r, lower, upper, func(key, value []byte) error {
		head, n, err := layout.SplitLog(value)
		if lsn, ok := layout.ParseLSNKey(key); err == nil && ok {
			if p := (logParser{}); p.changes(value[head.Len():], n) {
				visit(lsn, p.found)
			}
		}
		return ctx.Err()
	})
}

// TraceLog notes what the log has in the graph of memories that are erased: what the commits name that wrote or deleted
// one. What of it is still there is left out later.
func (e *Erasure) TraceLog(ctx context.Context, r kv.Reader, keys *layout.Keys) (err error) {
	if e.Graph, err = graph.DecodeTraces(e.Traces); err != nil {
		return err
	}
	commits := map[uint64]bool{}
	for _, lsn := range e.Commits {
		commits[lsn] = true
	}
	return ReadLog(ctx, r, keys, func(lsn uint64, changes []Change) {
		if !commits[lsn] && !slices.ContainsFunc(changes, func(c Change) bool { return e.about(&c) }) {
			return
		}
		for i := range changes {
			if c := &changes[i]; isGraphOp(c.op) && e.owners[c.owners[0]] {
				e.Graph.Note(part.Op(c.op), c.body)
			}
		}
	})
}

// TraceTypes notes which types of the graph nothing in the log has any more.
func (e *Erasure) TraceTypes(ctx context.Context, r kv.Reader, keys *layout.Keys) error {
	return ReadLog(ctx, r, keys, func(_ uint64, changes []Change) {
		for i := range changes {
			e.Graph.Unused(part.Op(changes[i].op), changes[i].body)
		}
	})
}

// about reports whether a change is of a memory that is erased.
func (e *Erasure) about(c *Change) bool {
	for i, owner := range c.owners {
		if e.owners[owner] && e.seqs[c.seqs[i]] {
			return true
		}
	}
	return false
}

// WithoutMemories is a record of the log without what is erased, nil where it has nothing of it.
func (e *Erasure) WithoutMemories(value []byte) []byte { return e.logWithout(value, e.left) }

// WithoutTypes is a record of the log without the types of the graph that are erased, nil where it has none.
func (e *Erasure) WithoutTypes(value []byte) []byte { return e.logWithout(value, e.leftOfTypes) }

// logWithout is a record of the log without what is erased, nil where it has nothing of it. left returns
// what stays of a change.
func (e *Erasure) logWithout(value []byte, left func(c *Change) []byte) []byte {
	head, n, err := layout.SplitLog(value)
	if err != nil {
		return nil // which check reports
	}
	body := value[head.Len():]
	var p logParser
	if !p.changes(body, n) { // whose it is, nobody can tell
		return head.With(1, []byte{byte(layout.LogErased)})
	}
	var out []byte
	changed := false
	for i := range p.found {
		c := &p.found[i]
		rest := left(c)
		changed = changed || rest == nil || len(rest) != len(c.body)+1
		if rest == nil {
			rest = []byte{byte(layout.LogErased)}
		}
		out = append(out, rest...)
	}
	if !changed {
		return nil
	}
	return head.With(n, out)
}

// The operations of the graph in the log.
const firstGraphOp, lastGraphOp = 60, 79

func isGraphOp(op byte) bool { return op >= firstGraphOp && op <= lastGraphOp }

// left is what stays of a change, with its operation; nil where nothing does.
func (e *Erasure) left(c *Change) []byte {
	whole := append([]byte{c.op}, c.body...)
	ours := func(i int) bool { return e.owners[c.owners[i]] && (e.seqs == nil || e.seqs[c.seqs[i]]) }
	switch layout.LogOp(c.op) {
	case layout.LogErase, layout.LogErased:
		return whole
	case layout.LogTouch, layout.LogFold:
		return c.accesses(func(i int) bool { return !ours(i) })
	}
	if len(c.owners) == 0 {
		return whole
	}
	if c.op == opConsolidated { // of several owners: it goes if it was for no other
		for i := range c.owners {
			if e.seqs != nil || !ours(i) {
				return whole
			}
		}
		return nil
	}
	switch {
	case ours(0):
		return nil
	case e.seqs != nil && isGraphOp(c.op):
		return c.without(e.Graph.Left(part.Op(c.op), c.body, false))
	}
	return whole
}

// leftOfTypes is what stays of a change once types of the graph are erased.
func (e *Erasure) leftOfTypes(c *Change) []byte {
	if !isGraphOp(c.op) {
		return append([]byte{c.op}, c.body...)
	}
	return c.without(e.Graph.Left(part.Op(c.op), c.body, true))
}

// without is the change with another body, nil for none.
func (c *Change) without(body []byte) []byte {
	if body == nil {
		return nil
	}
	return append([]byte{c.op}, body...)
}

// opConsolidated is the operation of a consolidation, of package policy.
const opConsolidated = 42

// accesses is a change of the accesses of several memories with those that stay.
func (c *Change) accesses(stays func(i int) bool) []byte {
	r := codec.NewReader(c.body)
	n, kept := r.Count(), 0
	var out []byte
	for i := range n {
		before := r.Rest()
		var of Change
		of.read(r, logForms[c.op][0][1:len(logForms[c.op][0])-1])
		if stays(i) {
			out = append(out, before[:len(before)-len(r.Rest())]...)
			kept++
		}
	}
	switch kept {
	case n:
		return append([]byte{c.op}, c.body...)
	case 0:
		return nil
	}
	return append(binary.AppendUvarint([]byte{c.op}, uint64(kept)), out...)
}
