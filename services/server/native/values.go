package native

import "github.com/seed-7aedc3ff/memdb/api"

func values() []route {
	return []route{listRoute(api.KVList, nil), opRoute(api.KVGet), opRoute(api.KVPut), opRoute(api.KVDelete)}
}
