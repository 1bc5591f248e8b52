package anthropic

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/tree"
)

const (
	// maxContent bounds a memory, in bytes.
	maxContent = 102_400
	// codePrecondition is the code, and the type, of the error of a hash that is another one.
	codePrecondition = "memory_precondition_failed_error"
)

// item is a memory, or a folder of a list, of which there are a path and a type alone.
type item struct {
	ID        string     `json:"id,omitempty"`
	Type      string     `json:"type"`
	StoreID   string     `json:"memory_store_id,omitempty"`
	VersionID string     `json:"memory_version_id,omitempty"`
	Path      string     `json:"path"`
	SHA256    string     `json:"content_sha256,omitempty"`
	Bytes     *int       `json:"content_size_bytes,omitempty"`
	CreatedAt *time.Time `json:"created_at,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
}

// shown is an item that is a memory.
type shown struct {
	item
	Content *string `json:"content"`
}

func show(store string, f tree.File, full bool) shown {
	size := len(f.Content)
	s := shown{item: item{
		ID: products.FileMark + f.ID, Type: "memory", StoreID: store, VersionID: products.VersionMark + f.Version, Path: f.Path,
		SHA256: f.SHA256(), Bytes: &size, CreatedAt: &f.CreatedAt, UpdatedAt: &f.ChangedAt,
	}}
	if full {
		s.Content = &f.Content
	}
	return s
}

func checkContent(content string) error {
	if len(content) > maxContent {
		return invalid("content: it has %d bytes; %d are the most", len(content), maxContent)
	}
	return nil
}

func (c *call) createMemory() error {
	var body struct {
		Path    string  `json:"path"`
		Content *string `json:"content"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	if body.Content == nil {
		return invalid("content: it is missing; give a text, which may be empty")
	}
	full, err := fullOf(c.R.URL.Query(), false)
	if err != nil {
		return err
	}
	if err := checkContent(*body.Content); err != nil {
		return err
	}
	var made shown
	err = c.within(true, func(s store, e *tree.Edit) error {
		f, err := e.Create(body.Path, *body.Content)
		made = show(s.ID, f, full)
		return err
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, made)
}

// file is the memory that a request means.
func (c *call) file(v *tree.View) (tree.File, error) {
	id := c.R.PathValue("memory")
	name, marked := strings.CutPrefix(id, products.FileMark)
	if !marked || name == "" {
		return tree.File{}, unknown("memory", id)
	}
	f, found, err := v.Of(name)
	if err == nil && !found {
		err = unknown("memory", id)
	}
	return f, err
}

func (c *call) getMemory() error {
	full, err := fullOf(c.R.URL.Query(), true)
	if err != nil {
		return err
	}
	var found shown
	err = c.reading(func(s store, v *tree.View) error {
		f, err := c.file(v)
		found = show(s.ID, f, full)
		return err
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, found)
}

func (c *call) updateMemory() error {
	var body struct {
		Path         *string `json:"path"`
		Content      *string `json:"content"`
		Precondition *struct {
			Type   string  `json:"type"`
			SHA256 *string `json:"content_sha256"`
		} `json:"precondition"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	expected := ""
	if p := body.Precondition; p != nil {
		if p.Type != "content_sha256" || p.SHA256 == nil {
			return invalid("precondition: give type content_sha256 with a content_sha256")
		}
		expected = *p.SHA256
	}
	full, err := fullOf(c.R.URL.Query(), false)
	if err == nil && body.Content != nil {
		err = checkContent(*body.Content)
	}
	if err != nil {
		return err
	}
	var changed shown
	err = c.within(true, func(s store, e *tree.Edit) error {
		f, err := c.file(&e.View)
		if err != nil {
			return err
		}
		path, content := f.Path, f.Content
		if body.Path != nil {
			path = *body.Path
		}
		if body.Content != nil {
			content = *body.Content
		}
		if path != f.Path || content != f.Content || body.Path == nil && body.Content == nil {
			if err := meets(expected, &f); err != nil {
				return err
			}
		}
		f, err = e.Change(f, path, content)
		changed = show(s.ID, f, full)
		return err
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, changed)
}

// meets checks a hash that a memory must have; an empty one is any.
func meets(expected string, f *tree.File) error {
	if expected == "" {
		return nil
	}
	if len(expected) != 64 || strings.Trim(expected, "0123456789abcdef") != "" {
		return invalid("content_sha256: give 64 lowercase hexadecimal characters")
	}
	if expected != f.SHA256() {
		return server.Fail(http.StatusConflict, codePrecondition, "the content of the memory has another SHA-256 than is expected; read it, and try again")
	}
	return nil
}

func (c *call) deleteMemory() error {
	id := ""
	err := c.within(false, func(_ store, e *tree.Edit) error {
		f, err := c.file(&e.View)
		if err != nil {
			return err
		}
		id = products.FileMark + f.ID
		if err := meets(c.R.URL.Query().Get("expected_content_sha256"), &f); err != nil {
			return err
		}
		return e.Delete(f)
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, map[string]string{"id": id, "type": "memory_deleted"})
}

// folderOf is the folder that a list is of, with slashes around it, and how deep it goes: 0 for all.
func folderOf(q url.Values) (folder string, depth int, err error) {
	folder = cmp.Or(q.Get("path_prefix"), "/")
	if !strings.HasPrefix(folder, "/") || !strings.HasSuffix(folder, "/") {
		return "", 0, invalid("path_prefix: it is %.200q; give one that begins and ends with a slash", folder)
	}
	if text := q.Get("depth"); text != "" {
		if depth, err = strconv.Atoi(text); err != nil || depth < 0 {
			return "", 0, invalid("depth: give 0 for all, or how many levels")
		}
	}
	return folder, depth, nil
}

func (c *call) listMemories() error {
	q := c.R.URL.Query()
	w, err := windowOf(q)
	if err != nil {
		return err
	}
	folder, depth, err := folderOf(q)
	if err != nil {
		return err
	}
	id, files := "", map[string]*tree.File{} // nil for a folder
	err = c.reading(func(s store, v *tree.View) error {
		id = s.ID
		return v.Files(folder, func(f tree.File) {
			below := strings.Split(f.Path[len(folder):], "/")
			if depth > 0 && len(below) > depth {
				files[folder+strings.Join(below[:depth], "/")+"/"] = nil
				return
			}
			files[f.Path] = &f
		})
	})
	if err != nil {
		return err
	}
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return c.page(pageOf(paths, func(path string) string { return path }, w, func(path string) (any, error) {
		if f := files[path]; f != nil {
			return show(id, *f, w.full), nil
		}
		return item{Type: "memory_prefix", Path: path}, nil
	}))
}
