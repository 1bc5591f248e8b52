package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-7aedc3ff/memdb/internal/fault"
	"github.com/seed-7aedc3ff/memdb/internal/fsys"
)

// Rescue is what to do about damage that nothing in the database can mend.
const Rescue = "make a new database of all that is left: memdbctl rescue; or restore a backup"

// WayOn is what helps where a database is damaged, for errors.
const WayOn = "restore a backup; or open it once with Salvage (memdbctl --salvage) to go on with what is whole; or make a new database of all that can be read: memdbctl rescue SRC DEST"

// mostMends bounds how many damages are mended in one Open: each is of another kind, or of
// another file.
const mostMends = 16

// readyToOpen returns the mark of a store that Pebble may open: one that fits its mark, or,
// with Salvage, one that was mended.
func (s *Store) readyToOpen(opts *pebble.Options) (mark, error) {
	for range mostMends {
		p, err := s.prove(opts)
		if err == nil || !isOther(err) {
			s.marked = max(s.marked, p.mark.lsn)
		}
		if err == nil {
			return p.mark, nil
		}
		logs, inLogs := errors.AsType[*LogDamage](err)
		damage, inStore := errors.AsType[*Damage](err)
		switch {
		case !inLogs && !inStore:
			return p.mark, fault.Within(s.opening(), err)
		case !s.config.Salvage || s.config.ReadOnly:
			return p.mark, s.damaged(err)
		}
		lost := ""
		if inLogs {
			lost, err = damagedLogs(p.fs, p.dir, logs)
		} else {
			lost, err = s.mend(&p, damage)
		}
		if _, stays := errors.AsType[*Damage](err); stays {
			return p.mark, s.damaged(err)
		}
		if err = cmp.Or(err, s.FS.Err()); err != nil { // what Pebble must not hear of is reported as a success
			return p.mark, fault.Within(s.opening()+": salvage", err)
		}
		s.salvaged(lost)
	}
	return mark{}, s.damaged(errors.New("damage that was mended came back"))
}

// isOther reports whether the mark is none of this database.
func isOther(err error) bool {
	d, ok := errors.AsType[*Damage](err)
	return ok && d.kind == otherTimeline
}

func damagedLogs(fs vfs.FS, dir string, d *LogDamage) (lost string, err error) {
	if err := salvageLogs(fs, fs.PathJoin(dir, Dir), d); err != nil {
		return "", err
	}
	return d.Error(), dropMark(fs, dir)
}

func (s *Store) damaged(cause error) error {
	return &fault.Error{Kind: fault.ErrCorrupt, What: s.opening(), Cause: cause, Do: WayOn}
}

// salvaged notes what was mended, and what was lost.
func (s *Store) salvaged(what string) {
	if s.Salvaged != "" {
		s.Salvaged += "; "
	}
	s.Salvaged += what
	s.config.Log.Warn("the database goes on without what was damaged; damaged files are kept as *"+damagedSuffix, "dir", s.config.Dir, "damage", what)
}

// mend makes a store that can be opened of one with damage, and says what is lost. Nothing is
// removed: what is not used any more gets a name that ends with ".damaged". If this is
// interrupted, the store is damaged as before, or mended.
func (s *Store) mend(p *proof, d *Damage) (lost string, err error) {
	switch d.kind {
	case noStore:
		if _, err := p.fs.Stat(p.fs.PathJoin(p.dir, rebuiltDir)); err != nil {
			return "", d
		}
		return "an interrupted salvage was ended: a new store was made of what could be read", p.placeRebuilt()
	case otherTimeline:
		return d.why + "; it was made anew, and what it said of the newest commits is not known", p.setAside(p.dir, MarkName)
	case damagedOptions:
		return d.why + "; nothing is lost with it", p.setAside(p.store, d.files...)
	case lostMarker, lostManifest:
		if nums := p.wholeManifests(); len(nums) > 0 {
			return d.why + "; it was made anew, and nothing is lost with it", p.restoreManifest(nums[0])
		}
		return s.rebuild(p, d.why)
	case lostTables:
		return "lost with all that lay in them: " + d.why, p.unlist(d)
	}
	return "", d
}

// setAside gives files in a folder names that nothing reads.
func (p *proof) setAside(dir string, names ...string) error {
	for _, name := range names {
		from := p.fs.PathJoin(dir, name)
		to := from + damagedSuffix
		for i := 2; ; i++ {
			_, err := p.fs.Stat(to)
			if isMissing(err) {
				break
			}
			if err != nil {
				return err
			}
			to = fmt.Sprintf("%s.%d%s", from, i, damagedSuffix)
		}
		if err := p.fs.Rename(from, to); err != nil && !isMissing(err) {
			return err
		}
	}
	return syncFolder(p.fs, dir)
}

// wholeManifests are the numbers of those of which the MANIFEST or its copy is whole and none
// that was replaced, the best first: the one that the marker names, then the one that the mark
// names, then the newest.
func (p *proof) wholeManifests() (nums []uint64) {
	var all []uint64
	for _, name := range p.names {
		if of, ok := fsys.IsManifestCopy(name); ok {
			name = of
		}
		if num := manifestNumber(name); num > 0 {
			all = append(all, num)
		}
	}
	if len(all) == 0 {
		return nil
	}
	named := manifestNumber(currentManifest(p.names))
	least := max(named, p.mark.manifest)
	if least == 0 { // nothing reports whether it was replaced
		least = slices.Max(all)
	}
	slices.Sort(all)
	for _, num := range slices.Compact(all) {
		if num >= least && p.wholeManifest(num) != "" {
			nums = append(nums, num)
		}
	}
	rank := func(num uint64) int {
		switch num {
		case named:
			return 0
		case p.mark.manifest:
			return 1
		}
		return 2
	}
	slices.SortFunc(nums, func(a, b uint64) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b, a)) })
	return nums
}

