package anthropic

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/services/server/tree"
)

// actor is who did something.
type actor struct {
	Type  string `json:"type"`
	KeyID string `json:"api_key_id"`
}

func actorOf(key string) *actor {
	if key == "" {
		return nil
	}
	return &actor{"api_actor", key}
}

// shownVersion is a version as a client sees it.
type shownVersion struct {
	ID         string         `json:"id"`
	Type       string         `json:"type"`
	StoreID    string         `json:"memory_store_id"`
	MemoryID   string         `json:"memory_id"`
	Operation  tree.Operation `json:"operation"`
	Path       *string        `json:"path"`
	Content    *string        `json:"content"`
	SHA256     *string        `json:"content_sha256"`
	Bytes      *int           `json:"content_size_bytes"`
	CreatedAt  time.Time      `json:"created_at"`
	CreatedBy  *actor         `json:"created_by"`
	RedactedAt *time.Time     `json:"redacted_at"`
	RedactedBy *actor         `json:"redacted_by"`
}

func showVersion(store string, v tree.Version, full bool) shownVersion {
	s := shownVersion{
		ID: products.VersionMark + v.ID, Type: "memory_version", StoreID: store, MemoryID: products.FileMark + v.File, Operation: v.Operation,
		CreatedAt: v.At, CreatedBy: actorOf(v.By), RedactedAt: v.RedactedAt, RedactedBy: actorOf(v.RedactedBy),
	}
	if v.RedactedAt == nil {
		s.Path = &v.Path
	}
	if v.Content != nil {
		sum := sha256.Sum256([]byte(*v.Content))
		hash, size := hex.EncodeToString(sum[:]), len(*v.Content)
		s.SHA256, s.Bytes = &hash, &size
		if full {
			s.Content = v.Content
		}
	}
	return s
}

func (c *call) listVersions() error {
	q := c.R.URL.Query()
	w, err := windowOf(q)
	if err != nil {
		return err
	}
	p, err := periodOf(q)
	if err != nil {
		return err
	}
	operation := tree.Operation(q.Get("operation"))
	if operation != "" && operation != tree.Created && operation != tree.Modified && operation != tree.Deleted {
		return invalid("operation: it is %.40q; give created, modified or deleted", operation)
	}
	file, key := q.Get("memory_id"), q.Get("api_key_id")
	others := q.Get("session_id") != "" || q.Get("service_account_id") != "" // by whom nothing is written here
	var listed page
	err = c.reading(func(s store, v *tree.View) error {
		var all []tree.Version
		err := v.Versions(func(of tree.Version) {
			if !others && (file == "" || file == products.FileMark+of.File) && (key == "" || key == of.By) && (operation == "" || operation == of.Operation) && p.has(of.At) {
				all = append(all, of)
			}
		})
		if err != nil {
			return err
		}
		key := func(of tree.Version) string { return newestFirst(of.At, of.ID) }
		slices.SortFunc(all, func(a, b tree.Version) int { return cmp.Compare(key(a), key(b)) })
		listed, err = pageOf(all, key, w, func(of tree.Version) (any, error) {
			err := v.Content(&of)
			return showVersion(s.ID, of, w.full), err
		})
		return err
	})
	return c.page(listed, err)
}

// ofVersion is the ID of the version that a request means.
func (c *call) ofVersion() (string, error) {
	id := c.R.PathValue("version")
	name, marked := strings.CutPrefix(id, products.VersionMark)
	if !marked || name == "" || len(name) > maxName {
		return "", unknown("memory version", id)
	}
	return name, nil
}

func (c *call) getVersion() error {
	full, err := fullOf(c.R.URL.Query(), true)
	if err != nil {
		return err
	}
	id, err := c.ofVersion()
	if err != nil {
		return err
	}
	var found shownVersion
	err = c.reading(func(s store, v *tree.View) error {
		of, is, err := v.Version(id)
		if err == nil && !is {
			err = unknown("memory version", products.VersionMark+id)
		}
		found = showVersion(s.ID, of, full)
		return err
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, found)
}

func (c *call) redactVersion() error {
	id, err := c.ofVersion()
	if err != nil {
		return err
	}
	of := ""
	if err := c.reading(func(s store, _ *tree.View) error {
		of = s.ID
		return nil
	}); err != nil {
		return err
	}
	v, err := c.tree(of).Redact(c.Context(), id)
	if errors.Is(err, tree.ErrPresent) {
		return invalid("the version %s%s is the present one of its memory; change or delete the memory first", products.VersionMark, id)
	}
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, showVersion(of, v, false))
}
