package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"github.com/seed-7aedc3ff/memdb/exchange"
)

// The SQLite file of Chroma has the records of all collections: a row of "embeddings" each, their
// metadata in "embedding_metadata", a row for each key, and the operations that came last in
// "embeddings_queue". Vectors are in the queue as long as they are in no index file, and in older
// versions for ever.

// The keys of metadata that are none.
const (
	chromaDocument = "chroma:document"
	chromaURI      = "chroma:uri"
)

// The operations of the queue.
const (
	chromaAdd = iota
	chromaUpdate
	chromaUpsert
	chromaDelete
)

// isChroma reports whether a file has the tables of Chroma.
func isChroma(f *sqliteFile) bool {
	return f.has("collections", "id", "name") && f.has("segments", "id", "scope", "collection") &&
		f.has("embeddings", "id", "segment_id", "embedding_id") && f.has("embedding_metadata", "id", "key", "string_value", "int_value", "float_value")
}

// chromaTables are those that are read, or that say how Chroma keeps the others.
var chromaTables = []string{
	"collections", "segments", "embeddings", "embedding_metadata", "embedding_metadata_array", "embedding_metadata_lists", "embeddings_queue",
	"max_seq_id", "embeddings_queue_config", "maintenance_log", "acquire_write", "embedding_fulltext_content", "embedding_fulltext_search_content",
}

func readChromaSQLite(in *Input, w *writer) error {
	return w.database(in, func(f *sqliteFile) ([]string, error) {
		if !isChroma(f) {
			return nil, errors.New(`the SQLite file has no tables "collections", "segments", "embeddings" and "embedding_metadata", as that of Chroma has; leave the format out, or name a table with --table`)
		}
		c := &chromaFile{
			writer: w, f: f, seed: maphash.MakeSeed(), names: map[string]string{}, segments: map[string]string{}, applied: map[string]int64{},
			vectors: map[uint64]int64{}, pending: map[uint64][]int64{}, seen: map[uint64]string{},
		}
		for _, step := range []func() error{c.collections, c.queue, c.records, c.added} {
			if err := step(); err != nil {
				return nil, err
			}
		}
		return chromaTables, nil
	})
}

// chromaFile reads the collections of a file.
type chromaFile struct {
	*writer
	f        *sqliteFile
	seed     maphash.Seed
	names    map[string]string // of the collections, by their IDs
	segments map[string]string // the collections of segments with metadata
	applied  map[string]int64  // by collection: up to where the queue is in its metadata

	// By the hash of a collection and an ID: the place in the queue of the newest vector, and those
	// of the operations that are not yet in the metadata.
	vectors map[uint64]int64
	pending map[uint64][]int64
	order   []uint64 // of pending
	seen    map[uint64]string
	dim     int // of the first vector
}

// A chromaRecord is a record of a collection.
type chromaRecord struct {
	collection, id string
	created        any
	metadata       map[string]any
}

func (c *chromaFile) key(collection, id string) uint64 {
	return maphash.String(c.seed, collection+"\x00"+id)
}

// collections reads which there are, and where their records are.
func (c *chromaFile) collections() error {
	err := c.each(c.f, "collections", func(_ exchange.LineError, row *cells) error {
		c.names[row.text("id")] = row.text("name")
		return nil
	})
	if err != nil {
		return err
	}
	err = c.each(c.f, "segments", func(_ exchange.LineError, row *cells) error {
		if id := row.text("id"); strings.EqualFold(row.text("scope"), "METADATA") {
			c.segments[id] = row.text("collection")
		}
		row.any("type")
		row.any("topic")
		return nil
	})
	if err != nil {
		return err
	}
	return c.each(c.f, "max_seq_id", func(_ exchange.LineError, row *cells) error {
		if collection, ok := c.segments[row.text("segment_id")]; ok {
			c.applied[collection] = seqOf(row.any("seq_id"))
		}
		return nil
	})
}

// seqOf is a place in the queue, which older versions write as bytes.
func seqOf(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case []byte:
		n := uint64(0)
		for _, b := range v[max(0, len(v)-8):] {
			n = n<<8 | uint64(b)
		}
		return int64(n)
	}
	return 0
}

