package exchange

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-7aedc3ff/memdb/memory"
)

// fbin is a file of float rows.
func fbin(dim int, rows ...[]float32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(rows)))
	b = binary.LittleEndian.AppendUint32(b, uint32(dim))
	for _, row := range rows {
		for _, f := range row {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		}
	}
	return b
}

func TestImportVectors(t *testing.T) {
	scope := memory.Scope{Agent: "bench"}
	for _, test := range []struct {
		rows Rows
		file []byte
		want [][]float32
	}{
		{RowsFloat32, fbin(2, []float32{1, -0.5}, []float32{3e38, 1e-30}), [][]float32{{1, -0.5}, {3e38, 1e-30}}},
		{RowsUint8, []byte("\x03\x00\x00\x00\x02\x00\x00\x00\x01\x02\x00\xff\x80\x00"), [][]float32{{1, 2}, {0, 255}, {128, 0}}},
		{RowsFloat32, fbin(7), nil},
	} {
		db := open(t)
		for round := range 2 {
			report, err := ImportVectors(t.Context(), db, bytes.NewReader(test.file), test.rows, &Options{Scope: scope})
			if err != nil || report.Read != len(test.want) || round == 0 && report.Stored != len(test.want) ||
				round == 1 && report.Unchanged != len(test.want) || report.Bytes != int64(len(test.file)) {
				t.Errorf("%s, round %d: %+v, %v", test.rows, round, report, err)
			}
		}
		got := all(t, db)
		if len(got) != len(test.want) {
			t.Fatalf("%d memories", len(got))
		}
		for i, m := range got {
			if m.ID != fmt.Sprint(i) || m.Scope != scope || m.Text != "" || !reflect.DeepEqual(m.Embedding, test.want[i]) {
				t.Errorf("row %d: %+v", i, m)
			}
		}
	}
}

// TestImportVectorsRefuses: a file that is no such file, one that was cut, one that
// goes on; and a row that cannot be a vector, which is skipped.
func TestImportVectorsRefuses(t *testing.T) {
	whole := fbin(2, []float32{1, 2}, []float32{3, 4}, []float32{5, 6})
	for _, test := range []struct {
		name   string
		file   []byte
		stored int
		want   string
	}{
		{"empty", nil, 0, "ends after 0 bytes of its head"},
		{"half a head", whole[:5], 0, "ends after 5 bytes of its head"},
		{"no dimension", fbin(0), 0, "its rows have 0 dimensions"},
		{"too many dimensions", fbin(100_000), 0, "its rows have 100000 dimensions"},
		{"a text", []byte(`{"user":"u","text":"no vectors"}`), 0, "dimensions and 1 to 4096 are possible: or is it no fbin file?"},
		{"cut in a row", whole[:len(whole)-3], 2, "the file ends in row 2 of 3"},
		{"cut between rows", whole[:len(whole)-8], 2, "the file ends in row 2 of 3"},
		{"too long", append(bytes.Clone(whole), 0), 3, "the file goes on after the 3 rows"},
	} {
		db := open(t)
		report, err := ImportVectors(t.Context(), db, bytes.NewReader(test.file), RowsFloat32, &Options{Scope: memory.Scope{Agent: "a"}})
		if err == nil || !strings.Contains(err.Error(), test.want) || report.Stored != test.stored || len(all(t, db)) != test.stored {
			t.Errorf("%s: %+v, %v, want %q", test.name, report, err, test.want)
		}
	}
	v, err := NewVectorReader(bytes.NewReader(whole), RowsFloat32)
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]string{0: "in row 0 of 3", len(whole) - 1: "in row 2 of 3", len(whole) + 1: "goes on after the 3 rows"} {
		if err := v.CheckSize(int64(size)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %d bytes: %v, want %q", size, err, want)
		}
	}
	if err := v.CheckSize(int64(len(whole))); err != nil {
		t.Error(err)
	}
	report, err := ImportVectors(t.Context(), open(t), bytes.NewReader(fbin(2, []float32{1, 2}, []float32{0, float32(math.NaN())}, []float32{1, 1})),
		RowsFloat32, &Options{Scope: memory.Scope{Agent: "a"}})
	if err != nil || report.Stored != 2 || report.Skipped != 1 || report.Errors[0].ID != "1" {
		t.Errorf("a row that is no vector: %+v, %v", report, err)
	}
	if _, err := ImportVectors(t.Context(), open(t), bytes.NewReader(whole), RowsFloat32, &Options{Strict: true}); err == nil || !strings.Contains(err.Error(), "must be provided") {
		t.Errorf("without an owner: %v", err)
	}
}
