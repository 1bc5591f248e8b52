package sqlitefile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// section is a file of testdata; the zero Section where there is none.
func section(t testing.TB, name string) Section {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if os.IsNotExist(err) {
		return Section{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return Section{bytes.NewReader(b), int64(len(b))}
}

func rowsOf(t testing.TB, f *File, table string) (rows []Row) {
	t.Helper()
	of := f.Table(table)
	if of == nil {
		t.Fatalf("there is no table %q", table)
	}
	for row, err := range f.Rows(of) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// The files of testdata are SQLite's own: of small pages, of each encoding of texts.
func TestRead(t *testing.T) {
	for _, name := range []string{"utf8.db", "utf16le.db", "utf16be.db"} {
		t.Run(name, func(t *testing.T) {
			f, err := Open(section(t, name), Section{})
			if err != nil {
				t.Fatal(err)
			}
			if f.Version() != 17 {
				t.Errorf("version %d", f.Version())
			}
			kinds := rowsOf(t, f, "KINDS")
			want := []Row{
				{-3, []any{int64(-3), "neg", int64(1 << 40), 0.1, []byte("q"), "", "-7"}},
				{1, []any{int64(1), "één", int64(0), 1.5, []byte("\x00\xff"), "xxxxxxxxxx", "-7"}},
				{2, []any{int64(2), nil, int64(1), 0.0, nil, strings.Repeat("y", 5000), "-7"}},
				{5, []any{int64(5), "", int64(-129), 1e300, []byte{}, strings.Repeat("z", 40000), "-7"}},
			}
			for i := range kinds {
				if x, ok := kinds[i].Values[3].(int64); ok { // a whole number may be stored as one
					kinds[i].Values[3] = float64(x)
				}
			}
			if !reflect.DeepEqual(kinds, want) {
				t.Errorf("kinds %d, want %d rows; %q", len(kinds), len(want), kinds[0].Values)
			}
			if c := f.Table("kinds").Columns; c[1].Name != `a "name` || !f.Table("kinds").Has("X", "b") || f.Table("kinds").Has("u") {
				t.Errorf("columns %v", c)
			}
			keyed := rowsOf(t, f, "keyed")
			if n := len(keyed); n != 13 || !reflect.DeepEqual(keyed[n-1].Values, []any{"new", "v", "now", int64(8)}) || !reflect.DeepEqual(keyed[0].Values, []any{"127", "127", "since then", int64(7)}) {
				t.Errorf("keyed %v", keyed)
			}
			for _, row := range rowsOf(t, f, "numbered") {
				if row.Values[0] != fmt.Sprintf("v%d", row.ID) || row.Values[1] != row.ID {
					t.Errorf("numbered %v", row)
				}
			}
			if c := rowsOf(t, f, "computed"); !reflect.DeepEqual(c[0].Values, []any{int64(21), nil, int64(63)}) {
				t.Errorf("computed %v", c)
			}
			for i, row := range rowsOf(t, f, "many") {
				if row.ID != int64(i) || row.Values[1] != fmt.Sprintf("row %d", i) {
					t.Fatalf("row %d: %v", i, row)
				}
			}
			for _, id := range []int64{0, 1, 19} {
				if row, err := f.Row(f.Table("many"), id); err != nil || row.ID != id || row.Values[1] != fmt.Sprintf("row %d", id) {
					t.Errorf("row %d: %v, error %v", id, row, err)
				}
			}
			if _, err := f.Row(f.Table("many"), 10_000); err == nil || !strings.Contains(err.Error(), "has no row 10000") {
				t.Errorf("a row that there is not: %v", err)
			}
			for _, err := range f.Rows(f.Table("rowless")) {
				if err == nil || !strings.Contains(err.Error(), "without rowid") {
					t.Errorf("rowless: %v", err)
				}
			}
		})
	}
}

// What a write-ahead log holds is read up to its last commit.
func TestReadLog(t *testing.T) {
	wal := section(t, "log.db-wal")
	count := func(wal Section) (rows, fresh int, err error) {
		f, err := Open(section(t, "log.db"), wal)
		if err != nil {
			return 0, 0, err
		}
		for _, row := range rowsOf(t, f, "t") {
			rows++
			if row.Values[1] != "old" {
				fresh++
			}
		}
		changed, err := f.Changed()
		if changed {
			t.Error("it was changed")
		}
		return rows, fresh, err
	}
	if rows, fresh, err := count(Section{}); rows != 30 || fresh != 0 || err != nil {
		t.Errorf("without the log %d rows, %d new, error %v", rows, fresh, err)
	}
	if rows, fresh, err := count(wal); rows != 59 || fresh != 40 || err != nil {
		t.Errorf("with the log %d rows, %d new, error %v", rows, fresh, err)
	}
	whole, err := os.ReadFile("testdata/log.db-wal")
	if err != nil {
		t.Fatal(err)
	}
	// The last commit is cut: the one before it counts.
	cut := whole[:len(whole)-1]
	if rows, fresh, err := count(Section{bytes.NewReader(cut), int64(len(cut))}); rows != 29 || fresh != 10 || err != nil {
		t.Errorf("with a log that is cut %d rows, %d new, error %v", rows, fresh, err)
	}
	bad := bytes.Clone(whole)
	bad[logHeader+frameHeader+7] ^= 1
	if rows, fresh, err := count(Section{bytes.NewReader(bad), int64(len(bad))}); rows != 30 || fresh != 0 || err != nil {
		t.Errorf("with a log whose first frame is flipped %d rows, %d new, error %v", rows, fresh, err)
	}
	for _, c := range []struct {
		log  string
		says string
	}{
		{"", ""}, {strings.Repeat("\x00", 32), "is none"}, {string(whole[:10]), ""},
	} {
		_, _, err := count(Section{strings.NewReader(c.log), int64(len(c.log))})
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("log of %d bytes: %v", len(c.log), err)
		}
	}
}

// buffer is a file in memory.
type buffer struct{ b []byte }

func (b *buffer) WriteAt(p []byte, at int64) (int, error) {
	if end := at + int64(len(p)); end > int64(len(b.b)) {
		b.b = append(b.b, make([]byte, end-int64(len(b.b)))...)
	}
	return copy(b.b[at:], p), nil
}

// What is written is read again, from an empty table to one whose tree has three floors.
func TestWrite(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := func(i int) []any {
		text := strings.Repeat(string(rune('a'+i%26)), []int{0, 1, 30, 2000, 8100, 8157, 8158, 20_000, 100_000}[i%9]/(1+i/20))
		return []any{text, int64(rng.Uint64()) >> rng.IntN(64), math.Float64frombits(rng.Uint64() >> 3), []byte(text[:min(3, len(text))]), nil}
	}
	counts := []int{0, 1, 2, 3000, 400_000}
	var schema []Schema
	for i := range counts {
		schema = append(schema, Schema{fmt.Sprintf("t%d", i), fmt.Sprintf("CREATE TABLE t%d (n INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL, d BLOB, e TEXT)", i)})
	}
	var out buffer
	w := NewWriter(&out, schema)
	want := make([][]Row, len(counts))
	for j := range slices.Max(counts) { // all tables by turns
		for i, n := range counts {
			if j >= n {
				continue
			}
			id := int64(3*j - 5)
			v := []any{"x", int64(j), 0.5, nil, nil}
			if n < 10_000 {
				v = values(j)
			}
			if err := w.Row(i, id, v...); err != nil {
				t.Fatal(err)
			}
			want[i] = append(want[i], Row{id, append([]any{id}, v...)})
		}
	}
	if err := w.Row(3, 0, nil); err == nil {
		t.Error("a row was written behind a later one")
	}
	if err := w.Close(3); err != nil {
		t.Fatal(err)
	}
	f, err := Open(Section{bytes.NewReader(out.b), int64(len(out.b))}, Section{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range counts {
		got := rowsOf(t, f, schema[i].Name)
		if len(got) != len(want[i]) {
			t.Fatalf("table %d has %d rows", i, len(got))
		}
		for j := range got {
			if !reflect.DeepEqual(got[j], want[i][j]) {
				t.Fatalf("table %d, row %d: ID %d, want %d", i, j, got[j].ID, want[i][j].ID)
			}
		}
	}
}

// A file that is damaged anywhere is read to an error or to rows, without a panic and without
// end.
func TestDamage(t *testing.T) {
	whole, err := os.ReadFile("testdata/utf8.db")
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile("testdata/log.db-wal")
	if err != nil {
		t.Fatal(err)
	}
	read := func(main, wal []byte) (rows int, err error) {
		s := Section{}
		if wal != nil {
			s = Section{bytes.NewReader(wal), int64(len(wal))}
		}
		f, err := Open(Section{bytes.NewReader(main), int64(len(main))}, s)
		if err != nil {
			return 0, err
		}
		for i := range f.Tables() {
			for _, e := range f.Rows(&f.Tables()[i]) {
				if rows++; e != nil && err == nil && !strings.Contains(e.Error(), "without rowid") {
					err = e
				}
			}
		}
		return rows, err
	}
	rng := rand.New(rand.NewPCG(3, 4))
	failed := 0
	for range 3000 {
		b := bytes.Clone(whole)
		for range 1 + rng.IntN(4) {
			at := rng.IntN(len(b))
			if rng.IntN(2) == 0 { // where the structure is
				at = at/512*512 + rng.IntN(16)
			}
			b[at] = byte(rng.Uint32())
		}
		if rng.IntN(4) == 0 {
			b = b[:rng.IntN(len(b))]
		}
		rows, err := read(b, nil)
		if err != nil {
			failed++
		}
		if rows > 100_000 {
			t.Fatalf("%d rows", rows)
		}
	}
	if failed < 500 {
		t.Errorf("of 3000 damaged files %d were refused", failed)
	}
	log, err := os.ReadFile("testdata/log.db")
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		b := bytes.Clone(wal)
		b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
		if _, err := read(log, b); err != nil && !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%v", err)
		}
	}
	for name, b := range map[string][]byte{
		"empty": nil, "short": []byte(Magic), "text": bytes.Repeat([]byte("a"), 200),
	} {
		if _, err := read(b, nil); err == nil || err.Error() != ErrNoFile.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
	newer := bytes.Clone(whole)
	newer[19] = 3
	if _, err := read(newer, nil); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("newer: %v", err)
	}
	loop := bytes.Clone(whole)
	// The first child of the first inner page becomes the page itself.
	for n := 1; n < len(loop)/512; n++ {
		if page := loop[512*n:]; page[0] == pageInner {
			at := int(page[12])<<8 | int(page[13])
			page[at], page[at+1], page[at+2], page[at+3] = 0, 0, byte((n+1)>>8), byte(n+1)
			break
		}
	}
	if _, err := read(loop, nil); err == nil || !strings.Contains(err.Error(), "loop") {
		t.Errorf("loop: %v", err)
	}
}
