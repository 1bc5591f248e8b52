package move

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-7aedc3ff/memdb/entries"
	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/exchange/products"
	"github.com/seed-7aedc3ff/memdb/internal/scalar"
	"github.com/seed-7aedc3ff/memdb/memory"
)

// filesReader reads the files of Anthropic's memory tool and of its memory stores.
type filesReader struct {
	*writer
	stores map[string]bool // those that memories name: whether the input says more of the store
}

// readAnthropic reads a folder of files as the memory tool keeps it, or lists of memories and of
// memory stores as the API answers them.
func readAnthropic(in *Input, w *writer) error {
	r := &filesReader{writer: w, stores: map[string]bool{}}
	if in.Folder != nil {
		return r.folder(in.Folder)
	}
	err := eachUnder(in, w, "record", []string{"data"}, r.object)
	for id, told := range r.stores {
		if !told && id != products.Memories {
			w.leave("names of memory stores, which their own list has", 1)
		}
	}
	return err
}

// folder reads the files of a folder. A folder of nothing but the folder "memories" is the one
// that has it.
func (r *filesReader) folder(in fs.FS) error {
	if all, err := fs.ReadDir(in, "."); err == nil {
		all = slices.DeleteFunc(all, func(d fs.DirEntry) bool { return strings.HasPrefix(d.Name(), ".") })
		if below, err := fs.Sub(in, path.Base(products.MemoriesRoot)); len(all) == 1 && all[0].IsDir() && all[0].Name() == path.Base(products.MemoriesRoot) && err == nil {
			in = below
		}
	}
	return fs.WalkDir(in, ".", func(name string, d fs.DirEntry, err error) error {
		at := exchange.LineError{Of: "file", ID: name}
		switch hidden := name != "." && strings.HasPrefix(path.Base(name), "."); {
		case err != nil:
			return r.skip(at, err)
		case hidden && d.IsDir():
			r.leave("hidden folders", 1)
			return fs.SkipDir
		case d.IsDir():
			return nil
		case hidden:
			r.leave("hidden files", 1)
			return nil
		case !d.Type().IsRegular():
			r.leave("links and other things that are no files", 1)
			return nil
		}
		content, changed, err := readFile(in, name)
		if err != nil {
			return r.skip(at, err)
		}
		if !utf8.Valid(content) {
			r.leave("files that are no text", 1)
			return nil
		}
		m := memory.Memory{ID: idOf(r.format, "file", name), CreatedAt: changed, UpdatedAt: changed}
		return r.file(at, &products.File{Store: products.Memories, Path: "/" + norm.NFC.String(name), Content: string(content)}, m)
	})
}

// readFile reads a file that a memory can hold, and when it was changed.
func readFile(in fs.FS, name string) (content []byte, changed time.Time, err error) {
	f, err := in.Open(name)
	if err != nil {
		return nil, changed, err
	}
	info, err := f.Stat()
	if err == nil {
		content, err = io.ReadAll(io.LimitReader(f, memory.MaxText+1))
	}
	if err == nil && len(content) > memory.MaxText {
		err = fmt.Errorf("it has more than %d MiB", memory.MaxText>>20)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, changed, err
	}
	return content, info.ModTime().UTC().Truncate(time.Millisecond), nil
}

// file gives a note. One of the owner that has its name already is the same file.
func (r *filesReader) file(at exchange.LineError, f *products.File, m memory.Memory) error {
	if err := products.CheckPath(f.Store, f.Path); err != nil {
		return r.skip(at, err)
	}
	f.Keep(&m)
	m.Scope = r.scope("", "", "").Owner().Scope()
	return r.item(exchange.Item{At: at, Memory: &m, ByName: true, Size: len(m.Text) + overhead})
}

// store gives the entry of a memory store.
func (r *filesReader) store(at exchange.LineError, s *products.MemoryStore) error {
	s.Type = products.TypeMemoryStore
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	value, err := json.Marshal(s)
	if err != nil {
		return r.skip(at, err)
	}
	owner := r.scope("", "", "").Owner()
	return r.line(at, entries.TypeLine, entries.Line{
		Type: entries.TypeLine, User: owner.User, Agent: owner.Agent, Key: products.StoresKey + s.ID, Value: value, UpdatedAt: instant(s.UpdatedAt),
	}, len(value))
}

// object reads an object of the API.
func (r *filesReader) object(at exchange.LineError, raw []byte) error {
	f, err := readFields(raw)
	if err != nil {
		return r.skip(at, err)
	}
	switch typ := f.text("type"); typ {
	case "memory":
		return r.memoryOf(at, f)
	case products.TypeMemoryStore:
		var s products.MemoryStore
		if err := exchange.Decode(raw, &s); err != nil {
			return r.skip(at, err)
		}
		r.stores[s.ID] = true
		return r.store(at, &s)
	default: // versions that are past, and folders of a list
		r.leave(fmt.Sprintf("records of the type %.40q", typ), 1)
		return nil
	}
}

// memoryOf reads a memory of the API. Its IDs begin with what they are of.
func (r *filesReader) memoryOf(at exchange.LineError, f fields) error {
	content, ok := f.any("content")
	if !ok {
		return r.skip(at, errors.New("it has no content; list the memories with view=full"))
	}
	times := scalar.Reader{Zone: r.opts.Zone}
	id, version := strings.TrimPrefix(f.text("id"), products.FileMark), strings.TrimPrefix(f.text("memory_version_id"), products.VersionMark)
	m := memory.Memory{ID: version, CreatedAt: f.time(times.Time, "created_at"), UpdatedAt: f.time(times.Time, "updated_at")}
	file := products.File{Store: f.text("memory_store_id"), Path: f.text("path"), Content: content, ID: id}
	if file.Store == "" {
		file.Store = products.Memories
	}
	if m.ID == "" {
		m.ID = id
	}
	if file.ID == m.ID {
		file.ID = ""
	}
	if m.ID = idOf(r.format, m.ID); m.ID == "" {
		m.ID = idOf(r.format, "file", file.Store, file.Path)
	}
	for _, key := range []string{"content_sha256", "content_size_bytes"} { // they follow from the content
		delete(f, key)
	}
	for _, key := range slices.Sorted(maps.Keys(f)) {
		if string(f[key]) != "null" {
			r.leave(key, 1)
		}
	}
	if _, known := r.stores[file.Store]; !known {
		r.stores[file.Store] = false
	}
	return r.file(at, &file, m)
}
