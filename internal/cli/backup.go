package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/backup"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const (
	backupExample = `
memdbctl backup /mnt/backups/memdb
memdbctl backup --archive memdb-monday.backup
memdbctl backup /mnt/backups/memdb --archive memdb-monday.backup --json`
	backupListExample = `
memdbctl backup list /mnt/backups/memdb
memdbctl backup list memdb-monday.backup --json`
	backupVerifyExample = `
memdbctl backup verify /mnt/backups/memdb
memdbctl backup verify /mnt/backups/memdb --id 20260301T120000.000Z --json`
	backupPruneExample = `
memdbctl backup prune /mnt/backups/memdb --keep 7`
	restoreExample = `
memdbctl restore /mnt/backups/memdb --db restored.data
memdbctl restore /mnt/backups/memdb --id 20260301T120000.000Z --db restored.data
memdbctl restore memdb-monday.backup --db restored.data --json
memdbctl restore /mnt/backups/memdb --archive /mnt/backups/archive --to-lsn 5120 --db restored.data
memdbctl restore /mnt/backups/archive --to-time 2026-03-01T12:00:00Z --db restored.data`
)

func (a *app) backupCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "backup [REPO]", "Back up the database, to a repository or to one file", backupExample)
	cmd.Long = `Back up the database while programs go on with it. REPO is a folder, which is made where it
is missing or empty: a repository of backups, to which each backup adds what is new since the
one before. --archive writes the backup to one file as well, or alone. All that is written is
read back and proven. Keep backups on another disk.

Files of vector indexes are no part of a backup: a restored database links its vectors anew.`
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef(cmd, "it takes one repository, and got %s", count(len(args), "argument", "arguments"))
		}
		return nil
	}
	cmd.ValidArgsFunction = nil
	cmd.Annotations = map[string]string{takesMore: "yes"}
	archive := cmd.Flags().String("archive", "", "write the backup to this `FILE`, too, or alone without a repository")
	full := cmd.Flags().Bool("full", false, "read all tables again, and replace damaged files of the repository")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		repo := ""
		if len(args) > 0 {
			repo = args[0]
		}
		if repo == "" && *archive == "" {
			return usagef(cmd, "it needs a repository or --archive")
		}
		if repo == "-" || *archive == "-" {
			return usagef(cmd, "a backup is read back, so - cannot be its place; name a folder or a file")
		}
		places := [2]string{repo, *archive}
		for i, name := range places {
			if name == "" {
				continue
			}
			path, err := a.path(name)
			if err != nil {
				return err
			}
			places[i] = path
		}
		return a.read(ctx, func(db *engine.DB) error {
			var r engine.BackupReport
			err := a.during("backup", func() error {
				return a.awaiting(ctx, func() (err error) {
					r, err = db.Backup(ctx, places[0], &engine.BackupOptions{Archive: places[1], Full: *full})
					return err
				})
			})
			if err != nil {
				return err
			}
			return a.printBackup(r)
		})
	}
	cmd.AddCommand(a.backupListCmd(), a.backupVerifyCmd(), a.backupPruneCmd())
	return cmd
}

