package daemon

import "github.com/seed-7aedc3ff/memdb/services/server"

// dialects are those that programs speak.
func dialects() []*server.Dialect {
	return nil
}
