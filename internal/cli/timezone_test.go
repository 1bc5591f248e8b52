package cli

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestTimezone verifies that --timezone holds for the times of all flags, before it and behind it,
// and for no time that has an offset.
func TestTimezone(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--at", "2026-01-31 12:00"}, "2026-01-31T12:00:00Z"},
		{[]string{"--at", "2026-01-31 12:00", "--timezone", "+02:00"}, "2026-01-31T10:00:00Z"},
		{[]string{"--timezone", "-0330", "--at", "2026-01-31"}, "2026-01-31T03:30:00Z"},
		{[]string{"--timezone", "+02:00", "--at", "31 Jan 2026 12:00 GMT"}, "2026-01-31T12:00:00Z"},
		{[]string{"--timezone", "Z", "--at", "1769860800"}, "2026-01-31T12:00:00Z"},
		{[]string{"--timezone", "+25:00"}, ""},
		{[]string{"--at", "0001-01-01T00:00:00Z"}, ""},
		{[]string{"--timezone", "+01:00", "--since", "1970-01-01T01:00"}, "0001-01-01T00:00:00Z"},
	} {
		var at, since time.Time
		a, flags := &app{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.Func("at", "", a.timeFlag(&at))
		flags.Func("since", "", a.sinceFlag(&since))
		a.timezoneFlag(flags)
		err := flags.Parse(c.args)
		if got := at.Format(time.RFC3339); (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("%q: %s, error %v; want %q", c.args, got, err, c.want)
		}
	}
}
