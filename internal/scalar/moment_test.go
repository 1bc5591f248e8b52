package scalar

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestTime reads every form, and refuses what makes no sense.
func TestTime(t *testing.T) {
	for _, c := range []struct {
		in   any
		want string // RFC 3339, or what the error says
	}{
		{"2026-01-02", "2026-01-02T00:00:00Z"},
		{"2026-01-02T15:04:05Z", "2026-01-02T15:04:05Z"},
		{"2026-01-02T15:04:05.1239+02:00", "2026-01-02T13:04:05.123Z"},
		{time.Date(2026, 1, 2, 3, 4, 5, 6_999_999, time.FixedZone("", 3600)), "2026-01-02T02:04:05.006Z"},
		{time.Date(20026, 1, 1, 0, 0, 0, 0, time.UTC), "check its unit"},
		{1705744800, "2024-01-20T10:00:00Z"},
		{json.Number("1705744800000"), "2024-01-20T10:00:00Z"},
		{"1705744800123", "2024-01-20T10:00:00.123Z"},
		{uint64(1893456000), "2030-01-01T00:00:00Z"},
		{1893456000.0, "2030-01-01T00:00:00Z"}, // an integer, as JSON reads it into a float64
		// On both sides of where the units meet, and of where they end.
		{int64(99_999_999_999), "5138-11-16T09:46:39Z"},
		{int64(100_000_000_000), "1973-03-03T09:46:40Z"},
		{100_000_000, "1973-03-03T09:46:40Z"},
		{-100_000_000, "1966-10-31T14:13:20Z"},
		{int64(-99_999_999_999), "check its unit"}, // 1200 years before year 1
		{int64(-62_135_596_800_000), "0001-01-01T00:00:00Z"},
		{int64(253_402_300_799_999), "9999-12-31T23:59:59.999Z"},
		{int64(253_402_300_800_000), "check its unit"},
		{int64(1705744800_000_000_000), "check its unit"}, // nanoseconds
		{99_999_999, "nine digits"},
		{0, "nine digits"},
		{20260131, "nine digits"},
		{2026, "write 2026-01-01"},
		{"2026", "write 2026-01-01"},
		{uint64(1 << 63), "RFC 3339"},
		{1705744800.5, "RFC 3339"},
		{json.Number("1.5"), "RFC 3339"},
		{"", "RFC 3339"},
		{"soon", "RFC 3339"},
		{"2026-13-01", "RFC 3339"},
		{"0000-01-01", "check its unit"},
		{true, "RFC 3339"},
		{nil, "RFC 3339"},
	} {
		got, err := Time(c.in)
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "is no time") {
				t.Errorf("%v: error %v, want %q", c.in, err, c.want)
			}
		case got.Format(time.RFC3339Nano) != c.want:
			t.Errorf("%v: %v, want %v", c.in, got.Format(time.RFC3339Nano), c.want)
		}
		if ms, ok := Millis(c.in); ok != (err == nil) || ok && ms != got.UnixMilli() {
			t.Errorf("%v: %d, %v", c.in, ms, ok)
		}
	}
}

// TestEnd: a bare date lasts until the end of the day, and nothing else is longer.
func TestEnd(t *testing.T) {
	for in, want := range map[string]string{
		"2026-01-31":           "2026-01-31T23:59:59.999Z",
		"2026-01-31T00:00:00Z": "2026-01-31T00:00:00Z",
		"1769817600":           "2026-01-31T00:00:00Z",
	} {
		if got, err := End(in); err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v, error %v", in, got, err)
		}
	}
	if _, err := End("2026-02-30"); err == nil {
		t.Error("a day that there is not was read")
	}
}
