package cli

import (
	"cmp"
	"fmt"

	"github.com/seed-7aedc3ff/memdb/engine"
)

// unreadable is what a command knows to be lost or unreadable, in the database that it has read or
// in those of a server. The end of the command reports it, whichever command it is.
type unreadable struct {
	n     int
	first string
	// reads: the command reads, so its output may be incomplete.
	reads bool
	// unlined: the output is a file or a protocol, and takes no line of ours.
	unlined bool
}

// lost counts a thing that the command goes on without.
func (u *unreadable) lost(err error) { u.add(1, err.Error()) }

// add counts things of which one is described.
func (u *unreadable) add(n int, what string) { u.n, u.first = u.n+n, cmp.Or(u.first, what) }

// beside notes the damages that a database knows of. What the command has counted is of the same
// damages.
func (u *unreadable) beside(d engine.Damage) {
	u.n = max(u.n, d.Unreadable)
	if len(d.Known) > 0 {
		u.first = cmp.Or(u.first, d.Known[0])
	}
}

// unreadableJSON is the last line of a command whose output may be incomplete.
type unreadableJSON struct {
	Unreadable int `json:"unreadable"`
}

// endUnreadable reports what the database has lost: in the last line of JSON, and as the error of
// a command that reads. What such a command does not find may be among what is lost. A command
// that writes has done what it says; its user is warned.
func (a *app) endUnreadable(err error) error {
	u := &a.unreadable
	if u.n == 0 || err != nil && ExitCode(err) != exitNotFound {
		return err
	}
	lost := fmt.Errorf("%s of the database cannot be read, and the output may be incomplete; the first: %s; run check, which names them all, and memdbctl rescue to make a new database of the rest",
		count(u.n, "thing", "things"), u.first)
	switch {
	case err != nil:
		return &exitError{exitDamaged, fmt.Errorf("%w; %w", err, lost)}
	case !u.reads:
		a.warn("%s", inWords(lost))
		return nil
	case a.json && !u.unlined:
		if err := a.printJSON(unreadableJSON{u.n}); err != nil {
			return err
		}
	}
	return &exitError{exitDamaged, lost}
}
