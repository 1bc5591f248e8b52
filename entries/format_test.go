package entries

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/scope"
)

var cart = Entry{
	Owner: scope.Owner{User: "ada", Agent: "a1"}, Key: "cart", Value: []byte(`{"tea":2}`), Version: 3,
	UpdatedAt: time.UnixMilli(1767225600123).UTC(), ExpiresAt: time.UnixMilli(1767225660000).UTC(),
}

// TestGoldenEncodings holds keys and values to the bytes that databases have since layout 1.
func TestGoldenEncodings(t *testing.T) {
	var v golden.Keys
	golden.Compare(t, "testdata/entries.golden", "Encodings of entries, see docs/format. The first generation.", []golden.Encoding{
		{Name: "key entry", Bytes: entryKey(v, 3, "cart")},
		{Name: "key expiry", Bytes: expiryKey(v, 1767225600123, 3, "cart")},
		{Name: "key deleted owner", Bytes: goneKey(v, 3)},
		{Name: "entry", Bytes: cart.encode()},
	})
}

// TestDecode reads what was encoded, and refuses each cut of it with an error.
func TestDecode(t *testing.T) {
	var v golden.Keys
	if owner, key, ok := parseEntryKey(entryKey(v, 3, "cart")); owner != 3 || key != "cart" || !ok {
		t.Error(owner, key, ok)
	}
	if ms, owner, key, ok := parseExpiryKey(expiryKey(v, 5, 3, "cart")); ms != 5 || owner != 3 || key != "cart" || !ok {
		t.Error(ms, owner, key, ok)
	}
	b := cart.encode()
	if e, err := decodeEntry("cart", b); err != nil || !reflect.DeepEqual(e, cart) {
		t.Errorf("%+v, %v", e, err)
	}
	for n := range len(b) - len(cart.Value) {
		if _, err := decodeEntry("cart", b[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := decodeEntry("cart", append([]byte{recordVersion + 1}, bytes.Clone(b[1:])...)); !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
}
