package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// catalog is what the MANIFEST says of the files of a store, as far as it can be read. It may
// be damaged, cut off or an older one: so a table is left out only where the catalog says that
// it was replaced by others, and not where it says nothing.
type catalog struct {
	live, obsolete map[uint64]bool // tables, by number
	firstLog       uint64          // the first log that is still needed
}

// missing are the tables that should be there and are not.
func (c *catalog) missing(names []string) (nums []uint64) {
	for num := range c.live {
		if !slices.ContainsFunc(names, func(name string) bool { n, ok := fileNumber(name, tableSuffix); return ok && n == num }) {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums
}

const manifestPrefix = "MANIFEST-"

// readCatalog reads the newest MANIFEST.
func readCatalog(fs vfs.FS, dir string, names []string) catalog {
	c := catalog{live: map[uint64]bool{}, obsolete: map[uint64]bool{}}
	newest, num := "", uint64(0)
	for _, name := range names {
		if n, ok := fileNumber(strings.TrimPrefix(name, manifestPrefix), ""); ok && strings.HasPrefix(name, manifestPrefix) && n >= num {
			newest, num = name, n
		}
	}
	if newest == "" {
		return c
	}
	f, err := fs.Open(fs.PathJoin(dir, newest))
	if err != nil {
		return c
	}
	defer func() { _ = f.Close() }()
	for r := record.NewReader(f, 0); ; {
		one, err := r.Next()
		if err != nil {
			return c
		}
		b, err := io.ReadAll(one)
		if err != nil || c.read(b) != nil {
			return c
		}
	}
}

// The fields of a record of the MANIFEST beside those of logs.go.
const (
	tagNextFile     = 3
	tagLastSequence = 4
	tagDeletedTable = 6
	tagPrevLog      = 9
	tagTable        = 100
	tagCustomTable  = 103
	tagBacking      = 105
	tagGoneBacking  = 106
	customEnd       = 1
	customVirtual   = 66
	mostCustom      = 64 // fields below it are one string each
)

var errEdit = errors.New("a record of the MANIFEST that memdb does not write")

// read takes over one record. Tables that are moved between levels are deleted and named
// again in one record, in this order.
func (c *catalog) read(b []byte) error {
	r := bytes.NewReader(b)
	num := func() uint64 { n, _ := binary.ReadUvarint(r); return n }
	skip := func() { _, _ = r.Seek(int64(min(num(), 1<<30)), io.SeekCurrent) }
	for r.Len() > 0 {
		switch tag := num(); tag {
		case tagComparer:
			skip()
		case tagLog:
			c.firstLog = num()
		case tagNextFile, tagLastSequence, tagPrevLog, tagGoneBacking:
			num()
		case tagBacking:
			num()
			num()
		case tagDeletedTable:
			num()
			n := num()
			c.obsolete[n] = true
			delete(c.live, n)
		case tagTable, tagCustomTable:
			num()
			n := num()
			num()
			skip()
			skip()
			num()
			num()
			if tag == tagCustomTable {
				var err error
				if n, err = customFields(n, num, skip); err != nil {
					return err
				}
			}
			c.live[n] = true
			delete(c.obsolete, n)
		default:
			return errEdit
		}
	}
	return nil
}

// customFields reads what the entry of a table ends with, and returns the number of its file.
func customFields(table uint64, num func() uint64, skip func()) (uint64, error) {
	for {
		switch tag := num(); {
		case tag == customEnd:
			return table, nil
		case tag == customVirtual:
			table = num()
		case tag == 0 || tag > mostCustom:
			return table, errEdit
		default:
			skip()
		}
	}
}
