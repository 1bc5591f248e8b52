package part

import "context"

// apartKey is the context key that marks calls which are not part of a request.
type apartKey struct{}

// Apart returns a context for what is done for a request and is no part of its commit, or with false a
// context for what is a part of it again. Engine says what that means: see its Apart.
func Apart(ctx context.Context, apart bool) context.Context {
	if IsApart(ctx) == apart {
		return ctx
	}
	return context.WithValue(ctx, apartKey{}, apart)
}

// IsApart reports whether a context is one of Apart.
func IsApart(ctx context.Context) bool {
	apart, _ := ctx.Value(apartKey{}).(bool)
	return apart
}

// readOnlyKey is the context key that marks calls which must change nothing.
type readOnlyKey struct{}

// ReadOnly returns a context under which databases refuse to write, or with false one under which they write again:
// for what a program does for itself within a call that only reads.
func ReadOnly(ctx context.Context, only bool) context.Context {
	if IsReadOnly(ctx) == only {
		return ctx
	}
	return context.WithValue(ctx, readOnlyKey{}, only)
}

// IsReadOnly reports whether a context is one of ReadOnly.
func IsReadOnly(ctx context.Context) bool {
	only, _ := ctx.Value(readOnlyKey{}).(bool)
	return only
}
