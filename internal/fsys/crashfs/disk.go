package crashfs

import (
	"cmp"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SectorSize is how many bytes a disk writes as a whole.
const SectorSize = 512

// Disk is a file system in memory that loses power as disks do under ext4 and xfs:
//
//   - Of what was written to a file since its last sync, each sector of 512 bytes is there or
//     is not, whatever the order of the writes.
//   - A file that grew since its last sync has any length between. A sector that is missing
//     there holds zeros, or, as the crash asks, what lay on the disk before: chance bytes. In
//     a MANIFEST it holds zeros: the store tells a last record that was being written from one
//     that was damaged by the zeros. ext4 (data=ordered, as it comes) and xfs never show what
//     lay on the disk before.
//   - Files that were created, renamed and removed since their folder was last synced: the
//     changes up to one of them, in their order, as in a journal; or, as the crash asks, any
//     of them, which is more than those file systems do, and what POSIX allows.
//
// A rename is there or is not: no name is lost between, and none is there twice. A sync of a
// file does not sync its name; fewer promises than ext4 keeps.
//
// [Disk.Crash] returns what one loss of power would leave at that moment.
type Disk struct {
	vfs.FS // holds what programs read

	mu      sync.Mutex
	root    *node
	pending []change // of names, in the order in which they came, that are not synced
}

// node is a file or a folder.
type node struct {
	now, synced map[string]*node // of a folder: its names, nil for a file

	data   []byte
	length int            // the synced one
	lost   map[int][]byte // the synced content of sectors that were written since, by their number
}

// change is what one call did to the names in a folder.
type change struct {
	in      *node
	name    string
	to      *node // nil: the name is gone
	from    *node // of a rename: the folder of the name that it took away
	oldName string
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{FS: vfs.NewMem(), root: newFolder()} }

func newFolder() *node { return &node{now: map[string]*node{}, synced: map[string]*node{}} }

var _ vfs.FS = (*Disk)(nil)

// find returns the node at a path, nil where there is none.
func (d *Disk) find(path string) *node {
	at := d.root
	for _, name := range parts(path) {
		if at = at.now[name]; at == nil {
			return nil
		}
	}
	return at
}

// parts are the names on a path.
func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// place returns the folder of a path, which exists, and the last name.
func (d *Disk) place(path string) (in *node, name string) {
	p := parts(path)
	return d.find(strings.Join(p[:len(p)-1], "/")), p[len(p)-1]
}

// link makes a change of names. A nil target removes one.
func (d *Disk) link(path string, to *node) {
	in, name := d.place(path)
	if to == nil {
		delete(in.now, name)
	} else {
		in.now[name] = to
	}
	d.pending = append(d.pending, change{in: in, name: name, to: to})
}

func (d *Disk) move(from, path string, to *node) {
	in, name := d.place(path)
	src, old := d.place(from)
	delete(src.now, old)
	in.now[name] = to
	d.pending = append(d.pending, change{in: in, name: name, to: to, from: src, oldName: old})
}

// opened returns the handle of a file that was opened to be written.
func (d *Disk) opened(base vfs.File, n *node) vfs.File {
	return &diskFile{File: base, disk: d, node: n}
}

// Create implements vfs.FS.
func (d *Disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	base, err := d.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	if d.find(name) != nil {
		d.link(name, nil) // it makes another file, not the same one empty
	}
	n := &node{lost: map[int][]byte{}}
	d.link(name, n)
	return d.opened(base, n), nil
}

// OpenReadWrite implements vfs.FS.
func (d *Disk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	base, err := d.FS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	n := d.find(name)
	if n == nil {
		n = &node{lost: map[int][]byte{}}
		d.link(name, n)
	}
	return d.opened(base, n), nil
}

// ReuseForWrite implements vfs.FS.
func (d *Disk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	base, err := d.FS.ReuseForWrite(oldname, newname, category)
	if err != nil {
		return nil, err
	}
	n := d.find(oldname)
	d.move(oldname, newname, n)
	return d.opened(base, n), nil
}

// OpenDir implements vfs.FS.
func (d *Disk) OpenDir(name string) (vfs.File, error) {
	base, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened(base, d.find(name)), nil
}

// Link implements vfs.FS.
func (d *Disk) Link(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.FS.Link(oldname, newname)
	if err == nil {
		d.link(newname, d.find(oldname))
	}
	return err
}

// Remove implements vfs.FS.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.FS.Remove(name)
	if err == nil {
		d.link(name, nil)
	}
	return err
}

// RemoveAll implements vfs.FS.
func (d *Disk) RemoveAll(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.FS.RemoveAll(name)
	if err == nil && d.find(name) != nil {
		d.link(name, nil)
	}
	return err
}

// Rename implements vfs.FS.
func (d *Disk) Rename(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.FS.Rename(oldname, newname)
	if err == nil && oldname != newname {
		d.move(oldname, newname, d.find(oldname))
	}
	return err
}

// MkdirAll implements vfs.FS.
func (d *Disk) MkdirAll(dir string, perm fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.FS.MkdirAll(dir, perm); err != nil {
		return err
	}
	var path strings.Builder
	for _, name := range parts(dir) {
		if path.WriteString("/" + name); d.find(path.String()) == nil {
			d.link(path.String(), newFolder())
		}
	}
	return nil
}

// Unwrap implements vfs.FS.
func (d *Disk) Unwrap() vfs.FS { return d.FS }

// diskFile notes what is written and synced through one handle.
type diskFile struct {
	vfs.File
	disk *Disk
	node *node
	at   int // where the next Write goes
}

