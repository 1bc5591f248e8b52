package store

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func writeFile(t *testing.T, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(slices.Clone(b)); err != nil { // a vfs.File may spoil what it is given
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Slots of a mark as layouts wrote them, but for the zeros at the end.
const (
	goldenMark = "6d656d64626c6d32" + "0300000000000000" + "0102030405060708090a0b0c0d0e0f10" + "2a00000000000000" +
		"0700000000000000" + "8000000000000000" + "0010000000000000" + "01" + "02" + "0900000000000000" + "0c00000000000000" + "59e7a673"
	goldenOldMark = "6d656d64626c6d31" + "0300000000000000" + "0010000000000000" + "01" + "02" + "0900000000000000" + "0c00000000000000" + "e3bfba55"
)

// TestMark: a slot is what docs/format/folder.md says, and no changed byte of it goes unnoticed.
func TestMark(t *testing.T) {
	m := mark{
		count: 3, timeline: Timeline{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		lsn: 42, manifest: 7, listed: 128, synced: 4096, clean: true, logs: []uint64{9, 12},
	}
	slot := m.encode()
	if len(slot) != sector || hex.EncodeToString(bytes.TrimRight(slot, "\x00")) != goldenMark {
		t.Errorf("a slot of %d bytes: %x", len(slot), bytes.TrimRight(slot, "\x00"))
	}
	if got, ok := decodeMark(slot); !ok || got.count != m.count || !got.says(&m) {
		t.Errorf("%+v, %v", got, ok)
	}
	for at := range goldenMark {
		if at/2 >= len(slot) || at%2 == 1 {
			continue
		}
		changed := slices.Clone(slot)
		changed[at/2] ^= 1 << (at % 8)
		if _, ok := decodeMark(changed); ok {
			t.Errorf("byte %d is changed, and nothing tells", at/2)
		}
	}
	old, err := hex.DecodeString(goldenOldMark)
	if err != nil {
		t.Fatal(err)
	}
	want := mark{synced: 4096, clean: true, logs: []uint64{9, 12}}
	if got, ok := decodeOldMark(append(old, make([]byte, 100)...)); !ok || got.count != 3 || !got.says(&want) {
		t.Errorf("an older mark: %+v, %v", got, ok)
	}
}

// TestReadMark: the newer of two whole slots counts; a mark beside the store before one in it.
func TestReadMark(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("db/store", 0o700); err != nil {
		t.Fatal(err)
	}
	wantLSN := func(what string, count, lsn uint64) {
		t.Helper()
		if m, err := readMark(fs, "db"); err != nil || m.count != count || m.lsn != lsn {
			t.Errorf("%s: %+v, %v", what, m, err)
		}
	}
	wantLSN("none", 0, 0)
	old, err := hex.DecodeString(goldenOldMark)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, fs, "db/store/logs.mark", append(make([]byte, sector), old...))
	wantLSN("one in the store", 3, 0)
	writeFile(t, fs, "db/memdb.mark", make([]byte, 2*sector))
	wantLSN("one that is being made", 3, 0)
	first, second := mark{count: 4, lsn: 10}, mark{count: 5, lsn: 20}
	both := slices.Concat(first.encode(), second.encode())
	writeFile(t, fs, "db/memdb.mark", both)
	wantLSN("two slots", 5, 20)
	both[sector+20]++
	writeFile(t, fs, "db/memdb.mark", both)
	wantLSN("the newer is torn", 4, 10)
}
