package onefile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/golden"
)

// pairs are keys and values that a test works on.
type pairs map[string]string

func (p pairs) scan(lower, upper []byte, visit func(key, value []byte) error) error {
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if lower != nil && k < string(lower) || upper != nil && k >= string(upper) {
			continue
		}
		if err := visit([]byte(k), []byte(p[k])); err != nil {
			return err
		}
	}
	return nil
}

func some(n int) pairs {
	p := pairs{}
	for i := range n {
		p[fmt.Sprintf("key %05d", i*7)] = strings.Repeat(fmt.Sprint("value ", i, " "), 1+i%40)
	}
	return p
}

var testHead = Head{Number: 3, LSN: 77, Timeline: [16]byte{1, 2, 3, 15: 9}, Identity: []byte(`{"magic":"memdb"}`)}

func pack(t testing.TB, p pairs) *Table {
	t.Helper()
	table, err := Pack(p.scan)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func write(t testing.TB, table *Table) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := table.Write(&b, testHead)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("%d bytes of %d, %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func content(t testing.TB, table *Table) pairs {
	t.Helper()
	p := pairs{}
	if err := table.Each(func(key, value []byte) error {
		p[string(key)] = string(value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRoundTrip writes files and reads them again.
func TestRoundTrip(t *testing.T) {
	for _, p := range []pairs{{}, {"": "", "a": ""}, {"a": strings.Repeat("x", 3*BlockSize), "b": ""}, some(1), some(5000)} {
		head, table, err := Read(write(t, pack(t, p)))
		if err != nil || head.Number != testHead.Number || head.LSN != testHead.LSN || head.Timeline != testHead.Timeline || !bytes.Equal(head.Identity, testHead.Identity) {
			t.Fatalf("%d keys: %+v, %v", len(p), head, err)
		}
		if got := content(t, table); !maps.Equal(got, p) || table.Keys() != uint64(len(p)) {
			t.Errorf("%d keys: %d were read", len(p), len(got))
		}
	}
}

// TestUpdate changes keys at random: the table of each state has what it should, packs no more
// blocks than it must, and does not fall to pieces.
func TestUpdate(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	now := some(3000)
	table := pack(t, now)
	for round := range 300 {
		var touched Touched
		set := func(k, v string) {
			touched.Key([]byte(k), len(v))
			now[k] = v
		}
		for range rng.IntN(6) {
			k := fmt.Sprintf("key %05d", rng.IntN(25_000))
			switch rng.IntN(4) {
			case 0:
				touched.Key([]byte(k), 0)
				delete(now, k)
			case 1:
				set(k, strings.Repeat("long ", rng.IntN(20_000)))
			default:
				set(k, fmt.Sprint("round ", round))
			}
		}
		if rng.IntN(20) == 0 {
			from := rng.IntN(25_000)
			lower, upper := fmt.Sprintf("key %05d", from), fmt.Sprintf("key %05d", from+rng.IntN(3000))
			touched.Span([]byte(lower), []byte(upper))
			maps.DeleteFunc(now, func(k, _ string) bool { return k >= lower && k < upper })
		}
		next, err := table.Update(&touched, now.scan)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		kept := 0
		for _, b := range next.blocks {
			if slices.Contains(table.blocks, b) {
				kept++
			}
		}
		if touched.Empty() && kept != len(table.blocks) {
			t.Fatalf("seed %d, round %d: nothing was touched, and %d of %d blocks are kept", seed, round, kept, len(table.blocks))
		}
		table = next
		if round%10 != 0 {
			continue
		}
		if _, table, err = Read(write(t, table)); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		if got := content(t, table); !maps.Equal(got, now) {
			t.Fatalf("seed %d, round %d: %d keys, want %d", seed, round, len(got), len(now))
		}
	}
	if least := len(pack(t, now).blocks); len(table.blocks) > 3*least {
		t.Errorf("seed %d: %d blocks, %d would do", seed, len(table.blocks), least)
	}
}

// TestUpdateKeepsBlocks changes one key: all blocks but one are the same bytes.
func TestUpdateKeepsBlocks(t *testing.T) {
	now := some(5000)
	table := pack(t, now)
	var touched Touched
	touched.Key([]byte("key 00700"), 3)
	now["key 00700"] = "new"
	next, err := table.Update(&touched, now.scan)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, b := range next.blocks {
		if slices.Contains(table.blocks, b) {
			kept++
		}
	}
	if len(table.blocks) < 20 || kept < len(table.blocks)-2 {
		t.Errorf("%d of %d blocks are kept", kept, len(table.blocks))
	}
}

// TestFlips changes each byte of a file: each is told, and what Salvage returns is what was written.
func TestFlips(t *testing.T) {
	was := some(400)
	whole := pack(t, was)
	file := write(t, whole)
	at := func(from, to, step int, check func(i int, err error)) {
		for i := from; i < to; i += step {
			b := bytes.Clone(file)
			b[i] ^= 1 << (i % 8)
			_, table, err := Read(b)
			if err == nil {
				err = table.Each(func(_, _ []byte) error { return nil })
			}
			if err == nil {
				t.Fatalf("byte %d of %d: nothing is told", i, len(file))
			}
			check(i, err)
			head, left, lost := Salvage(b)
			if len(lost) == 0 {
				t.Fatalf("byte %d: nothing is lost", i)
			}
			for k, v := range content(t, left) {
				if was[k] != v {
					t.Fatalf("byte %d: %q is %q, was %q", i, k, v, was[k])
				}
			}
			inBlocks := i >= len(file)-HeadSize-int(whole.bytes) && i < len(file)-HeadSize
			if missing := len(was) - int(left.Keys()); !inBlocks && i >= HeadSize && missing > 0 {
				t.Fatalf("byte %d: %d keys are lost with what is no block: %v", i, missing, lost)
			}
			if i < HeadSize && head.LSN != testHead.LSN {
				t.Fatalf("byte %d: the tail does not stand for the head: %+v", i, head)
			}
		}
	}
	at(0, 2000, 1, func(int, error) {})
	at(2000, len(file), 13, func(int, error) {})
	block := len(file) / 2
	at(block, block+1, 1, func(_ int, err error) {
		d, ok := errors.AsType[*Damage](err)
		if !ok || !strings.HasPrefix(d.What, "block ") || d.From == nil {
			t.Errorf("the damage of a block is %v", err)
		}
	})
}

// TestCuts cuts a file off at many places, and makes it longer.
func TestCuts(t *testing.T) {
	was := some(400)
	file := write(t, pack(t, was))
	for n := 0; n < len(file); n += 1 + n/300 {
		_, _, err := Read(file[:n])
		if _, ok := errors.AsType[*Damage](err); !ok {
			t.Fatalf("%d of %d bytes: %v", n, len(file), err)
		}
		_, left, lost := Salvage(file[:n])
		if len(lost) == 0 {
			t.Fatalf("%d bytes: nothing is lost", n)
		}
		for k, v := range content(t, left) {
			if was[k] != v {
				t.Fatalf("%d bytes: %q is %q", n, k, v)
			}
		}
	}
	if _, _, err := Read(append(bytes.Clone(file), 0)); err == nil || !strings.Contains(err.Error(), "1 more than were written") {
		t.Errorf("a byte more: %v", err)
	}
	_, left, _ := Salvage(file[:len(file)*3/4])
	if n := int(left.Keys()); n < len(was)/3 {
		t.Errorf("of three quarters of the file %d of %d keys are left", n, len(was))
	}
}

// TestSalvageWithoutIndex finds blocks by how they begin, and tells of the one that is damaged.
func TestSalvageWithoutIndex(t *testing.T) {
	was := some(2000)
	table := pack(t, was)
	file := write(t, table)
	file[HeadSize+len(testHead.Identity)+5] ^= 1 // the index
	at := len(file) - HeadSize - int(table.bytes)
	for _, b := range table.blocks[:2] {
		at += len(b.bytes)
	}
	file[at+blockHead+3] ^= 1 // the third block
	head, left, lost := Salvage(file)
	if head.LSN != testHead.LSN || left.Keys() != table.Keys()-uint64(table.blocks[2].keys) {
		t.Errorf("%+v, %d of %d keys", head, left.Keys(), table.Keys())
	}
	told := false
	for _, d := range lost {
		told = told || bytes.Equal(d.From, table.blocks[1].Last) && bytes.Equal(d.To, table.blocks[3].First)
	}
	if !told {
		t.Errorf("nothing tells of the block: %v", lost)
	}
}

// TestShiftedFile verifies that one byte which is inserted into a file or removed from it costs the keys of
// the block that the byte is in, and none where it is in no block.
func TestShiftedFile(t *testing.T) {
	table := pack(t, some(2000))
	file := write(t, table)
	at := len(file) - HeadSize - int(table.bytes)
	places := []struct{ at, cost int }{{HeadSize / 2, 0}, {HeadSize + 3, 0}, {at - 5, 0}, {len(file) - HeadSize/2, 0}}
	for _, b := range table.blocks {
		places = append(places, struct{ at, cost int }{at + len(b.bytes)/2, int(b.keys)})
		at += len(b.bytes)
	}
	for _, p := range places {
		for what, b := range map[string][]byte{
			"inserted": slices.Insert(bytes.Clone(file), p.at, 'x'),
			"removed":  slices.Delete(bytes.Clone(file), p.at, p.at+1),
		} {
			_, left, lost := Salvage(b)
			if missing := int(table.Keys() - left.Keys()); missing != p.cost || len(lost) == 0 {
				t.Errorf("byte %d of %d %s: %d keys are missing, want %d; %d losses are reported", p.at, len(file), what, missing, p.cost, len(lost))
			}
		}
	}
}

// TestNewer tells a newer file from a damaged one.
func TestNewer(t *testing.T) {
	file := write(t, pack(t, some(3)))
	file[8] = Version + 1
	sum := xxh3.Hash(file[:HeadSize-8])
	for i := range 8 {
		file[HeadSize-8+i] = byte(sum >> (8 * i))
	}
	_, _, err := Read(file)
	if newer, ok := errors.AsType[*NewerError](err); !ok || newer.Version != Version+1 {
		t.Errorf("%v", err)
	}
}

// TestGolden reads a file of version 1 as it was written first, and writes it again.
func TestGolden(t *testing.T) {
	p := some(5)
	p["packed"] = strings.Repeat("again and ", 50)
	name := filepath.Join("testdata", "version1.golden")
	golden.Compare(t, name, "A database in one file, version 1, packed by the library of now.", []golden.Encoding{{Name: "file", Bytes: write(t, pack(t, p))}})
	head, table, err := Read(golden.Read(t, name)["file"])
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, table); !maps.Equal(got, p) || head.LSN != testHead.LSN || head.Timeline != testHead.Timeline {
		t.Errorf("%+v: %v", head, got)
	}
}

// FuzzRead reads what was made to be read wrong: an error, no panic.
func FuzzRead(f *testing.F) {
	table, err := Pack(some(20).scan)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(write(f, table), 0, byte(0))
	f.Fuzz(func(t *testing.T, b []byte, at int, v byte) {
		if at >= 0 && at < len(b) {
			b[at] = v
		}
		if len(b) >= HeadSize { // so that what a head says is looked at
			sum := xxh3.Hash(b[:HeadSize-8])
			for i := range 8 {
				b[HeadSize-8+i] = byte(sum >> (8 * i))
			}
		}
		if _, table, err := Read(b); err == nil {
			_ = table.Each(func(_, _ []byte) error { return nil })
		}
		_, left, _ := Salvage(b)
		if err := left.Each(func(_, _ []byte) error { return nil }); err != nil {
			t.Errorf("what was salvaged cannot be read: %v", err)
		}
	})
}