func (f *diskFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.node.write(p, f.at) // first: with the race detector, what holds the files spoils p afterwards
	f.at += len(p)
	return f.File.Write(p)
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.node.write(p, int(off))
	return f.File.WriteAt(p, off)
}

// write keeps the synced content of the sectors that it changes.
func (n *node) write(p []byte, off int) {
	if len(p) == 0 {
		return
	}
	for s := off / SectorSize; s*SectorSize < off+len(p); s++ {
		if _, kept := n.lost[s]; !kept {
			from := min(s*SectorSize, n.length)
			n.lost[s] = slices.Clone(n.data[from:min(from+SectorSize, n.length)])
		}
	}
	if more := off + len(p) - len(n.data); more > 0 {
		n.data = append(n.data, make([]byte, more)...)
	}
	copy(n.data[off:], p)
}

func (f *diskFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.File.Sync()
	if err == nil {
		f.disk.synced(f.node)
	}
	return err
}

func (f *diskFile) SyncData() error { return f.Sync() }

// SyncTo syncs all, as MemFS does.
func (f *diskFile) SyncTo(int64) (fullSync bool, err error) { return true, f.Sync() }

func (d *Disk) synced(n *node) {
	if n.now == nil {
		n.length = len(n.data)
		clear(n.lost)
		return
	}
	d.pending = slices.DeleteFunc(d.pending, func(c change) bool {
		if c.in != n && c.from != n {
			return false
		}
		c.apply(func(f *node) map[string]*node { return f.synced })
		return true
	})
}

// apply makes a change to the names that a folder has by of.
func (c *change) apply(of func(folder *node) map[string]*node) {
	if c.from != nil {
		if names := of(c.from); names[c.oldName] == c.to {
			delete(names, c.oldName)
		}
	}
	if c.to == nil {
		delete(of(c.in), c.name)
		return
	}
	of(c.in)[c.name] = c.to
}

// Crash says how power is lost.
type Crash struct {
	// Percent is the share of what was not synced that is kept: sectors, lengths, names.
	Percent int
	// Unordered: any changes of names are kept, not those up to one.
	Unordered bool
	// Garbage: where a file grew, sectors that are missing hold chance bytes, not zeros.
	Garbage bool
	// Rand decides, where Percent is neither 0 nor 100, or Garbage is asked for.
	Rand *rand.Rand
}

// Lose is Crash with a share of what was not synced, in any of the ways of a loss of power.
func (d *Disk) Lose(percent int, rng *rand.Rand) *Disk {
	return d.Crash(Crash{Percent: percent, Unordered: rng.IntN(2) == 0, Garbage: rng.IntN(2) == 0, Rand: rng})
}

// Crash returns what is left of the disk, which a program may use on, and crash again. All of
// that is synced.
func (d *Disk) Crash(how Crash) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := map[*node]map[string]*node{}
	of := func(folder *node) map[string]*node {
		if names[folder] == nil {
			names[folder] = maps.Clone(folder.synced)
		}
		return names[folder]
	}
	upTo := len(d.pending)
	if !how.Unordered {
		upTo = how.share(upTo)
	}
	for i := range d.pending[:upTo] {
		if !how.Unordered || how.keeps() {
			d.pending[i].apply(of)
		}
	}
	left := NewDisk()
	how.copy(left, "", d.root, of, map[*node]string{})
	return left
}

// keeps decides over one thing.
func (how *Crash) keeps() bool {
	return how.Percent >= 100 || how.Percent > 0 && how.Rand.IntN(100) < how.Percent
}

// share decides how many of n things are kept that come one after the other.
func (how *Crash) share(n int) int {
	switch {
	case how.keeps():
		return n
	case how.Percent <= 0:
		return 0
	}
	return how.Rand.IntN(n + 1)
}

// copy writes a folder of the disk to another file system. at is where each file lies there.
func (how *Crash) copy(to *Disk, path string, folder *node, of func(*node) map[string]*node, at map[*node]string) {
	for _, name := range slices.Sorted(maps.Keys(of(folder))) {
		n, child := of(folder)[name], path+"/"+name
		switch {
		case n.now != nil:
			must(to.MkdirAll(child, 0o755))
			how.copy(to, child, n, of, at)
		case at[n] != "":
			must(to.Link(at[n], child))
		default:
			at[n] = child
			f, err := to.Create(child, vfs.WriteCategoryUnspecified)
			must(err)
			_, err = f.Write(how.content(n, how.Garbage && ClassOf(name) != Manifest))
			must(err)
			must(f.Sync())
			must(f.Close())
		}
	}
	dir, err := to.OpenDir(cmp.Or(path, "/"))
	must(err)
	must(dir.Sync())
	must(dir.Close())
}

// content is what a file holds after the crash. garbage: chance bytes are in the sectors that
// are missing.
func (how *Crash) content(n *node, garbage bool) []byte {
	length := n.length + how.share(len(n.data)-n.length)
	b := slices.Clone(n.data[:length])
	for _, s := range slices.Sorted(maps.Keys(n.lost)) {
		from := s * SectorSize
		if from >= length || how.keeps() {
			continue
		}
		sector := b[from:min(from+SectorSize, length)]
		clear(sector)
		if garbage {
			for i := range sector {
				sector[i] = byte(how.Rand.Uint32())
			}
		}
		copy(sector, n.lost[s])
	}
	return b
}

func must(err error) {
	if err != nil {
		panic(err) // a file system in memory does not fail
	}
}
