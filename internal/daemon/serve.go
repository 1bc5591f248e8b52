package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-7aedc3ff/memdb/admin"
	"github.com/seed-7aedc3ff/memdb/apikeys"
	"github.com/seed-7aedc3ff/memdb/embed"
	"github.com/seed-7aedc3ff/memdb/engine"
	"github.com/seed-7aedc3ff/memdb/memory"
	"github.com/seed-7aedc3ff/memdb/policy"
	"github.com/seed-7aedc3ff/memdb/services/config"
	"github.com/seed-7aedc3ff/memdb/services/facts"
	"github.com/seed-7aedc3ff/memdb/services/server"
	"github.com/seed-7aedc3ff/memdb/services/server/iii"
)

// DefaultListen is the address that is listened on where none is given.
const DefaultListen = "127.0.0.1:7070"

// settings are the configuration with the flags over it.
func (p *program) settings() (*config.Config, *config.Server, error) {
	c := &config.Config{}
	file := p.o.config
	if file == "" {
		file, _ = p.getenv(config.FileVariable)
	}
	if file != "" {
		var err error
		if c, err = config.Load(file); err != nil {
			return nil, nil, err
		}
	}
	p.models = c.Endpoints(p.getenv)
	s := config.Server{}
	if c.Server != nil {
		s = *c.Server
	}
	s.Listen = cmp.Or(p.o.listen, s.Listen, DefaultListen)
	s.TLSCert, s.TLSKey = cmp.Or(p.o.cert, s.TLSCert), cmp.Or(p.o.key, s.TLSKey)
	s.Files = cmp.Or(p.o.files, s.Files)
	s.Schedule = s.Schedule || p.o.schedule
	s.Hosts, s.Origins = slices.Concat(s.Hosts, p.o.hosts), slices.Concat(s.Origins, p.o.origins)
	if p.o.dialects != nil {
		s.Dialects = p.o.dialects
	}
	s.Log = cmp.Or(p.o.log, s.Log, "text")
	if p.json {
		s.Log = "json"
	}
	p.json = s.Log == "json" // whatever is written is JSON then
	return c, &s, p.check(&s)
}

// check refuses settings that cannot be.
func (p *program) check(s *config.Server) error {
	wrong := func(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
	switch {
	case !slices.Contains([]string{"text", "json", "off"}, s.Log):
		return wrong("log %q: there are text, json and off", s.Log)
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return wrong("a certificate and its key belong together; give both")
	case s.MaxBody < 0 || s.MaxConcurrent < 0 || s.MaxStreams < 0 || s.Rate < 0 || s.Burst < 0:
		return wrong("max_body, max_concurrent, max_streams, rate and burst are not below 0")
	}
	if s.Chat != nil {
		if u, err := url.Parse(s.Chat.BaseURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return wrong("chat.base_url %q: give one as https://HOST/v1", s.Chat.BaseURL)
		}
	}
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		return wrong("listen on %q: give HOST:PORT, as %s", s.Listen, DefaultListen)
	}
	for i, h := range s.Hosts {
		s.Hosts[i] = strings.ToLower(h)
	}
	for _, o := range s.Origins {
		if u, err := url.Parse(o); err != nil || u.Host == "" || o != strings.ToLower(u.Scheme+"://"+u.Host) {
			return wrong("origin %q: give one as a browser sends it, such as https://app.example.org", o)
		}
	}
	if err := p.checkCluster(s); err != nil {
		return err
	}
	return p.checkDialects(s)
}

// logger is the log of the server.
func (p *program) logger(form string) *slog.Logger {
	switch form {
	case "json":
		return slog.New(slog.NewJSONHandler(p.err, nil))
	case "off":
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(p.err, nil))
}

// serve opens the database and serves it until the context ends.
func (p *program) serve(ctx context.Context) (err error) {
	p.fromEnvironment()
	c, s, err := p.settings()
	if err != nil {
		return err
	}
	log := p.logger(s.Log)
	if p.o.cluster.url == devCluster {
		return p.clustering.Dev(ctx, Dev{Dir: p.dir, Listen: s.Listen, Out: p.out})
	}
	keyed, err := keyedBy(s)
	if err != nil {
		return err
	}
	// The address first: a port that is in use is told before the database is touched.
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return &memory.Error{Kind: memory.ErrFailed, What: "listen on " + s.Listen, Why: "the system refuses it", Cause: err, Do: "end what listens there, or give another address by --listen"}
	}
	defer func() { _ = l.Close() }() // the server closes it, too
	if p.o.cluster.url != "" {
		return p.serveCluster(ctx, c, s, log, l, keyed)
	}
	db, services, err := p.open(c, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := p.beside(db, log, func() error { return p.answer(ctx, l, db, services, s, log, keyed) }); err != nil {
		return err
	}
	log.Info("the server has ended")
	return nil
}

// beside serves memdbctl on this machine while fn runs.
func (p *program) beside(db *engine.DB, log *slog.Logger, fn func() error) (err error) {
	socket, err := admin.Serve(db, "")
	if err != nil {
		log.Warn("memdbctl cannot work beside the server by --db DIR, only by its address", "error", err)
		return fn()
	}
	defer func() { err = errors.Join(err, socket.Close()) }()
	return fn()
}

// open opens the database with the models of the configuration.
func (p *program) open(c *config.Config, s *config.Server, log *slog.Logger) (*engine.DB, *config.Services, error) {
	services, err := c.Open(p.getenv, true)
	if err != nil {
		return nil, nil, err
	}
	if err := services.NeedFolder("serve " + p.dir); err != nil {
		return nil, nil, err
	}
	db, err := engine.Open(p.dir, p.engineOptions(c, s, services, log))
	if err != nil {
		return nil, nil, err
	}
	services.Meter(db.Usage())
	return db, services, nil
}

