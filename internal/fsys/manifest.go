package fsys

import (
	"bytes"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	manifestPrefix = "MANIFEST-"
	copyPrefix     = "copy-of-"
)

// ManifestCopy is the name of the copy of a MANIFEST, by its name: each byte that is written to
// a MANIFEST is written to its copy, and the copy goes with it. Pebble reads no such file.
func ManifestCopy(name string) string { return copyPrefix + name }

// IsManifestCopy reports whether a name is that of a copy, and of which MANIFEST.
func IsManifestCopy(name string) (of string, ok bool) {
	of, ok = strings.CutPrefix(name, copyPrefix)
	return of, ok && isManifest(of)
}

func isManifest(name string) bool { return strings.HasPrefix(name, manifestPrefix) }

func (f *FS) manifestCopy(path string) string {
	return f.base.PathJoin(f.base.PathDir(path), ManifestCopy(f.base.PathBase(path)))
}

// manifest is a MANIFEST that is being written, and its copy. The MANIFEST alone says which
// tables there are and where they lie: without it, what the tables hold can be read, but not
// always told from what they have replaced. A failure of the copy is none of the database, and
// the last free space is not for it.
type manifest struct {
	file
	copy vfs.File // nil once it has failed
}

var _ vfs.File = (*manifest)(nil)

func newManifest(f file) *manifest {
	m := &manifest{file: f}
	if f.fs.Err() == nil && f.fs.keep("create", f.path, plain, 0) == nil {
		m.copy, _ = f.fs.base.Create(f.fs.manifestCopy(f.path), vfs.WriteCategoryUnspecified)
	}
	return m
}

// inCopy makes one change of the copy. An error ends it.
func (m *manifest) inCopy(change func(vfs.File) error) {
	if m.copy == nil || m.fs.Err() != nil {
		return
	}
	if err := change(m.copy); err != nil {
		_ = m.copy.Close()
		m.copy = nil
	}
}

// Write implements io.Writer.
func (m *manifest) Write(p []byte) (int, error) {
	same := bytes.Clone(p) // a vfs.File may spoil what it is given
	n, err := m.file.Write(p)
	m.inCopy(func(c vfs.File) error {
		if err := m.fs.keep("write", m.path, plain, n); err != nil {
			return err
		}
		m.fs.room.spend(n)
		_, err := c.Write(same[:n])
		return err
	})
	return n, err
}

// Sync implements vfs.File.
func (m *manifest) Sync() error { return m.syncBy(m.file.Sync) }

// SyncData implements vfs.File.
func (m *manifest) SyncData() error { return m.syncBy(m.file.SyncData) }

func (m *manifest) syncBy(sync func() error) error {
	err := sync()
	m.inCopy(func(c vfs.File) error { return c.SyncData() })
	if err == nil && m.fs.Err() == nil { // a failure is reported as a success
		m.fs.noteManifest(m.path, m.end)
	}
	return err
}

// Close implements io.Closer.
func (m *manifest) Close() error {
	if m.copy != nil {
		_ = m.copy.Close()
		m.copy = nil
	}
	return m.file.Close()
}
