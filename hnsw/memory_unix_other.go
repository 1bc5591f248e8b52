//go:build unix && !linux && !race

package hnsw

// adviseHuge does nothing: these systems choose page sizes themselves.
func adviseHuge([]byte) {}
