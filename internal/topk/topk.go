// Package topk keeps binary heaps in slices, the least first: of what is offered, the k
// greatest are those that are left when the least gives way.
package topk

import "cmp"

// Up moves the last element of a heap to its place: call it after an append.
func Up[T cmp.Ordered](h []T) {
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[i] >= h[parent] {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// Down moves element i of a heap to its place below: call it with 0 after the least was
// replaced, and from the middle to 0 to make a heap of any slice.
func Down[T cmp.Ordered](h []T, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// UpFunc is Up in the order of less.
func UpFunc[T any](h []T, less func(a, b *T) bool) {
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !less(&h[i], &h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// DownFunc is Down in the order of less.
func DownFunc[T any](h []T, i int, less func(a, b *T) bool) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && less(&h[child+1], &h[child]) {
			child++
		}
		if !less(&h[child], &h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
