package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/internal/beside"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/services/config"
)

const (
	// keyVariable holds the key for a server, and rootsVariable the file of certificates that
	// vouch for one beside those of the system.
	keyVariable   = "MEMDB_KEY"
	rootsVariable = "MEMDB_CA"
	// maxConfig bounds a configuration of models that a client sends.
	maxConfig = 1 << 20
)

// Bounds are what a verb may do that a server runs for a client on another machine.
type Bounds struct {
	// Scopes are those of the client's key; nil for an administrator.
	Scopes []memory.Scope
	// ReadOnly is set for a key that may change nothing.
	ReadOnly bool
	// Key names the key, in errors.
	Key string
	// Models are where the server's own configuration goes.
	Models []config.Endpoint
	// Files is the folder that names of folders go from, as those of backups. Empty: there is none.
	Files string
}

// RunWithin runs a verb for a client on another machine, on the database that a server has open,
// and returns the exit code. Files are the client's.
func RunWithin(ctx context.Context, db *engine.DB, client *beside.Session, b *Bounds) int {
	c := console{
		in: client.In, out: client.Out, err: client.Err, inTerminal: client.InTerminal,
		outWidth: client.OutWidth, errWidth: client.ErrWidth, styled: client.Styled,
		getenv: client.Getenv, now: db.Now, remote: client,
	}
	a := &app{console: c, json: client.JSON, quiet: client.Quiet, bounds: b, shell: &shell{dir: "the database", db: db, served: true}}
	return a.run(ctx, client.Args)
}

// place is the path of a folder of a server that a client names.
func (a *app) place(name string) (string, error) {
	if a.bounds.Files == "" {
		return "", &exitError{exitFailed, fmt.Errorf("open %s: the server has no folder for files of its clients; name one under files in its configuration, or run memdbctl on its machine", name)}
	}
	if !filepath.IsLocal(name) {
		return "", &exitError{exitFailed, fmt.Errorf("open %s: a server opens names below its folder of files alone; give a relative name that stays within", name)}
	}
	return filepath.Join(a.bounds.Files, name), nil
}

// sentFile reads a file of the client.
func (a *app) sentFile(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := a.remote.Source(name); err != nil {
		return nil, err
	}
	return a.input(ctx), nil
}

// sentConfig reads a configuration of models that is a file of the client.
func (a *app) sentConfig(name string) (*config.Config, error) {
	if err := a.remote.Source(name); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(a.in, maxConfig))
	if err != nil {
		return nil, inputError(name, err)
	}
	return config.Parse(name, b)
}

// writing is a file that a verb makes: it is there once its end was called without an error.
type writing interface {
	io.Writer
	end(err error) error
}

// createFile makes a file of the user.
func (a *app) createFile(ctx context.Context, name string, force bool) (writing, error) {
	if a.remote != nil {
		f, err := a.remote.Create(beside.NewFile{Name: name, Force: force})
		return sent{f}, err
	}
	path, err := a.path(name)
	if err != nil {
		return nil, err
	}
	return openTarget(ctx, path, force)
}

// sent is a file of the client.
type sent struct{ *beside.File }

func (s sent) end(err error) error { return s.End(err) }

// received is a file of this machine that a server writes.
type received struct{ *target }

func (r received) End(err error) error { return r.end(err) }

// roots are the certificates of servers that are trusted.
func (a *app) roots() (*tls.Config, error) {
	roots := &tls.Config{MinVersion: tls.VersionTLS12}
	file := a.getenv(rootsVariable)
	if file == "" {
		return roots, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if roots.RootCAs, err = x509.SystemCertPool(); err != nil {
		roots.RootCAs = x509.NewCertPool()
	}
	if !roots.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return roots, nil
}

// dialServer connects to the server that --db names.
func (a *app) dialServer(ctx context.Context) (*beside.Conn, error) {
	roots, err := a.roots()
	if err != nil {
		return nil, err
	}
	a.warnPlain()
	return beside.DialURL(ctx, a.dir, a.getenv(keyVariable), roots)
}

// serverError is what a user is told of a server that cannot be reached, or does not run a verb.
func (a *app) serverError(err error) error {
	told := &memory.Error{Kind: memory.ErrFailed, What: "reach the server at " + a.dir, Why: "it is not reached", Cause: err, Do: "see that memdbd listens there"}
	refusal, ok := errors.AsType[*beside.Refusal](err)
	if !ok {
		return told
	}
	told.What, told.Cause, told.Why, told.Do = "ask the server at "+a.dir, nil, refusal.Message, ""
	switch refusal.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		told.Do = "set " + keyVariable + " to a key of this server"
	case http.StatusNotFound:
		told.Do = "see that memdbd listens there"
	}
	return told
}

// runOnServer has the server that --db names run the verb.
func (a *app) runOnServer(cmd *cobra.Command) (code int, err error) {
	ctx := cmd.Context()
	c, err := a.dialServer(ctx)
	if err != nil {
		return 0, a.serverError(err)
	}
	defer func() { _ = c.Close() }() // the verb has ended
	terms := &beside.Terms{Out: a.out, Err: a.err, Getenv: a.share(cmd)}
	if readsInput(cmd) {
		terms.In = a.in
	}
	terms.Open = func(name string) (io.ReadCloser, error) {
		if !a.gave(name) && !a.configures(cmd, name) {
			return nil, fmt.Errorf("%w: the file %q", beside.ErrRefused, name)
		}
		return a.openInput(ctx, name)
	}
	terms.Create = func(f beside.NewFile) (beside.Writing, error) {
		if !a.gave(f.Name) || f.Force && !slices.Contains(a.args, "--force") {
			return nil, fmt.Errorf("%w: the file %q", beside.ErrRefused, f.Name)
		}
		t, err := openTarget(ctx, f.Name, f.Force)
		return received{t}, err
	}
	code, err = c.Run(ctx, a.request(), terms)
	if err != nil {
		err = &memory.Error{Kind: memory.ErrFailed, What: "run the verb on " + a.dir, Cause: err, Do: "look whether it was done, and try again"}
	}
	return code, err
}

// gave reports whether a name is one of the arguments, or the value of a flag.
func (a *app) gave(name string) bool {
	return name != "" && name != "-" && slices.ContainsFunc(a.args, func(arg string) bool {
		_, value, ok := strings.Cut(arg, "=")
		return arg == name || ok && strings.HasPrefix(arg, "-") && value == name
	})
}

// configures reports whether a name is that of the configuration for a verb that takes one.
func (a *app) configures(cmd *cobra.Command, name string) bool {
	file, may := a.share(cmd)(config.FileVariable)
	return may && name != "" && name == file
}

// request is the verb as another program is told of it.
func (a *app) request() *beside.Request {
	return &beside.Request{
		Args: a.args, JSON: a.json, Quiet: a.quiet,
		InTerminal: a.inTerminal, OutWidth: a.outWidth, ErrWidth: a.errWidth, Styled: a.styled,
	}
}
