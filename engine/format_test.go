package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	commandline "flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/invindex"
)

var updateGolden = commandline.Bool("update", false, "write the golden encodings anew")

// encoding is a stored structure with a value in it.
type encoding struct {
	name  string
	bytes []byte
	value any // what decode gives
	// decode reads it; nil for keys that are only written, and compared.
	decode func([]byte) (any, error)
	// open is the length of a last part that ends where the value does: a cut in
	// it cannot be seen, and is left to the store's checksums.
	open int
}

func fixedKeys(t testing.TB) *keyspace {
	t.Helper()
	const seed = 0x0102030405060708
	cipher, err := newIDCipher(seed)
	if err != nil {
		t.Fatal(err)
	}
	ks := &keyspace{seed: seed, cipher: cipher}
	for _, k := range kinds {
		ks.gen[k] = firstGeneration(k)
	}
	return ks
}

// keyByOwner has records and vectors lie as they do in databases of layouts 1 to 3.
func keyByOwner(ks *keyspace) { ks.gen[kindRecord], ks.gen[kindVector] = 1, 1 }

// decoder makes a decode of one that returns a value and an error.
func decoder[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return decode(b) }
}

// parser makes a decode of one that reports whether it worked.
func parser[T any](parse func([]byte) (T, bool)) func([]byte) (any, error) {
	return func(b []byte) (any, error) {
		v, ok := parse(b)
		if !ok {
			return nil, corruptKey("tested", b)
		}
		return v, nil
	}
}

// pair is what a parser of two values gives.
type pair struct{ a, b uint64 }

func pairs[A, B uint32 | uint64](parse func([]byte) (A, B, bool)) func([]byte) (any, error) {
	return parser(func(b []byte) (pair, bool) {
		x, y, ok := parse(b)
		return pair{uint64(x), uint64(y)}, ok
	})
}

// keyEncodings has a key of every kind.
func keyEncodings(t testing.TB) []encoding {
	t.Helper()
	ks, old := fixedKeys(t), fixedKeys(t)
	keyByOwner(old)
	v := version{owner: 3, seq: 0x0102030405, born: 0xa0b0c0, change: 7}
	d := dedupKey{owner: 3, class: dedupFact, run: 9, hash: [hashSize]byte{1, 2, 15: 16}}
	r := &deathRange{lsn: 0xa0b0c0, change: 7}
	return []encoding{
		{name: "key meta generations", bytes: generationsKey},
		{name: "key dedup", bytes: ks.dedup(d, v.seq)},
		{name: "key expiry", bytes: ks.kvExpiry(1767225600123, 3, "cart")},
		{name: "key forward", bytes: ks.doc(kindForward, 0x10002), value: uint32(0x10002), decode: parser(parseDocKey)},
		{name: "key history", bytes: ks.history(3, v.seq, 0xa0b0c0, 7), value: pair{0xa0b0c0, 7}, decode: pairs(parseHistoryKey)},
		{name: "key ID", bytes: ks.id("m1", 3, v.seq), value: pair{3, v.seq}, decode: pairs(parseIDKey)},
		{name: "key entry", bytes: ks.kv(3, "cart")},
		{name: "key log", bytes: ks.lsn(kindLog, 0xa0b0c0), value: uint64(0xa0b0c0), decode: parser(parseLSNKey)},
		{name: "key name user", bytes: ks.name(nameUser, "ada")},
		{name: "key name agent", bytes: ks.name(nameAgent, "ada")},
		{name: "key name run", bytes: ks.name(nameRun, "r1")},
		{name: "key name owner", bytes: ks.name(nameOwner, ownerName(Scope{User: "ada", Agent: "a1"}))},
		{name: "key name field", bytes: ks.name(nameField, "o.x")},
		{name: "key name space", bytes: ks.name(nameSpace, defaultSpace)},
		{name: "key pending", bytes: ks.pending(pendingSpace, 3, v.seq), value: pair{3, v.seq}, decode: parser(func(b []byte) (pair, bool) {
			_, owner, seq, ok := parsePendingKey(b)
			return pair{uint64(owner), seq}, ok
		})},
		{name: "key death range", bytes: ks.deathRange(r)},
		{name: "key record", bytes: ks.record(v), value: v, decode: parser(parseRecordKey)},
		{name: "key stats", bytes: ks.stats(3, v.seq), value: pair{3, v.seq}, decode: pairs(parseStatsKey)},
		{name: "key record by owner", bytes: old.record(v), value: v, decode: parser(parseRecordKey)},
		{name: "key vector", bytes: ks.vector(2, v), value: v, decode: parser(parseVectorKey)},
		{name: "key vector by owner", bytes: old.vector(2, v), value: v, decode: parser(parseVectorKey)},
		{name: "key rows", bytes: ks.rows(0x17002)},
		{name: "key text", bytes: append(ks.header(kindText, 0), 0, 1, 'h', 0, 0)},
		{name: "ID of a memory", bytes: []byte(ks.cipher.seal(0x3ffffffffff, 3, v.seq)), value: pair{3, v.seq}, decode: pairs(func(b []byte) (uint32, uint64, bool) { return ks.cipher.open(string(b)) })},
		{name: "key tombstone", bytes: ks.doc(kindTombstone, 0x10002), value: uint32(0x10002), decode: parser(parseDocKey)},
	}
}

