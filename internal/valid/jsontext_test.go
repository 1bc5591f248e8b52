package valid

import (
	"strings"
	"testing"
)

func TestCheckJSON(t *testing.T) {
	for _, good := range []string{
		``, `{}`, `"é"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\\ud800"`, `"\\\\ud800"`, `"\uFFFD"`, `"\"\\"`, `"\u12"`, `\`,
	} {
		if err := JSON([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, says := range map[string]string{
		"\"\xff\"":            "byte 2",
		`"\ud800"`:            "byte 2",
		`"a\udc00"`:           `\udc00`,
		`"\ud800\u0041"`:      "surrogate",
		`"\ud83d\ude00\uD83D`: "byte 14",
		`"\\\ud800"`:          "byte 4",
	} {
		if err := JSON([]byte(bad)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", bad, err, says)
		}
	}
}

func TestJSONDepth(t *testing.T) {
	for in, want := range map[string]int{
		`1`: 0, `"[[["`: 0, `[]`: 1, `{"a":[1,{"b":"]]"}],"c":{}}`: 3, `"\"["`: 0, strings.Repeat("[", 500): 500,
	} {
		if got := Depth([]byte(in)); got != want {
			t.Errorf("%.20s nests %d deep, want %d", in, got, want)
		}
	}
}
