package cli

import "time"

// patience is how long a verb works before it says so.
const patience = time.Second

// during calls fn, and on a terminal says how long it has worked once that is a while. fn itself
// prints nothing there.
func (a *app) during(doing string, fn func() error) error {
	if a.errWidth == 0 || a.quiet || a.json {
		return fn()
	}
	bar := &progress{app: a}
	began := a.now()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			bar.clear()
			return err
		case <-tick.C:
		}
		if took := a.now().Sub(began); took >= patience {
			bar.say("%s: %d s", doing, int(took.Seconds()))
		}
	}
}