// awaiting calls fn again while another program writes to the repository, as long as --wait allows.
func (a *app) awaiting(ctx context.Context, fn func() error) error {
	for waited := time.Duration(0); ; waited += lockPoll {
		err := fn()
		if !errors.Is(err, memory.ErrLocked) || waited >= a.wait {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// backupJSON is the result of a backup.
type backupJSON struct {
	ID       string  `json:"id"`
	LSN      uint64  `json:"lsn"`
	Timeline string  `json:"timeline"`
	Bytes    int64   `json:"bytes"`
	NewBytes int64   `json:"new_bytes"`
	Files    int     `json:"files"`
	Verified bool    `json:"verified"`
	Seconds  float64 `json:"seconds"`
}

func (a *app) printBackup(r engine.BackupReport) error {
	if a.json {
		return a.printJSON(backupJSON{r.ID, r.LSN, r.Timeline, r.Bytes, r.NewBytes, r.Files, r.Verified, r.Took.Seconds()})
	}
	a.printf("backup %s of LSN %d: %s of %s, %s of them written and verified\n", r.ID, r.LSN, size(r.Bytes), count(r.Files, "file", "files"), size(r.NewBytes))
	return nil
}

// source opens what the argument of a verb names.
func (a *app) source(name string) (backup.Source, error) {
	path, err := a.path(name)
	if err != nil {
		return nil, err
	}
	return backup.OpenSource(path)
}

func (a *app) backupListCmd() *cobra.Command {
	cmd := newCmd("", "list REPO", "List the backups of a repository or an archive, the oldest first", backupListExample)
	cmd.Args = exactly(1, "a repository or an archive")
	cmd.ValidArgsFunction = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.source(args[0])
		if err != nil {
			return err
		}
		all, damaged, err := s.Backups(cmd.Context())
		if err != nil {
			return err
		}
		if err := a.printBackups(all); err != nil {
			return err
		}
		if len(damaged) > 0 {
			return &exitError{code: exitDamaged, err: fmt.Errorf("list the backups in %s: %s; memdbctl backup verify names all that is damaged", args[0], damaged[0].What)}
		}
		return nil
	}
	return cmd
}

// listedBackupJSON is a line of a list of backups.
type listedBackupJSON struct {
	Type     string    `json:"type"`
	ID       string    `json:"id"`
	LSN      uint64    `json:"lsn"`
	Timeline string    `json:"timeline"`
	Database string    `json:"database"`
	Time     time.Time `json:"time"`
	Layout   int       `json:"layout"`
	Bytes    int64     `json:"bytes"`
	Files    int       `json:"files"`
}

func (a *app) printBackups(all []backup.Backup) error {
	t := a.rows("BACKUP", "LSN", "TIME", "SIZE", "DATABASE")
	for _, b := range all {
		line := listedBackupJSON{"backup", b.ID, b.LSN, b.Timeline, b.Database, b.Time, b.Layout, b.Bytes, len(b.Files)}
		if err := t.add(line, b.ID, fmt.Sprint(b.LSN), b.Time.Format(time.RFC3339), size(b.Bytes), b.Database); err != nil {
			return err
		}
	}
	return t.end()
}

func (a *app) backupVerifyCmd() *cobra.Command {
	cmd := newCmd("", "verify REPO", "Read backups whole, and hold them against their hashes", backupVerifyExample)
	cmd.Long = `Read all that one backup needs, or all backups of a repository or an archive, and hold it
against the hashes. What is damaged is named, with the backups that need it. Exit code 5 says
that something is.`
	cmd.Args = exactly(1, "a repository or an archive")
	cmd.ValidArgsFunction = nil
	id := cmd.Flags().String("id", "", "verify this backup alone")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var r backup.Report
		s, err := a.source(args[0])
		if err == nil {
			err = a.during("backup verify", func() (err error) {
				r, err = s.Verify(cmd.Context(), *id)
				return err
			})
		}
		if errors.Is(err, memory.ErrCorrupt) { // so damaged that nothing can be read
			r.OK = false
			r.Problems = append(r.Problems, backup.Problem{Kind: "repository", What: err.Error(), Remedy: backup.RemedyOther})
		} else if err != nil {
			return err
		}
		return a.printVerified(r)
	}
	return cmd
}

func (a *app) printVerified(r backup.Report) error {
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		for _, p := range r.Problems {
			of := ""
			if len(p.Backups) > 0 {
				of = fmt.Sprintf(", needed by %s (%s)", count(len(p.Backups), "backup", "backups"), list(p.Backups, "and"))
			}
			a.printf("%s\n", escape(p.What+of+" (remedy: "+p.Remedy+")"))
		}
		if r.OK {
			a.printf("ok, %s of %s, %s\n", count(r.Backups, "backup", "backups"), count(r.Files, "file", "files"), size(r.Bytes))
		}
	}
	if !r.OK {
		return &exitError{code: exitDamaged, err: errors.New("backup verify: the backups are damaged; a backup with --full replaces the files that the database still has")}
	}
	return nil
}

func (a *app) backupPruneCmd() *cobra.Command {
	cmd := newCmd("", "prune REPO", "Remove old backups of a repository, and what only they need", backupPruneExample)
	cmd.Long = `Remove all but the newest backups of each database in a repository, and the files that no
other backup needs.`
	cmd.Args = exactly(1, "a repository")
	cmd.ValidArgsFunction = nil
	keep := cmd.Flags().Int("keep", 0, "how many backups of each database stay, the newest: 1 or more")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if *keep < 1 {
			return usagef(cmd, "--keep is needed, and at least 1")
		}
		repo, err := a.path(args[0])
		if err != nil {
			return err
		}
		var p backup.Pruned
		err = a.during("backup prune", func() error {
			return a.awaiting(ctx, func() (err error) {
				p, err = backup.Prune(ctx, repo, *keep, a.now())
				return err
			})
		})
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(p)
		}
		a.printf("removed %s and %s (%s); %s stay\n", count(len(p.Removed), "backup", "backups"), count(p.Files, "file", "files"), size(p.Bytes), number(len(p.Kept)))
		return nil
	}
	return cmd
}

