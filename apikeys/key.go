package apikeys

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/scope"
)

const (
	// OldFile is the file in which earlier versions kept the keys, in the folder of the database.
	OldFile = "memdbd.keys"
	// MaxOldFile bounds that file, in bytes.
	MaxOldFile = 16 << 20
)

// A Key is what is known of a key: never the secret.
type Key struct {
	// ID names the key, in lists and in logs.
	ID string `json:"id"`
	Rights
	// CreatedAt and RevokedAt are when it was made, and when it was revoked.
	CreatedAt time.Time  `json:"created_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	// LastUsedAt is when it was last used, to within [UsedEvery]; nil for a key that never was.
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// Rights are what a key may see and do, and for how long.
type Rights struct {
	// Name is what people call the key: any text, up to 128 bytes.
	Name string `json:"name,omitempty"`
	// Scopes are what it sees: each field that is set must match.
	Scopes []scope.Scope `json:"scopes,omitempty"`
	// Admin: it sees and does everything. Metrics: it reads the metrics of the server, and nothing else.
	Admin   bool `json:"admin,omitempty"`
	Metrics bool `json:"metrics,omitempty"`
	// ReadOnly: it changes nothing.
	ReadOnly bool `json:"read_only,omitempty"`
	// ExpiresAt is from when on the key does not work any more; nil: it does not expire.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

const (
	// maxName and maxScopes bound the name of a key, in bytes, and its scopes.
	maxName   = 128
	maxScopes = 64
	// maxID and idLetters are what the ID of a key may have.
	maxID     = 64
	idLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

	doingAdd = "add a key"
)

// Check refuses rights that no key can have: ErrScope where it would see nothing, ErrInvalid where they
// contradict each other or a scope is malformed.
func (r *Rights) Check() error {
	switch {
	case r.Admin && len(r.Scopes) > 0:
		return fault.Invalid(doingAdd, "a key of an administrator has no scope", "leave out one of the two")
	case r.Metrics && (r.Admin || len(r.Scopes) > 0):
		return fault.Invalid(doingAdd, "a key for metrics has no scope and is not one of an administrator", "make two keys")
	case !r.Admin && !r.Metrics && len(r.Scopes) == 0:
		return &fault.Error{Kind: fault.ErrScope, What: doingAdd, Do: "name the user, the agent or the run that it sees, or make one of an administrator"}
	case len(r.Scopes) > maxScopes:
		return fault.Invalid(doingAdd, fmt.Sprintf("%d scopes; %d are the most", len(r.Scopes), maxScopes), "make several keys")
	case len(r.Name) > maxName || strings.ContainsFunc(r.Name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }):
		return fault.Invalid(doingAdd, fmt.Sprintf("the name is not one line of text of up to %d bytes", maxName), "shorten it")
	}
	for _, s := range r.Scopes {
		if err := scope.Check(doingAdd, s); err != nil {
			return err
		}
	}
	return nil
}

// Sees says what the key sees, for people.
func (r *Rights) Sees() string {
	switch {
	case r.Admin:
		return "everything"
	case r.Metrics:
		return "the metrics"
	}
	all := make([]string, len(r.Scopes))
	for i, s := range r.Scopes {
		all[i] = scope.Describe(s)
	}
	return strings.Join(all, "; ")
}

// ended reports whether the key was revoked or has expired.
func (k *Key) ended(now time.Time) bool {
	return k.RevokedAt != nil || k.ExpiresAt != nil && !now.Before(*k.ExpiresAt)
}

// line is a line of a store. It makes a key, revokes one, has one expire earlier, or says when one was last used.
type line struct {
	ID   string `json:"id"`
	Hash string `json:"hash,omitempty"`
	Rights
	CreatedAt *time.Time `json:"created_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
	UsedAt    *time.Time `json:"last_used_at,omitempty"`
}

// begins reports whether the line makes a key.
func (l *line) begins() bool { return l.RevokedAt == nil && l.Until == nil && l.UsedAt == nil }

// The names of lines begin with these. In their order the line that makes a key comes first.
const (
	madeName  = "made."
	endedName = "revoked."
	untilName = "until."
	usedName  = "used."
)

// name is the name under which a store keeps the line.
func (l *line) name() string {
	switch {
	case l.RevokedAt != nil:
		return endedName + l.ID
	case l.Until != nil:
		return untilName + l.ID
	case l.UsedAt != nil:
		return usedName + l.ID
	}
	return madeName + l.ID
}

// parseLine reads a line.
func parseLine(b []byte) (l line, err error) {
	if err := json.Unmarshal(b, &l); err != nil {
		return l, err
	}
	if l.ID == "" || len(l.ID) > maxID || strings.Trim(l.ID, idLetters) != "" {
		return l, fmt.Errorf("%.40q is no ID of a key", l.ID)
	}
	if !l.begins() {
		return l, nil
	}
	if hash, err := hex.DecodeString(l.Hash); err != nil || len(hash) != sha256.Size || l.CreatedAt == nil {
		return l, fmt.Errorf("the line of %s has no hash or no time", l.ID)
	}
	return l, nil
}

// ring is the keys of some lines, by ID and by the hash of the secret.
type ring struct {
	keys   map[string]*Key
	byHash map[[sha256.Size]byte]*Key
}

// split reads lines, in their order.
func split(b []byte) (all []line, err error) {
	n := 0
	for text := range bytes.Lines(b) {
		n++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		l, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// CheckLines returns why the lines of a file of keys cannot be read, or that they make no key.
func CheckLines(b []byte) error {
	r, err := parse(b)
	if err == nil && len(r.keys) == 0 {
		err = errors.New("it has no whole line")
	}
	return err
}

// parse reads the lines of a store.
func parse(b []byte) (ring, error) {
	r := ring{map[string]*Key{}, map[[sha256.Size]byte]*Key{}}
	all, err := split(b)
	for i := range all {
		err = cmp.Or(err, r.add(&all[i]))
	}
	if err != nil {
		return ring{}, err
	}
	return r, nil
}

// add adds what a line says.
func (r ring) add(l *line) error {
	key := r.keys[l.ID]
	switch {
	case l.RevokedAt != nil:
		if key != nil && key.RevokedAt == nil {
			key.RevokedAt = l.RevokedAt
		}
	case l.Until != nil:
		if key != nil && (key.ExpiresAt == nil || l.Until.Before(*key.ExpiresAt)) {
			key.ExpiresAt = l.Until
		}
	case l.UsedAt != nil:
		if key != nil {
			key.LastUsedAt = l.UsedAt
		}
	case key != nil:
		return fmt.Errorf("there are two keys %s", l.ID)
	default:
		key = &Key{ID: l.ID, Rights: l.Rights, CreatedAt: *l.CreatedAt}
		hash, err := hex.DecodeString(l.Hash)
		if err != nil {
			return err
		}
		r.keys[l.ID], r.byHash[[sha256.Size]byte(hash)] = key, key
	}
	return nil
}
