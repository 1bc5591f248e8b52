package entries

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	commandline "flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/part"
	"github.com/seed-7aedc3ff/memdb/scope"
)

var updateGolden = commandline.Bool("update", false, "write the golden encodings anew")

const goldenPath = "testdata/entries.golden"

// firstKeys begins keys in the first generation.
type firstKeys struct{ part.View }

func (firstKeys) Key(kind byte, _ int) []byte {
	return binary.BigEndian.AppendUint16([]byte{kind}, 1)
}

var cart = Entry{
	Owner: scope.Owner{User: "ada", Agent: "a1"}, Key: "cart", Value: []byte(`{"tea":2}`), Version: 3,
	UpdatedAt: time.UnixMilli(1767225600123).UTC(), ExpiresAt: time.UnixMilli(1767225660000).UTC(),
}

// TestGoldenEncodings holds keys and values to the bytes that databases have since layout 1.
func TestGoldenEncodings(t *testing.T) {
	var v firstKeys
	all := []struct {
		name  string
		bytes []byte
	}{
		{"key entry", entryKey(v, 3, "cart")},
		{"key expiry", expiryKey(v, 1767225600123, 3, "cart")},
		{"key deleted owner", goneKey(v, 3)},
		{"entry", cart.encode()},
	}
	var text strings.Builder
	for _, e := range all {
		fmt.Fprintf(&text, "%s:\n  %s\n\n", e.name, hex.EncodeToString(e.bytes))
	}
	if *updateGolden {
		if err := os.WriteFile(goldenPath, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("encoded as\n%s\nwant\n%s", text.String(), want)
	}
}

// TestDecode reads what was encoded, and refuses each cut of it with an error.
func TestDecode(t *testing.T) {
	var v firstKeys
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
