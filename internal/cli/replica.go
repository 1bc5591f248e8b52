package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/wal"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

const (
	replicaExample = `
memdbctl replica ./replica.data --from /backup/archive
memdbctl replica ./replica.data --from /backup/archive --follow --json`

	promoteExample = `
memdbctl replica promote ./replica.data
memdbctl replica promote ./replica.data --json`
)

// replicaEvery is how often --follow looks for what to print.
const replicaEvery = time.Second

func (a *app) replicaCmd() *cobra.Command {
	from, follow, again := "", false, false
	cmd := newCmd(groupDatabase, "replica DIR", "Follow the archive of a database with a copy to read", replicaExample)
	cmd.Long = `Make the folder DIR a replica of the database whose archive is given, or bring the one in it up to
the end of the archive: a copy that is written by nothing else. Verbs that read work on it with
--db DIR while no other program follows with it; verbs that write are refused until it is promoted.

It prints the newest LSN and how far the replica is behind what has come; with --follow whenever
that changes, until it is interrupted. A replica that was killed goes on where it was. Where the
archive does not have what follows, --begin-again makes the replica anew, from the newest base.

If the archive has less than it had, expected_lsn says how far it reached, and the exit code is 5.`
	cmd.Args = exactly(1, "the folder of the replica")
	cmd.Flags().StringVar(&from, "from", "", "the folder `ARCHIVE` that is followed")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on until interrupted")
	cmd.Flags().BoolVar(&again, "begin-again", false, "make the replica anew where the archive has a gap or another timeline")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from == "" {
			return usageError(cmd, errors.New("it follows nothing; name the archive: --from ARCHIVE"))
		}
		dir, err := a.path(args[0])
		if err != nil {
			return err
		}
		archive, err := a.path(from)
		if err != nil {
			return err
		}
		return a.replicate(cmd.Context(), filepath.Clean(dir), filepath.Clean(archive), follow, again)
	}
	cmd.AddCommand(a.promoteCmd())
	return cmd
}

func (a *app) promoteCmd() *cobra.Command {
	cmd := newCmd("", "promote DIR", "Make a replica a database that can be written", promoteExample)
	cmd.Long = `Make the replica in DIR a database of its own, which is written from then on: it begins a new timeline
behind the newest commit that it has. That the database which it followed is written no more is
yours to see to: both would go on under the same LSNs, and neither would know of the other.`
	cmd.Args = exactly(1, "the folder of the replica")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		dir, err := a.path(args[0])
		if err != nil {
			return err
		}
		var p *engine.Promotion
		err = a.during("promote", func() (err error) {
			p, err = engine.PromoteReplica(filepath.Clean(dir))
			return err
		})
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(p)
		}
		a.printf("promoted %s: it goes on behind LSN %d, on the timeline %s\n", escape(dir), p.LSN, p.Timeline)
		return nil
	}
	return cmd
}

// replicate follows an archive, to its end or until ctx ends.
func (a *app) replicate(ctx context.Context, dir, archive string, follow, again bool) (err error) {
	c, err := folder.Follow(archive, wal.Timeline{}, follow)
	if err != nil {
		return err
	}
	r, err := engine.OpenReplica(dir, c.Next, &engine.ReplicaOptions{Clock: a.now, BeginAgain: again})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer func() { err = errors.Join(err, r.Close(), c.Close()) }()
	if !follow {
		err := a.during("replica", func() error { return r.Wait(ctx) })
		_, short := errors.AsType[*wal.ShortError](err)
		if s := r.Stats(); err == nil || short && s.LSN > 0 {
			err = errors.Join(a.printReplica(replicaJSON{s.LSN, s.LagMS, s.ExpectedLSN}), err)
		}
		return err
	}
	last, number := replicaJSON{LSN: 0, LagMS: -1}, uint64(0)
	for {
		if err := r.Err(); err != nil {
			return err
		}
		s := r.Stats()
		now := replicaJSON{s.LSN, s.LagMS, 0}
		had, err := c.Had()
		if err != nil {
			return err
		}
		if s.Number == number && had.Number > number { // nothing more has come since the last look
			now.ExpectedLSN = had.LSN
		}
		if number = s.Number; now != last && s.LSN > 0 {
			if err := errors.Join(a.printReplica(now), a.stdout.Flush()); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-ctx.Done():
			if last.ExpectedLSN > 0 {
				return &exitError{exitDamaged, fmt.Errorf("replica: the archive reached LSN %d, and what can be read ends at LSN %d; restore the archive from a copy, or follow with --begin-again", last.ExpectedLSN, last.LSN)}
			}
			return nil
		case <-time.After(replicaEvery):
		}
	}
}

// replicaJSON is how far a replica is.
type replicaJSON struct {
	LSN   uint64 `json:"lsn"`
	LagMS int64  `json:"lag_ms"`
	// ExpectedLSN is the LSN that the archive reached, where what can be read ends before it.
	ExpectedLSN uint64 `json:"expected_lsn,omitempty"`
}

func (a *app) printReplica(r replicaJSON) error {
	if a.json {
		return a.printJSON(r)
	}
	a.printf("at LSN %d, %d ms behind what has come\n", r.LSN, r.LagMS)
	return nil
}
