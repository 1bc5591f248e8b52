package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/codec"
	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/golden"
	"github.com/seed-7aedc3ff/memdb/internal/layout"
	"github.com/seed-7aedc3ff/memdb/internal/place"
	"github.com/seed-7aedc3ff/memdb/internal/records"
	"github.com/seed-7aedc3ff/memdb/internal/spaces"
	"github.com/seed-7aedc3ff/memdb/internal/state"
	"github.com/seed-7aedc3ff/memdb/invindex"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

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
	// short is the length of another form of it, which a cut may give; 0 where there is none.
	short int
}

func fixedKeys(t testing.TB) *layout.Keys {
	t.Helper()
	const seed = 0x0102030405060708
	ks, err := layout.NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	return ks
}

// keyByOwner has records and vectors lie as they do in databases of layouts 1 to 3, and
// dedup keys as in those of layouts 1 to 4.
func keyByOwner(ks *layout.Keys) {
	ks.Gen[layout.KindRecord], ks.Gen[layout.KindVector], ks.Gen[layout.KindDedup] = 1, 1, 1
}

// decoder makes a decode of one that returns a value and an error.
func decoder[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return decode(b) }
}

// parser makes a decode of one that reports whether it worked.
func parser[T any](parse func([]byte) (T, bool)) func([]byte) (any, error) {
	return func(b []byte) (any, error) {
		v, ok := parse(b)
		if !ok {
			return nil, layout.BadKey("tested", b)
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
	v := layout.Version{Owner: 3, Seq: 0x0102030405, Born: 0xa0b0c0, Change: 7}
	d := layout.DedupKey{Owner: 3, Class: layout.DedupFact, Run: 9, Hash: [layout.HashSize]byte{1, 2, 15: 16}}
	r := &layout.DeathRange{LSN: 0xa0b0c0, Change: 7}
	return []encoding{
		{name: "key meta generations", bytes: layout.GenerationsKey},
		{name: "key meta identity", bytes: layout.IdentityKey},
		{name: "key dedup", bytes: ks.Dedup(d, v.Seq)},
		{name: "key dedup by run", bytes: old.Dedup(d, v.Seq)},
		{name: "key counter", bytes: ks.Counter('k', 3), value: pair{'k', 3}, decode: parser(func(b []byte) (pair, bool) {
			kind, owner, ok := layout.ParseCounterKey(b)
			return pair{uint64(kind), uint64(owner)}, ok
		})},
		{name: "key forward", bytes: ks.Doc(layout.KindForward, 0x10002), value: uint32(0x10002), decode: parser(layout.ParseDocKey)},
		{name: "key history", bytes: ks.History(3, v.Seq, 0xa0b0c0, 7), value: pair{0xa0b0c0, 7}, decode: pairs(layout.ParseHistoryKey)},
		{name: "key ID", bytes: ks.ID("m1", 3, v.Seq), value: pair{3, v.Seq}, decode: pairs(layout.ParseIDKey)},
		{name: "key log", bytes: ks.LSN(layout.KindLog, 0xa0b0c0), value: uint64(0xa0b0c0), decode: parser(layout.ParseLSNKey)},
		{name: "key name user", bytes: ks.Name(layout.NameUser, "ada")},
		{name: "key name agent", bytes: ks.Name(layout.NameAgent, "ada")},
		{name: "key name run", bytes: ks.Name(layout.NameRun, "r1")},
		{name: "key name owner", bytes: ks.Name(layout.NameOwner, scope.Key(memory.Scope{User: "ada", Agent: "a1"}.Owner()))},
		{name: "key name field", bytes: ks.Name(layout.NameField, "o.x")},
		{name: "key name space", bytes: ks.Name(layout.NameSpace, memory.DefaultSpace)},
		{name: "key pending", bytes: ks.Pending(layout.PendingSpace, 3, v.Seq), value: pair{3, v.Seq}, decode: parser(func(b []byte) (pair, bool) {
			_, owner, seq, ok := layout.ParsePendingKey(b)
			return pair{uint64(owner), seq}, ok
		})},
		{name: "key death range", bytes: ks.DeathRange(r)},
		{name: "key record", bytes: ks.Record(v), value: v, decode: parser(layout.ParseRecordKey)},
		{name: "key stats", bytes: ks.Stats(3, v.Seq), value: pair{3, v.Seq}, decode: pairs(layout.ParseStatsKey)},
		{name: "key record by owner", bytes: old.Record(v), value: v, decode: parser(layout.ParseRecordKey)},
		{name: "key vector", bytes: ks.Vector(2, v), value: v, decode: parser(layout.ParseVectorKey)},
		{name: "key vector by owner", bytes: old.Vector(2, v), value: v, decode: parser(layout.ParseVectorKey)},
		{name: "key rows", bytes: ks.Rows(0x17002)},
		{name: "key text", bytes: append(ks.Header(layout.KindText, 0), 0, 1, 'h', 0, 0)},
		{name: "ID of a memory", bytes: []byte(ks.Cipher.Seal(0x3ffffffffff, 3, v.Seq)), value: pair{3, v.Seq}, decode: pairs(func(b []byte) (uint32, uint64, bool) { return ks.Cipher.Open(string(b)) })},
		{name: "key tombstone", bytes: ks.Doc(layout.KindTombstone, 0x10002), value: uint32(0x10002), decode: parser(layout.ParseDocKey)},
	}
}

// fullRecord has every field set.
func fullRecord() *layout.Record {
	return &layout.Record{
		ID: "m1", Scope: memory.Scope{User: "ada", Agent: "a1", Run: "r1"}, Role: 1, Kind: 3,
		Flags: layout.FlagPinned | layout.FlagUpdate, Source: "web_search", Text: "prefers tea – naïve 東京", Name: "drinks",
		Aliases: []string{"tea", "beverages"}, Metadata: []byte(`{"n":1,"tag":"red"}`),
		Created: 1767225600123, Updated: 1767225661000, Event: -86400000, Expires: 1798761600000,
		Importance: 0.75, Confidence: 0.5,
		Vectors: []layout.VectorRef{{Space: 1}, {Space: 2, Born: 0xa0b0c0, Change: 7}},
	}
}

func valueEncodings(t *testing.T) []encoding {
	full, small := fullRecord(), &layout.Record{ID: "m2", Scope: memory.Scope{Run: "r1"}, Text: "x", Created: 5, Updated: 5, Confidence: 1, Metadata: []byte{}}
	summed := fullRecord()
	summed.Vectors[0].Sum, summed.Vectors[1].Sum = 0x01020304, 0xa1b2c3d4
	summed.Before = layout.Change{Born: 0xa0b0b0, Number: 300}
	plain := golden.Read(t, filepath.Join("testdata", "layout5.golden")) // nothing writes them any more
	read, forward := forwardEncoding()
	keptDeath := layout.Death{At: 1767225600123, Born: 0xa0b0c0, Change: 7, Kept: true}
	elsewhereDeath := layout.Death{At: 1767225600123, Born: 0xa0b0c0, Change: 7, Kept: true, Cause: layout.Cause{Reason: layout.ReasonMerged, Policy: 3, IntoID: "fresh"}}
	evictedDeath := layout.Death{At: 1767225600123, Born: 0xa0b0c0, Change: 7, Cause: layout.Cause{Reason: layout.ReasonMerged, Policy: 3, Into: 300}}
	leased := layout.Access{Count: 300, Last: 1767225600123, Lease: layout.Lease{Of: 0xa0b0c0, Until: 1767225600123}}
	indebted := layout.Access{Count: 300, Last: 1767225600123, Debt: -0xa0b0c0d0, Folded: 300}
	return append(rangeEncodings(t), []encoding{
		{name: "record", bytes: summed.Append(nil), value: summed, decode: decoder(layout.DecodeRecord)},
		{name: "record, smallest", bytes: small.Append(nil), value: withoutMetadata(small), decode: decoder(layout.DecodeRecord)},
		{name: "record, plain", bytes: plain["record"], value: full, decode: decoder(layout.DecodeRecord), open: len(full.Text)},
		{name: "record, plain and smallest", bytes: plain["record, smallest"], value: withoutMetadata(small), decode: decoder(layout.DecodeRecord), open: 1},
		{name: "forward record", bytes: forward, value: read, decode: decoder(records.DecodeForward)},
		rowsEncoding(),
		{name: "death by a merge elsewhere", bytes: elsewhereDeath.Encode(), value: elsewhereDeath, decode: decoder(layout.DecodeDeath)},
		{name: "death", bytes: layout.Death{At: 1767225600123, Born: 0xa0b0c0, Change: 7}.Encode(), value: layout.Death{At: 1767225600123, Born: 0xa0b0c0, Change: 7}, decode: decoder(layout.DecodeDeath)},
		{name: "death, its version kept", bytes: keptDeath.Encode(), value: keptDeath, decode: decoder(layout.DecodeDeath)},
		{name: "death with a reason", bytes: evictedDeath.Encode(), value: evictedDeath, decode: decoder(layout.DecodeDeath)},
		{name: "stats", bytes: layout.Access{Count: 300, Last: 1767225600123}.Encode(), value: layout.Access{Count: 300, Last: 1767225600123}, decode: decoder(layout.DecodeAccess)},
		{name: "stats with a debt", bytes: indebted.Encode(), value: indebted, decode: decoder(layout.DecodeAccess)},
		{name: "stats with a lease", bytes: leased.Encode(), value: leased, decode: decoder(layout.DecodeAccess)},
		{name: "counter", bytes: layout.EncodeCounter(300), value: int64(300), decode: decoder(layout.DecodeCounter)},
		{name: "generations", bytes: fixedKeys(t).EncodeGenerations()},
		{name: "vector", bytes: codec.AppendFloats(nil, []float32{1, -0.5, float32(math.Copysign(0, -1)), math.MaxFloat32})},
		nameEncoding(), spaceEncoding("space", ""), spaceEncoding("space with a base", "https://models.example/v1"), logEncoding(), snapshotEncoding(), holderEncoding(),
		tombstoneEncoding(layout.Tombstone{LSN: 0xa0b0c0}), tombstoneEncoding(layout.Tombstone{LSN: 0xa0b0c0, Cleared: true}),
		tombstoneEncoding(layout.Tombstone{LSN: 0xa0b0c0, Of: layout.Version{Owner: 3, Seq: 0x0102030405, Born: 0xa0b0c0, Change: 7}}),
	}...)
}

// forwardEncoding is a forward record, read and written.
func forwardEncoding() (*records.Forward, []byte) {
	full := fullRecord()
	forward := &records.Pending{
		Version: layout.Version{Owner: 3, Seq: 0x0102030405, Born: 0xa0b0c0, Change: 7}, Run: 9, Rec: full,
		Index: invindex.Doc{
			Terms: []invindex.Term{{Text: "prefer", Freq: 1}, {Text: "tea", Freq: 300}}, Length: 301,
			Values: []invindex.Value{{Field: layout.FieldUser, Key: layout.NumberValue(1)}, {Field: layout.FirstMetadataField + 2, Key: "sred"}},
		},
	}
	read := &records.Forward{Row: layout.Row{
		Version: forward.Version, Run: 9, Created: full.Created, Expires: full.Expires,
		Importance: full.Importance, Confidence: full.Confidence, Vectors: full.Vectors,
	}, Index: forward.Index}
	return read, forward.AppendForward(nil)
}

// rowsEncoding is a page of rows of a sealed chunk, with a gap, and a row that is
// like the one before it.
func rowsEncoding() encoding {
	read, _ := forwardEncoding()
	like := read.Row
	like.Seq, like.Change, like.Created, like.Vectors = read.Seq+1, read.Change+1, read.Created-5, nil
	p := &layout.RowPage{}
	p.Add(0x17002, &read.Row)
	p.Add(0x17009, &like)
	return encoding{name: "rows", bytes: p.Encode(), value: p, decode: decoder(func(b []byte) (*layout.RowPage, error) {
		return layout.DecodeRows(0x17000, b)
	})}
}

// withoutMetadata is the record as it is read: what is empty is nil.
func withoutMetadata(r *layout.Record) *layout.Record {
	c := *r
	c.Metadata = nil
	return &c
}

// rangeRead is a death range with its documents as a list.
type rangeRead struct {
	lsn    uint64
	change uint32
	scope  memory.Scope
	at     int64
	listed bool
	docs   string
}

func rangeEncodings(t *testing.T) []encoding {
	ks := fixedKeys(t)
	var all []encoding
	for _, d := range []layout.DeathRange{
		{LSN: 0xa0b0c0, Change: 7, Scope: memory.Scope{User: "ada", Run: "r1"}, At: 1767225600123},
		{LSN: 0xa0b0c0, Change: 7, Scope: memory.Scope{User: "ada"}, At: 1767225600123, Listed: true, Docs: roaring.BitmapOf(1, 2, 70000, 70002)},
	} {
		e := encoding{name: "death range"}
		want := rangeRead{d.LSN, d.Change, d.Scope, d.At, d.Listed, ""}
		if d.Listed {
			e.name, want.docs = "death range, filtered", fmt.Sprint(d.Docs.ToArray())
		}
		var err error
		if e.bytes, err = d.Encode(); err != nil {
			t.Fatal(err)
		}
		e.value, e.decode = want, decoder(func(b []byte) (rangeRead, error) {
			d, err := layout.DecodeRange(ks, ks.DeathRange(&d), b)
			r := rangeRead{d.LSN, d.Change, d.Scope, d.At, d.Listed, ""}
			if d.Docs != nil {
				r.docs = fmt.Sprint(d.Docs.ToArray())
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
	return encoding{name: "name", bytes: layout.EncodeName(nil, 300, "ada", nil), value: nameRead{300, "ada"}, decode: decoder(func(b []byte) (nameRead, error) {
		num, name, _, err := layout.DecodeName(nil, b)
		return nameRead{num, name}, err
	})}
}

type spaceRead struct {
	num               uint16
	name, model, base string
	dim               int
}

func spaceEncoding(name, base string) encoding {
	s := &spaces.Space{Num: 2, Name: "image", Dim: 768, Model: "clip", Base: base}
	e := encoding{name: name, bytes: layout.EncodeName(nil, uint32(s.Num), s.Name, s.Encode()), value: spaceRead{2, "image", "clip", s.Base, 768}, decode: decoder(func(b []byte) (spaceRead, error) {
		num, name, extra, err := layout.DecodeName(nil, b)
		if err != nil {
			return spaceRead{}, err
		}
		s, err := spaces.NewSet(spaces.Host{}).Decode(num, name, extra)
		if err != nil {
			return spaceRead{}, err
		}
		return spaceRead{s.Num, s.Name, s.Model, s.Base, s.Dim}, nil
	})}
	if base != "" {
		e.short = len(e.bytes) - len(base) - 1
	}
	return e
}

func tombstoneEncoding(t layout.Tombstone) encoding {
	e := encoding{name: "tombstone", bytes: t.Encode(), value: t, decode: decoder(layout.DecodeTombstone)}
	switch {
	case t.Cleared:
		e.name, e.open = "tombstone, cleared", 1
	case t.Of.Seq != 0:
		e.name, e.short = "tombstone, with its version", 8
	}
	return e
}

func snapshotEncoding() encoding {
	h := layout.SnapshotHead{DB: [16]byte{1, 2, 15: 16}, Space: 2, LSN: 0xa0b0c0, Mark: 0x0102030405060708, Slots: 1000}
	return encoding{name: "vector snapshot", bytes: h.Encode(), value: h, decode: decoder(layout.DecodeSnapshotHead)}
}

func holderEncoding() encoding {
	return encoding{name: "vector snapshot, slot", bytes: layout.AppendHolder(nil, layout.Version{Owner: 3, Seq: 0x0102030405, Born: 0xa0b0c0, Change: 7})}
}

// logEncoding has each operation on memories in it. Only the head is decoded.
func logEncoding() encoding {
	next := layout.Counters{Seq: 300, Doc: 0x10002, Names: [layout.NameClasses]uint32{0, 1, 2, 3, 4, 5, 6}}
	tx := &Tx{state: state.State{Now: 1767225600123}, writes: &writes{next: next, changes: 3}}
	tx.rec = records.Writer{Batch: (*recordsHost)(tx), Host: (*recordsHost)(tx)}
	old := layout.Version{Owner: 3, Seq: 5, Born: 0xa0b0c0, Change: 7}
	tx.rec.LogVersioned(layout.LogAdd, layout.Version{Owner: 3, Seq: 300, Born: 0xa0b0c1}, nil)
	tx.rec.LogVersioned(layout.LogUpdate, layout.Version{Owner: 3, Seq: 5, Born: 0xa0b0c1, Change: 1}, &old)
	tx.rec.LogVersioned(layout.LogDelete, old, &old)
	return encoding{name: "log record", bytes: tx.logRecord(), value: next, decode: decoder(layout.DecodeLogHead), open: len(tx.log) + 1}
}

// TestGoldenEncodings holds every encoding of the layout to the bytes that released
// databases have. They may not change: another encoding is another version, beside
// this one.
func TestGoldenEncodings(t *testing.T) {
	all := append(keyEncodings(t), valueEncodings(t)...)
	path := filepath.Join("testdata", fmt.Sprintf("layout%d.golden", place.Layout))
	var encodings []golden.Encoding
	for _, e := range all {
		encodings = append(encodings, golden.Encoding{Name: e.name, Bytes: e.bytes})
	}
	golden.Compare(t, path, fmt.Sprintf("Encodings of layout %d, see docs/format. Hash seed 0102030405060708, every first generation.", place.Layout), encodings)
	for _, e := range all {
		if e.decode == nil {
			continue
		}
		if got, err := e.decode(e.bytes); err != nil || !reflect.DeepEqual(got, e.value) {
			t.Errorf("%s: decoded as\n%+v, %v\nwant\n%+v", e.name, got, err, e.value)
		}
	}
	for _, k := range fixedKeys(t).Kinds() {
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
			case n == e.short && n > 0:
				if err != nil {
					t.Errorf("%s cut to its short form: %v", e.name, err)
				}
			case !errors.Is(err, fault.ErrCorrupt):
				t.Errorf("%s cut to %d of %d bytes: %+v, %v", e.name, n, len(e.bytes), got, err)
			}
		}
	}
}

// TestUnknownVersions: a value of a version that is not known is not guessed at.
func TestUnknownVersions(t *testing.T) {
	for _, e := range valueEncodings(t) {
		switch e.name {
		case "generations", "vector", "name", "space", "space with a base", "vector snapshot, slot", "tombstone", "tombstone, cleared", "tombstone, with its version":
			continue // have none
		}
		b := slices.Clone(e.bytes)
		b[0] = 99
		if _, err := e.decode(b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s of version %d: %v", e.name, b[0], err)
		}
	}
}

// TestNewerRows: a page of rows of a later version asks for a newer memdb; one that
// merely is damaged does not.
func TestNewerRows(t *testing.T) {
	e := rowsEncoding()
	for version, kind := range map[byte]error{0: fault.ErrCorrupt, layout.RowsVersion + 1: fault.ErrNewerLayout} {
		b := slices.Clone(e.bytes[:len(e.bytes)-layout.Checksum])
		b[0] = version
		b = binary.LittleEndian.AppendUint64(b, xxh3.Hash(b))
		_, err := e.decode(b)
		wantError(t, fmt.Sprint("version ", version), err, kind)
	}
}

// FuzzDecodeRecord: any bytes are a record or an error, and a record that was read
// is written so that it reads the same.
func FuzzDecodeRecord(f *testing.F) {
	f.Add(fullRecord().Append(nil))
	f.Add((&layout.Record{ID: "a", Scope: memory.Scope{User: "u"}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := layout.DecodeRecord(b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := layout.DecodeRecord(r.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), r.Append(nil)) {
			t.Errorf("%+v is read back as %+v, %v", r, again, err)
		}
		if _, err := memoryOf(r, 1); err != nil && !errors.Is(err, fault.ErrCorrupt) {
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
		r, err := records.DecodeForward(b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		p := &records.Pending{Version: r.Version, Run: r.Run, Index: r.Index, Rec: &layout.Record{
			Created: r.Created, Expires: r.Expires, Importance: r.Importance, Confidence: r.Confidence, Vectors: r.Vectors,
		}}
		again, err := records.DecodeForward(p.AppendForward(nil))
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		// Floats that are no numbers are not equal to themselves.
		if fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", r) {
			t.Errorf("%+v is read back as %+v", r, again)
		}
		if err := invindex.New(invindex.Config{}).Add(1, &r.Index); err != nil && !errors.Is(err, invindex.ErrInvalid) {
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
		want := layout.Access{}
		for i := 0; i+1 < len(b); i += 2 {
			a := layout.Access{Count: uint64(b[i]), Last: int64(b[i+1])<<32 - 1<<36}
			if b[i]%2 == 1 {
				a.Debt, a.Folded = int64(b[i+1])<<40-1<<47, uint64(b[i])<<32
			}
			operands = append(operands, a.Encode())
			if i == 0 {
				want = a
			} else {
				want = want.Fold(a)
			}
		}
		if len(operands) == 0 {
			return
		}
		got, err := layout.DecodeAccess(mergeAll(t, operands, b))
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
		m, err := foldAccess(nil, operands[at])
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
	good, bad := layout.Access{Count: 1, Last: time.Now().UnixMilli()}.Encode(), []byte{99, 1, 2}
	for _, operands := range [][][]byte{{good, bad}, {bad, good}, {good, bad, good}} {
		if _, err := layout.DecodeAccess(mergeAll(t, operands, nil)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%x: %v", operands, err)
		}
	}
}
