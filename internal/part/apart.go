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
