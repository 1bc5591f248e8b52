package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

// catalog is what the records of a MANIFEST say of the files of the store: the newest values of
// the fields, and the tables. The MANIFEST may be cut off, or an older one: what it says was
// true once, and the numbers of files are never given again.
type catalog struct {
	records      int
	comparer     []byte // the field with its tag
	firstLog     uint64 // the first log that is still needed
	nextFile     uint64
	lastSequence uint64
	live         map[uint64]listed
	obsolete     map[uint64]bool // tables that others have replaced
}

// listed is a table that is in use.
type listed struct {
	size        uint64
	field       []byte // of the record, with its tag: level, bounds and all
	first, last []byte // the keys that bound what it holds
}

// The fields of a record of the MANIFEST. Each is a tag and numbers or strings, of which those
// that memdb's stores have are here.
const (
	fieldComparer     = 1
	fieldLog          = 2
	fieldNextFile     = 3
	fieldLastSequence = 4
	fieldGone         = 6 // level and number of a table that is in use no more
	fieldPlainTable   = 100
	fieldTable        = 103 // with fields of its own at the end
	// Fields within that of a table, up to the end, are strings.
	innerEnd  = 1
	innerMost = 64 // from here on they are more than strings
)

var errField = errors.New("a record of the MANIFEST has a field that memdb does not write")

// readManifest reads the records that are whole, up to the first that is not.
func readManifest(fs vfs.FS, path string) (c catalog, err error) {
	c = catalog{live: map[uint64]listed{}, obsolete: map[uint64]bool{}}
	f, err := fs.Open(path)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for r := record.NewReader(f, 0); ; {
		one, err := r.Next()
		if errors.Is(err, io.EOF) || record.IsInvalidRecord(err) {
			return c, nil
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(one)
		}
		if record.IsInvalidRecord(err) {
			return c, nil
		}
		if err != nil {
			return c, err
		}
		if err := c.add(b); err != nil {
			return c, fmt.Errorf("%s: %w", fs.PathBase(path), err)
		}
	}
}

// fields reads the fields of a record. The first error stays.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) number() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.rest, f.err = nil, errField
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fields) text() []byte {
	n := f.number()
	if n > uint64(len(f.rest)) {
		f.rest, f.err = nil, errField
		return nil
	}
	text := f.rest[:n]
	f.rest = f.rest[n:]
	return text
}

// key reads a key of the store, which Pebble ends with 8 bytes of its own.
func (f *fields) key() []byte {
	text := f.text()
	return bytes.Clone(text[:max(0, len(text)-8)])
}

// add takes over one record. A table that moves to another level is first gone and then there.
func (c *catalog) add(b []byte) error {
	f := fields{rest: b}
	for len(f.rest) > 0 {
		from := f.rest
		switch tag := f.number(); tag {
		case fieldComparer:
			f.text()
			c.comparer = bytes.Clone(from[:len(from)-len(f.rest)])
		case fieldLog:
			c.firstLog = f.number()
		case fieldNextFile:
			c.nextFile = f.number()
		case fieldLastSequence:
			c.lastSequence = f.number()
		case fieldGone:
			f.number()
			num := f.number()
			delete(c.live, num)
			c.obsolete[num] = true
		case fieldPlainTable, fieldTable:
			f.number()
			num, size := f.number(), f.number()
			first, last := f.key(), f.key()
			f.number() // the first and the last sequence number
			f.number()
			if tag == fieldTable {
				f.inner()
			}
			c.live[num] = listed{size, bytes.Clone(from[:len(from)-len(f.rest)]), first, last}
			delete(c.obsolete, num)
		default:
			return errField
		}
		if f.err != nil {
			return f.err
		}
	}
	c.records++
	return nil
}

// inner passes over the fields within that of a table.
func (f *fields) inner() {
	for f.err == nil {
		switch tag := f.number(); {
		case tag == innerEnd:
			return
		case tag >= innerMost:
			f.err = errField
		default:
			f.text()
		}
	}
}

// readCatalog reads what is left of the newest MANIFEST of a store, or of its copy: the one of
// which more records can be read.
func readCatalog(fs vfs.FS, dir string, names []string) (best catalog) {
	newest := uint64(0)
	for _, name := range names {
		if of, ok := fsys.IsManifestCopy(name); ok {
			name = of
		}
		num := manifestNumber(name)
		if num < newest || num == 0 {
			continue
		}
		for _, name := range []string{manifestName(num), fsys.ManifestCopy(manifestName(num))} {
			c, _ := readManifest(fs, fs.PathJoin(dir, name)) // up to where it cannot be read
			if c.records > 0 && (num > newest || c.records > best.records) {
				best, newest = c, num
			}
		}
	}
	return best
}

// missing are the tables that should be there and are not.
func (c *catalog) missing(names []string) []uint64 {
	return slices.DeleteFunc(c.numbers(), func(num uint64) bool { return slices.Contains(names, tableName(num)) })
}

// encode is one record that says what the catalog does.
func (c *catalog) encode() []byte {
	b := bytes.Clone(c.comparer)
	for _, field := range [][2]uint64{{fieldLog, c.firstLog}, {fieldNextFile, c.nextFile}, {fieldLastSequence, c.lastSequence}} {
		b = binary.AppendUvarint(b, field[0])
		b = binary.AppendUvarint(b, field[1])
	}
	for _, num := range c.numbers() {
		b = append(b, c.live[num].field...)
	}
	return b
}

// numbers are those of the tables, in their order.
func (c *catalog) numbers() []uint64 {
	nums := make([]uint64, 0, len(c.live))
	for num := range c.live {
		nums = append(nums, num)
	}
	slices.Sort(nums)
	return nums
}

const (
	manifestPrefix = "MANIFEST-"
	manifestMarker = "marker.manifest."
	formatMarker   = "marker.format-version."
	optionsPrefix  = "OPTIONS-"
)

func manifestName(num uint64) string { return fmt.Sprintf("%s%06d", manifestPrefix, num) }
func tableName(num uint64) string    { return fmt.Sprintf("%06d%s", num, tableSuffix) }

// manifestNumber is that of a MANIFEST, from its name; 0 if it is none.
func manifestNumber(name string) uint64 { return numbered(name, manifestPrefix) }

// numbered is the number that follows a prefix in a name, 0 if there is none.
func numbered(name, prefix string) uint64 {
	digits, ok := strings.CutPrefix(name, prefix)
	num, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return num
}

// newestMarker is the newest marker of a kind among the names of a folder, with the number of
// its move and its value: marker.KIND.MOVE.VALUE.
func newestMarker(names []string, prefix string) (name string, move uint64, value string) {
	for _, one := range names {
		rest, ok := strings.CutPrefix(one, prefix)
		number, v, dot := strings.Cut(rest, ".")
		n, err := strconv.ParseUint(number, 10, 64)
		if ok && dot && err == nil && n >= move {
			name, move, value = one, n, v
		}
	}
	return name, move, value
}

// currentManifest is the name of the MANIFEST that counts, empty if no marker names one.
func currentManifest(names []string) string {
	_, _, value := newestMarker(names, manifestMarker)
	return value
}
