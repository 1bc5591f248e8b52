package cli

import (
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
)

const convertExample = `
memdbctl convert ./memdb.data agent.memdb
memdbctl convert agent.memdb ./agent.data --json`

func (a *app) convertCmd() *cobra.Command {
	cmd := newCmd(groupDatabase, "convert SRC DEST", "Make one file of a database in a folder, and the other way round", convertExample)
	cmd.Long = `Make one file of a database in a folder, or a folder of one in a file: what SRC is decides.
DEST must not exist, and SRC stays as it is; it must not be open. Nothing is lost: every key
is in both, with histories, vectors and the log of changes. The new database keeps the ID and
begins a timeline of its own, as a restored one does.

One file is for memories that are to be carried, kept beside a program or in a backup of files:
each commit writes all of it, so a commit takes the longer the larger it is. A file may have
1 GiB; $MEMDB_MAX_FILE is another number of bytes.`
	cmd.Args = exactly(2, "the database, and what is made of it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from, err := a.path(args[0])
		if err != nil {
			return err
		}
		to, err := a.path(args[1])
		if err != nil {
			return err
		}
		most, err := a.maxFile()
		if err != nil {
			return err
		}
		var c engine.Converted
		err = a.during("convert", func() (err error) {
			c, err = engine.Convert(cmd.Context(), filepath.Clean(from), filepath.Clean(to), &engine.Options{Clock: a.now, MaxFileBytes: most})
			return err
		})
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(convertedJSON{c.Memories, c.Bytes})
		}
		a.printf("%s in a %s of %s bytes: %s\n", count(c.Memories, "memory", "memories"), c.Form, number(c.Bytes), escape(to))
		return nil
	}
	return cmd
}

// convertedJSON is the result of a conversion.
type convertedJSON struct {
	Memories int   `json:"memories"`
	Bytes    int64 `json:"bytes"`
}

const maxFileVariable = "MEMDB_MAX_FILE"

// maxFile is how large a database in one file may become, 0 for the default.
func (a *app) maxFile() (int64, error) {
	s := a.getenv(maxFileVariable)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return 0, &memory.Error{Kind: memory.ErrInvalid, What: "read $" + maxFileVariable, Why: strconv.Quote(s) + " is no number of bytes", Do: "give one, such as 2147483648"}
	}
	return n, nil
}
