package scalar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestTime verifies what each form is read as, in UTC and in a zone, and that what is no time
// is an error that says so.
func TestTime(t *testing.T) {
	berlin := loadZone(t, "Europe/Berlin")
	for _, c := range []struct {
		in   any
		want string // RFC 3339 in UTC, or what the error says
		zone string // the same in the zone of Berlin, "" for the same
	}{
		// ISO 8601, RFC 3339, RFC 9557, and what databases and languages write.
		{"2026-01-02T15:04:05Z", "2026-01-02T15:04:05Z", ""},
		{"2026-01-02t15:04:05z", "2026-01-02T15:04:05Z", ""},
		{"2026-01-02T15:04:05.1239+02:00", "2026-01-02T13:04:05.123Z", ""},
		{"2026-01-02T15:04:05,5+0200", "2026-01-02T13:04:05.5Z", ""},
		{"2026-01-02 15:04:05.123456+00", "2026-01-02T15:04:05.123Z", ""},
		{"2026-01-02 15:04:05 +02", "2026-01-02T13:04:05Z", ""},
		{"2026-01-02 15:04:05 -0730", "2026-01-02T22:34:05Z", ""},
		{"2026-01-02T15:04:05\u221202:00", "2026-01-02T17:04:05Z", ""},
		{"2026-01-02T15:04:05-00:00", "2026-01-02T15:04:05Z", ""},
		{"2026-01-02T15:04:05+01:00:30", "2026-01-02T14:03:35Z", ""},
		{"2026-01-02 15:04:05 UTC", "2026-01-02T15:04:05Z", ""},
		{"2026-01-02 15:04:05 GMT", "2026-01-02T15:04:05Z", ""},
		{"2026-01-02 15:04:05 EST", "2026-01-02T20:04:05Z", ""},
		{"2026-01-02 15:04:05.5 +0100 CET m=+0.012", "2026-01-02T14:04:05.5Z", ""},
		{"2026-01-02T15:04:05.123456789+01:00[Europe/Berlin]", "2026-01-02T14:04:05.123Z", ""},
		{"2026-01-02T15:04:05Z[UTC][u-ca=gregory]", "2026-01-02T15:04:05Z", ""},
		{"2026-01-02T15:04:05", "2026-01-02T15:04:05Z", "2026-01-02T14:04:05Z"},
		{"2026-07-02 15:04:05", "2026-07-02T15:04:05Z", "2026-07-02T13:04:05Z"},
		{"2026-01-02 15:04:05.123456789", "2026-01-02T15:04:05.123Z", "2026-01-02T14:04:05.123Z"},
		{" 2026-01-02  15:04 ", "2026-01-02T15:04:00Z", "2026-01-02T14:04:00Z"},
		{"2026-01-02T15:04Z", "2026-01-02T15:04:00Z", ""},
		{"2026-01-02T15Z", "2026-01-02T15:00:00Z", ""},
		{"2026-01-02, 9:04:05 PM", "2026-01-02T21:04:05Z", "2026-01-02T20:04:05Z"},
		{"2026-01-02 12:04 a.m.", "2026-01-02T00:04:00Z", "2026-01-01T23:04:00Z"},
		{"2026-01-02", "2026-01-02T00:00:00Z", "2026-01-01T23:00:00Z"},
		{"2026-1-2", "2026-01-02T00:00:00Z", "2026-01-01T23:00:00Z"},
		{"2026/01/02", "2026-01-02T00:00:00Z", "2026-01-01T23:00:00Z"},
		{"2026/1/2 3:04:05", "2026-01-02T03:04:05Z", "2026-01-02T02:04:05Z"},
		{"20260131T210000Z", "2026-01-31T21:00:00Z", ""},
		{"20260131T2100", "2026-01-31T21:00:00Z", "2026-01-31T20:00:00Z"},
		{"20260131T210000.250+0100", "2026-01-31T20:00:00.25Z", ""},
		{"2026-W05-6", "2026-01-31T00:00:00Z", "2026-01-30T23:00:00Z"},
		{"2026W056T21:00Z", "2026-01-31T21:00:00Z", ""},
		{"2026-W53-7", "2027-01-03T00:00:00Z", "2027-01-02T23:00:00Z"},
		{"2026-031", "2026-01-31T00:00:00Z", "2026-01-30T23:00:00Z"},
		{"2024-366T21:00Z", "2024-12-31T21:00:00Z", ""},
		{"2026-01-31T24:00:00Z", "2026-02-01T00:00:00Z", ""},
		{"2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999Z", ""},
		{"2016-12-31T18:59:60.5-05:00", "2016-12-31T23:59:59.999Z", ""},

		// RFC 2822, RFC 822, RFC 850, asctime, date(1), ECMAScript, and in words.
		{"Fri, 05 Apr 2024 19:34:38 GMT", "2024-04-05T19:34:38Z", ""},
		{"Fri, 5 Apr 2024 19:34:38 +0200", "2024-04-05T17:34:38Z", ""},
		{"5 Apr 2024 19:34 -0700", "2024-04-06T02:34:00Z", ""},
		{"5 Apr 2024 19:34:38 PDT", "2024-04-06T02:34:38Z", ""},
		{"Fri (the (second)\\)), 5 Apr 2024 19:34:38 +0000 (UTC)", "2024-04-05T19:34:38Z", ""},
		{"05 Apr 24 19:34 EST", "2024-04-06T00:34:00Z", ""},
		{"Friday, 05-Apr-24 19:34:38 GMT", "2024-04-05T19:34:38Z", ""},
		{"05-Apr-2024", "2024-04-05T00:00:00Z", "2024-04-04T22:00:00Z"},
		{"5 Apr 2024 19:34:38", "2024-04-05T19:34:38Z", "2024-04-05T17:34:38Z"},
		{"Fri Apr  5 19:34:38 2024", "2024-04-05T19:34:38Z", "2024-04-05T17:34:38Z"},
		{"Fri Apr  5 19:34:38 UTC 2024", "2024-04-05T19:34:38Z", ""},
		{"Fri Apr  5 07:34:38 PM EDT 2024", "2024-04-05T23:34:38Z", ""},
		{"Fri Apr 05 2024 19:34:38 GMT+0200 (Central European Summer Time)", "2024-04-05T17:34:38Z", ""},
		{"April 5, 2024", "2024-04-05T00:00:00Z", "2024-04-04T22:00:00Z"},
		{"Sept. 5th, 2024 at 7:34 pm", "2024-09-05T19:34:00Z", "2024-09-05T17:34:00Z"},

		// Numbers, and on both sides of where the units meet and end.
		{1705744800, "2024-01-20T10:00:00Z", ""},
		{1705744800.5, "2024-01-20T10:00:00.5Z", ""},
		{1705744800.123, "2024-01-20T10:00:00.123Z", ""},
		{-1705744800.25, "1915-12-13T13:59:59.75Z", ""},
		{json.Number("1705744800000"), "2024-01-20T10:00:00Z", ""},
		{json.Number("1.7e9"), "2023-11-14T22:13:20Z", ""},
		{json.Number("1705744800123.75"), "2024-01-20T10:00:00.123Z", ""},
		{json.Number("1712345678123456"), "2024-04-05T19:34:38.123Z", ""},
		{json.Number("1712345678123456789"), "2024-04-05T19:34:38.123Z", ""},
		{"1705744800123", "2024-01-20T10:00:00.123Z", ""},
		{" +1705744800.123456 ", "2024-01-20T10:00:00.123Z", ""},
		{"1.705744800123E+12", "2024-01-20T10:00:00.123Z", ""},
		{uint64(1893456000), "2030-01-01T00:00:00Z", ""},
		{int64(99_999_999_999), "5138-11-16T09:46:39Z", ""},
		{int64(100_000_000_000), "1973-03-03T09:46:40Z", ""},
		{100_000_000, "1973-03-03T09:46:40Z", ""},
		{-100_000_000, "1966-10-31T14:13:20Z", ""},
		{int64(-99_999_999_999), "check its unit", ""}, // 1200 years before year 1
		{int64(-62_135_596_799_999), "0001-01-01T00:00:00.001Z", ""},
		{int64(253_402_300_799_999), "9999-12-31T23:59:59.999Z", ""},
		{int64(253_402_300_800_000), "1978-01-11T21:31:40.8Z", ""},
		{int64(253_402_300_799_999_999), "9999-12-31T23:59:59.999Z", ""},
		{int64(253_402_300_800_000_000), "1978-01-11T21:31:40.8Z", ""},
		{uint64(math.MaxUint64), "2554-07-21T23:34:33.709Z", ""},
		{json.Number("1e300"), "check its unit", ""},
		{"1e400", "check its unit", ""},
		{99_999_999, "nine digits", ""},
		{0.5, "nine digits", ""},
		{20260131, "nine digits", ""},
		{2026, "write 2026-01-01", ""},
		{"2026", "write 2026-01-01", ""},

		// Times of Go, and the limits of years.
		{time.Date(2026, 1, 2, 3, 4, 5, 6_999_999, time.FixedZone("", 3600)), "2026-01-02T02:04:05.006Z", ""},
		{time.Date(20026, 1, 1, 0, 0, 0, 0, time.UTC), "check its unit", ""},
		{"0000-01-01", "check its unit", ""},
		{"+012026-01-01T00:00:00Z", "check its unit", ""},
		{"9999-12-31T23:59:59-01:00", "check its unit", ""},
		{"0001-01-01T00:00:00.001Z", "0001-01-01T00:00:00.001Z", ""},

		// Values that mean "no time".
		{0, "stands for no time", ""},
		{"0.0", "stands for no time", ""},
		{"0001-01-01T00:00:00Z", "stands for no time", ""},
		{"0001-01-01 00:00:00", "stands for no time", ""},
		{"0001-01-01", "stands for no time", ""},
		{"0001-01-01T00:53:28+00:53:28", "stands for no time", ""},
		{time.Time{}, "stands for no time", ""},
		{"1970-01-01T00:00:00Z", "stands for no time", ""},
		{"Thu, 1 Jan 1970 01:00:00.0009 +0100", "stands for no time", ""},
		{int64(-62_135_596_800_000), "stands for no time", ""},

		// No times.
		{"", "RFC 3339", ""},
		{"soon", "RFC 3339", ""},
		{"2026-13-01", "RFC 3339", ""},
		{"2026-02-29", "RFC 3339", ""},
		{"2025-366", "RFC 3339", ""},
		{"2025-W53-1", "RFC 3339", ""},
		{"2026-01", "RFC 3339", ""},
		{"2026-01-02 15", "RFC 3339", ""},
		{"2026-01-02T25:00:00Z", "RFC 3339", ""},
		{"2026-01-02T24:00:01Z", "RFC 3339", ""},
		{"2026-01-02T12:30:60Z", "RFC 3339", ""},
		{"2026-01-02T15:60:00Z", "RFC 3339", ""},
		{"2026-01-02T15:04:05+24:00", "RFC 3339", ""},
		{"2026-01-02T15:04:05+1", "2026-01-02T14:04:05Z", ""},
		{"2026-01-02T15:04:05 or so", `zone "or"`, ""},
		{"2026-01-02 15:04:05 CET", `zone "CET"`, ""},
		{"Fri Apr  5 19:34:38 CET 2024", `zone "CET"`, ""},
		{"2026-01-02 13:04 PM", "RFC 3339", ""},
		{"2026-01-02T15:04:05[Europe/Berlin]", "RFC 3339", ""},
		{"2026-01-02-03", "RFC 3339", ""},
		{"1.2.3", "RFC 3339", ""},
		{"01/02/2026", "RFC 3339", ""},
		{"31.01.2026", "RFC 3339", ""},
		{"Apr 5 24 19:34", "RFC 3339", ""},
		{"5 Apr", "RFC 3339", ""},
		{"5 Apr May 2024", "RFC 3339", ""},
		{"31 Apr 2024", "RFC 3339", ""},
		{"5 Apr 2024 (open", "RFC 3339", ""},
		{"15:04:05", "RFC 3339", ""},
		{strings.Repeat(" ", MaxTime) + "2026-01-02", "RFC 3339", ""},
		{strings.Repeat("(", MaxTime/2), "RFC 3339", ""},
		{math.NaN(), "RFC 3339", ""},
		{true, "RFC 3339", ""},
		{nil, "RFC 3339", ""},
		{[]any{"2026-01-02"}, "RFC 3339", ""},
	} {
		for _, zone := range []*time.Location{nil, time.UTC, berlin} {
			want := c.want
			if zone == berlin && c.zone != "" {
				want = c.zone
			}
			got, err := Reader{Zone: zone}.Time(c.in)
			switch {
			case err != nil:
				if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "no time") {
					t.Errorf("%v in %v: error %v, want %q", c.in, zone, err, want)
				}
				if errors.Is(err, ErrUnset) != (want == "stands for no time") {
					t.Errorf("%v: error %v", c.in, err)
				}
			case got.Format(time.RFC3339Nano) != want:
				t.Errorf("%v in %v: %v, want %v", c.in, zone, got.Format(time.RFC3339Nano), want)
			}
			ms, ok := Millis(c.in)
			if _, readErr := Read(c.in); ok != (readErr == nil) || (readErr == nil) != (err == nil || errors.Is(err, ErrUnset) && c.in != 0 && c.in != "0.0") || err == nil && zone != berlin && ms != got.UnixMilli() {
				t.Errorf("%v: %d, %v", c.in, ms, ok)
			}
		}
	}
}

