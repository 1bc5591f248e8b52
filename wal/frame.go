package wal

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Timeline is the ID of a history of commits, a UUID.
type Timeline [16]byte

// String is the timeline as memdb.json has it.
func (t Timeline) String() string {
	h := hex.EncodeToString(t[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseTimeline reads what String writes.
func ParseTimeline(s string) (t Timeline, err error) {
	plain := make([]byte, 0, 32)
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return t, errTimeline
			}
			continue
		}
		plain = append(plain, s[i])
	}
	if len(plain) != 2*len(t) {
		return t, errTimeline
	}
	_, err = hex.Decode(t[:], plain)
	return t, err
}

var errTimeline = errors.New("it is no timeline, which is a UUID")

// Kind says what the batches of a frame are.
type Kind byte

const (
	// Batches were applied one after the other.
	Batches Kind = 1
	// Base is a part of everything that a store had at one moment.
	Base Kind = 2
	// BaseEnd follows the last part of a base. It has no batches.
	BaseEnd Kind = 3
)

// Frame is a number of batches, in their order.
type Frame struct {
	// Timeline is the one that the batches are of, Kind what they are.
	Timeline Timeline
	Kind     Kind
	// First and Last are the numbers of the first and the last batch. Of a base First is the number of
	// the newest batch that the store had applied, and Last counts the parts from 0 on; the end of a base
	// has the number of parts.
	First, Last uint64
	// Since is the LSN of the newest commit before the batches, LSN that of the newest one with them: the
	// same where no commit is among them. Time is when that was made, in Unix milliseconds. Each is 0 where
	// it is not known: no commit was made since the database was opened.
	Since, LSN uint64
	Time       int64
	// Batches are those of the store, in its own form.
	Batches [][]byte
}

// Position is how far somebody has followed: all batches up to a number; or, within a base, so many of its
// parts. The zero Position is before everything.
type Position struct {
	// Timeline is the one that is followed, Number that of the newest batch of it.
	Timeline Timeline
	Number   uint64
	// Parts is above 0 within a base that is not complete: so many parts of it were taken, and Number is
	// that of the base.
	Parts uint64
}

// After is the position behind a frame.
func (f *Frame) After() Position {
	switch f.Kind {
	case Base:
		return Position{f.Timeline, f.First, f.Last + 1}
	case BaseEnd:
		return Position{f.Timeline, f.First, 0}
	}
	return Position{f.Timeline, f.Last, 0}
}

// Follows reports whether the frame is the next one at a position.
func (f *Frame) Follows(p Position) bool {
	fresh := p == Position{}
	if !fresh && f.Timeline != p.Timeline {
		return false
	}
	switch f.Kind {
	case Batches:
		return p.Parts == 0 && f.First == p.Number+1
	case Base:
		return fresh && f.Last == 0 || p.Parts > 0 && f.First == p.Number && f.Last == p.Parts
	}
	return p.Parts > 0 && f.First == p.Number && f.Last == p.Parts
}

// Feed gives the frame that follows a position; for the zero Position the first batch of the database,
// or else the first part of the newest base. It waits until there is one, or returns io.EOF where it will
// wait no longer. ErrGap means that it does not have what follows, and that the follower is to begin
// again, from the zero Position. What it returns the caller may keep.
type Feed func(ctx context.Context, after Position) (*Frame, error)

// End is where an archive ends.
type End struct {
	// Number is the highest number that the archive has seen, 0 if none.
	Number uint64
	// LSN is that of the newest commit it has, Time when that was made, in Unix milliseconds; 0 where that
	// is not known.
	LSN  uint64
	Time int64
	// Whole says that the archive can be followed up to there: from the first batch of the database or
	// from a base.
	Whole bool
}

// Archive keeps what a database writes. Its methods are called by one goroutine at a time.
type Archive interface {
	// Begin prepares the archive for a timeline of a database, whose ID is a UUID, and returns what it has
	// of that timeline.
	Begin(ctx context.Context, database string, t Timeline) (End, error)
	// Append keeps a frame behind those that it has. When it returns nil, the frame is durable, unless it
	// is a part of a base, which is with its end. After an error the same batches may come again, in the
	// same frame or in another.
	Append(ctx context.Context, f *Frame) error
	// Name is what the archive is called in messages: a path or an address.
	Name() string
	// Close ends the use of the archive.
	Close() error
}

// The form of a frame: a head of fixed size, and the batches, each with its length before it.
const (
	// Magic is what each frame begins with.
	Magic        = "memdbseg"
	frameVersion = 1
	headSize     = 96
	sumAt        = 88
	// MaxFrame bounds the batches of a frame, in bytes: a batch of a store has less than 1 GiB.
	MaxFrame = math.MaxInt32

	flagZstd = 1
)

// packer and unpacker are what packs and unpacks: both are heavy to make, and free of any state of one use.
// Without entropy coding a frame of vectors and texts is packed at 1.5 times the speed, and is a twelfth
// larger (370 MB/s and .79 of the size, 247 and .74 with it): the processor is the writers'.
var (
	packer = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithNoEntropyCompression(true), zstd.WithEncoderConcurrency(1))
	})
	unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxFrame))
	})
)

// plain keeps the memory in which the batches of a frame lie side by side, up to mostKept bytes.
var plain sync.Pool

const mostKept = 16 << 20

// Append appends the form of the frame.
func (f *Frame) Append(dst []byte) ([]byte, error) { return f.form(dst, true) }

// AppendPlain is Append without packing: for what is waited for, and not kept for long.
func (f *Frame) AppendPlain(dst []byte) ([]byte, error) { return f.form(dst, false) }

