package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
)

// Version is the newest version of the layout of a repository that this memdb reads, and the one
// that it writes.
const Version = 1

const (
	markerMagic   = "memdb backups"
	newestMagic   = "memdb newest backups"
	manifestMagic = "memdb backup"

	// maxMarker bounds the marker, maxManifest a manifest, which is read whole: some 250 bytes for
	// each file of a database.
	maxMarker   = 4 << 10
	maxManifest = 256 << 20
	// maxFiles bounds the files of one backup: tables have 2 MB or more.
	maxFiles = 1 << 20
	// maxFile bounds one of them.
	maxFile = 1 << 40

	// IdentityFile is the file of a database that says which it is and how to read it.
	IdentityFile = "memdb.json"
	// MaxIdentity bounds that file, in bytes.
	MaxIdentity = 64 << 10
)

// idForm is how the ID of a backup is made of its time. IDs of one repository ascend, also where
// the clock was set back.
const idForm = "20060102T150405.000Z"

var (
	isID       = regexp.MustCompile(`^\d{8}T\d{6}\.\d{3}Z$`)
	isHash     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	isFolder   = regexp.MustCompile(`^[0-9a-f]{2}$`)
	isUUID     = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	isDatabase = regexp.MustCompile(`^(` + regexp.QuoteMeta(IdentityFile) + `|store/[0-9A-Za-z][0-9A-Za-z._-]{0,127})$`)
)

// Head says of what a backup is one.
type Head struct {
	// Database is the ID of the database, and Timeline that of its history of commits, UUIDs both.
	Database string `json:"database"`
	Timeline string `json:"timeline"`
	// LSN is that of the newest commit in the backup.
	LSN uint64 `json:"lsn"`
	// Time is when the backup was taken.
	Time time.Time `json:"time"`
	// Layout is the version of the layout of the database.
	Layout int `json:"layout"`
}

// Backup is one backup, as its manifest says.
type Backup struct {
	// ID names it within its repository, and ascends with the order of backups.
	ID string `json:"id"`
	Head
	// Bytes is the sum of the sizes of its files.
	Bytes int64  `json:"bytes"`
	Files []File `json:"files"`
}

// File is a file of a database.
type File struct {
	// Name is its path in the folder of the database, with slashes.
	Name string `json:"name"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Hash is the SHA-256 of the content, in hexadecimal digits of lower case.
	Hash string `json:"sha256"`
	// Modified is when the file was written, in Unix nanoseconds, of one that never changes
	// afterwards; 0 for another. A file of the same name, size and time in a later backup of the
	// same timeline is the same.
	Modified int64 `json:"modified,omitempty"`
}

// marker is the file that marks a repository.
type marker struct {
	Magic   string `json:"magic"`
	Version int    `json:"version"`
	// Newest: there is a file of the newest backups, and without it the repository is damaged.
	Newest bool `json:"newest,omitempty"`
	// Checksum is the SHA-256 of the file, with zeros in its place.
	Checksum string `json:"checksum"`
}

// manifest is the file of one backup.
type manifest struct {
	Magic   string `json:"magic"`
	Version int    `json:"version"`
	Backup
	// Checksum is the SHA-256 of the file, with zeros in its place.
	Checksum string `json:"checksum"`
}

// newest is the file that names the newest backup of each database, apart from the manifests: one that is
// lost is noticed by it.
type newest struct {
	Magic   string     `json:"magic"`
	Version int        `json:"version"`
	Newest  []newestOf `json:"newest"`
	// Checksum is the SHA-256 of the file, with zeros in its place.
	Checksum string `json:"checksum"`
}

// newestOf is the newest backup of a database.
type newestOf struct {
	ID string `json:"id"`
	Head
}

const checksumField = `"checksum": "`

var (
	noChecksum  = strings.Repeat("0", hex.EncodedLen(sha256.Size))
	errChecksum = errors.New("it does not fit its checksum")
)

// encode is the content of a file of JSON that ends with the checksum of itself. v has zeros there.
func encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	at, ok := checksumAt(b)
	if !ok {
		return nil, errChecksum
	}
	copy(b[at:], hashOf(b))
	return b, nil
}

