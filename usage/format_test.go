package usage

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/scope"
)

func dollars(t testing.TB, s string) USD {
	t.Helper()
	u, err := ParseUSD(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestGoldenEncodings holds keys and values to the bytes that databases have.
func TestGoldenEncodings(t *testing.T) {
	var v golden.Keys
	const ms = 1767225600123
	r := Record{Model: "small", PromptTokens: 12, CompletionTokens: 3, TotalTokens: 16, Cost: dollars(t, "0.0123"), Calls: 1}
	s := r.totals()
	h := home{scope.Owner{User: "ada", Agent: "a1"}, 7, 1767225600000}
	a := Agent{ID: "a1", Name: "first", CreatedAt: time.UnixMilli(ms).UTC(), Metadata: []byte(`{"x":1}`)}
	golden.Compare(t, "testdata/usage.golden", "Encodings of usage, see docs/format. The first generation.", []golden.Encoding{
		{Name: "key record", Bytes: recordKey(v, 3, ms, 7)},
		{Name: "key sum", Bytes: sumKey(v, 3, hours, modelOf("small"), hours.bucket(ms))},
		{Name: "key model", Bytes: modelKey(v, 3, modelOf("small"))},
		{Name: "key owner", Bytes: homeKey(v, 3)},
		{Name: "key budget", Bytes: budgetKey(v, 3, 2)},
		{Name: "key reservation", Bytes: reservationKey(v, 3, ms, 1)},
		{Name: "key identity", Bytes: identityKey(v, 3, ms, r.encode(), 2)},
		{Name: "key agent", Bytes: agentKey(v, 3)},
		{Name: "record", Bytes: r.encode()},
		{Name: "sum", Bytes: s.encode()},
		{Name: "owner", Bytes: h.encode()},
		{Name: "agent", Bytes: a.encode()},
	})
	if got, err := decodeAgent(a.encode()); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decodeHome(h.encode()); err != nil || got != h {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range len(s.encode()) {
		if _, err := decodeTotals(s.encode()[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d bytes of a sum: %v", n, err)
		}
	}
	for n := range len(r.encode()) - len(r.Model) {
		if _, err := decodeRecord(ms, 7, r.encode()[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d bytes of a record: %v", n, err)
		}
	}
}

func TestParseUSD(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"0", "0"},
		{"12", "12"},
		{"0.0123", "0.0123"},
		{".5", "0.5"},
		{"5.", "5"},
		{"1.50", "1.5"},
		{"1e-7", "0.0000001"},
		{"1.5E-6", "0.0000015"},
		{"1e3", "1000"},
		{"0.000000000000000001", "0.000000000000000001"},
		{"0.0000000000000000010", "0.000000000000000001"},
		{"0e-90", "0"},
		{"999999999999.999999999999999999", "999999999999.999999999999999999"}, // 30 digits
		{"0.0000000000000000001", ""},                                          // 19 places
		{"1000000000000", ""},                                                  // 13 digits
		{"1e99", ""},
		{"1e-99", ""},
		{"1e", ""},
		{"", ""},
		{".", ""},
		{"-1", ""},
		{"+1", ""},
		{"1,5", ""},
		{"1.2.3", ""},
		{"NaN", ""},
		{"0x10", ""},
		{strings.Repeat("0", 1<<20), ""},
	} {
		u, err := ParseUSD(test.in)
		if (err != nil) != (test.want == "") || err == nil && u.String() != test.want {
			t.Errorf("%.40q: %s, %v, want %q", test.in, u, err, test.want)
		}
		if err == nil {
			b, _ := json.Marshal(u)
			var back USD
			if err := json.Unmarshal(b, &back); err != nil || back.Cmp(u) != 0 || usdFrom(u.bytes()).Cmp(u) != 0 {
				t.Errorf("%s: back %s, %v", u, back, err)
			}
		}
	}
	sum := USD{}
	for range 10 {
		sum = sum.Add(dollars(t, "0.1"))
	}
	if sum.Cmp(dollars(t, "1")) != 0 || dollars(t, "12.34").Float64() != 12.34 {
		t.Error(sum, dollars(t, "12.34").Float64())
	}
}