func (f *Frame) form(dst []byte, pack bool) ([]byte, error) {
	size := 0
	for _, b := range f.Batches {
		size += binary.MaxVarintLen32 + len(b)
	}
	if size > MaxFrame {
		return nil, fmt.Errorf("a frame of %d bytes: the limit is %d", size, MaxFrame)
	}
	buf, _ := plain.Get().(*[]byte)
	if buf == nil || cap(*buf) < size {
		buf = new(make([]byte, 0, size))
	}
	raw := (*buf)[:0]
	defer func() {
		if *buf = raw; cap(raw) <= mostKept {
			plain.Put(buf)
		}
	}()
	for _, b := range f.Batches {
		raw = append(binary.AppendUvarint(raw, uint64(len(b))), b...)
	}
	at := len(dst)
	dst = append(dst, make([]byte, headSize)...)
	var (
		flags byte
		err   error
	)
	if dst, flags, err = packed(dst, raw, pack); err != nil {
		return nil, err
	}
	head := dst[at : at+headSize]
	copy(head, Magic)
	head[8], head[9], head[10] = frameVersion, byte(f.Kind), flags
	put32, put64 := binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	put32(head[12:], uint32(len(f.Batches)))
	copy(head[16:], f.Timeline[:])
	put64(head[32:], f.First)
	put64(head[40:], f.Last)
	put64(head[48:], f.Since)
	put64(head[56:], f.LSN)
	put64(head[64:], uint64(f.Time))
	put64(head[72:], uint64(len(raw)))
	put64(head[80:], uint64(len(dst)-at-headSize))
	put64(head[sumAt:], sum(head, dst[at+headSize:]))
	return dst, nil
}

// packed appends bytes, packed if that is asked for and makes them fewer.
func packed(dst, raw []byte, pack bool) ([]byte, byte, error) {
	if pack {
		enc, err := packer()
		if err != nil {
			return nil, 0, err
		}
		if packed := enc.EncodeAll(raw, dst[len(dst):]); len(packed) < len(raw) {
			return append(dst, packed...), flagZstd, nil
		}
	}
	return append(dst, raw...), 0, nil
}

// SumOf is the checksum in a frame that Append has formed.
func SumOf(formed []byte) uint64 { return binary.LittleEndian.Uint64(formed[sumAt:]) }

// sum is the checksum of a frame.
func sum(head, body []byte) uint64 { return xxh3.HashSeed(body, xxh3.Hash(head[:sumAt])) }

// head is what the first bytes of a frame say.
type head struct {
	Frame
	count       uint32
	packed      bool
	raw, stored uint64
	sum         uint64
}

// decodeHead reads a head. Whether it is as it was written, only the checksum of the whole frame tells.
func decodeHead(b []byte) (*head, error) {
	if string(b[:8]) != Magic {
		return nil, damaged("no frame begins there", nil)
	}
	if b[8] != frameVersion {
		return nil, &fault.Error{Kind: fault.ErrNewerLayout, What: doingRead, Why: fmt.Sprintf("a frame has version %d, this memdb knows %d", b[8], frameVersion), Do: "use a newer memdb"}
	}
	get64 := binary.LittleEndian.Uint64
	h := &head{
		Frame: Frame{Kind: Kind(b[9]), First: get64(b[32:]), Last: get64(b[40:]), Since: get64(b[48:]), LSN: get64(b[56:]), Time: int64(get64(b[64:]))},
		count: binary.LittleEndian.Uint32(b[12:]), packed: b[10]&flagZstd != 0, raw: get64(b[72:]), stored: get64(b[80:]), sum: get64(b[sumAt:]),
	}
	copy(h.Timeline[:], b[16:])
	if h.raw > MaxFrame || h.stored > h.raw || h.Kind < Batches || h.Kind > BaseEnd || h.Kind == Batches && (h.First == 0 || h.Last < h.First) {
		return nil, damaged("the head of a frame cannot be", nil)
	}
	return h, nil
}

const doingRead = "read a segment"

func damaged(why string, cause error) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: doingRead, Why: why, Cause: cause, Do: "restore the file from a copy; what comes behind it can be followed again from the next base"}
}

// body fills in the batches of a frame from what follows its head. b is the head as it was read.
func (h *head) body(b, stored []byte) (*Frame, error) {
	if sum(b, stored) != h.sum {
		return nil, damaged("a frame does not fit its checksum", nil)
	}
	raw := stored
	if h.packed {
		dec, err := unpacker()
		if err != nil {
			return nil, err
		}
		if raw, err = dec.DecodeAll(stored, nil); err != nil {
			return nil, damaged("a frame cannot be unpacked", err)
		}
	}
	if uint64(len(raw)) != h.raw {
		return nil, damaged("a frame has another length than its head says", nil)
	}
	f := h.Frame
	for range h.count {
		n, size := binary.Uvarint(raw)
		if size <= 0 || n > uint64(len(raw)-size) {
			return nil, damaged("a frame ends within a batch", nil)
		}
		raw = raw[size:]
		f.Batches = append(f.Batches, raw[:n:n])
		raw = raw[n:]
	}
	if len(raw) > 0 || f.Kind == Batches && uint64(h.count) != f.Last-f.First+1 {
		return nil, damaged("a frame has other batches than its head says", nil)
	}
	return &f, nil
}

// Behind drops the batches up to a number from a frame of batches.
func (f *Frame) Behind(number uint64) {
	if number >= f.First && number < f.Last {
		f.Batches = f.Batches[number-f.First+1:]
		f.First = number + 1
	}
}
