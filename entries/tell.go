package entries

import (
	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/part"
)

var _ part.Teller = Part{}

// Tell reads a change of entries out of the log, which holds the value of each put.
func (Part) Tell(op part.Op, body *codec.Reader) part.Telling {
	told := part.Told{Owner: body.Uint32()}
	var value []byte
	switch op {
	case opPut:
		told.Op, told.ID = "entry_put", body.String()
		value = body.Bytes()
	case opDelete:
		told.Op, told.ID = "entry_delete", body.String()
	case opDeleteAll:
		told.Op = "entry_delete_all"
	default:
		return nil
	}
	return func(part.View, part.Commit) ([]part.Told, error) {
		if op == opPut {
			e, err := decodeEntry(told.ID, value)
			if err != nil {
				return nil, err
			}
			told.After = NewLine(e)
		}
		return []part.Told{told}, nil
	}
}
