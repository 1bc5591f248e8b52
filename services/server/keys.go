package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fsys"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
)

// A Key is what is known of a key: never the key itself.
type Key struct {
	// ID names it, in lists and in the log.
	ID string `json:"id"`
	// Scopes are what it sees: each field that is set must match.
	Scopes []memory.Scope `json:"scopes,omitempty"`
	// Admin: it sees and does everything.
	Admin bool `json:"admin,omitempty"`
	// CreatedAt and RevokedAt are when it was made, and when it ended.
	CreatedAt time.Time  `json:"created_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// keyLine is a line of the file: a key, or the end of one.
type keyLine struct {
	ID        string         `json:"id"`
	Hash      string         `json:"hash,omitempty"`
	Scopes    []memory.Scope `json:"scopes,omitempty"`
	Admin     bool           `json:"admin,omitempty"`
	CreatedAt *time.Time     `json:"created_at,omitempty"`
	RevokedAt *time.Time     `json:"revoked_at,omitempty"`
}

const (
	// KeysName is the file of keys in the folder of a database.
	KeysName = "memdbd.keys"
	// maxKeys bounds that file, in bytes.
	maxKeys = 16 << 20
	// putWait is how long a store of keys may take to keep a line.
	putWait = 10 * time.Second
	// maxID and idLetters are what the ID of a key may have.
	maxID     = 64
	idLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	// maxScopes bounds the scopes of a key.
	maxScopes = 64
	// keyMark is what every key begins with.
	keyMark = "memdb_"
)

// Keys are the keys of a server: a file to which each key adds a line, and each end of one. It has
// hashes alone. Other processes may change it; what they change holds from the next request on. Those of
// several servers are in a store of theirs, in the same lines.
type Keys struct {
	path   string
	shared KeyStore // in the place of the file, nil for none
	now    func() time.Time

	mu      sync.Mutex
	read    fs.FileInfo // what was read last, nil for none
	version uint64      // of the store, where it was read
	keys    map[string]*Key
	byHash  map[[sha256.Size]byte]*Key
}

// KeyStore is where several servers have their keys. It is safe for concurrent use.
type KeyStore interface {
	// Version changes with the lines, and is 0 for none. ErrUnavailable: they may be too old to go by.
	Version() (uint64, error)
	// Lines are all lines in the order of their names.
	Lines() []byte
	// Put keeps a line under a name, for all servers.
	Put(ctx context.Context, name string, line []byte) error
}

// The names of lines begin so: those of keys come before those of their ends.
const (
	madeName  = "made."
	endedName = "revoked."
)

// SharedKeys reads the keys of a store. Errors are those of OpenKeys, and of the store.
func SharedKeys(s KeyStore, now func() time.Time) (*Keys, error) {
	k := &Keys{shared: s, now: now}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k, k.refresh()
}

// OpenKeys reads the keys of a file, which need not be there. ErrCorrupt where a line cannot be
// read: a key that was revoked might be taken for one that was not.
func OpenKeys(path string, now func() time.Time) (*Keys, error) {
	k := &Keys{path: path, now: now}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k, k.refresh()
}

// refresh reads the lines if they have changed. The lock is held.
func (k *Keys) refresh() error {
	if k.shared != nil {
		return k.refreshShared()
	}
	info, err := os.Lstat(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.read, k.keys, k.byHash = nil, nil, nil
		return nil
	case err != nil:
		return k.failed(err)
	case k.read != nil && os.SameFile(info, k.read) && info.Size() == k.read.Size() && info.ModTime().Equal(k.read.ModTime()):
		return nil
	}
	b, err := fsys.ReadSmall(k.path, maxKeys)
	if err != nil {
		return k.failed(err)
	}
	k.read = nil // until all of it is understood
	keys, byHash, err := parseKeys(b)
	if err != nil {
		return &memory.Error{Kind: memory.ErrCorrupt, What: "read the keys in " + k.path, Cause: err, Do: "mend or remove that line, and revoke its key"}
	}
	k.read, k.keys, k.byHash = info, keys, byHash
	return nil
}

func (k *Keys) refreshShared() error {
	version, err := k.shared.Version()
	if err != nil || version == k.version {
		return err
	}
	keys, byHash, err := parseKeys(k.shared.Lines()) // which may be newer: they are read again then
	if err != nil {
		return &memory.Error{Kind: memory.ErrCorrupt, What: "read the keys of the cluster", Cause: err, Do: "mend or remove that line, and revoke its key"}
	}
	k.version, k.keys, k.byHash = version, keys, byHash
	return nil
}

func (k *Keys) failed(err error) error {
	return &memory.Error{Kind: memory.ErrFailed, What: "read the keys in " + k.path, Cause: err}
}

// parseKeys reads the lines of a file. A last line without an end was never acknowledged.
func parseKeys(b []byte) (map[string]*Key, map[[sha256.Size]byte]*Key, error) {
	keys, byHash := map[string]*Key{}, map[[sha256.Size]byte]*Key{}
	for n := 1; ; n++ {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			return keys, byHash, nil
		}
		if b = rest; len(line) == 0 {
			continue
		}
		var l keyLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", n, err)
		}
		if l.RevokedAt != nil {
			if old := keys[l.ID]; old != nil && old.RevokedAt == nil {
				old.RevokedAt = l.RevokedAt
			}
			continue
		}
		hash, err := hex.DecodeString(l.Hash)
		if err != nil || len(hash) != sha256.Size || l.CreatedAt == nil {
			return nil, nil, fmt.Errorf("line %d: it is no key", n)
		}
		key := &Key{ID: l.ID, Scopes: l.Scopes, Admin: l.Admin, CreatedAt: *l.CreatedAt}
		keys[l.ID], byHash[[sha256.Size]byte(hash)] = key, key
	}
}

const doingAdd = "add a key"

// CheckScopes refuses what no key can be made for: ErrScope where it sees nothing, ErrInvalid where
// its scopes cannot be.
func CheckScopes(scopes []memory.Scope, admin bool) error {
	switch {
	case admin && len(scopes) > 0:
		return &memory.Error{Kind: memory.ErrInvalid, What: doingAdd, Why: "one of an administrator has no scope", Do: "leave out one of the two"}
	case !admin && len(scopes) == 0:
		return &memory.Error{Kind: memory.ErrScope, What: doingAdd, Do: "name the user, the agent or the run that it sees, or make one of an administrator"}
	case len(scopes) > maxScopes:
		return &memory.Error{Kind: memory.ErrInvalid, What: doingAdd, Why: fmt.Sprintf("%d scopes; %d are the most", len(scopes), maxScopes)}
	}
	for _, s := range scopes {
		if err := scope.Check(doingAdd, s); err != nil {
			return err
		}
	}
	return nil
}

// Add makes a key for an administrator or for scopes, and returns it with what is known of it. It
// is shown this once. Errors are those of CheckScopes, and of the file.
func (k *Keys) Add(scopes []memory.Scope, admin bool) (secret string, key Key, err error) {
	if err := CheckScopes(scopes, admin); err != nil {
		return "", key, err
	}
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it never fails
	secret = keyMark + base64.RawURLEncoding.EncodeToString(raw[:])
	hash := sha256.Sum256([]byte(secret))
	at := k.now().UTC().Truncate(time.Millisecond)
	key = Key{ID: "key_" + hex.EncodeToString(hash[:6]), Scopes: scopes, Admin: admin, CreatedAt: at}
	err = k.append(doingAdd, &keyLine{ID: key.ID, Hash: hex.EncodeToString(hash[:]), Scopes: scopes, Admin: admin, CreatedAt: &at})
	return secret, key, err
}

// Revoke ends a key, and returns what is known of it. ErrNotFound for an ID that there is not.
func (k *Keys) Revoke(id string) (Key, error) {
	k.mu.Lock()
	err := k.refresh()
	key := k.keys[id]
	k.mu.Unlock()
	switch {
	case err != nil:
		return Key{}, err
	case key == nil:
		return Key{}, &memory.Error{Kind: memory.ErrNotFound, What: "revoke the key " + id, Do: "see the list of keys"}
	case key.RevokedAt != nil:
		return *key, nil
	}
	ended := *key
	at := k.now().UTC().Truncate(time.Millisecond)
	ended.RevokedAt = &at
	return ended, k.append("revoke the key "+id, &keyLine{ID: id, RevokedAt: &at})
}

// append adds a line to the file, and has it on the disk. One write adds it, so that those of
// several processes do not mix; a part of a line that a crash has left is ended before it.
func (k *Keys) append(doing string, l *keyLine) (err error) {
	line, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if k.shared != nil {
		ctx, cancel := context.WithTimeout(context.Background(), putWait)
		defer cancel()
		name := madeName + l.ID
		if l.RevokedAt != nil {
			name = endedName + l.ID
		}
		return k.shared.Put(ctx, name, line)
	}
	defer func() {
		if err != nil {
			err = &memory.Error{Kind: memory.ErrFailed, What: doing, Cause: err}
		}
	}()
	old, err := fsys.ReadSmall(k.path, maxKeys)
	made := errors.Is(err, fs.ErrNotExist)
	if err != nil && !made {
		return err
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		return fmt.Errorf("%s ends within a line; remove what follows the last line", k.path)
	}
	f, err := os.OpenFile(k.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil || !made {
		return err
	}
	return syncFolder(filepath.Dir(k.path))
}

// Import puts the lines of a file of keys into the store of several servers, and returns how many keys it has. Those
// that are there stay as they are, and one that has ended in either has ended. ErrInvalid where there is no store,
// ErrCorrupt where a line cannot be read.
func (k *Keys) Import(path string) (n int, err error) {
	doing := "bring in the keys of " + path
	if k.shared == nil {
		return 0, &memory.Error{Kind: memory.ErrInvalid, What: doing, Why: "they would be those of one server", Do: "name the cluster with --cluster URL"}
	}
	b, err := fsys.ReadSmall(path, maxKeys)
	if err != nil {
		return 0, &memory.Error{Kind: memory.ErrFailed, What: doing, Cause: err}
	}
	if _, _, err := parseKeys(b); err != nil {
		return 0, &memory.Error{Kind: memory.ErrCorrupt, What: doing, Cause: err, Do: "mend or remove that line, and revoke its key"}
	}
	k.mu.Lock()
	err = k.refresh()
	known := k.keys
	k.mu.Unlock()
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		var l keyLine
		if line[len(line)-1] != '\n' || len(line) == 1 || json.Unmarshal(line, &l) != nil { // as parseKeys has it
			continue
		}
		if len(l.ID) > maxID || strings.Trim(l.ID, idLetters) != "" {
			return n, &memory.Error{Kind: memory.ErrCorrupt, What: doing, Why: fmt.Sprintf("%.40q is no ID of a key", l.ID), Do: "remove its line"}
		}
		old := known[l.ID]
		if l.RevokedAt == nil {
			n++
		}
		if old != nil && (l.RevokedAt == nil || old.RevokedAt != nil) {
			continue
		}
		if err := k.append(doing, &l); err != nil {
			return n, err
		}
	}
	return n, nil
}

// List returns all keys in the order of their making.
func (k *Keys) List() ([]Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(); err != nil {
		return nil, err
	}
	all := make([]Key, 0, len(k.keys))
	for _, key := range slices.SortedFunc(maps.Values(k.keys), func(a, b *Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	}) {
		all = append(all, *key)
	}
	return all, nil
}

// errNoKey is that a request needs a key and has none that is known.
var errNoKey = errors.New("no key, or none that is known")

// find returns whose key it is. needed is false where there are no keys at all; one that was
// revoked counts, so that its end opens nothing.
func (k *Keys) find(secret string) (key *Key, needed bool, err error) {
	if k == nil {
		return nil, false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(); err != nil {
		return nil, true, err
	}
	if len(k.keys) == 0 {
		return nil, false, nil
	}
	key = k.byHash[sha256.Sum256([]byte(secret))] // of a hash, a look-up tells nothing by its time
	if key == nil || key.RevokedAt != nil {
		return nil, true, errNoKey
	}
	return key, true, nil
}

// Some reports whether there is a key, also a revoked one.
func (k *Keys) Some() (bool, error) {
	_, needed, err := k.find("")
	if errors.Is(err, errNoKey) {
		err = nil
	}
	return needed, err
}
