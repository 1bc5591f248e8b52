package apikeys

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Store is where keys are kept, as lines under names. It is safe for concurrent use.
type Store interface {
	// Version changes whenever the lines change. ErrUnavailable: the lines may be too old to go by.
	Version() (uint64, error)
	// Lines returns all lines in the order of their names, each with its newline, and whether the store has
	// ever had a key. ErrCorrupt: lines are missing or damaged.
	Lines() (lines []byte, keyed bool, err error)
	// Put stores a line under a name and records that the store has had a key.
	Put(ctx context.Context, name string, line []byte) error
	// Clear removes all lines. keyed says what the store records from then on: that it has had a key, or
	// that it never had one. ErrInvalid: the lines of this store cannot be removed.
	Clear(ctx context.Context, keyed bool) error
}

const (
	// keyMark begins every secret.
	keyMark = "memdb_"
	// UsedEvery is the precision of [Key.LastUsedAt]: a key in use writes one line in this time.
	UsedEvery = time.Hour
)

// ErrNoKey is returned for a request that needs a key and has none that works.
var ErrNoKey = errors.New("no key, or none that works")

// Keys are the keys of a store, in RAM. They are safe for concurrent use.
type Keys struct {
	store Store
	now   func() time.Time

	mu struct {
		sync.Mutex
		ring
		fresh   bool // what follows is of this version of the store
		version uint64
		keyed   bool
		damage  error                // why the lines cannot be read
		used    map[string]time.Time // when a key was last used, by ID
	}
}

// Open returns the keys of a store. It reads nothing yet: a store that cannot be read is reported by the calls.
func Open(s Store, now func() time.Time) *Keys {
	k := &Keys{store: s, now: now}
	k.mu.used = map[string]time.Time{}
	return k
}

// refresh reads the lines if they have changed. The lock is held.
func (k *Keys) refresh() error {
	version, err := k.store.Version()
	if err != nil {
		return err
	}
	if k.mu.fresh && version == k.mu.version {
		return k.mu.damage
	}
	k.mu.fresh = false
	lines, keyed, err := k.store.Lines() // perhaps newer than the version: they are read again then
	if err == nil {
		k.mu.ring, err = parse(lines)
		if err != nil {
			err = &fault.Error{Kind: fault.ErrCorrupt, What: doingRead, Cause: err, Do: wayOn}
		} else if keyed && len(k.mu.keys) == 0 {
			err = &fault.Error{Kind: fault.ErrCorrupt, What: doingRead, Why: "there were keys, and all are missing", Do: wayOn}
		}
	}
	if err != nil {
		k.mu.ring, keyed = ring{}, true
	}
	k.mu.version, k.mu.keyed, k.mu.damage = version, keyed, err
	// Damage stays; another failure may be over with the next request.
	k.mu.fresh = err == nil || errors.Is(err, fault.ErrCorrupt)
	return err
}

const (
	doingRead = "read the keys"
	wayOn     = "make a new key with memdbd key add --admin, which removes those that cannot be read; or restore a backup"
)

// Add makes a key with rights, and returns the secret, which nobody can read again, with what is known of the
// key. If the keys in the store are damaged, the new key replaces them all. Add returns the errors of
// [Rights.Check] and of the store.
func (k *Keys) Add(ctx context.Context, r Rights) (secret string, key Key, err error) {
	if err := r.Check(); err != nil {
		return "", key, err
	}
	k.mu.Lock()
	err = k.refresh()
	k.mu.Unlock()
	if errors.Is(err, fault.ErrCorrupt) {
		err = k.store.Clear(ctx, true)
	}
	if err != nil {
		return "", key, err
	}
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it never fails
	secret = keyMark + base64.RawURLEncoding.EncodeToString(raw[:])
	hash := sha256.Sum256([]byte(secret))
	at := k.now().UTC().Truncate(time.Millisecond)
	if r.ExpiresAt != nil {
		if !at.Before(*r.ExpiresAt) {
			return "", key, fault.Invalid(doingAdd, "it would have expired already", "give a time in the future")
		}
		until := r.ExpiresAt.UTC().Truncate(time.Millisecond)
		r.ExpiresAt = &until
	}
	key = Key{ID: "key_" + hex.EncodeToString(hash[:6]), Rights: r, CreatedAt: at}
	return secret, key, k.put(ctx, &line{ID: key.ID, Hash: hex.EncodeToString(hash[:]), Rights: r, CreatedAt: &at})
}

// Revoke ends a key, and returns what is known of it. ErrNotFound for an ID that no key has.
func (k *Keys) Revoke(ctx context.Context, id string) (Key, error) {
	key, err := k.get("revoke", id)
	if err != nil || key.RevokedAt != nil {
		return key, err
	}
	at := k.now().UTC().Truncate(time.Millisecond)
	key.RevokedAt = &at
	return key, k.put(ctx, &line{ID: id, RevokedAt: &at})
}