// fullRecord has every field set.
func fullRecord() *record {
	return &record{
		id: "m1", scope: Scope{User: "ada", Agent: "a1", Run: "r1"}, role: 1, kind: 3,
		flags: flagPinned | flagUpdate, source: "web_search", text: "prefers tea – naïve 東京", name: "drinks",
		aliases: []string{"tea", "beverages"}, metadata: []byte(`{"n":1,"tag":"red"}`),
		created: 1767225600123, updated: 1767225661000, event: -86400000, expires: 1798761600000,
		importance: 0.75, confidence: 0.5,
		vectors: []vectorRef{{space: 1}, {space: 2, born: 0xa0b0c0, change: 7}},
	}
}

func valueEncodings(t *testing.T) []encoding {
	full, small := fullRecord(), &record{id: "m2", scope: Scope{Run: "r1"}, text: "x", created: 5, updated: 5, confidence: 1, metadata: []byte{}}
	read, forward := forwardEncoding()
	entry := Entry{Key: "cart", Owner: Owner{User: "ada", Agent: "a1"}, Value: []byte(`{"tea":2}`), Version: 3, UpdatedAt: fromMillis(1767225600123), ExpiresAt: fromMillis(1767225660000)}
	return append(rangeEncodings(t), []encoding{
		{name: "record", bytes: full.encode(nil), value: full, decode: decoder(decodeRecord), open: len(full.text)},
		{name: "record, smallest", bytes: small.encode(nil), value: withoutMetadata(small), decode: decoder(decodeRecord), open: 1},
		{name: "forward record", bytes: forward, value: read, decode: decoder(decodeForward)},
		rowsEncoding(),
		{name: "death", bytes: death{at: 1767225600123, born: 0xa0b0c0, change: 7}.encode(), value: death{1767225600123, 0xa0b0c0, 7}, decode: decoder(decodeDeath)},
		{name: "stats", bytes: access{count: 300, last: 1767225600123}.encode(), value: access{300, 1767225600123}, decode: decoder(decodeAccess)},
		{name: "entry", bytes: entry.encode(), value: entry, decode: decoder(func(b []byte) (Entry, error) { return decodeEntry("cart", b) }), open: len(entry.Value)},
		{name: "generations", bytes: fixedKeys(t).encodeGenerations()},
		{name: "vector", bytes: codec.AppendFloats(nil, []float32{1, -0.5, float32(math.Copysign(0, -1)), math.MaxFloat32})},
		nameEncoding(), spaceEncoding(), logEncoding(), snapshotEncoding(), holderEncoding(),
		tombstoneEncoding(false), tombstoneEncoding(true),
	}...)
}

// forwardEncoding is a forward record, read and written.
func forwardEncoding() (*forwardRecord, []byte) {
	full := fullRecord()
	forward := &pendingVersion{
		version: version{owner: 3, seq: 0x0102030405, born: 0xa0b0c0, change: 7}, run: 9, rec: full,
		idx: invindex.Doc{
			Terms: []invindex.Term{{Text: "prefer", Freq: 1}, {Text: "tea", Freq: 300}}, Length: 301,
			Values: []invindex.Value{{Field: fieldUser, Key: numberValue(1)}, {Field: firstMetadataField + 2, Key: "sred"}},
		},
	}
	read := &forwardRecord{
		version: forward.version, run: 9, created: full.created, expires: full.expires,
		importance: full.importance, confidence: full.confidence, vectors: full.vectors, idx: forward.idx,
	}
	return read, forward.appendForward(nil)
}

