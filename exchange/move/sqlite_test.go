package move

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// sqliteInput makes a SQLite file with some statements, and returns it as an input, with the
// write-ahead log that it has before SQLite closes it.
func sqliteInput(t testing.TB, statements ...string) *Input {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	conn, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append([]string{"PRAGMA foreign_keys=off"}, statements...) {
		if err := conn.Exec(s); err != nil {
			t.Fatalf("%.200s: %v", s, err)
		}
	}
	main, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	return withLog(main, log)
}

// withLog is a SQLite file with a log next to it.
func withLog(main, log []byte) *Input {
	in := input("x.db", main)
	in.Beside = func(ending string) (io.ReaderAt, int64, error) {
		if ending == "-wal" && log != nil {
			return bytes.NewReader(log), int64(len(log)), nil
		}
		return nil, 0, nil
	}
	return in
}

// valuesOf are the values of all rows of a table.
func valuesOf(t testing.TB, in *Input, name string) (all [][]any) {
	t.Helper()
	f, err := in.openSQLite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.end()
	if err := f.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	table := f.table(name)
	if table == nil {
		t.Fatalf("there is no table %q", name)
	}
	for row, err := range f.rows(t.Context(), table) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, slices.Clone(row.values))
	}
	if err := f.unchanged(); err != nil {
		t.Error(err)
	}
	return all
}

// TestSQLiteValues verifies that values are those that SQLite has, in files of all page sizes and
// encodings, checkpointed and in the log: with the affinity of columns that were added, in tables
// without rowids, and in generated columns. Views, triggers and indexes are no tables.
func TestSQLiteValues(t *testing.T) {
	long := strings.Repeat("é", 40_000)
	for _, encoding := range []string{"UTF-8", "UTF-16le", "UTF-16be"} {
		for _, page := range []int{512, 4096, 65536} {
			for _, journal := range []string{"delete", "wal"} {
				in := sqliteInput(t,
					fmt.Sprintf("PRAGMA encoding='%s'; PRAGMA page_size=%d; PRAGMA journal_mode=%s; PRAGMA synchronous=off; PRAGMA wal_autocheckpoint=0", encoding, page, journal),
					`CREATE TABLE kinds (id INTEGER PRIMARY KEY, "a ""name" TEXT, r REAL, b BLOB)`,
					`INSERT INTO kinds VALUES (-3, 'één', 3, x'00ff'), (2, NULL, 'high', NULL), (9223372036854775807, 'nul'||char(0)||'in', -0.5, '')`,
					`INSERT INTO kinds VALUES (5, '`+long+`', 1e300, 9)`,
					`ALTER TABLE kinds ADD COLUMN code TEXT DEFAULT 007; ALTER TABLE kinds ADD COLUMN big TEXT DEFAULT 1e3; ALTER TABLE kinds ADD COLUMN num NUMERIC DEFAULT '12'`,
					`CREATE TABLE keyed (k TEXT, v INTEGER, PRIMARY KEY (k DESC, v)) WITHOUT ROWID`,
					`INSERT INTO keyed VALUES ('a', 1), ('b', 2), ('b', '1')`,
					`CREATE TABLE made (a INTEGER, twice AS (a*2), shown TEXT AS ('<' || a || '>') STORED)`, `INSERT INTO made VALUES (21)`,
					`CREATE VIEW seen AS SELECT 1/0`, `CREATE INDEX by_code ON kinds (code)`,
					`CREATE TRIGGER bad AFTER INSERT ON made BEGIN DELETE FROM made; END`,
				)
				name := fmt.Sprint(encoding, " ", page, " ", journal)
				want := [][]any{
					{int64(-3), "één", 3.0, []byte("\x00\xff"), "7", "1e3", int64(12)},
					{int64(2), nil, "high", nil, "7", "1e3", int64(12)},
					{int64(5), long, 1e300, int64(9), "7", "1e3", int64(12)},
					{int64(9223372036854775807), "nul\x00in", -0.5, "", "7", "1e3", int64(12)},
				}
				if got := valuesOf(t, in, "KINDS"); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: kinds %.300v", name, got)
				}
				if got := fmt.Sprint(valuesOf(t, in, "keyed")); got != "[[b 1] [b 2] [a 1]]" {
					t.Errorf("%s: keyed %s", name, got)
				}
				if got := fmt.Sprint(valuesOf(t, in, "made")); got != "[[21 42 <21>]]" {
					t.Errorf("%s: made %s", name, got)
				}
			}
		}
	}
}

