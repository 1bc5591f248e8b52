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
)

// listing is what the records of a MANIFEST say of the files of the store: the newest values of
// the fields, and the tables that are in use.
type listing struct {
	comparer       []byte // the field with its tag
	firstLog       uint64 // the first log that is still needed
	nextFile       uint64
	lastSequence   uint64
	tables         map[uint64]listed
	tablesReplaced map[uint64]bool
}

// listed is a table that is in use.
type listed struct {
	size  uint64
	field []byte // of the record, with its tag: level, bounds and all
}

// The fields of a record of the MANIFEST. Each is a tag and numbers or strings, of which those
// that memdb's stores have are here.
const (
	fieldComparer     = 1
	fieldLog          = 2
	fieldNextFile     = 3
	fieldLastSequence = 4
	fieldGone         = 6 // level and number of a table that is in use no more
	fieldTable        = 103
	// Fields within that of a table, up to the end, are strings.
	innerEnd  = 1
	innerMost = 64 // from here on they are more than strings
)

var errField = errors.New("a record of the MANIFEST has a field that memdb does not write")

// readListing reads the records that are whole, up to the first that is not.
func readListing(fs vfs.FS, path string) (l listing, err error) {
	l = listing{tables: map[uint64]listed{}, tablesReplaced: map[uint64]bool{}}
	f, err := fs.Open(path)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for r := record.NewReader(f, 0); ; {
		one, err := r.Next()
		if errors.Is(err, io.EOF) || record.IsInvalidRecord(err) {
			return l, nil
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(one)
		}
		if record.IsInvalidRecord(err) {
			return l, nil
		}
		if err != nil {
			return l, err
		}
		if err := l.add(b); err != nil {
			return l, fmt.Errorf("%s: %w", fs.PathBase(path), err)
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

func (f *fields) text() {
	n := f.number()
	if n > uint64(len(f.rest)) {
		f.rest, f.err = nil, errField
		return
	}
	f.rest = f.rest[n:]
}

// add takes over one record. A table that moves to another level is first gone and then there.
func (l *listing) add(b []byte) error {
	f := fields{rest: b}
	for len(f.rest) > 0 {
		from := f.rest
		switch f.number() {
		case fieldComparer:
			f.text()
			l.comparer = bytes.Clone(from[:len(from)-len(f.rest)])
		case fieldLog:
			l.firstLog = f.number()
		case fieldNextFile:
			l.nextFile = f.number()
		case fieldLastSequence:
			l.lastSequence = f.number()
		case fieldGone:
			f.number()
			num := f.number()
			delete(l.tables, num)
			l.tablesReplaced[num] = true
		case fieldTable:
			f.number()
			num, size := f.number(), f.number()
			f.text() // the first and the last key
			f.text()
			f.number() // the first and the last sequence number
			f.number()
			f.inner()
			l.tables[num] = listed{size, bytes.Clone(from[:len(from)-len(f.rest)])}
			delete(l.tablesReplaced, num)
		default:
			return errField
		}
		if f.err != nil {
			return f.err
		}
	}
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

// encode is one record that says what the listing does.
func (l *listing) encode() []byte {
	b := bytes.Clone(l.comparer)
	for _, field := range [][2]uint64{{fieldLog, l.firstLog}, {fieldNextFile, l.nextFile}, {fieldLastSequence, l.lastSequence}} {
		b = binary.AppendUvarint(b, field[0])
		b = binary.AppendUvarint(b, field[1])
	}
	for _, num := range l.numbers() {
		b = append(b, l.tables[num].field...)
	}
	return b
}

// numbers are those of the tables, in their order.
func (l *listing) numbers() []uint64 {
	nums := make([]uint64, 0, len(l.tables))
	for num := range l.tables {
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
	tableSuffix    = ".sst"
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
