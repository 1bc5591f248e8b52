package layout

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// The ID that the database gives a memory says which one it is: random bits, the number
// of its owner and its Seq, encrypted as the random bits of a UUID. So it needs no key in
// the ID index, which was a twentieth of what a store takes. Nobody without the database's
// hash seed can read such an ID, or guess another.
const (
	SeqBits  = 48
	halfBits = 61 // of the 122 that a UUID has beside version and variant
	// lowOwner is how many bits of the owner stand beside the Seq; the others stand
	// with the random bits.
	lowOwner  = halfBits - SeqBits
	highOwner = 32 - lowOwner
	halfMask  = 1<<halfBits - 1
	// idRounds of a Feistel cipher make a strong pseudorandom permutation.
	idRounds  = 4
	IDVersion = 4
)

// IDCipher makes such IDs and reads them.
type IDCipher struct{ block cipher.Block }

func NewIDCipher(seed uint64) (IDCipher, error) {
	key := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("memdb memory IDs"), seed))
	block, err := aes.NewCipher(key[:aes.BlockSize])
	return IDCipher{block}, err
}

// Seal returns the ID of a memory. Of random the lowest bits count.
func (c IDCipher) Seal(random uint64, owner uint32, seq uint64) string {
	x := (random<<highOwner | uint64(owner)>>lowOwner) & halfMask
	y := (uint64(owner)<<SeqBits | seq) & halfMask
	var b [aes.BlockSize]byte
	for round := range byte(idRounds) {
		x, y = y, x^c.mix(&b, round, y)
	}
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:], x>>13<<16|IDVersion<<12|x>>1&0xfff)
	binary.BigEndian.PutUint64(u[8:], 1<<63|x&1<<halfBits|y)
	return u.String()
}

// Open returns which memory an ID says that it is of: one that may have another ID, or
// not exist, if the database did not make it.
func (c IDCipher) Open(id string) (owner uint32, seq uint64, ok bool) {
	const length = 36
	if len(id) != length {
		return 0, 0, false
	}
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != IDVersion || u.Variant() != uuid.RFC4122 {
		return 0, 0, false
	}
	hi, lo := binary.BigEndian.Uint64(u[:]), binary.BigEndian.Uint64(u[8:])
	x := hi>>16<<13 | hi&0xfff<<1 | lo>>halfBits&1
	y := lo & halfMask
	var b [aes.BlockSize]byte
	for round := byte(idRounds); round > 0; round-- {
		x, y = y^c.mix(&b, round-1, x), x
	}
	return uint32(x<<lowOwner | y>>SeqBits), y & (1<<SeqBits - 1), true
}

// mix is the function of a round.
func (c IDCipher) mix(b *[aes.BlockSize]byte, round byte, half uint64) uint64 {
	*b = [aes.BlockSize]byte{round}
	binary.BigEndian.PutUint64(b[8:], half)
	c.block.Encrypt(b[:], b[:])
	return binary.BigEndian.Uint64(b[:]) & halfMask
}

// Says reports whether an ID is one that the database made of a memory, which then has no
// key in the ID index.
func (c IDCipher) Says(id string, owner uint32, seq uint64) bool {
	o, s, ok := c.Open(id)
	return ok && o == owner && s == seq
}