// rowsEncoding is a page of rows of a sealed chunk, with a gap, and a row that is
// like the one before it.
func rowsEncoding() encoding {
	read, _ := forwardEncoding()
	read.idx = invindex.Doc{}
	like := *read
	like.seq, like.change, like.created, like.vectors = read.seq+1, read.change+1, read.created-5, nil
	p := &rowPage{}
	p.add(0x17002, read)
	p.add(0x17009, &like)
	return encoding{name: "rows", bytes: p.encode(), value: p, decode: decoder(func(b []byte) (*rowPage, error) {
		return decodeRows(0x17000, b)
	})}
}

// withoutMetadata is the record as it is read: what is empty is nil.
func withoutMetadata(r *record) *record {
	c := *r
	c.metadata = nil
	return &c
}

// rangeRead is a death range with its documents as a list.
type rangeRead struct {
	lsn    uint64
	change uint32
	scope  Scope
	at     int64
	listed bool
	docs   string
}

func rangeEncodings(t *testing.T) []encoding {
	ks := fixedKeys(t)
	var all []encoding
	for _, d := range []deathRange{
		{lsn: 0xa0b0c0, change: 7, scope: Scope{User: "ada", Run: "r1"}, at: 1767225600123},
		{lsn: 0xa0b0c0, change: 7, scope: Scope{User: "ada"}, at: 1767225600123, listed: true, docs: roaring.BitmapOf(1, 2, 70000, 70002)},
	} {
		e := encoding{name: "death range"}
		want := rangeRead{d.lsn, d.change, d.scope, d.at, d.listed, ""}
		if d.listed {
			e.name, want.docs = "death range, filtered", fmt.Sprint(d.docs.ToArray())
		}
		var err error
		if e.bytes, err = d.encode(); err != nil {
			t.Fatal(err)
		}
		e.value, e.decode = want, decoder(func(b []byte) (rangeRead, error) {
			d, err := decodeRange(ks, ks.deathRange(&d), b)
			r := rangeRead{d.lsn, d.change, d.scope, d.at, d.listed, ""}
			if d.docs != nil {
				r.docs = fmt.Sprint(d.docs.ToArray())
			}
			return r, err
		})
		all = append(all, e)
	}
	return all
}

type nameRead struct {
	num  uint32
	name string
}

func nameEncoding() encoding {
	return encoding{name: "name", bytes: encodeName(300, "ada", nil), value: nameRead{300, "ada"}, decode: decoder(func(b []byte) (nameRead, error) {
		num, name, _, err := decodeName(b)
		return nameRead{num, name}, err
	})}
}

type spaceRead struct {
	num         uint16
	name, model string
	dim         int
}

func spaceEncoding() encoding {
	s := &space{num: 2, name: "image", dim: 768, model: "clip"}
	return encoding{name: "space", bytes: encodeName(uint32(s.num), s.name, s.encode()), value: spaceRead{2, "image", "clip", 768}, decode: decoder(func(b []byte) (spaceRead, error) {
		num, name, extra, err := decodeName(b)
		if err != nil {
			return spaceRead{}, err
		}
		s, err := (&DB{}).decodeSpace(num, name, extra)
		if err != nil {
			return spaceRead{}, err
		}
		return spaceRead{s.num, s.name, s.model, s.dim}, nil
	})}
}

type tombstoneRead struct {
	lsn     uint64
	cleared bool
}

func tombstoneEncoding(cleared bool) encoding {
	e := encoding{name: "tombstone", bytes: encodeTombstone(0xa0b0c0, cleared), value: tombstoneRead{0xa0b0c0, cleared}, decode: decoder(func(b []byte) (tombstoneRead, error) {
		lsn, cleared, err := decodeTombstone(b)
		return tombstoneRead{lsn, cleared}, err
	})}
	if cleared {
		e.name, e.open = "tombstone, cleared", 1
	}
	return e
}

func snapshotEncoding() encoding {
	h := snapshotHead{db: [16]byte{1, 2, 15: 16}, space: 2, lsn: 0xa0b0c0, mark: 0x0102030405060708, slots: 1000}
	return encoding{name: "vector snapshot", bytes: h.encode(), value: h, decode: decoder(decodeSnapshotHead)}
}

func holderEncoding() encoding {
	return encoding{name: "vector snapshot, slot", bytes: appendHolder(nil, version{owner: 3, seq: 0x0102030405, born: 0xa0b0c0, change: 7})}
}