// TestTimeOfChangedClocks verifies that a time of day which a zone skips is read with the
// offset from before, and that of one which comes twice the first is read.
func TestTimeOfChangedClocks(t *testing.T) {
	for _, c := range []struct{ zone, in, want string }{
		{"Europe/Berlin", "2026-03-29 01:59:59", "2026-03-29T00:59:59Z"},
		{"Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29T01:30:00Z"}, // 03:30 in summer
		{"Europe/Berlin", "2026-03-29 03:00:00", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-10-25 01:59:59", "2026-10-24T23:59:59Z"},
		{"Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25T00:30:00Z"}, // still in summer
		{"Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25T02:00:00Z"},
		{"America/New_York", "2026-03-08 02:30:00", "2026-03-08T07:30:00Z"},
		{"America/New_York", "2026-11-01 01:30:00", "2026-11-01T05:30:00Z"},
		{"Pacific/Apia", "2011-12-30 12:00:00", "2011-12-30T22:00:00Z"}, // a day that was skipped
		{"Asia/Kolkata", "2026-01-01 00:00:00", "2025-12-31T18:30:00Z"},
	} {
		got, err := Reader{Zone: loadZone(t, c.zone)}.Time(c.in)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%s in %s: %v, error %v, want %s", c.in, c.zone, got, err, c.want)
		}
	}
}

