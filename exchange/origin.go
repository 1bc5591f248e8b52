package exchange

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// name gives a memory without an ID one that follows from its content, and from how many of the same
// content came before it in the input. So an input can be imported again, also when it has grown:
// what is there keeps its ID.
func (b *batch) name(m *memory.Memory) {
	parts := []string{m.User, m.Agent, m.Run, m.Text, m.CreatedAt.Format(time.RFC3339Nano)}
	metadata, err := json.Marshal(m.Metadata)
	if err != nil {
		return // the database gives an ID, or refuses the memory
	}
	parts = append(parts, string(metadata))
	if m.Text == "" { // its vectors are its content
		if spaces, err := json.Marshal(m.Vectors); err == nil && len(m.Vectors) > 0 {
			parts = append(parts, string(spaces))
		}
		for _, f := range m.Embedding {
			parts = append(parts, string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(f))))
		}
	}
	for _, part := range []string{string(m.Role), string(m.Kind), m.Name, b.opts.Origin} {
		if part != "" && part != string(memory.RoleUser) && part != string(memory.KindMessage) {
			parts = append(parts, part)
		}
	}
	source := cmp.Or(b.opts.Source, "json")
	m.ID = ContentID(source, parts...)
	if n := b.seen.next(m.ID); n > 1 {
		m.ID = ContentID(source, append(parts, fmt.Sprint(n))...)
	}
}

// ContentID is an ID that parts give, the same whenever they are the same.
func ContentID(source string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:", len(p)) // a hash never fails
		_, _ = io.WriteString(h, p)
	}
	return source + "-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// recurring is a line without an ID. Lines with the same content may come several times in one input,
// and each is a record of its own: the database knows it by its content and its occurrence.
type recurring interface {
	// Content is what makes two lines the same, nil for a line with an ID.
	Content() []byte
	// Occurs says which of the lines of the input with this content it is, from 1 on.
	Occurs(n uint64)
}

// occurs tells a line without an ID which one of its content it is.
func (b *batch) occurs(l engine.Line) {
	of, ok := l.(recurring)
	if !ok {
		return
	}
	if content := of.Content(); content != nil {
		of.Occurs(uint64(b.seen.next(ContentID(l.Type(), string(content)))))
	}
}

const (
	// mostExact bounds the contents that are counted exactly, which uses about 20 MB.
	mostExact = 1 << 19
	// sharedCounts are the counters that all further ones share.
	sharedCounts = 1 << 20
)

// occurrences counts how often each content came. Beyond mostExact contents share counters, by their
// hashes: then two that differ may count as one, which is the same each time that the input, or one
// that begins with it, is read.
type occurrences struct {
	exact  map[uint64]uint32
	shared []uint32
}

// next counts a content by an ID of it, and returns how many there were with this one.
func (o *occurrences) next(id string) uint32 {
	key, _ := strconv.ParseUint(id[len(id)-16:], 16, 64) // it ends with digits of a hash
	if o.exact == nil {
		o.exact = map[uint64]uint32{}
	}
	if n, ok := o.exact[key]; ok || len(o.exact) < mostExact {
		o.exact[key] = n + 1
		return n + 1
	}
	if o.shared == nil {
		o.shared = make([]uint32, sharedCounts)
	}
	o.shared[key%sharedCounts]++
	return o.shared[key%sharedCounts]
}
