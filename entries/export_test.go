package entries

import "context"

// Work does the work that the database has the part do now and then.
func Work(ctx context.Context, k KV) error { return Part{}.Work(ctx, k.run) }
