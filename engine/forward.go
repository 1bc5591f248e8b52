package engine

import (
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

// forwardRecord is all that the tables and indexes need of a document of a chunk that is
// in RAM, so that opening reads no memories.
type forwardRecord struct {
	layout.Row
	idx invindex.Doc
}

func (p *pendingVersion) appendForward(b []byte) []byte {
	r := layout.Row{
		Version: p.Version, Run: p.run, Created: p.rec.Created, Expires: p.rec.Expires,
		Importance: p.rec.Importance, Confidence: p.rec.Confidence, Vectors: p.rec.Vectors,
	}
	return invindex.AppendDoc(r.Append(b), &p.idx)
}

func decodeForward(b []byte) (*forwardRecord, error) {
	r, idx, err := layout.DecodeRow(b)
	if err != nil {
		return nil, err
	}
	f := &forwardRecord{Row: *r}
	var rest []byte
	if f.idx, rest, err = invindex.DecodeDoc(idx); err != nil || len(rest) > 0 {
		return nil, &fault.Error{Kind: fault.ErrCorrupt, What: "read a forward record", Cause: err}
	}
	return f, nil
}
