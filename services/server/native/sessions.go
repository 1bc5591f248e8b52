package native

import "github.com/seed-7aedc3ff/memdb/api"

const linesOfJSON = "application/x-ndjson"

func sessionRoutes() []route {
	return []route{
		listRoute(api.SessionList, nil), opRoute(api.SessionOpenChannel), listRoute(api.SessionShow, nil), opRoute(api.SessionState), opRoute(api.SessionSave),
		opRoute(api.SessionAppendOne), listRoute(api.SessionAppendAll, nil), opRoute(api.SessionOpenNamed), opRoute(api.SessionClose), opRoute(api.SessionArchive),
		opRoute(api.SessionCompact), opRoute(api.SessionRepair), opRoute(api.SessionDelete),
	}
}