// Rotate makes a key with the rights of another one, and has the other one end: at once, or after some time in
// which both work. ErrNotFound for an ID that no key has, ErrInvalid for a key that has ended.
func (k *Keys) Rotate(ctx context.Context, id string, grace time.Duration) (secret string, key Key, err error) {
	old, err := k.get("rotate", id)
	if err != nil {
		return "", key, err
	}
	now := k.now()
	if old.ended(now) {
		return "", key, fault.Invalid("rotate the key "+id, "it was revoked or has expired", "make a new key with memdbd key add")
	}
	r := old.Rights
	if secret, key, err = k.Add(ctx, r); err != nil {
		return "", key, err
	}
	at := now.Add(max(grace, 0)).UTC().Truncate(time.Millisecond)
	if grace > 0 {
		return secret, key, k.put(ctx, &line{ID: id, Until: &at})
	}
	return secret, key, k.put(ctx, &line{ID: id, RevokedAt: &at})
}

func (k *Keys) get(doing, id string) (Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(); err != nil {
		return Key{}, err
	}
	key := k.mu.keys[id]
	if key == nil {
		return Key{}, &fault.Error{Kind: fault.ErrNotFound, What: doing + " the key " + id, Do: "see the list of keys"}
	}
	return *key, nil
}

// put stores a line.
func (k *Keys) put(ctx context.Context, l *line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return k.store.Put(ctx, l.name(), b)
}

// Clear removes all keys, and the record that there ever was one: whoever reaches the server may then do
// everything, until the next key is made. ErrInvalid for the keys of a cluster.
func (k *Keys) Clear(ctx context.Context) error { return k.store.Clear(ctx, false) }

// Import stores the lines of another store or of a file of keys, and returns how many keys they make. A key that
// is there already stays as it is; one that was revoked in either is revoked. ErrCorrupt where a line cannot be
// read, before anything is stored.
func (k *Keys) Import(ctx context.Context, lines []byte) (n int, err error) {
	all, err := split(lines)
	if err == nil {
		_, err = parse(lines)
	}
	if err != nil {
		return 0, &fault.Error{Kind: fault.ErrCorrupt, What: "import keys", Cause: err, Do: "remove that line, and revoke its key"}
	}
	k.mu.Lock()
	err = k.refresh()
	known := k.mu.ring
	k.mu.Unlock()
	if err != nil {
		return 0, err
	}
	for i := range all {
		l := &all[i]
		old := known.keys[l.ID]
		if l.begins() {
			n++
		}
		if old != nil && (l.RevokedAt == nil || old.RevokedAt != nil) && l.Until == nil {
			continue
		}
		if err := k.put(ctx, l); err != nil {
			return n, err
		}
	}
	return n, nil
}

// List returns all keys in the order in which they were made.
func (k *Keys) List() ([]Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(); err != nil {
		return nil, err
	}
	all := make([]Key, 0, len(k.mu.keys))
	for _, key := range slices.SortedFunc(maps.Values(k.mu.keys), func(a, b *Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	}) {
		all = append(all, *key)
	}
	return all, nil
}

// Find returns the key with a secret. needed is false where the store never had a key, and everybody may ask.
// ErrNoKey where no key that works has this secret; ErrCorrupt and ErrUnavailable where the keys cannot be read.
func (k *Keys) Find(secret string) (key *Key, needed bool, err error) {
	if k == nil {
		return nil, false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(); err != nil {
		return nil, true, err
	}
	if !k.mu.keyed {
		return nil, false, nil
	}
	key = k.mu.byHash[sha256.Sum256([]byte(secret))] // the time of a lookup by hash reveals nothing of the secret
	now := k.now()
	if key == nil || key.ended(now) {
		return nil, true, ErrNoKey
	}
	k.mu.used[key.ID] = now
	return key, true, nil
}

// Holds returns nil while what Find returned is still so: the key works, or there is none and none is needed. It
// is for streams, which outlive the check at the start of their request. It returns the errors of Find.
func (k *Keys) Holds(key *Key) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(); err != nil {
		return err
	}
	if key == nil {
		if k.mu.keyed {
			return ErrNoKey
		}
		return nil
	}
	if now := k.mu.keys[key.ID]; now == nil || now.ended(k.now()) {
		return ErrNoKey
	}
	return nil
}

// Some reports whether the store has ever had a key. It returns the errors of Find.
func (k *Keys) Some() (bool, error) {
	_, needed, err := k.Find("")
	if errors.Is(err, ErrNoKey) {
		err = nil
	}
	return needed, err
}

// NoteUse stores when keys were last used, if the stored time is older than UsedEvery.
func (k *Keys) NoteUse(ctx context.Context) error {
	k.mu.Lock()
	var lines []line
	if err := k.refresh(); err != nil {
		k.mu.Unlock()
		return err
	}
	for id, at := range k.mu.used {
		key := k.mu.keys[id]
		if key == nil || key.LastUsedAt != nil && at.Sub(*key.LastUsedAt) < UsedEvery {
			continue
		}
		at = at.UTC().Truncate(time.Millisecond)
		lines = append(lines, line{ID: id, UsedAt: &at})
	}
	clear(k.mu.used)
	k.mu.Unlock()
	for i := range lines {
		if err := k.put(ctx, &lines[i]); err != nil {
			return fmt.Errorf("note that a key was used: %w", err)
		}
	}
	return nil
}
