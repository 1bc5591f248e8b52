package engine

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/metrics"
)

// Stats are figures of a database.
type Stats struct {
	// Memories are alive; Vectors are theirs in all spaces, Terms different words of the text index.
	Memories int64 `json:"memories"`
	Vectors  int64 `json:"vectors"`
	Terms    int64 `json:"terms"`
	// Pending is how many memories have a text and no vector in the space default, for
	// whatever reason: what EmbedPending embeds once the database has an embedder.
	Pending int64 `json:"pending"`
	// EmbedFailure is the last failure of the embedder since Open, nil if there was none.
	EmbedFailure *EmbedFailure `json:"embed_failure,omitempty"`
	// Lost is how much could not be read, by Open or for these figures: places of memories in
	// the indexes, vectors, names, ranges of keys. The log says what; Check names it. The
	// figures do not count it.
	Lost int64 `json:"lost"`
	// Unreadable is how many damages are known, see [DB.Damage].
	Unreadable int `json:"unreadable"`
	// Dying is how many memories were evicted, merged away or deleted by scope or filter, and
	// still take room: they are cleaned up in the background.
	Dying int64 `json:"dying"`
	// Erasing: an erasure has begun, and waits for Views, or goes on; see [DB.Erase].
	Erasing bool   `json:"erasing,omitempty"`
	LSN     uint64 `json:"lsn"`
	// Form is what holds the database: a folder, a file or the memory.
	Form Form `json:"form"`
	// DiskBytes are those of all files in the folder, and Files says of which; or of the one file.
	DiskBytes int64     `json:"disk_bytes"`
	Files     FileBytes `json:"files"`
	// Structures are the same bytes by what they are for; nil unless AddStructures was called.
	Structures map[string]int64 `json:"structures,omitempty"`
	// DiskFreeBytes is what the disk has left, and DiskReserveBytes what is kept of it:
	// writes that would leave less are refused. Both are 0 where the system does not
	// tell the free space.
	DiskFreeBytes    int64 `json:"disk_free_bytes"`
	DiskReserveBytes int64 `json:"disk_reserve_bytes"`
	// Parts are figures of the structures beside the memories, such as "entries", by
	// JSON key. In JSON they stand beside the others.
	Parts map[string]int64 `json:"-"`
	// Memory is what the parts of the database hold in RAM, in bytes.
	Memory MemoryStats `json:"memory"`
	Spaces []SpaceInfo `json:"spaces"`
	// Metrics are what was counted since the database was opened.
	Metrics *metrics.Metrics `json:"metrics,omitempty"`
	// Replica says how a replica follows, nil of what is none, or is not followed now.
	Replica *ReplicaStats `json:"replica,omitempty"`
}

