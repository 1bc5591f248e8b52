package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/exchange"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/scope"
	"github.com/seed-7aedc3ff/memdb/services/cluster"
)

const (
	// chunkBytes is how much of an import is sent to a shard at once, and sentLine how long a line may be:
	// a node takes 16 MiB as a body.
	chunkBytes = 4 << 20
	sentLine   = 15 << 20
	// linesKind is the media type of JSON lines.
	linesKind = "application/x-ndjson"
)

func (a *app) clusterImportCmd() *cobra.Command {
	cmd := newCmd("", "import FILE | import -", "Bring what a database has exported into the shards it belongs to", "\nmemdbctl cluster import memories.jsonl --db http://127.0.0.1:7070")
	cmd.Long = `Read the lines of an export, and store each in the shard of its user, or of its agent where it has no
user. Nothing of other databases needs to stop:

  memdbctl export - --db ./memdb.data | memdbctl cluster import - --db http://127.0.0.1:7070

A policy in the file is that of each shard from then on. What is there already is left as it is, so an
import that was interrupted can be repeated; usage, which has no IDs, counts again then.`
	cmd.Args = exactly(1, "one file, or - for the input")
	upsert := false
	cmd.Flags().BoolVar(&upsert, "upsert", false, "change what has the ID already")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := a.node(cmd)
		if err != nil {
			return err
		}
		v, err := n.view(cmd.Context())
		if err != nil {
			return err
		}
		in, err := a.openInput(cmd.Context(), args[0])
		if err != nil {
			return inputError(args[0], err)
		}
		defer func() { _ = in.Close() }() // it was read
		began := a.now()
		i := &clusterImport{n: n, chunks: make([]bytes.Buffer, len(v.Shards)), upsert: upsert}
		if err := i.read(cmd.Context(), in); err != nil {
			return err
		}
		i.out.Seconds = a.now().Sub(began).Seconds()
		if a.json {
			return a.printJSON(i.out)
		}
		a.printf("stored %d, updated %d, unchanged %d, skipped %d of %d records in %d shards\n", i.out.Stored, i.out.Updated, i.out.Unchanged, i.out.Skipped, i.out.Read, i.shards)
		return nil
	}
	return cmd
}

// clusterImport sends lines to their shards.
type clusterImport struct {
	n      *node
	upsert bool
	chunks []bytes.Buffer
	shards int // that got something
	out    exchange.Imported
}

