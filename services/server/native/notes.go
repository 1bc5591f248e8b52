package native

import (
	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

// deletedOne is the reply of a delete.
var deletedOne = exchange.Deleted{}

// asOf is the parameter of a past state.
var asOf = param{name: "as_of", kind: lsn, summary: "the LSN of an earlier state; the default is the newest state"}

func noteRoutes() []route {
	return []route{
		opRoute(api.NoteAdd), listRoute(api.NoteList, nil), opRoute(api.NoteGet), opRoute(api.NoteWrite), opRoute(api.NoteRemove),
		opRoute(api.NoteRename), opRoute(api.NoteAlias),
	}
}