// TestEnd verifies that a date lasts until the end of its day, whatever its form and however
// long the day is in the zone, and that nothing else is longer.
func TestEnd(t *testing.T) {
	berlin := loadZone(t, "Europe/Berlin")
	for _, c := range []struct {
		in   string
		zone *time.Location
		want string
	}{
		{"2026-01-31", nil, "2026-01-31T23:59:59.999Z"},
		{"31 Jan 2026", nil, "2026-01-31T23:59:59.999Z"},
		{"2026/01/31", berlin, "2026-01-31T22:59:59.999Z"},
		{"2026-03-29", berlin, "2026-03-29T21:59:59.999Z"},
		{"2026-01-31T00:00:00Z", berlin, "2026-01-31T00:00:00Z"},
		{"2026-01-31 00:00", nil, "2026-01-31T00:00:00Z"},
		{"1769817600", nil, "2026-01-31T00:00:00Z"},
		{"1970-01-01", nil, "1970-01-01T23:59:59.999Z"},
	} {
		if got, err := (Reader{Zone: c.zone}).End(c.in); err != nil || got.Format(time.RFC3339Nano) != c.want {
			t.Errorf("%s: %v, error %v, want %s", c.in, got, err, c.want)
		}
	}
	if _, err := End("2026-02-30"); err == nil {
		t.Error("a day that there is not was read")
	}
}