// wholeManifest is the name of the MANIFEST of a number, or of its copy, that is whole; empty
// if neither is.
func (p *proof) wholeManifest(num uint64) string {
	promised := int64(0)
	if num == p.mark.manifest {
		promised = p.mark.listed
	}
	for _, name := range []string{manifestName(num), fsys.ManifestCopy(manifestName(num))} {
		path := p.fs.PathJoin(p.store, name)
		if checkManifest(p.fs, path, promised) != nil {
			continue
		}
		if c, err := readManifest(p.fs, path); err == nil && c.records > 0 {
			return name
		}
	}
	return ""
}

// restoreManifest makes the MANIFEST of a number, or its copy, the one that counts, and the
// markers that are missing.
func (p *proof) restoreManifest(num uint64) error {
	name, was := manifestName(num), currentManifest(p.names)
	if from := p.wholeManifest(num); from != name {
		whole := p.fs.PathJoin(p.store, "restored-"+name)
		if err := copyFile(p.fs, p.fs.PathJoin(p.store, from), whole, -1); err != nil {
			return err
		}
		if slices.Contains(p.names, name) {
			if err := p.setAside(p.store, name); err != nil {
				return err
			}
		}
		if err := p.fs.Rename(whole, p.fs.PathJoin(p.store, name)); err != nil {
			return err
		}
	}
	if err := p.moveMarker(manifestMarker, name); err != nil {
		return err
	}
	if was != name && slices.Contains(p.names, was) {
		if err := p.setAside(p.store, was); err != nil {
			return err
		}
	}
	if format, _, _ := newestMarker(p.names, formatMarker); format != "" {
		return nil
	}
	return p.moveMarker(formatMarker, formatVersion.String())
}

// moveMarker makes a marker say a value, as Pebble does.
func (p *proof) moveMarker(prefix, value string) error {
	old, move, is := newestMarker(p.names, prefix)
	if is == value {
		return syncFolder(p.fs, p.store)
	}
	if err := syncFolder(p.fs, p.store); err != nil { // what it names, first
		return err
	}
	f, err := p.fs.Create(p.fs.PathJoin(p.store, fmt.Sprintf("%s%06d.%s", prefix, move+1, value)), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), syncFolder(p.fs, p.store)); err != nil || old == "" {
		return err
	}
	if err := p.fs.Remove(p.fs.PathJoin(p.store, old)); err != nil {
		return err
	}
	return syncFolder(p.fs, p.store)
}

// unlist makes a MANIFEST without tables that are lost.
func (p *proof) unlist(d *Damage) error {
	l := &p.known
	for num := range l.live {
		if slices.Contains(d.files, tableName(num)) {
			delete(l.live, num)
		}
	}
	num := l.nextFile
	for _, name := range p.names {
		num = max(num, leadingNumber(name)+1, manifestNumber(name)+1, numbered(name, optionsPrefix)+1)
	}
	l.nextFile = num + 1
	if err := p.writeManifest(manifestName(num), l); err != nil {
		return err
	}
	if err := p.moveMarker(manifestMarker, manifestName(num)); err != nil {
		return err
	}
	if err := p.setAside(p.store, currentManifest(p.names)); err != nil {
		return err
	}
	there := slices.DeleteFunc(slices.Clone(d.files), func(name string) bool { return !slices.Contains(p.names, name) })
	return p.setAside(p.store, there...)
}

// leadingNumber is what a file's name begins with, 0 if it is no number.
func leadingNumber(name string) uint64 {
	digits, _, _ := strings.Cut(name, ".")
	return numbered(digits, "")
}

func (p *proof) writeManifest(name string, l *catalog) error {
	f, err := p.fs.Create(p.fs.PathJoin(p.store, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := record.NewWriter(f)
	_, err = w.WriteRecord(l.encode())
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// keepCopy makes the copy of the MANIFEST that counts, where there is none or another, and
// removes copies of those that are gone. Pebble writes to no MANIFEST that was there before.
func (s *Store) keepCopy() error {
	dir := s.FS.PathJoin(s.config.Dir, Dir)
	names, err := s.FS.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if of, ok := fsys.IsManifestCopy(name); ok && !slices.Contains(names, of) {
			if err := s.FS.Remove(s.FS.PathJoin(dir, name)); err != nil {
				return err
			}
		}
	}
	name := currentManifest(names)
	if name == "" {
		return nil // of a database that is being made
	}
	path, copied := s.FS.PathJoin(dir, name), s.FS.PathJoin(dir, fsys.ManifestCopy(name))
	is, err := s.FS.Stat(path)
	if err != nil {
		return err
	}
	if has, err := s.FS.Stat(copied); err == nil && has.Size() == is.Size() {
		return nil
	}
	if err := copyFile(s.FS, path, copied+".new", -1); err != nil {
		return err
	}
	return errors.Join(s.FS.Rename(copied+".new", copied), syncFolder(s.FS, dir))
}
