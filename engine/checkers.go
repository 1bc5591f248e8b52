package engine

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/seed-7aedc3ff/memdb/hnsw"
	"github.com/seed-7aedc3ff/memdb/internal/codec"
)

// memories reads every version; the newest of each live memory must be what the
// tables say, with its ID, dedup, forward and vector keys.
func (c *checker) memories() error {
	return c.scan(kindRecord, func(key, value []byte) error {
		v, ok := parseRecordKey(key)
		if !ok {
			c.report.problem("malformed record key %x", key)
			return nil
		}
		rec, err := decodeRecord(value)
		if err != nil {
			c.report.problem("memory number %d: %v", v.seq, err)
			return nil
		}
		for _, ref := range rec.vectors {
			c.refs[borrowedOf(v, ref)] = true
		}
		l, lives := c.tx.at(v.seq)
		if !lives || l.version != v {
			return nil
		}
		c.report.Memories++
		c.docs[l.doc] = true
		if rec.flags&flagPast != 0 {
			c.report.problem("memory %s: what is there is a version that was imported for its history", rec.id)
		}
		c.live(rec, l)
		if !c.keys.cipher.says(rec.id, v.owner, v.seq) && !c.has(c.keys.id(rec.id, v.owner, v.seq)) {
			c.report.problem("memory %s: its ID is not in the ID index", rec.id)
		}
		return nil
	})
}

// borrowed names a vector: its space, and the version that brought it.
type borrowed struct {
	space  uint16
	born   uint64
	change uint32
	seq    uint64
}

func borrowedOf(v version, ref vectorRef) borrowed {
	v = ref.of(v)
	return borrowed{ref.space, v.born, v.change, v.seq}
}

// live checks the derived keys of a live version.
func (c *checker) live(rec *record, l live) {
	db := c.tx.db
	row := db.docs.row(l.doc)
	if d, ok := rec.dedupKey(l.owner, row.run); ok && !c.has(c.keys.dedup(d, l.seq)) {
		c.report.problem("memory %s: it is not in the dedup index", rec.id)
	}
	if f := c.rows[l.doc]; f != nil {
		c.sameRow(rec, l.doc, f)
	} else if !c.has(c.keys.doc(kindForward, l.doc)) {
		c.report.problem("memory %s: its document %d has no forward record", rec.id, l.doc)
	}
	if c.has(c.keys.doc(kindTombstone, l.doc)) {
		c.report.problem("memory %s: its document %d has a tombstone, and will be gone once it is opened again", rec.id, l.doc)
	}
	if rec.flags&flagPending != 0 && !c.has(c.keys.pending(pendingSpace, l.owner, l.seq)) {
		c.report.problem("memory %s: it is to be embedded and not on the list", rec.id)
	}
	for _, ref := range rec.vectors {
		if !c.has(c.keys.vector(ref.space, ref.of(l.version))) {
			c.report.problem("memory %s: its vector in space number %d is missing", rec.id, ref.space)
		} else if s := db.spaces.numbered(ref.space); s != nil {
			if _, indexed := s.former(l.doc); !indexed {
				c.report.problem("memory %s: its vector in the space %s is in no index", rec.id, s.name)
			}
		}
	}
	owner, ok, err := c.tx.lookup(nameKey{nameOwner, ownerName(rec.scope)})
	if err != nil || !ok || owner != l.owner {
		c.report.problem("memory %s: it lies under owner number %d, its scope is that of %d", rec.id, l.owner, owner)
	}
}

func (c *checker) has(key []byte) bool {
	_, closer, err := c.tx.reader.Get(key)
	if err != nil {
		if !errors.Is(err, pebble.ErrNotFound) {
			c.report.problem("key %x: %v", key, err)
		}
		return false
	}
	return closer.Close() == nil
}

// ids: every ID key belongs to a memory that is or was.
func (c *checker) ids() error {
	return c.scan(kindID, func(key, _ []byte) error {
		owner, seq, ok := parseIDKey(key)
		if !ok {
			c.report.problem("malformed ID key %x", key)
			return nil
		}
		if l, lives := c.tx.at(seq); lives && l.owner != owner {
			c.report.problem("ID index: memory number %d is under owner %d and belongs to %d", seq, owner, l.owner)
		}
		return nil
	})
}

