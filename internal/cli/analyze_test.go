package cli

import (
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/engine"
)

func TestAnalyze(t *testing.T) {
	c := newCLI(t)
	for args, want := range map[string]string{
		"Alice's cats are here":           "alic\t0-5\tAlice\ncat\t8-12\tcats\nhere\t17-21\there\n",
		"Äpfel essen":                     "apfel\t0-6\tÄpfel\nessen\t7-12\tessen\ness\t7-12\tessen\nes\t7-12\tessen\n",
		"東京":                              "东京\t0-6\t東京\n东\t0-3\t東\n京\t3-6\t京\n",
		"getUserID --language none":       "getuserid\t0-9\tgetUserID\nget\t0-3\tget\nuser\t3-7\tUser\nid\t7-9\tID\n",
		"what did she say of tea --query": "say\t1\ntea\t1\n",
		"tea Teas --query":                "tea\t2\n",
	} {
		r := c.bare(append([]string{"analyze"}, strings.Fields(args)...)...)
		if r.code != exitDone || sorted(r.out) != sorted(want) || r.err != "" {
			t.Errorf("%s: exit %d\n%s%s\nwant\n%s", args, r.code, r.out, r.err, want)
		}
	}
	got := one(t, c.objects("analyze", "Ünder-", "--language", "english"))
	if want := map[string]any{"term": "under", "start": 0.0, "end": 6.0, "text": "Ünder", "languages": []any{"en"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := one(t, c.objects("analyze", "tea, teas", "--query")); got["term"] != "tea" || got["count"] != 2.0 {
		t.Errorf("got %v", got)
	}
	c.in = strings.NewReader("from the input\n")
	if out := c.ok("analyze", "-"); !strings.Contains(out, "input\t9-14\tinput\n") {
		t.Errorf("printed %s", out)
	}
	if r := c.bare("analyze", "!?"); r.code != exitDone || r.out != "" || !strings.Contains(r.err, "nothing will find it") {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	if r := c.bare("analyze", "Ich habe die Häuser gesehen"); !strings.Contains(r.out, "haus\t13-20\tHäuser\n") || !strings.Contains(r.err, "the text is in German") {
		t.Errorf("%s%s", r.out, r.err)
	}
	if r := c.bare("analyze", "Wo sind die Häuser, и где книги?", "--query"); !strings.Contains(r.out, "haus\t1\n") || strings.Contains(r.out, "wo\t") || !strings.Contains(r.err, "German and Russian") {
		t.Errorf("%s%s", r.out, r.err)
	}
	if got := c.objects("analyze", "ich sah die Häuser", "--language", "english"); !reflect.DeepEqual(got[3]["languages"], []any{"en"}) || got[3]["term"] != "hauser" {
		t.Errorf("got %v", got)
	}
	c.fails(exitUsage, "there is no text", "analyze")
	c.fails(exitUsage, `--language "klingon"`, "analyze", "x", "--language", "klingon")
	if there, err := engine.Exists(c.dir); there || err != nil {
		t.Error("it made a database")
	}
}

func sorted(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestVersion(t *testing.T) {
	c := newCLI(t)
	if r := c.bare("--version"); r.code != exitDone || !strings.HasPrefix(r.out, "memdbctl ") || !strings.Contains(r.out, ", layout ") || r.err != "" {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	if v := one(t, parseLines(t, c.bare("--version", "--json").out)); v["layout"] != float64(engine.LayoutVersion) || v["version"] == "" {
		t.Errorf("got %v", v)
	}
	v := versionOf(&debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	})
	if s := v.String(); !strings.HasPrefix(s, "memdbctl v1.2.3, commit abc with changes, layout ") {
		t.Errorf("it says %s", s)
	}
	if s := versionOf(nil).String(); !strings.HasPrefix(s, "memdbctl unknown, layout ") {
		t.Errorf("a build that says nothing: %s", s)
	}
}