// logEncoding has each operation on memories in it. Only the head is decoded.
func logEncoding() encoding {
	next := counters{seq: 300, doc: 0x10002, names: [nameClasses]uint32{0, 1, 2, 3, 4, 5, 6}}
	tx := &Tx{now: 1767225600123, writes: &writes{next: next, changes: 3}}
	old := version{owner: 3, seq: 5, born: 0xa0b0c0, change: 7}
	tx.logVersioned(logAdd, version{owner: 3, seq: 300, born: 0xa0b0c1}, nil)
	tx.logVersioned(logUpdate, version{owner: 3, seq: 5, born: 0xa0b0c1, change: 1}, &old)
	tx.logVersioned(logDelete, old, &old)
	return encoding{name: "log record", bytes: tx.logRecord(), value: next, decode: decoder(decodeLogHead), open: len(tx.log) + 1}
}

// TestGoldenEncodings holds every encoding of the layout to the bytes that released
// databases have. They may not change: another encoding is another version, beside
// this one.
func TestGoldenEncodings(t *testing.T) {
	all := append(keyEncodings(t), valueEncodings(t)...)
	path := filepath.Join("testdata", fmt.Sprintf("layout%d.golden", layoutVersion))
	if *updateGolden {
		writeGolden(t, path, all)
	}
	golden := readGolden(t, path)
	for _, e := range all {
		want, ok := golden[e.name]
		if !ok {
			t.Errorf("%s: not in %s; run with -update", e.name, path)
			continue
		}
		delete(golden, e.name)
		if !bytes.Equal(e.bytes, want) {
			t.Errorf("%s: encoded as\n%x\nwant\n%x", e.name, e.bytes, want)
		}
		if e.decode == nil {
			continue
		}
		if got, err := e.decode(want); err != nil || !reflect.DeepEqual(got, e.value) {
			t.Errorf("%s: decoded as\n%+v, %v\nwant\n%+v", e.name, got, err, e.value)
		}
	}
	for name := range golden {
		t.Errorf("%s: in %s, and not tested", name, path)
	}
	for _, k := range kinds {
		if !slices.ContainsFunc(all, func(e encoding) bool { return strings.HasPrefix(e.name, "key") && e.bytes[0] == k }) {
			t.Errorf("no key of kind %c is tested", k)
		}
	}
}

// TestTruncatedEncodings cuts each encoding at every byte: an error of its kind,
// never a panic, and never a value.
func TestTruncatedEncodings(t *testing.T) {
	for _, e := range append(keyEncodings(t), valueEncodings(t)...) {
		if e.decode == nil {
			continue
		}
		for n := range len(e.bytes) {
			got, err := e.decode(slices.Clip(e.bytes[:n]))
			switch {
			case n >= len(e.bytes)-e.open:
				if err != nil {
					t.Errorf("%s cut to %d of %d bytes, within its open end: %v", e.name, n, len(e.bytes), err)
				}
			case !errors.Is(err, ErrCorrupt):
				t.Errorf("%s cut to %d of %d bytes: %+v, %v", e.name, n, len(e.bytes), got, err)
			}
		}
	}
}

// TestUnknownVersions: a value of a version that is not known is not guessed at.
func TestUnknownVersions(t *testing.T) {
	for _, e := range valueEncodings(t) {
		switch e.name {
		case "generations", "vector", "name", "space", "vector snapshot, slot", "tombstone", "tombstone, cleared":
			continue // have none
		}
		b := slices.Clone(e.bytes)
		b[0]++
		if _, err := e.decode(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s of version %d: %v", e.name, b[0], err)
		}
	}
}

// TestNewerRows: a page of rows of a later version asks for a newer memdb; one that
// merely is damaged does not.
func TestNewerRows(t *testing.T) {
	e := rowsEncoding()
	for version, kind := range map[byte]error{0: ErrCorrupt, rowsVersion + 1: ErrNewerLayout} {
		b := slices.Clone(e.bytes[:len(e.bytes)-checksum])
		b[0] = version
		b = binary.LittleEndian.AppendUint64(b, xxh3.Hash(b))
		_, err := e.decode(b)
		wantError(t, fmt.Sprint("version ", version), err, kind)
	}
}