// EmbedFailure is when and why the embedder failed.
type EmbedFailure struct {
	// At is when it was, Error what the embedder said.
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// promised are figures that the JSON has whether or not a part gives them.
var promised = []string{"entities", "relations", "sessions"}

// MarshalJSON writes the figures as one object.
func (s Stats) MarshalJSON() ([]byte, error) {
	type plain Stats
	b, err := json.Marshal(plain(s))
	if err != nil {
		return nil, err
	}
	parts := maps.Clone(s.Parts)
	if parts == nil {
		parts = map[string]int64{}
	}
	for _, key := range promised {
		parts[key] += 0
	}
	more, err := json.Marshal(parts)
	if err != nil {
		return nil, err
	}
	return slices.Concat(b[:len(b)-1], []byte{','}, more[1:]), nil
}

// UnmarshalJSON reads what MarshalJSON wrote, but for the figures of parts.
func (s *Stats) UnmarshalJSON(b []byte) error {
	type plain Stats
	return json.Unmarshal(b, (*plain)(s))
}

// MemoryStats are bytes in RAM.
type MemoryStats struct {
	// Budget is Options.MemoryBudget; BlockCache and Memtables are the store's, Text the text index's, Vectors those of all spaces.
	Budget     int64 `json:"budget"`
	BlockCache int64 `json:"block_cache"`
	Memtables  int64 `json:"memtables"`
	Text       int64 `json:"text"`
	Vectors    int64 `json:"vectors"`
	// VectorRows are float32 vectors that searches have read, and may need again.
	VectorRows int64 `json:"vector_rows"`
	Lexical    int64 `json:"lexical"`
	Documents  int64 `json:"documents"`
	// Scopes are the sets of documents of the scopes that were recalled from last.
	Scopes int64 `json:"scopes"`
	// Embeddings are the vectors of texts that were embedded last.
	Embeddings int64 `json:"embeddings"`
	// Parts are what the structures beside the memories hold.
	Parts int64 `json:"parts"`
	// Shares are the most that those parts of it may take which are bounded by
	// the budget. The others grow with the database.
	Shares MemoryShares `json:"shares"`
}

// MemoryShares divide the memory budget, in bytes.
type MemoryShares struct {
	// BlockCache and Memtables are the store's.
	BlockCache int64 `json:"block_cache"`
	Memtables  int64 `json:"memtables"`
	// TextPages are pages of sealed chunks of the text index, TextChunk the newest
	// chunk, which is in memory whole.
	TextPages  int64 `json:"text_pages"`
	TextChunk  int64 `json:"text_chunk"`
	Scopes     int64 `json:"scopes"`
	Embeddings int64 `json:"embeddings"`
	// Parts is what each structure beside the memories may hold.
	Parts int64 `json:"parts"`
	// VectorCodes are codes of vectors, in each space: more lie in a file. VectorBlocks are
	// blocks of neighbours' codes, in each space: of more there are none.
	VectorCodes  int64 `json:"vector_codes"`
	VectorBlocks int64 `json:"vector_blocks"`
	VectorRows   int64 `json:"vector_rows"`
}

// SpaceInfo describes a vector space.
type SpaceInfo struct {
	// Name is that of the space, Dim the length of its vectors, Metric how they are compared, Model what made them.
	Name   string `json:"name"`
	Dim    int    `json:"dim"`
	Metric string `json:"metric"`
	Model  string `json:"model,omitempty"`
	// Base is the address of the server that Model is asked at, empty for its provider's own.
	Base string `json:"base,omitempty"`
	// Vectors is how many there are, Linked how many are in the graph, and
	// Unlinked how many wait for it: searches score those one by one.
	Vectors  int64 `json:"vectors"`
	Linked   int64 `json:"linked"`
	Unlinked int64 `json:"unlinked"`
	Bytes    int64 `json:"bytes"` // in RAM
	// BlockBytes are those of them that blocks of neighbours' codes take: 0 where there are few
	// vectors, or so many that the blocks would be more than their share of the memory budget.
	BlockBytes int64 `json:"block_bytes,omitempty"`
	// CellBytes are those that bits take by which all are compared: 0 where there are few
	// vectors, or so many that a walk comes first.
	CellBytes int64 `json:"cell_bytes,omitempty"`
	// FileBytes are those of codes beyond their share of the memory budget, which
	// lie in a file.
	FileBytes int64 `json:"file_bytes,omitempty"`
}

// Stats returns figures of the database.
func (db *DB) Stats(ctx context.Context) (Stats, error) {
	release, err := db.enter("read statistics")
	if err != nil {
		return Stats{}, err
	}
	defer release()
	if err := ctx.Err(); err != nil {
		return Stats{}, err
	}
	files, err := db.files()
	if err != nil {
		return Stats{}, err
	}
	m := db.store.Metrics()
	s := Stats{
		Memories: db.tables.Docs.Live.Load(), Terms: int64(db.tables.NewestIndex.Load().Terms()), Lost: db.opening.losses.Count(), LSN: db.LSN(), Dying: max(0, db.janitor.dying.Load()), Erasing: db.erasing.Load() != nil,
		Form: db.Form(), DiskBytes: files.Sum(), Files: files, Spaces: []SpaceInfo{},
		Memory: MemoryStats{
			Budget: db.budget, BlockCache: m.BlockCache.Size, Memtables: int64(m.MemTable.Size),
			VectorRows: db.spaces.RowBytes(), Text: db.tables.NewestIndex.Load().Bytes(), Lexical: db.spaces.Lexical.Index.Bytes(), Documents: db.tables.Docs.Bytes() + db.writer.seen.Bytes(), Scopes: db.scopes.Size(), Parts: db.partBytes(),
		},
	}
	s.EmbedFailure = db.backlog.lastFailure()
	err = db.view(ctx, nil, func(tx *Tx) error {
		of := *tx
		of.state.Lose = func(error) {} // of a memory that is lost nobody knows whether it has a text
		s.Pending, err = of.countPending(ctx)
		return err
	})
	if err != nil {
		return Stats{}, err
	}
	parts, lost, err := db.figures(ctx)
	if err != nil {
		return Stats{}, err
	}
	s.Metrics, s.Unreadable = new(db.Metrics()), db.unreadable()
	s.Parts, s.Lost = parts, s.Lost+lost
	s.DiskFreeBytes, s.DiskReserveBytes = db.Disk()
	s.Memory.Embeddings, s.Memory.Shares = db.memoryShares()
	for _, sp := range db.spaces.All() {
		info := spaceInfo(sp)
		s.Memory.Vectors += info.Bytes
		s.Memory.Documents += sp.Documents()
		s.Vectors += info.Vectors
		s.Spaces = append(s.Spaces, info)
	}
	if db.follows != nil {
		r := db.follows()
		s.Replica = &r
	}
	slices.SortFunc(s.Spaces, func(a, b SpaceInfo) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

// memoryShares tells what the embedding cache holds, and what each part may hold.
func (db *DB) memoryShares() (embeddings int64, shares MemoryShares) {
	blockCache, memtable := db.store.Shares()
	shares = MemoryShares{BlockCache: blockCache, Memtables: int64(memtable), TextPages: db.textShare(), TextChunk: db.hotBytes, Scopes: db.scopesShare(), Parts: db.partShare(), VectorCodes: db.spaces.Codes, VectorBlocks: db.spaces.Blocks, VectorRows: db.spaces.Rows}
	if c, ok := db.embedder.(*embed.Cache); ok {
		embeddings, shares.Embeddings = c.Bytes(), c.Limit()
	}
	return embeddings, shares
}
