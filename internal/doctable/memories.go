package doctable

import "sync/atomic"

// blockSize is how many memories, by their Seqs, are made and dropped together: so few that
// most blocks of what is nearly all gone are empty.
const blockSize = 16

// SeqStep is how many memories have a page of blocks.
const SeqStep = blockSize * PageSize

type block [blockSize]Memory

// memories is what is known of memories, by Seq: a table of blocks that are made where a
// memory is, and dropped once none of theirs is left. Readers read beside one writer.
type memories struct {
	blocks Paged[atomic.Pointer[block]]
	n      atomic.Int64 // blocks
}

// at is what is known of a memory, nil where its block was dropped or never made.
func (m *memories) at(seq uint64) *Memory {
	p := m.blocks.At(seq / blockSize)
	if p == nil {
		return nil
	}
	b := p.Load()
	if b == nil {
		return nil
	}
	return &b[seq%blockSize]
}

// grow makes what is known of a memory. Only the writer calls it.
func (m *memories) grow(seq uint64) *Memory {
	p := m.blocks.Grow(seq / blockSize)
	b := p.Load()
	if b == nil {
		b = new(block)
		p.Store(b)
		m.n.Add(1)
	}
	return &b[seq%blockSize]
}

func (m *memories) bytes() int64 {
	const pointerSize, memorySize = 8, 32
	return m.blocks.Bytes(pointerSize) + m.n.Load()*blockSize*memorySize
}

// Blocks is how many blocks of memories the table holds.
func (t *Table) Blocks() int64 { return t.seqs.n.Load() }

// ReleaseSeqs drops the blocks of Seqs, of those from one up to, but not including, another,
// whose memories all died at an LSN or before. Both are multiples of SeqStep. The lock of
// writers is held.
func (t *Table) ReleaseSeqs(from, end, died uint64) {
	gone := func(b *block, first uint64) bool {
		for i := range b {
			if b[i].Doc.Load() == 0 {
				continue
			}
			if _, r := t.newest(first + uint64(i)); r != nil && r.Died.Load() > died {
				return false
			}
		}
		return true
	}
	for ; from < end; from += SeqStep {
		if t.seqs.blocks.At(from/blockSize) == nil {
			continue // the page is gone
		}
		left := false
		for i := range uint64(PageSize) {
			first := from + i*blockSize
			p := t.seqs.blocks.At(first / blockSize)
			b := p.Load()
			switch {
			case b == nil:
			case gone(b, first):
				p.Store(nil)
				t.seqs.n.Add(-1)
			default:
				left = true
			}
		}
		if !left {
			t.seqs.blocks.Release(from/blockSize, from/blockSize+PageSize)
		}
	}
}
