package onefile

import (
	"bytes"
	"encoding/binary"
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
	n, tail, err := table.Write(&b, testHead)
	if err != nil || n != int64(b.Len()) || tail.End != n {
		t.Fatalf("%d bytes of %d, %v", n, b.Len(), err)
	}
	return b.Bytes()
}

// wholeEnd is where a file ends that was written whole, and its tail begins.
func wholeEnd(t testing.TB, file []byte) int {
	t.Helper()
	h, err := decodeHead(file)
	if err != nil {
		t.Fatal(err)
	}
	return int(h.length)
}

// contentOf are the keys and values of a file with its commits.
func contentOf(t testing.TB, c *Content) pairs {
	t.Helper()
	p := content(t, c.Table)
	for _, commit := range c.Commits {
		if err := commit.Apply(p.changes()); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p pairs) changes() Changes {
	return Changes{
		DeleteRange: func(lower, upper []byte) error {
			maps.DeleteFunc(p, func(k, _ string) bool { return k >= string(lower) && k < string(upper) })
			return nil
		},
		Delete: func(key []byte) error {
			delete(p, string(key))
			return nil
		},
		Set: func(key, value []byte) error {
			p[string(key)] = string(value)
			return nil
		},
	}
}

func (p pairs) get(key []byte, visit func(value []byte) error) (bool, error) {
	v, ok := p[string(key)]
	if !ok {
		return false, nil
	}
	return true, visit([]byte(v))
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
		c, err := Read(write(t, pack(t, p)))
		head, table := c.Head, c.Table
		if err != nil || head.Number != testHead.Number || head.LSN != testHead.LSN || head.Timeline != testHead.Timeline || !bytes.Equal(head.Identity, testHead.Identity) {
			t.Fatalf("%d keys: %+v, %v", len(p), head, err)
		}
		if got := content(t, table); !maps.Equal(got, p) || table.Keys() != uint64(len(p)) {
			t.Errorf("%d keys: %d were read", len(p), len(got))
		}
	}
}

// TestUpdate changes keys at random: the commits that are appended to a file and the table of each third state have
// what they should; an update packs no more blocks than it must, and does not fall to pieces.
func TestUpdate(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	now := some(3000)
	table := pack(t, now)
	var dirty Dirty
	var file []byte
	var tail *Tail
	wrote := func() {
		file = write(t, table)
		c, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		tail = c.Tail
	}
	wrote()
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
		commit, err := tail.Commit(uint64(1000+round), &touched, now.get, now.scan)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		tail = tail.Appended(commit)
		at, mark := tail.Mark()
		file = append(file, commit.Bytes()...)
		copy(file[at:], mark)
		dirty = table.Mark(dirty, &touched)
		if round%10 == 9 {
			c, err := Read(file)
			if err != nil || !maps.Equal(contentOf(t, &c), now) || c.Head.LSN != uint64(1000+round) || c.Tail.Number != tail.Number {
				t.Fatalf("seed %d, round %d: %+v, %v", seed, round, c.Head, err)
			}
		}
		if round%3 != 0 {
			continue
		}
		next, err := table.Update(dirty, now.scan)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		unchanged := dirty == nil
		dirty = nil
		kept := 0
		for _, b := range next.blocks {
			if slices.Contains(table.blocks, b) {
				kept++
			}
		}
		if unchanged && kept != len(table.blocks) {
			t.Fatalf("seed %d, round %d: nothing was touched, and %d of %d blocks are kept", seed, round, kept, len(table.blocks))
		}
		table = next
		wrote()
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
	next, err := table.Update(table.Mark(nil, &touched), now.scan)
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
	end := wholeEnd(t, file)
	at := func(from, to, step int, check func(i int, err error)) {
		for i := from; i < to; i += step {
			b := bytes.Clone(file)
			b[i] ^= 1 << (i % 8)
			c, err := Read(b)
			if err == nil {
				err = c.Table.Each(func(_, _ []byte) error { return nil })
			}
			if err == nil {
				t.Fatalf("byte %d of %d: nothing is told", i, len(file))
			}
			check(i, err)
			left, lost := Salvage(b)
			if len(lost) == 0 {
				t.Fatalf("byte %d: nothing is lost", i)
			}
			for k, v := range content(t, left.Table) {
				if was[k] != v {
					t.Fatalf("byte %d: %q is %q, was %q", i, k, v, was[k])
				}
			}
			inBlocks := i >= end-HeadSize-int(whole.bytes) && i < end-HeadSize
			if missing := len(was) - int(left.Table.Keys()); !inBlocks && i >= HeadSize && missing > 0 {
				t.Fatalf("byte %d: %d keys are lost with what is no block: %v", i, missing, lost)
			}
			if i < HeadSize && left.Head.LSN != testHead.LSN {
				t.Fatalf("byte %d: the tail does not stand for the head: %+v", i, left.Head)
			}
		}
	}
	at(0, 2000, 1, func(int, error) {})
	at(2000, end, 13, func(int, error) {})
	other := (end+sector-1)/sector*sector + int(testHead.Number+1)%marks*sector // of a mark that was not written yet
	at(end, other, 1, func(int, error) {})
	at(other+markSize, len(file), 1, func(int, error) {})
	block := end / 2
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
		_, err := Read(file[:n])
		if _, ok := errors.AsType[*Damage](err); !ok {
			t.Fatalf("%d of %d bytes: %v", n, len(file), err)
		}
		left, lost := Salvage(file[:n])
		if len(lost) == 0 {
			t.Fatalf("%d bytes: nothing is lost", n)
		}
		for k, v := range content(t, left.Table) {
			if was[k] != v {
				t.Fatalf("%d bytes: %q is %q", n, k, v)
			}
		}
	}
	old := golden.Read(t, filepath.Join("testdata", "version1.golden"))["file"]
	if _, err := Read(append(bytes.Clone(old), 0)); err == nil || !strings.Contains(err.Error(), "1 more than were written") {
		t.Errorf("a byte more: %v", err)
	}
	left, _ := Salvage(file[:len(file)*3/4])
	if n := int(left.Table.Keys()); n < len(was)/3 {
		t.Errorf("of three quarters of the file %d of %d keys are left", n, len(was))
	}
}