// A golden file has a line "name: hex" for each encoding, in lines of 32 bytes.
func writeGolden(t *testing.T, path string, all []encoding) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# Encodings of layout %d, see docs/format. Hash seed 0102030405060708, every first generation.\n", layoutVersion)
	for _, e := range all {
		fmt.Fprintf(&b, "\n%s:\n", e.name)
		for part := range slices.Chunk(e.bytes, 32) {
			fmt.Fprintf(&b, "  %x\n", part)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readGolden(t *testing.T, path string) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string][]byte{}
	name := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasSuffix(line, ":"):
			name = strings.TrimSuffix(line, ":")
			golden[name] = []byte{}
		default:
			part, err := hex.DecodeString(line)
			if err != nil {
				t.Fatalf("%s, %s: %v", path, name, err)
			}
			golden[name] = append(golden[name], part...)
		}
	}
	return golden
}

// FuzzDecodeRecord: any bytes are a record or an error, and a record that was read
// is written so that it reads the same.
func FuzzDecodeRecord(f *testing.F) {
	f.Add(fullRecord().encode(nil))
	f.Add((&record{id: "a", scope: Scope{User: "u"}}).encode(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := decodeRecord(r.encode(nil))
		if err != nil || !bytes.Equal(again.encode(nil), r.encode(nil)) {
			t.Errorf("%+v is read back as %+v, %v", r, again, err)
		}
		if _, err := r.memory(1); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("error %v", err)
		}
	})
}

// FuzzDecodeForward is the same for forward records, which must be fit to be
// indexed, too, or be refused.
func FuzzDecodeForward(f *testing.F) {
	_, forward := forwardEncoding()
	f.Add(forward)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeForward(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		p := &pendingVersion{version: r.version, run: r.run, idx: r.idx, rec: &record{
			created: r.created, expires: r.expires, importance: r.importance, confidence: r.confidence, vectors: r.vectors,
		}}
		again, err := decodeForward(p.appendForward(nil))
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		// Floats that are no numbers are not equal to themselves.
		if fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", r) {
			t.Errorf("%+v is read back as %+v", r, again)
		}
		if err := invindex.New(invindex.Config{}).Add(1, &r.idx); err != nil && !errors.Is(err, invindex.ErrInvalid) {
			t.Errorf("indexing: %v", err)
		}
	})
}

// FuzzStatsMerger merges operands in an order and grouping that the input chooses:
// the sum is that of merging them one by one.
func FuzzStatsMerger(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte{255, 0, 255, 0, 128, 7, 200, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		var operands [][]byte // oldest first
		want := access{}
		for i := 0; i+1 < len(b); i += 2 {
			a := access{count: uint64(b[i]), last: int64(b[i+1])<<32 - 1<<36}
			operands = append(operands, a.encode())
			if i == 0 {
				want = a
			} else {
				want = want.fold(a)
			}
		}
		if len(operands) == 0 {
			return
		}
		got, err := decodeAccess(mergeAll(t, operands, b))
		if err != nil || got != want {
			t.Errorf("%v operands merge to %+v, %v; want %+v", len(operands), got, err, want)
		}
	})
}

// mergeAll merges operands as the store does: a run of neighbours to one, from
// any place in it to both sides, until one is left.
func mergeAll(t *testing.T, operands [][]byte, choices []byte) []byte {
	t.Helper()
	choose := func(n int) int {
		if len(choices) == 0 || n == 0 {
			return 0
		}
		c := int(choices[0])
		choices = choices[1:]
		return c % n
	}
	for len(operands) > 1 {
		from := choose(len(operands) - 1)
		to := from + 2 + choose(len(operands)-from-1)
		at := from + choose(to-from)
		m, err := statsMerger.Merge(nil, operands[at])
		if err != nil {
			t.Fatal(err)
		}
		for newer, older := at+1, at-1; newer < to || older >= from; {
			if older < from || newer < to && choose(2) == 0 {
				err = m.MergeNewer(operands[newer])
				newer++
			} else {
				err = m.MergeOlder(operands[older])
				older--
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		merged, closer, err := m.Finish(from == 0)
		if err != nil || closer != nil {
			t.Fatal(err)
		}
		operands = slices.Replace(operands, from, to, slices.Clone(merged))
	}
	return operands[0]
}

// TestStatsMergerKeepsDamage: an operand that cannot be read is not merged away.
func TestStatsMergerKeepsDamage(t *testing.T) {
	good, bad := access{1, time.Now().UnixMilli()}.encode(), []byte{99, 1, 2}
	for _, operands := range [][][]byte{{good, bad}, {bad, good}, {good, bad, good}} {
		if _, err := decodeAccess(mergeAll(t, operands, nil)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v", operands, err)
		}
	}
}
