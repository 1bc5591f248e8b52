package layout

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// An ID that the database gives a memory names the memory: a UUID holds 42 random bits, the
// number of the owner (32 bits) and the Seq (48 bits), encrypted. Such an ID needs no key in
// the ID index; writing that key took a twentieth of the time of storing a memory. Without
// the hash seed of the database nobody can read an ID, or guess the ID of another memory.
const (
	// SeqBits is how many bits of an ID hold the Seq. A Seq of an ID is below 1<<SeqBits.
	SeqBits = 48
	// halfBits is half of the 122 bits that a UUID has beside its version and its variant:
	// the cipher works on two halves.
	halfBits = 61
	// lowOwner is how many low bits of the owner share a half with the Seq. The highOwner
	// bits that are left share the other half with the random bits.
	lowOwner  = halfBits - SeqBits
	highOwner = 32 - lowOwner
	halfMask  = 1<<halfBits - 1
	// idRounds is the number of rounds from which on a Feistel cipher is a strong
	// pseudorandom permutation (Luby and Rackoff, 1988).
	idRounds = 4
	// IDVersion is the UUID version of the IDs: 4, random.
	IDVersion = 4
)

// IDCipher makes the IDs that the database gives, and reads them: a Feistel cipher with
// AES-128 as its round function. docs/format/keys.md describes the bits.
type IDCipher struct{ block cipher.Block }

// NewIDCipher returns the cipher of a database. seed is the seed of its hashes.
func NewIDCipher(seed uint64) (IDCipher, error) {
	key := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("memdb memory IDs"), seed))
	block, err := aes.NewCipher(key[:aes.BlockSize])
	return IDCipher{block}, err
}

// Seal returns the ID of a memory. Only the lowest 42 bits of random count. seq must be
// below 1<<SeqBits.
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

// Open returns the memory that an ID names, and false for a text that is no UUID of the
// version and variant of Seal. Open cannot see who made the ID: any random UUID decrypts to
// some owner and Seq. The caller must check that the memory exists and has this very ID.
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

// mix is the round function. b is scratch memory, which the rounds of a call share.
func (c IDCipher) mix(b *[aes.BlockSize]byte, round byte, half uint64) uint64 {
	*b = [aes.BlockSize]byte{round}
	binary.BigEndian.PutUint64(b[8:], half)
	c.block.Encrypt(b[:], b[:])
	return binary.BigEndian.Uint64(b[:]) & halfMask
}

// Says reports whether an ID names this memory. A memory with such an ID has no key in
// the ID index.
func (c IDCipher) Says(id string, owner uint32, seq uint64) bool {
	o, s, ok := c.Open(id)
	return ok && o == owner && s == seq
}