// TestSQLiteIsOnlyRead verifies that nothing reaches a source: each write of SQLite is refused.
func TestSQLiteIsOnlyRead(t *testing.T) {
	f, err := sqliteInput(t, "PRAGMA journal_mode=wal", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)").openSQLite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.end()
	for _, sql := range []string{
		"INSERT INTO t VALUES (2)", "PRAGMA wal_checkpoint(TRUNCATE)", "ATTACH 'other.db' AS other", "VACUUM INTO 'other.db'", "PRAGMA query_only=OFF; INSERT INTO t VALUES (2)",
		"SELECT load_extension('x')", "PRAGMA query_only=OFF; PRAGMA journal_mode=delete; COMMIT; DELETE FROM t",
	} {
		if err := f.conn.Exec(sql); err == nil && !strings.HasPrefix(sql, "PRAGMA wal") {
			t.Errorf("%s: it was done", sql)
		}
	}
	if _, err := os.Stat("other.db"); err == nil {
		t.Error("a file was made")
	}
	if n, err := f.count(t.Context(), f.table("t")); n != 1 || err != nil {
		t.Errorf("%d rows, error %v", n, err)
	}
}

// TestSQLiteLog verifies that a log is read up to its last commit, and that pages behind it are counted.
func TestSQLiteLog(t *testing.T) {
	in := sqliteInput(t, "PRAGMA page_size=512; PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0", "CREATE TABLE notes (text TEXT)", "INSERT INTO notes VALUES ('first')", "INSERT INTO notes VALUES ('second')")
	main, err := io.ReadAll(in.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, size, _ := in.Beside("-wal")
	log, err := io.ReadAll(io.NewSectionReader(r, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(log)
	flipped[len(flipped)-9] ^= 1
	for name, c := range map[string]struct {
		log         []byte
		items, left int
	}{
		"whole":                 {log, 2, 0},
		"its last byte missing": {log[:len(log)-1], 1, 1},
		"a flipped byte":        {flipped, 1, 1},
		"header alone":          {log[:logHeader], 0, 0},
		"cut in its header":     {log[:10], 0, 0},
	} {
		o := read(t.Context(), SQLite, withLog(main, c.log))
		if o.items != c.items || o.left != c.left || (o.failed == nil) != (c.items > 0) {
			t.Errorf("%s: %v", name, &o)
		}
	}
}

// TestSQLiteDamaged verifies that a file whose structure is damaged is refused with a next step, and
// that any damage at all ends in an error or in rows.
func TestSQLiteDamaged(t *testing.T) {
	whole, err := io.ReadAll(sqliteInput(t, "PRAGMA page_size=512",
		"CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 200) INSERT INTO notes SELECT i, 'a note ' || i FROM n",
		"INSERT INTO notes VALUES (900, '"+strings.Repeat("long ", 1000)+"')",
		"CREATE TABLE gone (a)", "INSERT INTO gone VALUES ('"+strings.Repeat("x", 3000)+"')", "DROP TABLE gone",
	).Reader)
	if err != nil {
		t.Fatal(err)
	}
	const page = 512
	find := func(kind byte) int { // the first page of a kind behind the schema
		for at := page; at < len(whole); at += page {
			if whole[at] == kind {
				return at
			}
		}
		t.Fatalf("there is no page of the kind %d", kind)
		return 0
	}
	const inner, leaf = 5, 13
	overflow := len(whole) - page
	for at := page; at < len(whole); at += page {
		if bytes.Contains(whole[at+4:at+page], []byte("long long long")) && whole[at] == 0 {
			overflow = at
			break
		}
	}
	for name, change := range map[string]func(b []byte) []byte{
		"cut in the middle":     func(b []byte) []byte { return b[:len(b)/2] },
		"the last page missing": func(b []byte) []byte { return b[:len(b)-page] },
		"a page of zeros":       func(b []byte) []byte { clear(b[find(leaf):][:page]); return b },
		"a page of noise":       func(b []byte) []byte { copy(b[find(leaf):], bytes.Repeat([]byte("noise "), page/6)); return b },
		"an inner page that is its child": func(b []byte) []byte {
			at := find(inner)
			n := at/page + 1
			b[at+8], b[at+9], b[at+10], b[at+11] = 0, 0, byte(n>>8), byte(n)
			return b
		},
		"a child that there is not":   func(b []byte) []byte { b[find(inner)+9] = 0xff; return b },
		"a cell outside its page":     func(b []byte) []byte { b[find(leaf)+8] = 0xff; return b },
		"cells that are missing":      func(b []byte) []byte { b[find(leaf)+4]--; return b },
		"an overflow that ends early": func(b []byte) []byte { clear(b[overflow : overflow+4]); return b },
		"an overflow that is a loop": func(b []byte) []byte {
			n := overflow/page + 1
			b[overflow+2], b[overflow+3] = byte(n>>8), byte(n)
			return b
		},
		"a schema that is no statement": func(b []byte) []byte {
			return bytes.Replace(b, []byte("CREATE TABLE notes"), []byte("CREATE THING notes"), 1)
		},
		"a free list that is too long": func(b []byte) []byte { b[39]++; return b },
		"two pages exchanged": func(b []byte) []byte {
			a, c := b[find(leaf):][:page], b[find(leaf)+page:][:page]
			x := bytes.Clone(a)
			copy(a, c)
			copy(c, x)
			return b
		},
	} {
		o := read(t.Context(), SQLite, withLog(change(bytes.Clone(whole)), nil))
		if o.failed == nil || !strings.Contains(o.failed.Error(), "damaged") || !strings.Contains(o.failed.Error(), "sqlite3 FILE .recover") || o.items > 0 {
			t.Errorf("%s: %v", name, &o)
		}
	}
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	refused := 0
	for range 150 {
		b := bytes.Clone(whole)
		for range 1 + rng.IntN(4) {
			at := rng.IntN(len(b))
			if rng.IntN(2) == 0 { // where the structure is
				at = at/page*page + rng.IntN(16)
			}
			b[at] = byte(rng.Uint32())
		}
		if rng.IntN(8) == 0 {
			b = b[:rng.IntN(len(b))]
		}
		in := withLog(b, nil)
		_, _, _ = Recognise(t.Context(), in)
		o := read(t.Context(), SQLite, in)
		if o.failed != nil {
			refused++
		}
		if o.items > 250 {
			t.Fatalf("seed %d: %v", seed, &o)
		}
	}
	if refused < 50 {
		t.Errorf("seed %d: of 150 damaged files %d were refused", seed, refused)
	}
}

// TestSQLiteLongRows verifies that a row that is too long is skipped, and the rows around it are read.
func TestSQLiteLongRows(t *testing.T) {
	in := sqliteInput(t, "CREATE TABLE notes (text TEXT)", "INSERT INTO notes VALUES ('before')",
		fmt.Sprintf("INSERT INTO notes VALUES (printf('%%%dd', 7))", maxCell+10), "INSERT INTO notes VALUES ('behind')")
	o := read(t.Context(), SQLite, in)
	if o.items != 2 || o.skipped != 1 || o.failed != nil || !strings.Contains(o.first.Error(), "row 2 of notes: a value of it is longer than 64 MiB") {
		t.Errorf("%v", &o)
	}
}

// itemsOf reads an input, and fails on anything but whole items.
func itemsOf(t testing.TB, f Format, in *Input, o *Options) (items []exchange.Item, left exchange.Counts) {
	t.Helper()
	all := Read(f, in, o)
	for item, err := range all.All(t.Context()) {
		if err != nil || item.At.Err != nil {
			t.Fatalf("%v, %v", err, item.At)
		}
		items = append(items, item)
	}
	return items, all.LeftOut()
}

// TestSQLiteTable verifies how the rows of any table become memories.
func TestSQLiteTable(t *testing.T) {
	in := func() *Input {
		return sqliteInput(t,
			`CREATE TABLE Notes (uuid TEXT PRIMARY KEY, Body TEXT, User_ID TEXT, Created DATETIME, stars INTEGER, picture BLOB, embedding BLOB, "key" TEXT, metadata TEXT)`,
			`INSERT INTO Notes VALUES ('n1', 'tea', 'ada', '2026-01-02 03:04:05', 5, x'ff00', x'0000003f', 'same', '{"from":"x","n":12345678901234567890}')`,
			`INSERT INTO Notes VALUES ('n2', 'coffee', NULL, NULL, NULL, NULL, NULL, 'same', 'plain')`,
			`CREATE TABLE tags (tag TEXT)`, `INSERT INTO tags VALUES ('hot'), ('cold')`, `CREATE VIEW v AS SELECT * FROM tags`, `CREATE TABLE none (text TEXT)`)
	}
	items, left := itemsOf(t, SQLite, in(), nil)
	var got strings.Builder
	for _, item := range items {
		text, err := json.Marshal(brief(*item.Memory))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n", text)
	}
	want := `{"created_at":"2026-01-02T03:04:05.000Z","embedding":[0.5],"id":"n1","metadata":{"from":"x","key":"same","n":12345678901234567890,"stars":5},"text":"tea","user":"ada"}
{"agent":"sqlite","id":"n2","metadata":{"key":"same","metadata":"plain"},"text":"coffee"}
`
	if strings.ReplaceAll(strings.ReplaceAll(got.String(), `"kind":"message",`, ""), `"role":"user",`, "") != strings.ReplaceAll(want, `12345678901234567890`, `12345678901234567000`) {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	if fmt.Sprint(left) != fmt.Sprint(map[string]int{"blobs of the column picture": 1, "rows of the table tags": 2}) {
		t.Errorf("left out %v", left)
	}
	items, left = itemsOf(t, SQLite, in(), &Options{Table: "TAGS"})
	if len(items) != 2 || items[0].Memory.ID != "tags/1" || items[1].Memory.Text != "tag: cold" || left["rows of the table Notes"] != 2 {
		t.Errorf("tags: %d items, left out %v", len(items), left)
	}
	for says, c := range map[string]struct {
		in *Input
		o  *Options
	}{
		`no table "v"; its tables are "Notes" (2 rows), "tags" (2 rows)`: {in(), &Options{Table: "v"}},
		`name one with --table: "a" (1 row), "b" (2 rows)`:               {sqliteInput(t, "CREATE TABLE a (text)", "CREATE TABLE b (text)", "INSERT INTO a VALUES ('x')", "INSERT INTO b VALUES ('x'), ('y')"), nil},
		"has no table with rows":                                         {sqliteInput(t, "CREATE TABLE a (text)"), nil},
		"it is no SQLite file":                                           {input("x.db", []byte("plain")), &Options{Table: "t"}},
	} {
		var failed error
		for _, err := range Read(SQLite, c.in, c.o).All(t.Context()) {
			failed = err
		}
		if failed == nil || !strings.Contains(failed.Error(), says) {
			t.Errorf("%v, want %q", failed, says)
		}
	}
}

// TestSQLiteRecognised verifies that a file is recognised by the columns of its tables.
func TestSQLiteRecognised(t *testing.T) {
	for want, statements := range map[string][]string{
		"sqlite 1":    {"CREATE TABLE memories (id, agent_id, content)"},
		"sqlite 2":    {"CREATE TABLE history (memory_id, event)", "PRAGMA user_version=1"},
		"sqlite 3":    {"CREATE TABLE store (prefix, key, value)"},
		"mem0 1":      {"CREATE TABLE history (id, memory_id, prev_value, new_value, event, timestamp, is_deleted)"},
		"langgraph 1": {"CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at, updated_at, PRIMARY KEY (prefix, key))"},
		"openfang 1":  {"CREATE TABLE kv_store (agent_id, key, value, version, updated_at)"},
		"chroma 1":    chromaSchema,
	} {
		f, ok, _ := Recognise(t.Context(), sqliteInput(t, statements...))
		if name, _, _ := strings.Cut(want, " "); !ok || string(f) != name {
			t.Errorf("%s: it is taken for %q", want, f)
		}
	}
}

// TestOwnTables verifies that what ExportSQLite writes is recognised and read back, and that a second
// import changes nothing.
func TestOwnTables(t *testing.T) {
	db := openMemory(t)
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		if _, err := importSample(t.Context(), db, samples[name], sample(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Memories().StoreBatch(t.Context(), nasty(), &memory.StoreOptions{NoDedup: true}); err != nil {
		t.Fatal(err)
	}
	ada := memory.Scope{User: "Ada", Run: "r: 1"}
	for _, text := range []string{"first", "second"} { // one that is gone, and one of the same ID
		if _, err := db.Memories().Store(t.Context(), memory.Memory{ID: "again", Scope: ada, Text: text}, &memory.StoreOptions{NoDedup: true}); err != nil {
			t.Fatal(err)
		}
		if text == "first" {
			if err := db.Memories().Delete(t.Context(), ada, "again"); err != nil {
				t.Fatal(err)
			}
		}
	}
	export := func(from func(w io.Writer) error) string {
		var b bytes.Buffer
		if err := from(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	var first, second file
	moved, err := ExportSQLite(t.Context(), db, &first, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := func() *Input { return input("out.db", first.b) }
	if f, ok, _ := Recognise(t.Context(), in()); f != SQLite || !ok {
		t.Fatalf("it is taken for %q", f)
	}
	back := openMemory(t)
	report, err := importSample(t.Context(), back, SQLite, in())
	if err != nil || report.Skipped > 0 {
		t.Fatalf("%+v, error %v", report, err)
	}
	lsn := back.LSN()
	if report, err = importSample(t.Context(), back, SQLite, in()); err != nil || back.LSN() != lsn {
		t.Errorf("again: %+v, error %v; the LSN went from %d to %d", report, err, lsn, back.LSN())
	}
	again, err := ExportSQLite(t.Context(), back, &second, nil)
	if err != nil || !reflect.DeepEqual(moved.Written, again.Written) {
		t.Errorf("written %v, then %v, error %v", moved.Written, again.Written, err)
	}
	for _, table := range sqliteTables {
		a, b := valuesOf(t, in(), table.name), valuesOf(t, input("back.db", second.b), table.name)
		if table.typ != exchange.TypeMemory && table.typ != exchange.TypeHistory && table.typ != "vector" {
			for _, rows := range [][][]any{a, b} { // owners may come in another order
				for _, row := range rows {
					row[0] = nil
				}
				slices.SortFunc(rows, func(x, y []any) int { return strings.Compare(fmt.Sprintf("%q", x), fmt.Sprintf("%q", y)) })
			}
		}
		for i := range max(len(a), len(b)) {
			if i >= len(a) || i >= len(b) || !reflect.DeepEqual(a[i], b[i]) {
				t.Errorf("%s, row %d of %d and %d:\n%.500q\n%.500q", table.name, i+1, len(a), len(b), a[min(i, len(a)-1)], b[min(i, len(b)-1)])
				break
			}
		}
	}
	if export(func(w io.Writer) error { _, err := exchange.Export(t.Context(), back, w, nil); return err }) == "" {
		t.Error("nothing came back")
	}
}

// chromaSchema makes the tables of Chroma as it has them.
var chromaSchema = []string{
	`CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL, dimension INTEGER, database_id TEXT NOT NULL, config_json_str TEXT, UNIQUE (name, database_id))`,
	`CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT NOT NULL, scope TEXT NOT NULL, collection TEXT REFERENCES collections(id) NOT NULL)`,
	`CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL, seq_id BLOB NOT NULL, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (segment_id, embedding_id))`,
	`CREATE TABLE embedding_metadata (id INTEGER REFERENCES embeddings(id), key TEXT NOT NULL, string_value TEXT, int_value INTEGER, float_value REAL, bool_value INTEGER, PRIMARY KEY (id, key))`,
	`CREATE TABLE embedding_metadata_array (id INTEGER NOT NULL, key TEXT NOT NULL, string_value TEXT, int_value INTEGER, float_value REAL, bool_value INTEGER)`,
	`CREATE TABLE max_seq_id (segment_id TEXT PRIMARY KEY, seq_id)`,
	`CREATE TABLE embeddings_queue (seq_id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, operation INTEGER NOT NULL, topic TEXT NOT NULL, id TEXT NOT NULL, vector BLOB, encoding TEXT, metadata TEXT)`,
	`CREATE TABLE embedding_fulltext_search_content (id INTEGER PRIMARY KEY, c0)`,
	`CREATE TABLE collection_metadata (collection_id TEXT, key TEXT NOT NULL, str_value TEXT, int_value INTEGER, float_value REAL, PRIMARY KEY (collection_id, key))`,
}

// TestChromaSQLite verifies that the records of all collections are read: with operations of the
// queue that are not in the tables yet, and the vectors that it has.
func TestChromaSQLite(t *testing.T) {
	in := sqliteInput(t, append(slices.Clone(chromaSchema),
		`INSERT INTO collections VALUES ('c1', 'pots', 2, 'd', '{}'), ('c2', 'clays', 1, 'd', NULL)`,
		`INSERT INTO segments VALUES ('s1', 'urn:x', 'METADATA', 'c1'), ('s1v', 'urn:y', 'VECTOR', 'c1'), ('s2', 'urn:x', 'METADATA', 'c2')`,
		`INSERT INTO embeddings VALUES (1, 's1', 'a', 1, '2026-01-02 03:04:05'), (2, 's2', 'a', x'0000000000000002', '2026-01-02 03:04:06'), (3, 's1', 'b', 3, '2026-01-02 03:04:07'), (4, 's1', 'gone', 4, '2026-01-02 03:04:07'), (5, 'lost', 'x', 5, '2026-01-02 03:04:07')`,
		`INSERT INTO embedding_metadata VALUES (1, 'chroma:document', 'Bowls crack.', NULL, NULL, NULL), (1, 'kind_of', NULL, NULL, NULL, 1), (1, 'n', NULL, 7, NULL, NULL), (1, 'w', NULL, NULL, 0.5, NULL),
			(2, 'chroma:document', 'Clay is wet.', NULL, NULL, NULL), (2, 'collection', 'own', NULL, NULL, NULL), (3, 'chroma:document', 'Old text.', NULL, NULL, NULL), (3, 'drop', 'x', NULL, NULL, NULL),
			(4, 'chroma:document', 'Gone.', NULL, NULL, NULL), (5, 'chroma:document', 'Nowhere.', NULL, NULL, NULL), (77, 'orphan', 'x', NULL, NULL, NULL)`,
		`INSERT INTO embedding_metadata_array VALUES (1, 'tags', 'red', NULL, NULL, NULL), (3, 'sizes', NULL, 3, NULL, NULL), (1, 'tags', 'blue', NULL, NULL, NULL)`,
		`INSERT INTO max_seq_id VALUES ('s1', 4), ('s2', x'0000000000000004')`,
		`INSERT INTO embeddings_queue (seq_id, created_at, operation, topic, id, vector, encoding, metadata) VALUES
			(1, '2026-01-02 03:04:05', 0, 'persistent://default/default/c1', 'a', x'0000003f0000803e', 'FLOAT32', '{"chroma:document":"Bowls crack."}'),
			(2, '2026-01-02 03:04:06', 0, 'persistent://default/default/c2', 'a', x'0000803f', 'FLOAT32', NULL),
			(5, '2026-01-02 03:04:08', 1, 'persistent://default/default/c1', 'b', NULL, NULL, '{"chroma:document":"New text.","drop":null}'),
			(6, '2026-01-02 03:04:08', 3, 'persistent://default/default/c1', 'gone', NULL, NULL, NULL),
			(7, '2026-01-02 03:04:09', 2, 'persistent://default/default/c2', 'new', x'00', 'INT32', '{"chroma:document":"Only in the queue."}'),
			(8, '2026-01-02 03:04:09', 1, 'persistent://default/default/c2', 'never', NULL, NULL, '{"chroma:document":"An update of nothing."}')`,
		`INSERT INTO collection_metadata VALUES ('c1', 'hnsw:space', 'l2', NULL, NULL)`,
	)...)
	items, left := itemsOf(t, Chroma, in, nil)
	var got strings.Builder
	for _, item := range items {
		m := brief(*item.Memory)
		delete(m, "kind")
		delete(m, "role")
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n", text)
	}
	want := `{"agent":"chroma","created_at":"2026-01-02T03:04:05.000Z","embedding":[0.5,0.25],"id":"a","metadata":{"collection":"pots","kind_of":true,"n":7,"tags":["red","blue"],"w":0.5},"text":"Bowls crack."}
{"agent":"chroma","created_at":"2026-01-02T03:04:06.000Z","id":"clays/a","metadata":{"chroma_collection":"clays","collection":"own"},"text":"Clay is wet.","vectors":{"chroma-1":[1]}}
{"agent":"chroma","created_at":"2026-01-02T03:04:07.000Z","id":"b","metadata":{"collection":"pots","sizes":[3]},"text":"New text."}
{"agent":"chroma","created_at":"2026-01-02T03:04:09.000Z","id":"new","metadata":{"collection":"clays"},"text":"Only in the queue."}
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	wantLeft := map[string]int{
		"vectors in index files of Chroma": 1, "vectors that cannot be read": 1, "rows of the table collection_metadata": 1, "records of collections that are gone": 1,
		"rows of the table embedding_metadata without a record": 1, "values of the column database_id of the table collections": 2,
		"values of the column dimension of the table collections": 2, "values of the column config_json_str of the table collections": 1,
	}
	if fmt.Sprint(left) != fmt.Sprint(wantLeft) {
		t.Errorf("left out %v\nwant %v", left, wantLeft)
	}
}

// TestOpenFangOdd verifies that rows are read whatever SQLite let a program put into them: tables
// without rowids, values of other kinds than their columns, defaults of columns that were added.
func TestOpenFangOdd(t *testing.T) {
	in := func() *Input {
		return sqliteInput(t,
			`CREATE TABLE memories (id TEXT PRIMARY KEY, agent_id TEXT, content TEXT, source TEXT, scope TEXT, confidence REAL, metadata TEXT, created_at TEXT, accessed_at TEXT, access_count INTEGER, deleted INTEGER, embedding BLOB) WITHOUT ROWID`,
			`INSERT INTO memories VALUES ('a1', 'coach', 'Ada likes tea', 'UserMessage', NULL, 'high', '{"code":"own","x":1}', '2026-01-02T03:04:05Z', NULL, 'many', 0, x'00'), ('a2', 'coach', 'nul'||char(0)||'in', NULL, 'semantic', 0.5, '[1]', 'never', NULL, 3, NULL, x'0000003f')`,
			`ALTER TABLE memories ADD COLUMN code TEXT DEFAULT 007; ALTER TABLE memories ADD COLUMN raw BLOB DEFAULT x'ff'`,
			`CREATE TABLE usage_events (id TEXT PRIMARY KEY, agent_id TEXT, timestamp TEXT, model TEXT, input_tokens INTEGER, output_tokens INTEGER, cost_usd REAL, tool_calls INTEGER) WITHOUT ROWID`,
			`INSERT INTO usage_events VALUES ('u1', 'coach', '2026-01-02T03:04:05Z', 'm', 5, 6, 0.25, 2), ('u2', 'coach', '2026-01-02T03:04:05Z', 'm', 5, 6, 0.25, 0)`,
			`CREATE TABLE sessions (id TEXT, agent_id TEXT, messages BLOB, created_at TEXT)`,
			`INSERT INTO sessions VALUES ('s', 'coach', '[{"role":"user","content":"hi","mood":"glad","n":12345678901234567890},{"role":"assistant","content":null,"tool_calls":[{"id":"t1"}]},{"role":"tool","content":"ok","tool_call_id":"t1"}]', NULL)`,
			`CREATE TABLE hands (id TEXT)`, `INSERT INTO hands VALUES ('h')`)
	}
	items, left := itemsOf(t, OpenFang, in(), nil)
	var got strings.Builder
	for _, item := range items {
		v := item.Line
		if item.Memory != nil {
			v = brief(*item.Memory)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n", text)
	}
	for _, want := range []string{
		`"id":"a1","kind":"fragment","metadata":{"code":"own","column code":"7","confidence":"high","x":1},"source":"user_message","text":"Ada likes tea"`,
		`"confidence":0.5,"embedding":[0.5],"id":"a2","kind":"fragment","metadata":{"code":"7","metadata":[1],"scope":"semantic"},"text":"nul\u0000in"`,
		`"tool_calls":[{"id":"t1"}]`, `"tool_call_id":"t1"`, `"total_tokens":11`,
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("%s is missing in\n%s", want, got.String())
		}
	}
	wantLeft := map[string]int{
		"rows of the table hands": 1, "values of the column access_count that are no number": 1, "blobs of the column raw": 2, "vectors that cannot be read": 1,
		"times that cannot be read": 1, "values of the column tool_calls of the table usage_events": 2,
	}
	if fmt.Sprint(left) != fmt.Sprint(wantLeft) {
		t.Errorf("left out %v\nwant %v", left, wantLeft)
	}
	db := openMemory(t)
	first, err := importSample(t.Context(), db, OpenFang, in())
	if err != nil || first.Skipped > 0 || first.Stored != len(items) {
		t.Fatalf("%+v, error %v", first, err)
	}
	lsn := db.LSN()
	if again, err := importSample(t.Context(), db, OpenFang, in()); err != nil || db.LSN() != lsn {
		t.Errorf("again: %+v, error %v", again, err)
	}
}

// TestOlderSchemas verifies that older and newer schemas of mem0 and LangGraph are read.
func TestOlderSchemas(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		in     *Input
		want   string
	}{
		"mem0 of 2024": {
			Mem0, sqliteInput(t,
				"CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, prev_value TEXT, new_value TEXT, event TEXT, timestamp DATETIME, is_deleted INTEGER)",
				"INSERT INTO history VALUES ('1', 'm', NULL, 'tea', 'ADD', '2024-01-02 03:04:05', 0), ('2', 'm', 'tea', 'coffee', 'UPDATE', '2024-01-03 03:04:05', 0), ('3', 'old', 'was here', NULL, 'DELETE', '2024-01-03 03:04:05', 1)"),
			"ADD tea, UPDATE coffee, memory coffee; ADD was here, DELETE; left map[]",
		},
		"mem0 without rowids": {
			Mem0, sqliteInput(t,
				"CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, created_at TEXT, updated_at TEXT, is_deleted INTEGER, actor_id TEXT, role TEXT) WITHOUT ROWID",
				"INSERT INTO history VALUES ('2', 'm', NULL, 'tea', 'ADD', '2024-01-02 03:04:05', NULL, 0, 'ada', NULL), ('1', 'm', 'tea', 'coffee', 'UPDATE', '2024-01-02 03:04:05', '2024-01-03 03:04:05', 0, 'ada', NULL)"),
			"ADD tea, ADD tea, UPDATE coffee, memory coffee; left map[values of the column actor_id of the table history:2]",
		},
		"langgraph without ttl": {
			LangGraph, sqliteInput(t,
				"CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key))",
				`INSERT INTO store VALUES ('a.b', 'k', '{"t":"x"}', '2024-01-02 03:04:05', '2024-01-02 03:04:05')`,
				"CREATE TABLE store_vectors (prefix text, key text, field_name text, embedding BLOB)", "INSERT INTO store_vectors VALUES ('a.b', 'k', 't', x'00')"),
			"memory x; left map[rows of the table store_vectors:1]",
		},
		"langgraph with ttl": {
			LangGraph, sqliteInput(t,
				"CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP, expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key))",
				`INSERT INTO store VALUES ('a.b', 'k', '{"t":"x"}', '2024-01-02 03:04:05', '2024-01-02 03:04:05', '2094-01-02 03:04:05', 60.5)`),
			"memory x until 2094-01-02; left map[]",
		},
	} {
		items, left := itemsOf(t, c.format, c.in, nil)
		var got []string
		for _, item := range items {
			var told []string
			for _, e := range item.History {
				text := string(e.Event)
				if e.NewText != nil {
					text += " " + *e.NewText
				}
				told = append(told, text)
			}
			if m := item.Memory; m != nil {
				text := "memory " + m.Text
				if !m.ExpiresAt.IsZero() {
					text += " until " + m.ExpiresAt.Format("2006-01-02")
				}
				told = append(told, text)
			}
			got = append(got, strings.Join(told, ", "))
		}
		if got := strings.Join(got, "; ") + "; left " + fmt.Sprint(left); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
