package engine

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/internal/place"
)

// oldNames are encodings of older layouts that have another name in today's table,
// by layout and by the name in that layout's golden file.
var oldNames = map[int]map[string]string{
	1: {"record": "record, plain", "record, smallest": "record, plain and smallest", "key record": "key record by owner", "key vector": "key vector by owner", "key dedup": "key dedup by run"},
	2: {"record": "record, plain", "record, smallest": "record, plain and smallest", "key record": "key record by owner", "key vector": "key vector by owner", "key dedup": "key dedup by run"},
	3: {"record": "record, plain", "record, smallest": "record, plain and smallest", "key record": "key record by owner", "key vector": "key vector by owner", "key dedup": "key dedup by run"},
	4: {"record": "record, plain", "record, smallest": "record, plain and smallest", "key dedup": "key dedup by run"},
	5: {"record": "record, plain", "record, smallest": "record, plain and smallest"},
}

// notRead are encodings of older layouts that today's table does not compare, and
// why not. None may be missing from the table without a reason here.
var notRead = map[string]string{
	"generations": "a database keeps the generations of its own layout; TestLayoutsOpen opens one with them",
	"entry":       "package entries reads it",
	"key entry":   "package entries reads it",
	"key expiry":  "package entries reads it",
}

// TestOldGoldens reads the encodings of the layouts before today's, which still
// open. Their files are never written again: what the programs of their time wrote is
// what lies in databases.
func TestOldGoldens(t *testing.T) {
	today := map[string]encoding{}
	for _, e := range append(keyEncodings(t), valueEncodings(t)...) {
		today[e.name] = e
	}
	for layout := 1; layout < place.Layout; layout++ {
		t.Run(fmt.Sprint(layout), func(t *testing.T) {
			old := golden.Read(t, filepath.Join("testdata", fmt.Sprintf("layout%d.golden", layout)))
			if len(old) == 0 {
				t.Fatal("the file has no encodings")
			}
			for name, b := range old {
				readOld(t, today, layout, name, b)
			}
		})
	}
}

// readOld decodes one encoding of an older layout. A key that is only written must
// be written the same today: it is looked up by its bytes.
func readOld(t *testing.T, today map[string]encoding, layout int, name string, old []byte) {
	t.Helper()
	if why, ok := notRead[name]; ok {
		t.Logf("%s is not compared: %s", name, why)
		return
	}
	newName := name
	if n, ok := oldNames[layout][name]; ok {
		newName = n
	}
	e, ok := today[newName]
	switch {
	case !ok:
		t.Errorf("%s: nothing reads it today", name)
	case e.decode == nil:
		if strings.HasPrefix(name, "key name ") { // in its second generation since layout 7
			old = slices.Concat(old[:1], e.bytes[1:3], old[3:])
		}
		if !bytes.Equal(e.bytes, old) {
			t.Errorf("%s: encoded today as\n%x\nthen as\n%x", name, e.bytes, old)
		}
	default:
		if got, err := e.decode(old); err != nil || !reflect.DeepEqual(got, e.value) {
			t.Errorf("%s: decoded as\n%+v, %v\nwant\n%+v", name, got, err, e.value)
		}
	}
}
