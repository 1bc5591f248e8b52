package store

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
)

// readLog reads the batches of a log that are whole, also behind damage.
func (r *Remains) readLog(path string, deletions *[]deletion) (entries []entry) {
	b, err := readWhole(r.FS, path)
	if err != nil {
		r.lost(path, err.Error())
		return nil
	}
	records, bad := logRecords(b)
	for _, rec := range records {
		if !readBatch(rec, &entries, deletions) {
			bad++
		}
	}
	if bad > 0 {
		r.lost(path, fmt.Sprintf("%d parts of it cannot be read", bad))
	}
	return entries
}

// logRecords finds the records of a log, and how many parts of it are neither. A log may lie in
// the file of an earlier one: the number of its first chunk is its own.
func logRecords(b []byte) (records [][]byte, bad int) {
	num, known := uint32(0), false
	var part []byte // of a record whose first chunks were read
	open := false
	for ; len(b) > 0; b = b[min(manifestBlock, len(b)):] {
		rest := b[:min(manifestBlock, len(b))]
		broken := false
		for len(rest) >= chunkHeader {
			if allZero(rest[:6]) && (allZero(rest) || known && isTrailer(rest, uint64(num)) || !known && !broken && rest[6] == firstNumbered) {
				break // what was filled ahead, the end of a block, or a trailer
			}
			size, _, of, ok := logChunk(rest)
			if ok && known && of != num {
				break // of the log that this file was before
			}
			if !ok {
				broken, open = true, false
				rest = rest[1:]
				continue
			}
			if broken {
				bad, broken = bad+1, false
			}
			num, known = of, true
			kind, payload := chunkType(rest[6]), rest[chunkPayload(rest[6]):size]
			rest = rest[size:]
			switch {
			case kind == fullChunk:
				records, open = append(records, payload), false
			case kind == firstChunk:
				part, open = bytes.Clone(payload), true
			case open:
				if part = append(part, payload...); kind == lastChunk {
					records, open = append(records, part), false
				}
			}
		}
		if broken {
			bad++
		}
	}
	return records, bad
}

// chunkType is the type of a chunk of a log, as one without a number has it.
func chunkType(b byte) byte { return (b-fullChunk)%4 + fullChunk }

// chunkPayload is where the payload of a chunk of a log begins.
func chunkPayload(b byte) int {
	if b >= firstSynced {
		return syncedHeader
	}
	return numberedHeader
}

// readBatch reads the changes of a batch, and reports whether all of it could be read.
func readBatch(b []byte, entries *[]entry, deletions *[]deletion) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if len(b) < batchrepr.HeaderLen {
		return false
	}
	seq := binary.LittleEndian.Uint64(b)
	changes := batchrepr.Read(b)
	for {
		kind, key, value, more, err := changes.Next()
		if err != nil {
			return false
		}
		if !more {
			return true
		}
		switch kind {
		case pebble.InternalKeyKindLogData:
			continue // has no sequence number
		case pebble.InternalKeyKindRangeDelete:
			*deletions = append(*deletions, deletion{bytes.Clone(key), bytes.Clone(value), seq})
		default:
			*entries = append(*entries, entry{key: bytes.Clone(key), value: bytes.Clone(value), seq: seq, kind: kind})
		}
		seq++
	}
}
