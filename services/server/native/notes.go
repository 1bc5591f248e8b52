package native

import (
	"github.com/seed-7aedc3ff/memdb/api"
	"github.com/seed-7aedc3ff/memdb/exchange"
)

// deletedOne is the reply of a delete.
var deletedOne = exchange.Deleted{}

func noteRoutes() []route {
	return []route{
		opRoute(api.NoteAdd), listRoute(api.NoteList, nil), opRoute(api.NoteGet), opRoute(api.NoteWrite), opRoute(api.NoteRemove),
		opRoute(api.NoteRename), opRoute(api.NoteAlias),
	}
}
