package engine

import "github.com/seed-7aedc3ff/memdb/internal/part"

// tuning is what tests set otherwise than users have it. The zero value is what Open uses.
type tuning struct {
	// manifestBytes is the size at which the store's MANIFEST rotates, 0 for its
	// own: tests rotate it all the time.
	manifestBytes int64
	// hotBytes is the size at which a chunk of the text index takes no more
	// documents, 0 for its share of the budget: tests seal all the time.
	hotBytes int64
	// lookLeast is how many documents of sealed chunks must have died before the chunks
	// are looked through for sparse ones, 0 for the default: tests move all the time.
	lookLeast int
	// uncached calls the embedder each time: a model can tell when it fails.
	uncached bool
	// columns makes filters use the columns of numbers whatever the size of the set.
	columns bool
	// keepsExpired leaves what has expired where it is until [DB.expire] is called: tests
	// say when.
	keepsExpired bool
	// firstDoc is where a new database looks for its first chunk: tests begin near the end
	// of the numbers.
	firstDoc uint32
	// beside are more parts than there are.
	beside []part.Part
	// vectors are others than the default limits: tests build graphs of few vectors.
	vectors *vectorLimits
}
