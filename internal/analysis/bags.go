package analysis

import "sync"

// Bags are bags that one analysis leaves to the next.
var Bags = sync.Pool{New: func() any { return new(Bag) }}