// queue looks where the newest vector of each record is, and which operations are still to be applied.
func (c *chromaFile) queue() error {
	return c.each(c.f, "embeddings_queue", func(_ exchange.LineError, row *cells) error {
		topic := row.text("topic")
		collection := topic[strings.LastIndexByte(topic, '/')+1:]
		if _, ok := c.names[collection]; !ok {
			c.leave("operations of collections that are gone", 1)
			return nil
		}
		for _, column := range []string{"created_at", "metadata", "encoding"} {
			row.any(column)
		}
		key := c.key(collection, row.text("id"))
		seq, operation := row.row.number, row.integer("operation")
		if vector := row.any("vector"); operation == chromaDelete {
			delete(c.vectors, key)
		} else if vector != nil {
			c.vectors[key] = seq
		}
		if seq > c.applied[collection] {
			if c.pending[key] == nil {
				c.order = append(c.order, key)
			}
			c.pending[key] = append(c.pending[key], seq)
		}
		row.any("seq_id")
		return nil
	})
}

// records gives the records of all collections, in their order.
func (c *chromaFile) records() error {
	var metadata []*chromaValues
	for _, table := range []string{"embedding_metadata", "embedding_metadata_array", "embedding_metadata_lists"} {
		values, stop, err := c.values(table)
		if err != nil {
			return err
		}
		defer stop()
		metadata = append(metadata, values)
	}
	t := c.f.table("embeddings")
	t.columns[t.index("id")].used = true
	err := c.each(c.f, "embeddings", func(at exchange.LineError, row *cells) error {
		number, _ := row.any("id").(int64)
		r := &chromaRecord{id: row.text("embedding_id"), created: row.any("created_at"), metadata: map[string]any{}}
		row.any("seq_id")
		for _, values := range metadata {
			if err := values.take(number, r.metadata); err != nil {
				return c.f.failed(c.ctx, err)
			}
		}
		collection, ok := c.segments[row.text("segment_id")]
		if _, known := c.names[collection]; !ok || !known {
			c.leave("records of collections that are gone", 1)
			return nil
		}
		r.collection = collection
		key := c.key(collection, r.id)
		there, err := c.apply(r, true, key)
		if err != nil || !there {
			return err
		}
		return c.record(at, r, key)
	})
	for _, values := range metadata {
		if err == nil {
			err = values.end()
		}
	}
	return err
}

