package recall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/query"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// TestFirstBytes: a text is cut between letters.
func TestFirstBytes(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"éé", 1, ""}, {"", 0, ""}, {"a", 0, ""}} {
		if got := firstBytes(c.text, c.n); got != c.want {
			t.Errorf("%q within %d: %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// TestSpeakerNames: words with a capital letter may be names, alone and together.
func TestSpeakerNames(t *testing.T) {
	for text, want := range map[string][]string{
		"":                              nil,
		"what is it?":                   nil,
		"Is Ann Lee with Dr. Who?":      {"Lee with Dr", "Ann Lee", "Dr Who", "Ann", "Lee", "Dr", "Who"},
		"Jean-Luc's ship":               {"Jean-Luc"},
		"May I ask?":                    {"I"},
		"ok, user_1 or User_2":          {"User_2"},
		"seen on 3 May 2023 by Anna":    {"Anna"},
		"the .Dots. and -Dashes- of Xi": {"Dots and Dashes", "Dashes of Xi", "Dots", "Dashes", "Xi"},
	} {
		if got := speakerNames(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestWorkHasALimit: the error of a query that takes too many steps says so.
func TestWorkHasALimit(t *testing.T) {
	err := matchError(fmt.Errorf("%w: 7", query.ErrSteps))
	if !errors.Is(err, memory.ErrInvalid) || !errors.Is(err, query.ErrSteps) || !strings.Contains(err.Error(), "fewer phrases") {
		t.Error(err)
	}
	if err := matchError(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