func checksumAt(b []byte) (at int, ok bool) {
	at = bytes.LastIndex(b, []byte(checksumField)) + len(checksumField)
	return at, at >= len(checksumField) && len(b) >= at+len(noChecksum)
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// decode reads what encode has made. A change of any byte is an error.
func decode(b []byte, v any) error {
	at, ok := checksumAt(b)
	if !ok {
		return errChecksum
	}
	sum := string(b[at : at+len(noChecksum)])
	zeros := bytes.Clone(b)
	copy(zeros[at:], noChecksum)
	if sum != hashOf(zeros) {
		return errChecksum
	}
	return json.Unmarshal(b, v)
}

func encodeMarker(newest bool) ([]byte, error) {
	return encode(&marker{Magic: markerMagic, Version: Version, Newest: newest, Checksum: noChecksum})
}

// decodeMarker reads the marker of the repository at a path.
func decodeMarker(path string, b []byte) (m marker, err error) {
	err = decode(b, &m)
	if err == nil && m.Magic != markerMagic {
		err = errors.New("it marks no repository of memdb")
	}
	if err != nil {
		return m, &fault.Error{
			Kind: fault.ErrCorrupt, What: "open the backups in " + path, Why: markerName + " is damaged", Cause: err,
			Do: "put a copy of that file from another repository of the same version in its place; then run: memdbctl backup verify " + path,
		}
	}
	return m, checkVersion("open the backups in "+path, m.Version)
}

func checkVersion(what string, version int) error {
	if version > Version {
		return &fault.Error{
			Kind: fault.ErrNewerLayout, What: what,
			Why: fmt.Sprintf("the version of the backup is %d, this memdb knows %d", version, Version), Do: "use a newer memdb",
		}
	}
	return nil
}

func encodeManifest(b *Backup) ([]byte, error) {
	return encode(&manifest{Magic: manifestMagic, Version: Version, Backup: *b, Checksum: noChecksum})
}

// decodeManifest reads the manifest of a backup.
func decodeManifest(id string, b []byte) (*Backup, error) {
	var m manifest
	err := decode(b, &m)
	if err == nil {
		if newer := checkVersion("read the backup "+id, m.Version); newer != nil {
			return nil, newer
		}
		err = m.check(id)
	}
	if err != nil {
		return nil, &fault.Error{
			Kind: fault.ErrCorrupt, What: "read the backup " + id, Why: "its manifest is damaged", Cause: err,
			Do: "use another backup (memdbctl backup list); this one is given up by removing " + manifestPath(id) + " and taking another backup",
		}
	}
	return &m.Backup, nil
}

// check refuses what no manifest says: it may have been made by somebody else.
func (m *manifest) check(id string) error {
	switch {
	case m.Magic != manifestMagic, m.Version < 1:
		return errors.New("it is no manifest of memdb")
	case m.ID != id:
		return fmt.Errorf("it is that of the backup %.64q", m.ID)
	case !isUUID.MatchString(m.Database), !isUUID.MatchString(m.Timeline), m.Layout < 1:
		return errors.New("it does not say of which database it is")
	case len(m.Files) > maxFiles:
		return fmt.Errorf("it names %d files", len(m.Files))
	}
	bytes, names := int64(0), make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		if !isDatabase.MatchString(f.Name) || names[f.Name] || f.Size < 0 || f.Size > maxFile || !isHash.MatchString(f.Hash) {
			return fmt.Errorf("it names a file that no database has, %.200q", f.Name)
		}
		names[f.Name] = true
		bytes += f.Size
	}
	if bytes != m.Bytes || !names[IdentityFile] {
		return errors.New("its list of files is not whole")
	}
	return nil
}

// file is the file of a name, nil where the backup has none.
func (b *Backup) file(name string) *File {
	for i := range b.Files {
		if b.Files[i].Name == name {
			return &b.Files[i]
		}
	}
	return nil
}