// dedup: every key belongs to a live memory, or to one of an unfinished death
// range.
func (c *checker) dedup() error {
	return c.scan(kindDedup, func(key, _ []byte) error {
		const size = keyHeader + 9 + hashSize + 8
		if len(key) != size {
			c.report.problem("malformed dedup key %x", key)
			return nil
		}
		seq := binary.BigEndian.Uint64(key[size-8:])
		if _, lives := c.tx.at(seq); !lives && !c.ofRange(seq) {
			c.report.problem("dedup index: memory number %d is dead", seq)
		}
		return nil
	})
}

// ofRange tells whether a memory died of a death range that is not cleaned up.
func (c *checker) ofRange(seq uint64) bool {
	d, _, _, err := c.tx.rangeDeath(seq)
	return err == nil && d != nil
}

// forward: every record is a document of a live memory, or dead and waiting to
// be reclaimed, and what it says of the memory is so.
func (c *checker) forward() error {
	return c.scan(kindForward, func(key, value []byte) error {
		doc, ok := parseDocKey(key)
		if !ok {
			c.report.problem("malformed forward key %x", key)
			return nil
		}
		f, err := decodeForward(value)
		if err != nil {
			c.report.problem("document %d: %v", doc, err)
			return nil
		}
		if !c.docs[doc] {
			if !c.has(c.keys.doc(kindTombstone, doc)) && !c.ofRange(f.seq) {
				c.report.problem("document %d of memory number %d is neither live nor marked dead", doc, f.seq)
			}
			return nil
		}
		return c.sameDoc(doc, f)
	})
}

// sameDoc analyses the memory again and compares.
func (c *checker) sameDoc(doc uint32, f *forwardRecord) error {
	rec, err := c.tx.record(f.version)
	if err != nil {
		return err
	}
	p := &prepared{rec: *rec}
	if err := c.tx.db.analyse(c.ctx, p); err != nil {
		return err
	}
	idx, err := indexedDoc(p, f.run, c.tx.knownNumber)
	if err != nil {
		return err
	}
	if !slices.Equal(idx.Terms, f.idx.Terms) || idx.Length != f.idx.Length {
		c.report.problem("memory %s: its document %d does not hold the words of its text; rebuild the text index", rec.id, doc)
	}
	if !slices.Equal(idx.Values, f.idx.Values) || f.idx.Numbered && !slices.Equal(idx.Numbers, f.idx.Numbers) {
		c.report.problem("memory %s: its document %d does not hold its filter values; rebuild the text index", rec.id, doc)
	}
	c.sameRow(rec, doc, f)
	return nil
}

// sameRow compares what the tables hold of a memory with it.
func (c *checker) sameRow(rec *record, doc uint32, f *forwardRecord) {
	if f.created != rec.created || f.expires != rec.expires || f.importance != rec.importance || f.confidence != rec.confidence {
		c.report.problem("memory %s: its document %d does not agree with it", rec.id, doc)
	}
}

// sealed reads the rows of the sealed chunks: each is of a document that lives, or
// is marked dead.
func (c *checker) sealed() error {
	db := c.tx.db
	err := c.tx.index.Verify(c.ctx, c.tx.text, func(err error) { c.report.problem("text index: %v; rebuild it", err) })
	if err != nil {
		return err
	}
	return c.scan(kindRows, func(key, value []byte) error {
		first, ok := parseRowsKey(key)
		if !ok {
			c.report.problem("malformed key of rows %x", key)
			return nil
		}
		p, err := decodeRows(first, value)
		if err != nil {
			c.report.problem("%v", err)
			return nil
		}
		for i, doc := range p.docs {
			c.rows[doc] = &p.rows[i]
			row := db.docs.row(doc)
			if row.visible(c.tx.lsn) && row.version != p.rows[i].version {
				c.report.problem("document %d is of memory number %d, and its row of %d", doc, row.seq, p.rows[i].seq)
			}
			if !row.visible(c.tx.lsn) && !c.has(c.keys.doc(kindTombstone, doc)) && !c.ofRange(p.rows[i].seq) {
				c.report.problem("document %d of memory number %d is neither live nor marked dead", doc, p.rows[i].seq)
			}
		}
		return nil
	})
}