// added gives the records that are in the queue alone.
func (c *chromaFile) added() error {
	for _, key := range c.order {
		if c.pending[key] == nil {
			continue
		}
		r := &chromaRecord{metadata: map[string]any{}}
		there, err := c.apply(r, false, key)
		if err == nil && there {
			err = c.record(exchange.LineError{Of: "record", ID: r.id}, r, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// apply does what the queue has for a record, and reports whether it is there then.
func (c *chromaFile) apply(r *chromaRecord, there bool, key uint64) (bool, error) {
	for _, seq := range c.pending[key] {
		row, err := c.queued(seq)
		if err != nil {
			return false, err
		}
		topic := row.text("topic")
		r.collection, r.id = topic[strings.LastIndexByte(topic, '/')+1:], row.text("id")
		operation := row.integer("operation")
		switch {
		case operation == chromaDelete:
			there, r.metadata = false, map[string]any{}
			continue
		case operation == chromaUpdate && !there, operation == chromaAdd && there:
			continue
		case !there:
			there, r.created = true, row.any("created_at")
		}
		object := row.any("metadata")
		if object == nil {
			continue
		}
		var changes map[string]any
		raw, _ := bytesOf(object)
		if v, err := decodeAny(raw); err == nil {
			changes, _ = v.(map[string]any)
		}
		if changes == nil {
			c.leave("metadata that cannot be read", 1)
		}
		for name, v := range changes {
			if r.metadata[name] = v; v == nil {
				delete(r.metadata, name)
			}
		}
	}
	delete(c.pending, key)
	return there, nil
}

// queued is a row of the queue.
func (c *chromaFile) queued(seq int64) (*cells, error) {
	t := c.f.table("embeddings_queue")
	row, err := c.f.row(c.ctx, t, seq)
	return &cells{c.writer, t, row}, err
}

// record gives a record as that of a collection that Chroma writes as JSON.
func (c *chromaFile) record(at exchange.LineError, r *chromaRecord, key uint64) error {
	document, uri := r.metadata[chromaDocument], r.metadata[chromaURI]
	delete(r.metadata, chromaDocument)
	delete(r.metadata, chromaURI)
	vector, err := c.vector(key)
	if err != nil {
		return err
	}
	if document == nil && vector == nil && len(r.metadata) == 0 {
		c.leave("records that have nothing but a vector", 1)
		return nil
	}
	name := c.names[r.collection]
	for _, place := range []string{"collection", "chroma_collection"} {
		if _, taken := r.metadata[place]; !taken {
			r.metadata[place] = name
			break
		}
	}
	id := r.id
	if len(c.names) > 1 { // an ID is one of its collection
		of := maphash.String(c.seed, id)
		if first, twice := c.seen[of]; !twice {
			c.seen[of] = r.collection
		} else if first != r.collection {
			id = name + "/" + id
		}
	}
	f := fields{}
	if created, ok := r.created.(string); ok && !slices.ContainsFunc(createdKeys, func(k string) bool { return r.metadata[k] != nil }) {
		r.created = created + " UTC"
	} else {
		r.created = nil
	}
	for key, v := range map[string]any{"id": id, "document": document, "metadata": r.metadata, "uri": uri, "embedding": vector, createdKeys[0]: r.created} {
		raw, err := json.Marshal(v)
		if err != nil {
			return c.skip(at, fmt.Errorf("%q: %w", key, err))
		}
		if string(raw) != "null" {
			f[key] = raw
		}
	}
	return c.point(at, f)
}

// vector is the newest one of a record, nil where the file has none.
func (c *chromaFile) vector(key uint64) (any, error) {
	seq, ok := c.vectors[key]
	if !ok {
		c.leave("vectors in index files of Chroma", 1)
		return nil, nil
	}
	row, err := c.queued(seq)
	if err != nil {
		return nil, err
	}
	blob, _ := row.any("vector").([]byte)
	vector := floatsOf(blob)
	if !strings.EqualFold(row.text("encoding"), "FLOAT32") || vector == nil {
		c.leave("vectors that cannot be read", 1)
		return nil, nil
	}
	if c.dim == 0 {
		c.dim = len(vector)
	}
	if len(vector) != c.dim { // of another collection: a space of its own
		return map[string]any{fmt.Sprintf("%s-%d", c.format, len(vector)): vector}, nil
	}
	return vector, nil
}

// chromaValues are the metadata of records, in the order of the records.
type chromaValues struct {
	*chromaFile
	table string
	list  bool
	next  func() ([]any, error, bool)
	row   []any // nil behind the last
	taken int
}

// values begins to read a table of metadata, none where there is no such table.
func (c *chromaFile) values(name string) (*chromaValues, func(), error) {
	v := &chromaValues{chromaFile: c, table: name, list: name != "embedding_metadata"}
	t := c.f.table(name)
	if t == nil || t.index("string_value") < 0 {
		return v, func() {}, nil
	}
	var columns []string
	for _, column := range []string{"id", "key", "string_value", "int_value", "float_value", "bool_value"} {
		if i := t.index(column); i >= 0 {
			t.columns[i].used = true
			columns = append(columns, quoted(column))
		} else {
			columns = append(columns, "NULL")
		}
	}
	order := "id, key"
	if i := t.index("list_index"); i >= 0 {
		t.columns[i].used, order = true, order+", list_index"
	} else if v.list {
		order += ", " + t.key
	}
	next, stop := iter.Pull2(c.f.run("SELECT " + strings.Join(columns, ", ") + " FROM " + quoted(name) + " ORDER BY " + order))
	v.next = next
	return v, stop, v.advance()
}

func (v *chromaValues) advance() (err error) {
	v.row, err, _ = v.next()
	return err
}

// take adds the metadata of a record.
func (v *chromaValues) take(record int64, to map[string]any) error {
	for v.row != nil {
		of, _ := v.row[0].(int64)
		if of > record {
			return nil
		}
		if of < record {
			v.leave("rows of the table "+v.table+" without a record", 1)
		} else {
			v.add(to)
		}
		v.taken++
		if err := v.advance(); err != nil {
			return err
		}
	}
	return nil
}

func (v *chromaValues) add(to map[string]any) {
	key, _ := v.row[1].(string)
	var value any
	for i, of := range v.row[2:] {
		if of == nil {
			continue
		}
		const boolean = 3
		if value = of; i == boolean {
			value = of != int64(0)
		}
	}
	switch had := to[key].(type) {
	case []any:
		to[key] = append(had, value)
	default:
		if v.list {
			to[key] = []any{value}
		} else if value != nil {
			to[key] = value
		}
	}
}

// end fails if the index that gave the order has other rows than the table.
func (v *chromaValues) end() error {
	t := v.f.table(v.table)
	if v.next == nil {
		return nil
	}
	for v.row != nil {
		v.leave("rows of the table "+v.table+" without a record", 1)
		v.taken++
		if err := v.advance(); err != nil {
			return v.f.failed(v.ctx, err)
		}
	}
	n, err := v.f.count(v.ctx, t)
	if err == nil && n != v.taken {
		err = fmt.Errorf("the SQLite file is damaged: an index of the table %q has %d rows, and the table %d; run in a copy: sqlite3 COPY REINDEX", v.table, v.taken, n)
	}
	return err
}