func (a *app) restoreCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "restore REPO", "Make a database of a backup", restoreExample)
	cmd.Long = `Make a database in the folder of --db, which must not exist, of a backup in a repository or
an archive. Every file is proven while it is copied, and the database is opened once before it
gets its name: an interrupted restore leaves no database. It begins a new timeline, since its
next commits are others than those that the LSNs had before.

With --archive, the folder that memdbctl archive or Options.Archive has filled, it goes on
behind the backup: to the end of that, or to an LSN or a time. The newest backup up to there is
taken, or a base of the archive where that is nearer. REPO may also be such a folder itself.
If the archive has less than it had, the database is made of what can be read, expected_lsn says
how far the archive reached, and the exit code is 5.
Without --archive, --to-lsn and --to-time choose the newest backup up to there.`
	cmd.Args = exactly(1, "a repository or an archive")
	cmd.ValidArgsFunction = nil
	id := cmd.Flags().String("id", "", "restore this backup (default the newest)")
	var o engine.RestoreOptions
	cmd.Flags().Uint64Var(&o.ToLSN, "to-lsn", 0, "restore all commits up to this `LSN`")
	cmd.Flags().Func("to-time", "restore all commits that were made until then, a `time`: "+timeForms, a.timeFlag(&o.ToTime))
	archive := cmd.Flags().String("archive", "", "the `folder` of segments that goes on behind the backup")
	database := cmd.Flags().String("database", "", "of this database, by its `ID`, where there are backups of several")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		repo, err := a.path(args[0])
		if err != nil {
			return err
		}
		o.ID, o.Database = *id, *database
		if *archive != "" {
			if o.Archive, err = a.path(*archive); err != nil {
				return err
			}
		}
		switch toLSN, toTime := cmd.Flags().Changed("to-lsn"), cmd.Flags().Changed("to-time"); {
		case toLSN && o.ToLSN == 0:
			return usagef(cmd, "--to-lsn 0 names no commit: the first LSN is 1; leave the flag out to restore everything")
		case toTime && o.ToTime.After(a.now()):
			return usagef(cmd, "--to-time %s is in the future; leave the flag out to restore everything", o.ToTime.Format(time.RFC3339))
		case toLSN && toTime:
			return usagef(cmd, "--to-lsn and --to-time are two targets; give one")
		}
		var r engine.RestoreReport
		err = a.during("restore", func() (err error) {
			r, err = engine.Restore(cmd.Context(), repo, a.dir, &o)
			return err
		})
		if err != nil {
			return err
		}
		return a.printRestored(r)
	}
	return cmd
}

// restoredJSON is the result of a restore.
type restoredJSON struct {
	ID       string  `json:"id"`
	LSN      uint64  `json:"lsn"`
	Memories int     `json:"memories"`
	Timeline string  `json:"timeline"`
	Seconds  float64 `json:"seconds"`
	// ExpectedLSN is the LSN that the archive reached, where what can be read ends before it.
	ExpectedLSN uint64 `json:"expected_lsn,omitempty"`
}

func (a *app) printRestored(r engine.RestoreReport) error {
	err := a.printRestoredTo(r)
	if err == nil && r.Short != nil {
		err = &exitError{exitDamaged, fmt.Errorf("restore: the database ends at LSN %d: %w; restore the archive from a copy, or name a newer backup", r.LSN, r.Short)}
	}
	return err
}

func (a *app) printRestoredTo(r engine.RestoreReport) error {
	if a.json {
		out := restoredJSON{ID: r.Backup, LSN: r.LSN, Memories: r.Memories, Timeline: r.Timeline, Seconds: r.Took.Seconds()}
		if r.Short != nil {
			out.ExpectedLSN = r.Short.Had.LSN
		}
		return a.printJSON(out)
	}
	of := "the archive"
	if r.Backup != "" {
		of = "the backup " + r.Backup
	}
	a.printf("restored %s to %s: %s as of LSN %d\n", of, escape(a.dir), count(r.Memories, "memory", "memories"), r.LSN)
	return nil
}