// TestWritten verifies that a text of digits is no time by its form, and that the digits
// below a millisecond count.
func TestWritten(t *testing.T) {
	for in, want := range map[string]bool{
		"2026-01-02": true, "2026-01-02 03:04": true, "2 Jan 2026": true, "1769817600": false, "1.7e9": false, "": false, "2026": false, "soon": false,
		"0001-01-01T00:00:00Z": true,
	} {
		if _, ok := Written(in); ok != want {
			t.Errorf("%s: %v", in, ok)
		}
	}
	if got, _ := Written("2026-01-02T03:04:05.123456789Z"); got.Nanosecond() != 123_456_789 {
		t.Errorf("%v", got)
	}
}

// layouts are those that a written time is read back from, with the unit that they keep. Of
// those without an offset the time is in the zone of the reader.
var layouts = map[string]time.Duration{
	time.RFC3339Nano: 1, time.RFC3339: time.Second, time.RFC1123Z: time.Second, "Mon, _2 Jan 2006 15:04:05 -0700": time.Second,
	"2 Jan 2006 15:04:05 -0700": time.Second, "2 January 2006 15:04 -0700": time.Minute, "Mon Jan 2 15:04:05 -0700 2006": time.Second,
	"2006-01-02 15:04:05.999999999Z07:00": 1, "2006-01-02 15:04:05.999999999 -0700": 1, "2006-01-02T15:04:05.000Z0700": time.Millisecond,
	"2006-01-02 15:04:05.000000-07:00": time.Microsecond, "2006-01-02T15:04:05,000Z07:00": time.Millisecond, "20060102T150405Z0700": time.Second,
	"20060102T150405.000000Z0700": time.Microsecond, "2006-01-02T15:04Z07:00": time.Minute, "2006/01/02 15:04:05 -07:00": time.Second,
	"2006-01-02 15:04:05.999999999 -0700 MST": 1, "Mon Jan 02 2006 15:04:05 GMT-0700 (MST)": time.Second, "2006-01-02 03:04:05 PM -0700": time.Second,
	"2006-002T15:04:05Z07:00":    time.Second,
	"2006-01-02T15:04:05.999999": time.Microsecond, "2006-01-02 15:04:05": time.Second, "2006-01-02 15:04": time.Minute, "2006/1/2 15:04": time.Minute,
	time.ANSIC: time.Second, "January 2, 2006 at 3:04 PM": time.Minute, "02-Jan-2006 15:04:05": time.Second,
}