// tailed is a file with commits, the states after each of them, and where each ends.
func tailed(t testing.TB, commits int) (file []byte, states []pairs, ends []int) {
	t.Helper()
	now := some(60)
	c, err := Read(write(t, pack(t, now)))
	if err != nil {
		t.Fatal(err)
	}
	file, tail := write(t, pack(t, now)), c.Tail
	states, ends = append(states, maps.Clone(now)), append(ends, len(file))
	for i := range commits {
		var touched Touched
		for k := range i + 2 {
			key := fmt.Sprintf("key %05d", (i*3+k)*7)
			now[key] = fmt.Sprint("commit ", i)
			touched.Key([]byte(key), len(now[key]))
		}
		lower, upper := fmt.Sprintf("key %05d", 300+i*5), fmt.Sprintf("key %05d", 305+i*5)
		touched.Span([]byte(lower), []byte(upper))
		maps.DeleteFunc(now, func(k, _ string) bool { return k >= lower && k < upper })
		gone := fmt.Sprintf("key %05d", (40+i)*7)
		delete(now, gone)
		touched.Key([]byte(gone), 0)
		commit, err := tail.Commit(uint64(100+i), &touched, now.get, now.scan)
		if err != nil {
			t.Fatal(err)
		}
		tail = tail.Appended(commit)
		at, mark := tail.Mark()
		file = append(file, commit.Bytes()...)
		copy(file[at:], mark)
		states, ends = append(states, maps.Clone(now)), append(ends, len(file))
	}
	return file, states, ends
}

// TestTailInterrupted verifies that a commit counts once its mark was written, or if all of it is there, and that what
// an interrupted one has left is passed over.
func TestTailInterrupted(t *testing.T) {
	file, states, ends := tailed(t, 5)
	before, _, _ := tailed(t, 4)
	for n := ends[4]; n <= len(file); n++ {
		b := append(bytes.Clone(before), file[ends[4]:n]...) // the mark is that of the commit before
		c, err := Read(b)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		want := 4
		if n == len(file) {
			want = 5
		}
		if !maps.Equal(contentOf(t, &c), states[want]) || c.Tail.Settled() != (want == 4) || c.Tail.End != int64(ends[want]) {
			t.Fatalf("%d of %d bytes: it is not the state after commit %d", n, len(file), want)
		}
		for i := n; i < len(file); i++ { // what a disk wrote in another order
			b = append(b, 0)
		}
		if c, err := Read(b); err != nil || !maps.Equal(contentOf(t, &c), states[want]) {
			t.Fatalf("%d bytes and zeros: %v", n, err)
		}
	}
	// The mark itself was torn.
	c, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := c.Tail.Mark()
	for n := range markSize {
		b := bytes.Clone(file)
		clear(b[at : int(at)+n])
		if c, err := Read(b); err != nil || !maps.Equal(contentOf(t, &c), states[5]) {
			t.Fatalf("%d bytes of the mark: %v", n, err)
		}
	}
}

