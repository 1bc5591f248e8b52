package onefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
)

const (
	// BlockSize is what a block holds before it is packed, unless one key has more. A commit packs
	// each block again that it touches, some eight of them; larger ones pack better.
	BlockSize = 32 << 10
	// mostBlock bounds a block before it is packed: a commit writes at most 64 MiB.
	mostBlock = 256 << 20

	blockMagic = "mblk"
	blockHead  = 28
)

// The ways in which a block is packed.
const (
	plain  byte = iota
	zipped      // zstd
)

// Block is one packed block. It does not change.
type Block struct {
	// First and Last are its keys.
	First, Last []byte
	bytes       []byte // with its head
	keys, size  uint32
}

func (b *Block) sum() uint64 { return binary.LittleEndian.Uint64(b.bytes[blockHead-8:]) }

// zips are shared by all: EncodeAll and DecodeAll may be called at once.
var (
	zipper = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
	})
	unzipper = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(mostBlock))
	})
)

// packer makes blocks of keys in their order.
type packer struct {
	blocks []*Block
	// size bounds a block. One of a commit has keys of all kinds.
	size  int
	mixed bool

	raw         []byte
	first, last []byte
	keys        uint32
}

// add adds a key, which comes after those before it.
func (p *packer) add(key, value []byte) error {
	if p.keys > 0 && bytes.Compare(key, p.last) <= 0 {
		return fmt.Errorf("the keys %x and %x are in the wrong order", p.last, key)
	}
	if p.keys > 0 && (len(p.raw)+len(key)+len(value) > p.size || !p.mixed && !sameKind(p.first, key)) {
		if err := p.end(); err != nil {
			return err
		}
	}
	shared := 0
	if p.keys == 0 {
		p.first = bytes.Clone(key)
	} else {
		shared = commonPrefix(p.last, key)
	}
	p.raw = binary.AppendUvarint(p.raw, uint64(shared))
	p.raw = binary.AppendUvarint(p.raw, uint64(len(key)-shared))
	p.raw = binary.AppendUvarint(p.raw, uint64(len(value)))
	p.raw = append(p.raw, key[shared:]...)
	p.raw = append(p.raw, value...)
	p.last = append(p.last[:0], key...)
	p.keys++
	return nil
}

// sameKind reports whether two keys begin with the same byte, which says what they are of. A block
// has keys of one kind, so that a damage of an index takes no texts along.
func sameKind(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 && a[0] == b[0]
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// end ends the block that was begun, if one was.
func (p *packer) end() error {
	if p.keys == 0 {
		return nil
	}
	if len(p.raw) > mostBlock {
		return fmt.Errorf("the value of the key %x has %d bytes", p.last, len(p.raw))
	}
	z, err := zipper()
	if err != nil {
		return err
	}
	b := make([]byte, blockHead, blockHead+len(p.raw)/2)
	packed := z.EncodeAll(p.raw, b)
	way := zipped
	if len(packed)-blockHead >= len(p.raw) {
		packed, way = append(b[:blockHead], p.raw...), plain
	}
	packed = slices.Clip(packed)
	le := binary.LittleEndian
	copy(packed, blockMagic)
	packed[4] = way
	le.PutUint32(packed[8:], uint32(len(packed)-blockHead))
	le.PutUint32(packed[12:], uint32(len(p.raw)))
	le.PutUint32(packed[16:], p.keys)
	le.PutUint64(packed[blockHead-8:], blockSum(packed))
	p.blocks = append(p.blocks, &Block{First: p.first, Last: bytes.Clone(p.last), bytes: packed, keys: p.keys, size: uint32(len(p.raw))})
	p.raw, p.first, p.last, p.keys = p.raw[:0], nil, p.last[:0], 0
	return nil
}

// blockSum is the checksum of a block: of all but itself.
func blockSum(b []byte) uint64 {
	var h xxh3.Hasher
	_, _ = h.Write(b[:blockHead-8]) // which never fails
	_, _ = h.Write(b[blockHead:])
	return h.Sum64()
}

// openBlock reads the head of a block that b begins with, and proves it.
func openBlock(b []byte) (*Block, error) {
	if len(b) < blockHead || string(b[:len(blockMagic)]) != blockMagic {
		return nil, errors.New("it does not begin as a block does")
	}
	le := binary.LittleEndian
	stored := int64(le.Uint32(b[8:]))
	if int64(len(b)) < blockHead+stored {
		return nil, fmt.Errorf("it has %d of %d bytes", len(b), blockHead+stored)
	}
	b = b[: blockHead+stored : blockHead+stored]
	one := &Block{bytes: b, size: le.Uint32(b[12:]), keys: le.Uint32(b[16:])}
	switch {
	case blockSum(b) != one.sum():
		return nil, errors.New("it does not fit its checksum")
	case b[4] > zipped, one.size > mostBlock, one.keys == 0:
		return nil, errors.New("its head cannot be")
	}
	return one, nil
}

// unpack is the content of a block.
func (b *Block) unpack(buf []byte) ([]byte, error) {
	raw := b.bytes[blockHead:]
	if b.bytes[4] == zipped {
		z, err := unzipper()
		if err != nil {
			return nil, err
		}
		if raw, err = z.DecodeAll(raw, slices.Grow(buf[:0], int(b.size))); err != nil {
			return nil, err
		}
	}
	if len(raw) != int(b.size) {
		return nil, fmt.Errorf("it unpacks to %d bytes, not %d", len(raw), b.size)
	}
	return raw, nil
}

var errEntry = errors.New("a key in it cannot be read")

// Each calls visit for each key, in their order. Key and value are valid during the call.
func (b *Block) Each(visit func(key, value []byte) error) error { return b.each(new([]byte), visit) }

func (b *Block) each(buf *[]byte, visit func(key, value []byte) error) error {
	raw, err := b.unpack(*buf)
	if err != nil {
		return err
	}
	if b.bytes[4] == zipped {
		*buf = raw
	}
	var key, next []byte
	for n := range b.keys {
		var sizes [3]uint64
		for i := range sizes {
			v, used := binary.Uvarint(raw)
			if used <= 0 {
				return errEntry
			}
			sizes[i], raw = v, raw[used:]
		}
		shared, rest, length := sizes[0], sizes[1], sizes[2]
		left := uint64(len(raw))
		if shared > uint64(len(key)) || rest > left || length > left-rest {
			return errEntry
		}
		next = append(append(next[:0], key[:shared]...), raw[:rest]...)
		if n > 0 && bytes.Compare(next, key) <= 0 {
			return errEntry
		}
		key, next = next, key
		if err := visit(key, raw[rest:rest+length:rest+length]); err != nil {
			return err
		}
		raw = raw[rest+length:]
	}
	if len(raw) > 0 {
		return errEntry
	}
	return nil
}