// vectors: every one is referred to and has its space's dimension.
func (c *checker) vectors() error {
	return c.scan(kindVector, func(key, value []byte) error {
		v, ok := parseVectorKey(key)
		if !ok {
			c.report.problem("malformed vector key %x", key)
			return nil
		}
		b := borrowed{space: binary.BigEndian.Uint16(key[keyHeader:]), born: v.born, change: v.change, seq: v.seq}
		if !c.refs[b] {
			c.report.problem("a vector of memory number %d belongs to no version", b.seq)
		}
		vec, err := codec.Floats(value)
		s := c.tx.db.spaces.numbered(b.space)
		if err != nil || s == nil || hnsw.CheckVector(vec, s.dim, s.metric) != nil {
			c.report.problem("a vector of memory number %d does not fit its space number %d", b.seq, b.space)
		}
		return nil
	})
}

func (c *checker) stats() error {
	return c.scan(kindStats, func(key, value []byte) error {
		_, seq, ok := parseStatsKey(key)
		if !ok {
			c.report.problem("malformed statistics key %x", key)
			return nil
		}
		if _, err := decodeAccess(value); err != nil {
			c.report.problem("statistics of memory number %d: %v", seq, err)
		}
		return nil
	})
}

func (c *checker) history() error {
	return c.scan(kindHistory, func(key, value []byte) error {
		if _, _, ok := parseHistoryKey(key); !ok {
			c.report.problem("malformed history key %x", key)
		} else if _, err := decodeDeath(value); err != nil {
			c.report.problem("history: %v", err)
		}
		return nil
	})
}

func (c *checker) names() error {
	return c.scan(kindName, func(key, value []byte) error {
		_, name, _, err := decodeName(value)
		if err != nil {
			c.report.problem("name %x: %v", key, err)
			return nil
		}
		if len(key) != keyHeader+1+hashSize || string(c.keys.name(nameClass(key[keyHeader]), name)) != string(key) {
			c.report.problem("the name %q lies under a key that is not its own", name)
		}
		return nil
	})
}

// log: the numbers rise, none is missing since the oldest, and the newest is that
// of the state.
func (c *checker) log() error {
	var last uint64
	err := c.scan(kindLog, func(key, value []byte) error {
		lsn, ok := parseLSNKey(key)
		if !ok {
			c.report.problem("malformed log key %x", key)
			return nil
		}
		if last != 0 && lsn != last+1 {
			c.report.problem("log: record %d follows %d", lsn, last)
		}
		last = lsn
		if _, err := decodeLogHead(value); err != nil {
			c.report.problem("log record %d: %v", lsn, err)
		}
		return nil
	})
	if err == nil && last != c.tx.lsn {
		c.report.problem("log: its newest record is %d, the state is that of %d", last, c.tx.lsn)
	}
	return err
}

// entries: each can be read, lies under its owner, and is in the expiry index
// where it expires.
func (c *checker) entries() error {
	ks := c.keys
	return c.scan(kindKV, func(key, value []byte) error {
		if len(key) <= keyHeader+4 {
			c.report.problem("malformed entry key %x", key)
			return nil
		}
		owner, name := binary.BigEndian.Uint32(key[keyHeader:]), string(key[keyHeader+4:])
		e, err := decodeEntry(name, value)
		if err != nil {
			c.report.problem("%v", err)
			return nil
		}
		if num, ok, err := c.tx.ownerNumber(e.Owner); err != nil || !ok || num != owner {
			c.report.problem("entry %q: it lies under owner number %d, it belongs to %d", name, owner, num)
		}
		if !e.ExpiresAt.IsZero() && !c.has(ks.kvExpiry(toMillis(e.ExpiresAt), owner, name)) {
			c.report.problem("entry %q: it is not in the expiry index", name)
		}
		return nil
	})
}
