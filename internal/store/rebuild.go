package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// rebuiltDir is where a store is made anew, until it is complete.
const rebuiltDir = Dir + ".rebuilt"

// rebuild makes a store anew of all that the tables and logs of one hold that has lost its
// MANIFEST and the copy of it. The old one stays beside it under a name that nothing reads, so
// that it takes as much room again. If this is interrupted, Salvage begins anew, or puts the
// new store in its place.
//
// Sequence numbers tell which value of a key is the newest. The tables themselves cannot be
// listed in a new MANIFEST: it would have to say for each pair of them which is above the other.
func (s *Store) rebuild(p *proof, why string) (lost string, err error) {
	path := p.fs.PathJoin(p.dir, rebuiltDir)
	if err := p.fs.RemoveAll(path); err != nil { // of one that was interrupted
		return "", err
	}
	var losses []string
	remains := &Remains{FS: p.fs, Dir: p.dir, Merger: s.config.Merger, Lost: func(l Loss) {
		if l.What == "" { // that the MANIFEST is lost is why
			losses = append(losses, l.Error())
		}
	}}
	opts := p.opts.Clone()
	opts.DisableWAL, opts.ErrorIfNotExists = true, false // CopyTo flushes
	db, err := pebble.Open(path, opts)
	if err != nil {
		return "", err
	}
	keys, err := remains.CopyTo(db)
	if err = errors.Join(err, db.Close(), s.FS.Err()); err != nil {
		return "", err
	}
	if keys == 0 {
		return "", &Damage{kind: lostManifest, why: why + ", and nothing can be read of its tables and logs"}
	}
	if err := p.setAside(p.dir, Dir); err != nil {
		return "", err
	}
	said := fmt.Sprintf("%s: a new store was made of the %d keys that could be read; what had been replaced and not yet removed may be back, which check finds", why, keys)
	if n := len(losses); n > 0 {
		said += fmt.Sprintf("; lost: %s", strings.Join(losses[:min(n, mostNamed)], ", "))
		if n > mostNamed {
			said += fmt.Sprintf(", and %d more", n-mostNamed)
		}
	}
	return said, p.placeRebuilt()
}

// placeRebuilt makes a store that was made anew the store. The mark is of the old one.
func (p *proof) placeRebuilt() error {
	if err := p.fs.Rename(p.fs.PathJoin(p.dir, rebuiltDir), p.store); err != nil {
		return err
	}
	if err := syncFolder(p.fs, p.dir); err != nil {
		return err
	}
	return dropMark(p.fs, p.dir)
}