// engineOptions are those of a database with the models of the configuration.
func (p *program) engineOptions(c *config.Config, s *config.Server, services *config.Services, log *slog.Logger) *engine.Options {
	o := &engine.Options{
		Embedder: services.Engine, EmbedInBackground: services.Engine != nil,
		MaxViewAge: time.Hour, Logger: log, Clock: p.now,
	}
	if services.Engine == nil && c.Embedder == nil {
		o.EmbedderOf = func(m engine.VectorModel) embed.Embedder { return p.embedderOf(m, log) }
	}
	if s.Schedule {
		o.Schedule = &policy.Schedule{}
	}
	return o
}

// embedderOf is the embedder that has made the vectors of the database, where the environment has
// its key.
func (p *program) embedderOf(m engine.VectorModel, log *slog.Logger) embed.Embedder {
	if m.Model == "" || m.Model == (embed.Lexical{}).Model() {
		return nil
	}
	c, err := config.OfVectors(m, p.getenv)
	if err == nil {
		var s *config.Services
		if s, err = c.Open(p.getenv, false); err == nil {
			return s.Engine
		}
	}
	log.Warn("queries and new memories have no vectors", "model", m.Model, "error", err)
	return nil
}

// answer serves the dialects.
func (p *program) answer(ctx context.Context, l net.Listener, db *engine.DB, services *config.Services, s *config.Server, log *slog.Logger, encrypted *tls.Config) error {
	f, err := facts.New(&facts.Config{
		ForClients: true,
		DB:         db, LLM: services.LLM, Embedder: services.Engine, Graph: services.Graph, GraphStore: services.GraphStore,
		ExactScope: services.ExactScope, Prompts: facts.Prompts(services.Prompts), Version: facts.Version(services.Version), Logger: log,
	})
	if err != nil {
		return err
	}
	o := p.serverOptions(s, apikeys.Open(db.APIKeys(), p.now), log, encrypted)
	o.Facts = f
	srv := server.New(db, o)
	verbs := &verbs{db: db, of: verbSettings{s.Files, p.models, log}}
	defer verbs.running.Wait()
	p.mount(srv, s, verbs.dialect())
	address := addressOf(l, encrypted)
	if err := p.print(map[string]string{"listening": address, "db": p.dir}, "memdbd serves %s at %s\n", p.dir, address); err != nil {
		return err
	}
	if p.listening != nil {
		p.listening(address)
	}
	defer p.work(ctx, db, s, log)()
	return srv.Serve(ctx, l)
}

// serverOptions are those of the configuration.
func (p *program) serverOptions(s *config.Server, keys *apikeys.Keys, log *slog.Logger, encrypted *tls.Config) server.Options {
	return server.Options{
		Keys: keys, Hosts: s.Hosts, Origins: s.Origins, MaxBody: s.MaxBody,
		Timeout: time.Duration(s.Timeout), Grace: time.Duration(s.Grace), MaxConcurrent: s.MaxConcurrent, MaxStreams: s.MaxStreams,
		Rate: s.Rate, Burst: s.Burst, TLS: encrypted, Logger: log, Clock: p.now,
	}
}

// work has the server be a worker of an engine of functions, if one is configured, until the returned
// function is called or the context ends.
func (p *program) work(ctx context.Context, db *engine.DB, s *config.Server, log *slog.Logger) (end func()) {
	if s.III == nil || s.III.URL == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var worker sync.WaitGroup
	worker.Go(func() {
		err := iii.Run(ctx, iii.Options{
			URL: s.III.URL, DB: db, Scope: memory.Scope{User: s.III.User, Agent: s.III.Agent, Run: s.III.Run},
			PID: os.Getpid(), Logger: log,
		})
		if err != nil && ctx.Err() == nil {
			log.Error("the worker of "+s.III.URL+" has ended", "error", err)
		}
	})
	return func() {
		cancel()
		worker.Wait()
	}
}

// mount adds the dialects that are wanted.
func (p *program) mount(srv *server.Server, s *config.Server, own *server.Dialect) {
	for _, d := range append(dialects(s, p.getenv), own) {
		if len(s.Dialects) == 0 || slices.Contains(s.Dialects, d.Name) {
			srv.Mount(d)
		}
	}
}

// checkDialects refuses the name of a dialect that there is not.
func (p *program) checkDialects(s *config.Server) error {
	names := []string{verbsDialect}
	for _, d := range dialects(s, p.getenv) {
		names = append(names, d.Name)
	}
	for _, name := range s.Dialects {
		if !slices.Contains(names, name) {
			return usageError{fmt.Errorf("there is no dialect %q: there are %s", name, strings.Join(names, ", "))}
		}
	}
	return nil
}

// keyedBy is how connections are encrypted, nil for not at all. SIGHUP reads the files again.
func keyedBy(s *config.Server) (*tls.Config, error) {
	if s.TLSCert == "" {
		return nil, nil
	}
	var now atomic.Pointer[tls.Certificate]
	read := func() error {
		c, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
		if err == nil {
			now.Store(&c)
		}
		return err
	}
	if err := read(); err != nil {
		return nil, &memory.Error{Kind: memory.ErrFailed, What: "read the certificate " + s.TLSCert + " and its key", Cause: err}
	}
	if len(hangup) > 0 { // of none, the library would take every signal
		again := make(chan os.Signal, 1)
		signal.Notify(again, hangup...)
		go func() {
			for range again {
				_ = read() // the one before stays where it fails
			}
		}()
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return now.Load(), nil }}, nil
}
