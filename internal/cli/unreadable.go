package cli

import "fmt"

// unreadable counts what a verb could not read. It is given to the engine, which goes on without.
type unreadable struct {
	n     int
	first error
}

func (u *unreadable) lost(err error) {
	if u.n++; u.first == nil {
		u.first = err
	}
}

// unreadableJSON is the last line of a verb that could not read everything.
type unreadableJSON struct {
	Unreadable int `json:"unreadable"`
}

// end says what the output lacks: in its last line of JSON, and as the error of the verb.
func (a *app) endUnreadable(u *unreadable) error {
	if u.n == 0 {
		return nil
	}
	if a.json {
		if err := a.printJSON(unreadableJSON{u.n}); err != nil {
			return err
		}
	}
	return &exitError{exitDamaged, fmt.Errorf("%s could not be read, and the output is without it, the first because of this: %w; run check, which names it, and memdbctl rescue to make a new database of the rest",
		count(u.n, "thing", "things"), u.first)}
}