// TestTailDamaged cuts and changes a file with commits at each byte: either it is told, or all is there; and Salvage tells
// what is lost, and takes the other commits.
func TestTailDamaged(t *testing.T) {
	file, states, ends := tailed(t, 5)
	all := states[5]
	for n := range len(file) {
		_, err := Read(file[:n])
		if _, ok := errors.AsType[*Damage](err); !ok {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(file), err)
		}
		left, lost := Salvage(file[:n])
		if len(lost) == 0 {
			t.Fatalf("cut after %d of %d bytes: nothing is lost", n, len(file))
		}
		for i, end := range ends {
			if n >= end && !maps.Equal(contentOf(t, &left), states[min(len(left.Commits), 5)]) || n >= end && len(left.Commits) < i {
				t.Fatalf("cut after %d of %d bytes: %d commits are left", n, len(file), len(left.Commits))
			}
		}
	}
	for i := range file {
		b := bytes.Clone(file)
		b[i] ^= 1 << (i % 8)
		c, err := Read(b)
		if err == nil {
			err = c.Table.Each(func(_, _ []byte) error { return nil })
		}
		left, lost := Salvage(b)
		same := maps.Equal(contentOf(t, &left), all)
		switch {
		case err == nil && !maps.Equal(contentOf(t, &c), all):
			t.Fatalf("byte %d of %d: nothing is told", i, len(file))
		case !same && len(lost) == 0:
			t.Fatalf("byte %d of %d: nothing is lost, and it is another content", i, len(file))
		case i >= ends[0] && len(left.Commits) != 4:
			t.Fatalf("byte %d of %d: %d commits are left", i, len(file), len(left.Commits))
		case i < ends[0] && len(left.Commits) != 5:
			t.Fatalf("byte %d of %d, before the commits: %d are left", i, len(file), len(left.Commits))
		}
	}
}

// TestSalvageWithoutIndex finds blocks by how they begin, and tells of the one that is damaged.
func TestSalvageWithoutIndex(t *testing.T) {
	was := some(2000)
	table := pack(t, was)
	file := write(t, table)
	file[HeadSize+len(testHead.Identity)+5] ^= 1 // the index
	at := wholeEnd(t, file) - HeadSize - int(table.bytes)
	for _, b := range table.blocks[:2] {
		at += len(b.bytes)
	}
	file[at+blockHead+3] ^= 1 // the third block
	got, lost := Salvage(file)
	head, left := got.Head, got.Table
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
	end := wholeEnd(t, file)
	at := end - HeadSize - int(table.bytes)
	places := []struct{ at, cost int }{{HeadSize / 2, 0}, {HeadSize + 3, 0}, {at - 5, 0}, {end - HeadSize/2, 0}}
	for _, b := range table.blocks {
		places = append(places, struct{ at, cost int }{at + len(b.bytes)/2, int(b.keys)})
		at += len(b.bytes)
	}
	for _, p := range places {
		for what, b := range map[string][]byte{
			"inserted": slices.Insert(bytes.Clone(file), p.at, 'x'),
			"removed":  slices.Delete(bytes.Clone(file), p.at, p.at+1),
		} {
			left, lost := Salvage(b)
			if missing := int(table.Keys() - left.Table.Keys()); missing != p.cost || len(lost) == 0 {
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
	_, err := Read(file)
	if newer, ok := errors.AsType[*NewerError](err); !ok || newer.Version != Version+1 {
		t.Errorf("%v", err)
	}
}

// TestGolden reads files of both versions as they were written first, and writes the one of version 2 again.
func TestGolden(t *testing.T) {
	p := some(5)
	p["packed"] = strings.Repeat("again and ", 50)
	old, err := Read(golden.Read(t, filepath.Join("testdata", "version1.golden"))["file"])
	if err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, &old); !maps.Equal(got, p) || old.Head.LSN != testHead.LSN || old.Head.Timeline != testHead.Timeline || old.Tail != nil {
		t.Errorf("%+v: %v", old.Head, got)
	}
	file, states, _ := tailed(t, 2)
	name := filepath.Join("testdata", "version2.golden")
	golden.Compare(t, name, "A database in one file, version 2, with two commits behind it, packed by the library of now.", []golden.Encoding{{Name: "file", Bytes: file}})
	c, err := Read(golden.Read(t, name)["file"])
	if err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, &c); !maps.Equal(got, states[2]) || c.Head.LSN != 101 || c.Head.Number != testHead.Number+2 || c.Head.Timeline != testHead.Timeline {
		t.Errorf("%+v: %v", c.Head, got)
	}
}

// FuzzRead reads what was made to be read wrong: an error, no panic.
func FuzzRead(f *testing.F) {
	file, _, ends := tailed(f, 3)
	f.Add(file, 0, byte(0))
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
		if from := ends[0]; len(b) >= from+commitHead { // and what a commit says
			if n := binary.LittleEndian.Uint64(b[from+32:]); n <= uint64(len(b)-from-commitHead) {
				binary.LittleEndian.PutUint64(b[from+48:], commitSum(b[from:from+commitHead+int(n)]))
			}
		}
		if c, err := Read(b); err == nil {
			_ = c.Table.Each(func(_, _ []byte) error { return nil })
		}
		left, _ := Salvage(b)
		if err := left.Table.Each(func(_, _ []byte) error { return nil }); err != nil {
			t.Errorf("what was salvaged cannot be read: %v", err)
		}
	})
}
