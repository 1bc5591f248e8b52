package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Damage is damage of a store that no crash leaves, other than of its logs (see [LogDamage]):
// what opens such a store as it is may lose what it holds.
type Damage struct {
	kind  damageKind
	why   string
	files []string // of the kind damagedTables and damagedOptions
}

type damageKind uint8

const (
	noStore        damageKind = iota // the folder of the store is gone
	lostMarker                       // no file says which MANIFEST counts, or which format the files have
	lostManifest                     // the MANIFEST is gone, damaged, or an older one
	lostTables                       // tables that it lists are gone or cut off
	damagedOptions                   // the file of options cannot be read: it holds nothing that is needed
	otherTimeline                    // the mark is of another copy
)

// Error says what is damaged.
func (d *Damage) Error() string { return d.why }

// proof is what is known of a store before it is opened.
type proof struct {
	fs       vfs.FS
	dir      string // of the database
	store    string
	timeline Timeline
	mark     mark
	names    []string // in the store
	known    catalog  // what the MANIFEST says
	opts     *pebble.Options
}

// prove holds the files of a store against its mark, without changing any. It returns a
// *Damage, a *LogDamage or an error of the file system.
//
// Pebble does not know what was there: it takes a MANIFEST that was cut off for one that a
// crash cut off, and removes the tables that it does not list any more. The mark says how much
// was on disk; more may be there, never less.
func (s *Store) prove(opts *pebble.Options) (p proof, err error) {
	p = proof{fs: s.FS, dir: s.config.Dir, store: s.FS.PathJoin(s.config.Dir, Dir), timeline: s.timeline, opts: opts}
	if p.mark, err = readMark(p.fs, p.dir); err != nil {
		return p, err
	}
	if p.names, err = p.fs.List(p.store); isMissing(err) {
		return p, &Damage{kind: noStore, why: "its store is missing"}
	} else if err != nil {
		return p, err
	}
	for _, check := range []func() error{p.checkTimeline, p.checkMarkers, p.checkManifest, p.checkTables, p.checkOptions} {
		if err := check(); err != nil {
			return p, err
		}
	}
	return p, p.checkLogs()
}

func (p *proof) checkTimeline() error {
	var unknown Timeline
	if p.mark.timeline == unknown || p.timeline == unknown || p.mark.timeline == p.timeline {
		return nil
	}
	return &Damage{kind: otherTimeline, why: MarkName + " is not of this database, or of another copy of it"}
}

func (p *proof) checkMarkers() error {
	for _, prefix := range []string{manifestMarker, formatMarker} {
		if name, _, _ := newestMarker(p.names, prefix); name == "" {
			return &Damage{kind: lostMarker, why: fmt.Sprintf("the file %s* is missing in its store", prefix)}
		}
	}
	return nil
}

func (p *proof) checkManifest() error {
	name := currentManifest(p.names)
	num := manifestNumber(name)
	lost := func(why string) error { return &Damage{kind: lostManifest, why: why} }
	switch {
	case num == 0 || !slices.Contains(p.names, name):
		return lost(name + ", which lists the tables of its store, is missing")
	case num < p.mark.manifest:
		return lost(fmt.Sprintf("its store is an older one, with %s where %s was in use", name, manifestName(p.mark.manifest)))
	}
	promised := int64(0)
	if num == p.mark.manifest {
		promised = p.mark.listed
	}
	path := p.fs.PathJoin(p.store, name)
	err := checkManifest(p.fs, path, promised)
	if err == nil {
		p.known, err = readManifest(p.fs, path)
	}
	if err != nil && !fromSystem(err) {
		err = lost(err.Error())
	}
	return err
}

// mostNamed bounds the files that an error names.
const mostNamed = 5

func (p *proof) checkTables() error {
	there := map[string]bool{}
	for _, name := range p.names {
		there[name] = true
	}
	d := &Damage{kind: lostTables}
	var why []string
	for _, num := range p.known.numbers() {
		name, is := tableName(num), ""
		if !there[name] {
			is = name + " is missing"
		} else if info, err := p.fs.Stat(p.fs.PathJoin(p.store, name)); err != nil {
			return err
		} else if size := uint64(info.Size()); size != p.known.live[num].size {
			is = fmt.Sprintf("%s has %d bytes of %d", name, size, p.known.live[num].size)
		}
		if is != "" {
			d.files, why = append(d.files, name), append(why, is)
		}
	}
	if len(d.files) == 0 {
		return nil
	}
	d.why = strings.Join(why[:min(len(why), mostNamed)], ", ")
	if more := len(why) - mostNamed; more > 0 {
		d.why += fmt.Sprintf(", and %d more", more)
	}
	return d
}

func (p *proof) checkOptions() error {
	name := newestOptions(p.names)
	if name == "" {
		return nil // Pebble writes it anew
	}
	b, err := readWhole(p.fs, p.fs.PathJoin(p.store, name))
	if err != nil {
		return err
	}
	if err := p.opts.CheckCompatibility(p.store, string(b)); err != nil {
		return &Damage{kind: damagedOptions, why: name + " is damaged: " + err.Error(), files: []string{name}}
	}
	return nil
}

// newestOptions is the file of options that Pebble reads.
func newestOptions(names []string) (newest string) {
	for _, name := range names {
		if num := numbered(name, optionsPrefix); num > 0 && num >= numbered(newest, optionsPrefix) {
			newest = name
		}
	}
	return newest
}