// read sends what in has.
func (i *clusterImport) read(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, sentLine)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := i.add(ctx, line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return inputError("the import", err)
	}
	for shard := range i.chunks {
		if err := i.send(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

// add puts a line to those of its shard.
func (i *clusterImport) add(ctx context.Context, line []byte) error {
	var of struct {
		Type  string `json:"type"`
		ID    string `json:"id"`
		User  string `json:"user"`
		Agent string `json:"agent"`
	}
	if err := json.Unmarshal(line, &of); err != nil {
		return &memory.Error{Kind: memory.ErrFailed, What: "import", Why: "it is no line of an export", Cause: err, Do: "mend the line, and import again"}
	}
	o := scope.Owner{User: of.User, Agent: of.Agent}
	switch of.Type {
	case exchange.TypeEnd:
		return nil
	case "policy":
		for shard := range i.chunks {
			if err := i.put(ctx, shard, line); err != nil {
				return err
			}
		}
		return nil
	case "agent":
		o.Agent = of.ID
	}
	return i.put(ctx, cluster.ShardOf(o, len(i.chunks)), line)
}

func (i *clusterImport) put(ctx context.Context, shard int, line []byte) error {
	c := &i.chunks[shard]
	if c.Len() > 0 && c.Len()+len(line) > chunkBytes {
		if err := i.send(ctx, shard); err != nil {
			return err
		}
	}
	if c.Len() == 0 {
		i.shards++
	}
	_, _ = c.Write(line) // it grows as it must
	return c.WriteByte('\n')
}

// send has a shard store what was gathered for it.
func (i *clusterImport) send(ctx context.Context, shard int) error {
	c := &i.chunks[shard]
	if c.Len() == 0 {
		return nil
	}
	q := url.Values{}
	if i.upsert {
		q.Set("upsert", "true")
	}
	reply, err := i.n.ask(ctx, http.MethodPost, nativePath+"/import?"+q.Encode(), shard, c.Bytes(), linesKind)
	if err != nil {
		return err
	}
	var got exchange.Imported
	err = json.NewDecoder(io.LimitReader(reply.Body, maxReply)).Decode(&got)
	if err = errors.Join(err, reply.Body.Close()); err != nil {
		return err
	}
	o := &i.out
	o.Read, o.Stored, o.Updated, o.Unchanged, o.Skipped = o.Read+got.Read, o.Stored+got.Stored, o.Updated+got.Updated, o.Unchanged+got.Unchanged, o.Skipped+got.Skipped
	o.Fragments, o.Entities, o.Events = o.Fragments+got.Fragments, o.Entities+got.Entities, o.Events+got.Events
	if o.Imported == nil {
		o.Imported = map[string]int{}
	}
	for kind, count := range got.Imported {
		o.Imported[kind] += count
	}
	o.Errors, o.Notes = append(o.Errors, got.Errors...), append(o.Notes, got.Notes...)
	c.Reset()
	return nil
}

func (a *app) clusterExportCmd() *cobra.Command {
	cmd := newCmd("", "export DEST | export -", "Write what a user, a shard or the whole cluster has to a file", "\nmemdbctl cluster export ada.jsonl --user ada --db http://127.0.0.1:7070")
	cmd.Long = `Write everything of a user, of a shard or of all shards as JSON lines, which import and cluster import
read back: so what is in a cluster becomes a database of its own again.

  memdbctl cluster export - --user ada --db http://127.0.0.1:7070 | memdbctl import - --db ./ada.data

Each shard is written as of one moment, and different ones as of different moments. The file is there
when it is whole.

With --to-lsn or --to-time a shard, or what a user has, is written as it was: as the newest snapshot of
the shard and the log behind it have it, so no earlier than that snapshot.

  memdbctl cluster export - --user ada --to-time 2026-11-26T09:00:00Z --db http://127.0.0.1:7070`
	cmd.Args = exactly(1, "one file, or - for the output")
	var user, of string
	force := false
	cmd.Flags().StringVar(&user, "user", "", userHelp)
	cmd.Flags().StringVar(&of, "shard", "", "of this shard, its `NUMBER`")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	var past cluster.Past
	cmd.Flags().Uint64Var(&past.LSN, "to-lsn", 0, "as it was behind this commit, an `LSN`")
	cmd.Flags().Func("to-time", "as it was then, a `time`: "+timeForms, a.timeFlag(&past.Time))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		switch was := past != (cluster.Past{}); {
		case user != "" && of != "":
			return usagef(cmd, "--user and --shard exclude each other")
		case was && user == "" && of == "":
			return usagef(cmd, "each shard has LSNs of its own; name one with --shard, or a --user")
		}
		n, err := a.node(cmd)
		if err != nil {
			return err
		}
		from, to := noShard, 0
		if of != "" {
			if from, err = shardIn(cmd, of); err != nil {
				return err
			}
			to = from + 1
		} else if user == "" {
			v, err := n.view(ctx)
			if err != nil {
				return err
			}
			from, to = 0, len(v.Shards)
		}
		path, err := n.exportPath(ctx, &from, user, past)
		if err != nil {
			return err
		}
		to = max(to, from+1)
		out := writing(output{a.stdout})
		if args[0] != "-" {
			if out, err = a.createFile(ctx, args[0], force); err != nil {
				return err
			}
		}
		lines := 0
		for shard := from; shard < to && err == nil; shard++ {
			var got int
			got, err = n.export(ctx, path, shard, out)
			lines += got
		}
		if err = errors.Join(err, out.end(err)); err != nil {
			return err
		}
		switch {
		case args[0] == "-":
		case a.json:
			return a.printJSON(map[string]int{"lines": lines})
		default:
			a.printf("wrote %d lines to %s\n", lines, escape(args[0]))
		}
		return nil
	}
	return cmd
}

// output is the output of the program as a file.
type output struct{ io.Writer }

func (output) end(error) error { return nil }

// exportPath is where what a user or shards have is exported, now or as it was. Who asks for a user's past names the
// shard, which it sets.
func (n *node) exportPath(ctx context.Context, shard *int, user string, past cluster.Past) (string, error) {
	q := url.Values{}
	if user != "" {
		q.Set("user", user)
	}
	if past == (cluster.Past{}) {
		if user == "" {
			q.Set("all_scopes", "true")
		}
		return nativePath + "/export?" + q.Encode(), nil
	}
	if user != "" {
		v, err := n.view(ctx)
		if err != nil {
			return "", err
		}
		*shard = cluster.ShardOf(scope.Owner{User: user}, len(v.Shards))
	}
	if past.LSN > 0 {
		q.Set("lsn", strconv.FormatUint(past.LSN, 10))
	}
	if !past.Time.IsZero() {
		q.Set("time", strconv.FormatInt(past.Time.UnixMilli(), 10))
	}
	return clusterPath + "/past?" + q.Encode(), nil
}

// export writes the lines of a shard, or of a user, without their end.
func (n *node) export(ctx context.Context, path string, shard int, out io.Writer) (count int, err error) {
	_, err = n.lines(ctx, path, shard, `{"type":"end"`, func(line []byte) error {
		if _, err := out.Write(line); err != nil {
			return outputError(err)
		}
		count++
		return nil
	})
	return count, err
}

// lines asks for an answer in lines of JSON, calls fn with each but the last, which begins so, and returns that one.
func (n *node) lines(ctx context.Context, path string, shard int, last string, fn func(line []byte) error) (end []byte, err error) {
	reply, err := n.ask(ctx, http.MethodGet, path, shard, nil, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	lines := bufio.NewReaderSize(reply.Body, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		switch {
		case err != nil: // before the last line
			return nil, n.unread(err)
		case bytes.HasPrefix(line, []byte(last)):
			return line, nil
		case bytes.HasPrefix(line, []byte(`{"error":`)):
			return nil, n.refused(http.StatusInternalServerError, line)
		}
		if err := fn(line); err != nil {
			return nil, err
		}
	}
}

// unread is what a user is told of an answer that ends too soon.
func (n *node) unread(err error) error {
	return &memory.Error{Kind: memory.ErrFailed, What: "read the answer of " + n.at, Why: "it was cut off", Cause: err, Do: "try again"}
}
