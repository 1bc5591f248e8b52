package filter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/filter"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// textOnly is a subject with one field.
type textOnly string

func (s textOnly) Value(f filter.Field) (any, bool) { return string(s), f.Path == "x" }

// TestWithWork verifies that the filters under one context cost what is documented together, and that those without a bound
// have none.
func TestWithWork(t *testing.T) {
	long := textOnly(strings.Repeat("abcdefg", 700))
	for _, c := range []struct {
		what  string
		f     filter.Filter
		s     textOnly
		steps int64 // for one subject, about
	}{
		{"a condition", filter.Eq("x", "a"), "a", 8},
		{"contains", filter.Contains("x", "zq"), long, 8 + 4_900/16},
		{"icontains", filter.IContains("x", "zq"), long, 8 + 8*4_900 + 4_900/16},
		{"a short regular expression", filter.Regexp("x", "q$"), "abq", 8 + 3*3},
		{"one whose first text is not there", filter.Regexp("x", "zebra.{1,900}"), long, 8 + 4_900/16},
		{"a large one", filter.Regexp("x", "[a-g]{1,500}zq$"), long, 8 + 4_900/16 + 1004*4_900},
	} {
		holds, err := filter.Compile(c.f)
		if err != nil {
			t.Fatal(c.what, err)
		}
		times := 0
		for ctx := filter.WithWork(t.Context(), 3*c.steps+c.steps/2); times < 10; times++ {
			if _, err = holds(ctx, c.s); err != nil {
				break
			}
		}
		if times != 3 || !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "narrow the scope") {
			t.Errorf("%s: %d times, then %v; want 3", c.what, times, err)
		}
		if _, err := holds(t.Context(), c.s); err != nil {
			t.Errorf("%s without a bound: %v", c.what, err)
		}
	}
	holds, err := filter.Compile(filter.Eq("x", "a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := filter.WithWork(t.Context(), 10)
	for range 3 {
		if _, err := holds(filter.WithWorkAgain(ctx), textOnly("a")); err != nil {
			t.Error(err)
		}
	}
}