// TestTimeReadBack verifies that random instants are read back from every layout that writes
// them, and from numbers in every unit.
func TestTimeReadBack(t *testing.T) {
	const seed = 47
	rng := rand.New(rand.NewPCG(seed, 7))
	zones := []*time.Location{time.UTC, loadZone(t, "Europe/Berlin"), loadZone(t, "America/St_Johns"), loadZone(t, "Asia/Kolkata"), time.FixedZone("", -11*3600)}
	for range 3000 {
		zone := zones[rng.IntN(len(zones))]
		at := time.Date(1700+rng.IntN(700), 1, 1, 0, 0, rng.IntN(366*24*3600), rng.IntN(1e9), time.UTC)
		local := at.In(zone)
		if _, offset := local.Zone(); offset%60 != 0 {
			continue // the layouts have no seconds of an offset
		}
		for layout, unit := range layouts {
			text := local.Format(layout)
			m, err := Read(text)
			got := m.In(zone)
			want := at.Truncate(unit)
			if m.Naive && !got.Equal(want) && got.In(zone).Format(layout) == text {
				continue // a time of day that comes twice
			}
			if err != nil || !got.Equal(want) {
				t.Fatalf("seed %d: %s as %q in %v: %v, error %v", seed, at, text, zone, got, err)
			}
		}
		if at.Year() < 1980 || at.Year() > 2250 {
			continue
		}
		for _, v := range []any{at.UnixMilli(), at.UnixMicro(), at.UnixNano(), fmt.Sprint(at.UnixMicro()), float64(at.UnixMicro()) / 1e6, float64(at.UnixMilli()), fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond())} {
			got, err := Time(v)
			if d := at.Truncate(time.Millisecond).Sub(got); err != nil || d > time.Millisecond || d < -time.Millisecond {
				t.Fatalf("seed %d: %s as %v: %v, error %v", seed, at, v, got, err)
			}
		}
	}
}

// FuzzTime verifies that no text makes the reader panic or read a year that cannot be written.
func FuzzTime(f *testing.F) {
	for layout := range layouts {
		f.Add(layout)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := Reader{Zone: time.FixedZone("", 3600)}.Time(s)
		if err == nil && (!inYears(at) || at.IsZero()) {
			t.Errorf("%q is %v", s, at)
		}
	})
}

func loadZone(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Skipf("the zones of this machine: %v", err)
	}
	return zone
}
