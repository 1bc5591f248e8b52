package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/wal/folder"
)

const archiveExample = `
memdbctl archive /backup/archive
memdbctl archive /backup/archive --follow --json`

// archiveEvery is how often --follow looks for what to print.
const archiveEvery = time.Second

func (a *app) archiveCmd() *cobra.Command {
	follow := false
	cmd := newCmd(groupDatabase, "archive DIR", "Keep all that is written in a folder, for replicas and restores", archiveExample)
	cmd.Long = `Bring an archive up to the newest commit: a folder of segments, in which all that the database
writes is kept in order. A replica follows it, and a restore to any past LSN or time is made of
it. DIR is made where it is missing, and is of one database alone.

An archive begins with a base, which is everything that the database has, unless it began with
the database. Where something was written without it, it begins again from a base. So a program
that is to be archived all the time sets Options.Archive, or serves memdbctl and has --follow
archive beside it. Without --follow the archive is brought up to now, once.

It prints the newest LSN that the archive has, its files and their bytes; with --follow again
whenever there is more, until it is interrupted.`
	cmd.Args = exactly(1, "the folder of the archive")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := a.path(args[0])
		if err != nil {
			return err
		}
		dir = filepath.Clean(dir)
		if err := a.exists(); err != nil {
			return err
		}
		if err := a.apart(dir); err != nil {
			return err
		}
		return a.archive(cmd.Context(), dir, follow)
	}
	return cmd
}

// apart refuses a folder that is in that of the database, or has it within.
func (a *app) apart(dir string) error {
	to, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	from, err := filepath.Abs(a.dir)
	if err != nil {
		return err
	}
	sep := string(filepath.Separator)
	if strings.HasPrefix(to+sep, from+sep) || strings.HasPrefix(from+sep, to+sep) {
		return &memory.Error{Kind: memory.ErrInvalid, What: "archive into " + dir, Why: "the one folder would lie in the other", Do: "choose a folder apart from that of the database, best on another disk"}
	}
	return nil
}

func (a *app) archive(ctx context.Context, dir string, follow bool) error {
	to := folder.New(dir)
	if !a.served() {
		db, err := a.open(ctx, &engine.Options{Archive: to})
		if err != nil {
			return err
		}
		return a.closing(db, a.follow(ctx, dir, follow, func() error { _, err := db.WaitArchived(ctx); return err }))
	}
	db, err := a.open(ctx, nil)
	if err != nil {
		return err
	}
	if !follow {
		if _, err := db.ArchiveTo(ctx, to, false); err != nil {
			return err
		}
		return a.printArchive(dir, nil)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := db.ArchiveTo(ctx, to, true)
		cancel(err)
	}()
	err = a.follow(ctx, dir, true, func() error { return context.Cause(ctx) })
	cancel(nil)
	<-done
	return err
}

// follow prints how far the archive is: once, or whenever it has more until ctx ends. reach returns once
// the archive has what there is.
func (a *app) follow(ctx context.Context, dir string, follow bool, reach func() error) error {
	last := archivedJSON{}
	for {
		if err := reach(); err != nil && ctx.Err() == nil {
			return err
		}
		if err := a.printArchive(dir, &last); err != nil || !follow {
			return err
		}
		if err := a.stdout.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(archiveEvery):
		}
	}
}

// archivedJSON is how far an archive is.
type archivedJSON struct {
	LSN      uint64 `json:"lsn"`
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"`
}

// printArchive prints how far an archive is, unless that is what was printed last.
func (a *app) printArchive(dir string, last *archivedJSON) error {
	_, all, err := folder.Timelines(dir)
	if last != nil && errors.Is(err, memory.ErrNotDatabase) { // it is not made yet
		return nil
	}
	if err != nil || len(all) == 0 || all[len(all)-1].LSN == 0 {
		return err
	}
	t := all[len(all)-1]
	now := archivedJSON{t.LSN, t.Segments + t.Bases, t.Bytes}
	if last != nil && *last == now {
		return nil
	}
	if last != nil {
		*last = now
	}
	if a.json {
		return a.printJSON(now)
	}
	a.printf("archived up to LSN %d: %s, %s bytes\n", now.LSN, count(now.Segments, "file", "files"), number(now.Bytes))
	return nil
}
