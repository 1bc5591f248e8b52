package engine

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/seed-7aedc3ff/memdb/internal/kv"
)

// The ID that the database gives a memory says which one it is: random bits, the number
// of its owner and its Seq, encrypted as the random bits of a UUID. So it needs no key in
// the ID index, which was a twentieth of what a store takes. Nobody without the database's
// hash seed can read such an ID, or guess another.
const (
	seqBits  = 48
	halfBits = 61 // of the 122 that a UUID has beside version and variant
	// lowOwner is how many bits of the owner stand beside the Seq; the others stand
	// with the random bits.
	lowOwner  = halfBits - seqBits
	highOwner = 32 - lowOwner
	halfMask  = 1<<halfBits - 1
	// idRounds of a Feistel cipher make a strong pseudorandom permutation.
	idRounds  = 4
	idVersion = 4
)

// idCipher makes such IDs and reads them.
type idCipher struct{ block cipher.Block }

func newIDCipher(seed uint64) (idCipher, error) {
	key := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("memdb memory IDs"), seed))
	block, err := aes.NewCipher(key[:aes.BlockSize])
	return idCipher{block}, err
}

// seal returns the ID of a memory. Of random the lowest bits count.
func (c idCipher) seal(random uint64, owner uint32, seq uint64) string {
	x := (random<<highOwner | uint64(owner)>>lowOwner) & halfMask
	y := (uint64(owner)<<seqBits | seq) & halfMask
	var b [aes.BlockSize]byte
	for round := range byte(idRounds) {
		x, y = y, x^c.mix(&b, round, y)
	}
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:], x>>13<<16|idVersion<<12|x>>1&0xfff)
	binary.BigEndian.PutUint64(u[8:], 1<<63|x&1<<halfBits|y)
	return u.String()
}

// open returns which memory an ID says that it is of: one that may have another ID, or
// not exist, if the database did not make it.
func (c idCipher) open(id string) (owner uint32, seq uint64, ok bool) {
	const length = 36
	if len(id) != length {
		return 0, 0, false
	}
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != idVersion || u.Variant() != uuid.RFC4122 {
		return 0, 0, false
	}
	hi, lo := binary.BigEndian.Uint64(u[:]), binary.BigEndian.Uint64(u[8:])
	x := hi>>16<<13 | hi&0xfff<<1 | lo>>halfBits&1
	y := lo & halfMask
	var b [aes.BlockSize]byte
	for round := byte(idRounds); round > 0; round-- {
		x, y = y^c.mix(&b, round-1, x), x
	}
	return uint32(x<<lowOwner | y>>seqBits), y & (1<<seqBits - 1), true
}

// mix is the function of a round.
func (c idCipher) mix(b *[aes.BlockSize]byte, round byte, half uint64) uint64 {
	*b = [aes.BlockSize]byte{round}
	binary.BigEndian.PutUint64(b[8:], half)
	c.block.Encrypt(b[:], b[:])
	return binary.BigEndian.Uint64(b[:]) & halfMask
}

// says tells whether an ID is one that the database made of a memory, which then has no
// key in the ID index.
func (c idCipher) says(id string, owner uint32, seq uint64) bool {
	o, s, ok := c.open(id)
	return ok && o == owner && s == seq
}

// claim is a memory that may have, or have had, an ID.
type claim struct {
	owner uint32
	seq   uint64
	// indexed tells that the ID index names it: it has the ID, or one of the same hash.
	indexed bool
}

// anyOwner stands for all of them: no owner has this number.
const anyOwner = 0

// living calls fn with the living memories of an owner that have an ID, or one of the same
// hash. Who has an ID got it after those that had it before, so that each owner's are
// asked from the newest on, and not all that there ever were.
func (tx *Tx) living(owner uint32, id string, fn func(c claim, l live, rec *record) error) error {
	ask := func(c claim) (has bool, err error) {
		l, alive := tx.at(c.seq)
		if !alive || l.owner != c.owner {
			return false, nil
		}
		rec, err := tx.record(l.version)
		if err == nil {
			err = fn(c, l, rec)
		}
		return err == nil && rec.id == id, err
	}
	ks := &tx.db.keys
	found := uint32(anyOwner) // the owner of the one that the ID says itself, if that has it
	if o, s, ok := ks.cipher.open(id); ok && s > 0 && (owner == anyOwner || owner == o) {
		has, err := ask(claim{owner: o, seq: s})
		if err != nil {
			return err
		}
		if has {
			found = o
		}
	}
	prefix := ks.ids(id)
	if owner != anyOwner {
		prefix = binary.BigEndian.AppendUint32(prefix, owner)
		if found == owner || !tx.db.written.mayHold(prefix) {
			return nil
		}
	}
	it, err := tx.reader.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return err
	}
	for ok := it.Last(); ok && err == nil; {
		c := claim{indexed: true}
		if c.owner, c.seq, ok = parseIDKey(it.Key()); !ok {
			err = corruptKey("ID", it.Key())
			break
		}
		over := c.owner == found
		if !over {
			over, err = ask(c)
		}
		if !over && err == nil {
			over, err = tx.had(c, id)
		}
		if over {
			ok = it.SeekLT(binary.BigEndian.AppendUint32(ks.ids(id), c.owner))
		} else {
			ok = it.Prev()
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

// had tells whether a memory that is dead had an ID, and lived when it had: of one that was
// restored after its death nothing follows for those that were here before it.
func (tx *Tx) had(c claim, id string) (bool, error) {
	prefix := tx.db.keys.records(c.owner, c.seq)
	it, err := tx.reader.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return false, err
	}
	had := false
	if it.Last() {
		var value []byte
		var rec *record
		v, ok := parseRecordKey(it.Key())
		if !ok {
			err = corruptKey("record", it.Key())
		} else if value, err = it.ValueAndErr(); err == nil {
			rec, err = decodeRecord(value)
		}
		had = err == nil && rec.id == id && rec.flags&flagPast == 0 && v.born <= tx.lsn
	}
	return had, errors.Join(err, it.Error(), it.Close())
}

// holders calls fn with the memories of an owner that may have or have had an ID, in the
// order of owner and Seq. An error of fn ends it.
func (tx *Tx) holders(owner uint32, id string, fn func(c claim) error) error {
	ks := &tx.db.keys
	var said *claim // what the ID says itself, until fn was called with it
	if o, s, ok := ks.cipher.open(id); ok && s > 0 && (owner == anyOwner || owner == o) {
		said = &claim{owner: o, seq: s}
	}
	prefix := ks.ids(id)
	if owner != anyOwner {
		prefix = binary.BigEndian.AppendUint32(prefix, owner)
	}
	if owner == anyOwner || tx.db.written.mayHold(prefix) {
		err := kv.Scan(tx.reader, prefix, prefixEnd(prefix), func(key, _ []byte) error {
			h := claim{indexed: true}
			var ok bool
			if h.owner, h.seq, ok = parseIDKey(key); !ok {
				return corruptKey("ID", key)
			}
			if said != nil {
				switch order := cmp.Or(cmp.Compare(said.owner, h.owner), cmp.Compare(said.seq, h.seq)); {
				case order < 0:
					if err := fn(*said); err != nil {
						return err
					}
					said = nil
				case order == 0:
					said = nil
				}
			}
			return fn(h)
		})
		if err != nil {
			return err
		}
	}
	if said == nil {
		return nil
	}
	return fn(*said)
}
